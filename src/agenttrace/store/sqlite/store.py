"""The trace store in one SQLite file: the questions of ``store.questions``, answered through one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from agenttrace.model import Session
from agenttrace.store.batch import Batch
from agenttrace.store.errors import SessionNameError
from agenttrace.store.questions import Agreement, SessionFilter, SessionName, SessionPlace, UsageQuery, UsageRow
from agenttrace.store.session_state import STALE_MINUTES
from agenttrace.store.sqlite import agreement, database, reading, sessions, usage, writing
from agenttrace.store.sqlite.database import BUSY_SECONDS, connect
from agenttrace.store.sqlite.files import Files
from agenttrace.store.sqlite.quarantine import Quarantine
from agenttrace.store.sqlite.reading import SpanView
from agenttrace.store.sqlite.retention import Retention


class SqliteStore:
    """Answers questions; used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, stale_minutes: float = STALE_MINUTES) -> None:
        self.connection = connection
        self.path = path
        self._stale_minutes = stale_minutes

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = True,
        any_thread: bool = False,
        stale_minutes: float = STALE_MINUTES,
        busy_seconds: float = BUSY_SECONDS,
    ) -> SqliteStore:
        """The store of a file; created or upgraded unless ``read_only``; waits so long for one that is locked."""
        connection = connect(path, read_only=read_only, any_thread=any_thread, busy_seconds=busy_seconds)
        return cls(connection, path, stale_minutes=stale_minutes)

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

    def sessions(
        self,
        wanted: SessionFilter = SessionFilter(),  # noqa: B008 - frozen
        *,
        limit: int | None = None,
        after: SessionPlace | None = None,
    ) -> list[Session]:
        """The sessions that match, newest first, with their state as of now; ``after`` a place, where one is given."""
        return sessions.list_sessions(
            self.connection, wanted, stale_minutes=self._stale_minutes, limit=limit, after=after
        )

    def session(self, name: str) -> Session:
        """The session of this key, this id or this beginning of an id; ``SessionNameError`` where it is not one."""
        matching = self.find_sessions(name) if name else []
        found = [session for session in matching if session.events]
        if len(found) != 1:
            raise SessionNameError(name, found, pruned=bool(matching) and not found)
        return found[0]

    def sessions_by_number(self, numbers: Sequence[int]) -> list[Session]:
        """These sessions, where they have events, with their state as of now."""
        return sessions.sessions_by_number(self.connection, numbers, stale_minutes=self._stale_minutes)

    def find_sessions(self, name: str) -> list[Session]:
        """The session of this key, or those whose id is ``name`` or begins with it, newest first; pruned ones too."""
        return sessions.find_sessions(self.connection, name, stale_minutes=self._stale_minutes)

    def session_names(self, numbers: Sequence[int]) -> dict[int, SessionName]:
        """What these sessions are called, by number; pruned ones too."""
        return sessions.session_names(self.connection, numbers)

    def agents(self) -> list[str]:
        """The names of all agents that have sessions."""
        return sessions.session_agents(self.connection)

    def active_counts(self) -> tuple[int, int]:
        """How many sessions work now, and how many of the last day wait for the user."""
        return sessions.active_counts(self.connection, self._stale_minutes)

    def heard_of(self, session: Session) -> float:
        """When a session last said something; when that was recorded, where its lines have no times."""
        return sessions.heard_of(self.connection, session)

    def last_event(self) -> int:
        """The number of the latest event; 0 where there is none."""
        return sessions.last_event(self.connection)

    def sessions_changed_since(self, event: int) -> list[int]:
        """The numbers of the sessions with events after this one."""
        return sessions.sessions_changed_since(self.connection, event)

    def session_fingerprints(self, numbers: Sequence[int] | None = None) -> dict[int, int]:
        """A number for each of these sessions, or of all, that is another one when its row or its usage changed."""
        return sessions.session_fingerprints(self.connection, numbers)

    # -- spans ------------------------------------------------------------------------------------------------

    def spans(self, session: Session) -> list[SpanView]:
        """All spans of a session in order of start, subagents under the tool calls that started them."""
        return reading.session_spans(self.connection, session)

    # -- usage ------------------------------------------------------------------------------------------------

    def usage(self, query: UsageQuery = UsageQuery()) -> list[UsageRow]:  # noqa: B008 - frozen
        """Tokens per group, part of the group, model, and what its price depends on; in the order of the groups."""
        return usage.usage_rows(self.connection, query)

    def usage_by_session(self, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
        """Tokens per model of each of these sessions."""
        return usage.usage_by_session(self.connection, numbers)

    def models(self) -> list[str]:
        """The models whose tokens are counted, the most used first."""
        return usage.recorded_models(self.connection)

    def agreement(self, session: int) -> Agreement:
        """The count of a session, by number, against what its agent says it used."""
        return agreement.check(self.connection, session)

    def sessions_with_totals(self) -> set[int]:
        """The numbers of the sessions whose agent writes totals of its own."""
        return agreement.sessions_with_totals(self.connection)

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
