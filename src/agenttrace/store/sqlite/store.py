"""The trace store in one SQLite file: the questions of ``store.questions``, answered through one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from agenttrace.model import Session
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite import reading, status
from agenttrace.store.sqlite.database import BUSY_SECONDS, connect
from agenttrace.store.sqlite.quarantine import Quarantine
from agenttrace.store.sqlite.reading import SpanView, UsageRow
from agenttrace.store.sqlite.retention import Retention
from agenttrace.store.sqlite.status import StoreStatus


class SqliteStore:
    """Answers questions; used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, stale_minutes: int = 15) -> None:
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
        stale_minutes: int = 15,
        busy_seconds: float = BUSY_SECONDS,
        cache_kib: int | None = None,
    ) -> SqliteStore:
        """The store of a file; created or upgraded unless ``read_only``; waits so long for one that is locked."""
        connection = connect(path, read_only=read_only, any_thread=any_thread, busy_seconds=busy_seconds)
        if cache_kib is not None:
            connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        return cls(connection, path, stale_minutes=stale_minutes)

    def close(self) -> None:
        """Release the file."""
        self.connection.close()

    def interrupt(self) -> None:
        """Make the question that is being answered in another thread fail."""
        with suppress(sqlite3.ProgrammingError):  # closed meanwhile
            self.connection.interrupt()

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

    # -- status -----------------------------------------------------------------------------------------------

    @cached_property
    def status(self) -> StoreStatus:
        """What recording has come to: lines, files, duplicates, retention, the size and health of the store."""
        return StoreStatus(self.connection, self.path)

    @cached_property
    def quarantine(self) -> Quarantine:
        """Lines that were set aside."""
        return Quarantine(self.connection)

    @cached_property
    def retention(self) -> Retention:
        """What clean-up removes."""
        return Retention(self.connection)

    def active_counts(self) -> tuple[int, int]:
        """How many sessions work now, and how many of the last day wait for the user."""
        return status.active_counts(self.connection, self._stale_minutes)

    def foreign_version(self) -> int:
        """A number that changes when another connection has committed something."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def compact(self) -> None:
        """Give the space of removed rows back to the disk."""
        self.connection.execute("VACUUM")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
