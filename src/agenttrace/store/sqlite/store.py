"""The trace store in one SQLite file: the questions of ``store.questions``, answered through one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from agenttrace.model import Session
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite import reading, traces
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.exports import Exports
from agenttrace.store.sqlite.reading import SpanView, UsageRow
from agenttrace.store.sqlite.span_rows import SpanRow
from agenttrace.store.sqlite.traces import StoredTraces


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

    # -- exports ----------------------------------------------------------------------------------------------

    @cached_property
    def exports(self) -> Exports:
        """Destinations, and what was sent to them."""
        return Exports(self.connection)

    def sync_every_commit(self) -> None:
        """From now on what is committed survives a loss of power, too."""
        self.connection.execute("PRAGMA synchronous = FULL")

    def last_event(self) -> int:
        """The number of the last recorded event: while it stays the same, so do sessions and spans."""
        return int(self.connection.execute("SELECT coalesce(max(event_no), 0) FROM processed_events").fetchone()[0])

    def traces(self, session: int) -> StoredTraces:
        """All spans of a session by trace, without attributes and texts."""
        return traces.session_traces(self.connection, session)

    def spans_with_attributes(self, found: StoredTraces, wanted: Sequence[bytes]) -> dict[bytes, SpanRow]:
        """Some spans of these traces, whole."""
        return traces.spans_with_attributes(self.connection, found, wanted)
