"""The trace store in one SQLite file: the questions of ``store.questions``, answered through one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from agenttrace.model import Session
from agenttrace.store.batch import Batch
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite import database, reading, writing
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.files import Files
from agenttrace.store.sqlite.quarantine import Quarantine
from agenttrace.store.sqlite.reading import SpanView, UsageRow
from agenttrace.store.sqlite.retention import Retention


class SqliteStore:
    """Answers questions; used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, stale_minutes: int = 15) -> None:
        self.connection = connection
        self.path = path
        self._stale_minutes = stale_minutes

    @classmethod
    def open(
        cls, path: Path, *, read_only: bool = True, any_thread: bool = False, stale_minutes: int = 15
    ) -> SqliteStore:
        """The store of a file; created or upgraded unless ``read_only``."""
        return cls(connect(path, read_only=read_only, any_thread=any_thread), path, stale_minutes=stale_minutes)

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All questions inside see the store at one moment."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    # -- sessions ---------------------------------------------------------------------------------------------

    def sessions_by_number(self, numbers: Sequence[int]) -> list[Session]:
        """These sessions, where they have events, with their state as of now."""
        return reading.sessions_by_number(self.connection, numbers, stale_minutes=self._stale_minutes)

    def find_sessions(self, name: str) -> list[Session]:
        """Sessions whose id is ``name`` or begins with it, newest first."""
        return reading.find_sessions(self.connection, name, stale_minutes=self._stale_minutes)

    # -- spans ------------------------------------------------------------------------------------------------

    def spans(self, session: Session) -> list[SpanView]:
        """All spans of a session in order of start, subagents under the tool calls that started them."""
        return reading.session_spans(self.connection, session)

    # -- usage ------------------------------------------------------------------------------------------------

    def usage(self, query: UsageQuery) -> list[UsageRow]:
        """Tokens per group, part of the group, model, and what its price depends on; in the order of the groups."""
        return reading.usage_rows(
            self.connection,
            by="number" if query.by == "session" else query.by,
            split="number" if query.split == "session" else query.split,
            since_day=query.since_day,
            before_day=query.before_day,
            agents=sorted(query.agents),
            projects=sorted(query.projects),
            models=sorted(query.models),
        )

    def usage_by_session(self, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
        """Tokens per model of each of these sessions."""
        return reading.usage_by_session(self.connection, numbers)

    # -- recording --------------------------------------------------------------------------------------------

    def commit(self, batch: Batch, *, day_of: Callable[[int], str]) -> None:
        """Store a batch: all of it or nothing. ``day_of`` gives the day that usage at a time counts for."""
        writing.write_batch(self.connection, batch, day_of=day_of)

    def stored_session(self, number: int) -> Session | None:
        """A session's row, to go on with."""
        return writing.load_session(self.connection, number)

    def stored_stream(self, number: int, stream: str) -> bytes | None:
        """What folding remembered of a stream."""
        return writing.load_stream(self.connection, number, stream)

    def has_events(self, number: int) -> bool:
        """Whether event ids of a session are known."""
        return writing.has_events(self.connection, number)

    def known_events(self, number: int, candidates: Iterable[bytes]) -> set[bytes]:
        """Which of these events of a session are recorded already."""
        return writing.known_event_ids(self.connection, number, candidates)

    def keep_days(self, zone: str, day_of: Callable[[int], str]) -> None:
        """Make days and sums anew when what they are counted by has changed: the time zone, the steps of prices."""
        writing.keep_days(self.connection, zone, day_of)

    # -- the file on disk -------------------------------------------------------------------------------------

    def foreign_version(self) -> int:
        """A number that changes when another connection has committed something."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def checkpoint(self) -> None:
        """Fold the write-ahead log back into the file and empty it."""
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def expect_small_commits(self) -> None:
        """Checkpoint earlier from now on: the log that suits an import is larger than all that a day records."""
        database.shorten_log(self.connection)

    def shrink_memory(self) -> None:
        """Give back the memory that a burst of work took."""
        self.connection.execute("PRAGMA shrink_memory")

    # -- bookkeeping of this machine --------------------------------------------------------------------------

    @cached_property
    def files(self) -> Files:
        """How far each log file was read."""
        return Files(self.connection)

    @cached_property
    def quarantine(self) -> Quarantine:
        """Lines that were set aside."""
        return Quarantine(self.connection)

    @cached_property
    def retention(self) -> Retention:
        """What clean-up removes."""
        return Retention(self.connection)
