"""The specification's deduplicator: the recorder's three tiers over its own table."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable
from typing import Any

from agenttrace.compat.database import SpecificationDatabase
from agenttrace.ids import session_number
from agenttrace.record.ingest.dedup import Tiers

_HEX_ID = re.compile("[0-9a-f]{32}")

_SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS processed_events (
        event_id     BLOB PRIMARY KEY,
        session_id   TEXT NOT NULL,
        turn_index   INTEGER NOT NULL,
        step_n       INTEGER NOT NULL,
        event_type   TEXT NOT NULL,
        span_id      TEXT,
        processed_at REAL NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS idx_session ON processed_events(session_id)",
    "CREATE INDEX IF NOT EXISTS idx_processed_at ON processed_events(processed_at)",
)


class _MarkedIds:
    """L2: the ids that were marked, in any session."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def known_events(self, _: int, candidates: Iterable[bytes], /) -> set[bytes]:
        """Which of these ids were marked."""
        query = "SELECT 1 FROM processed_events WHERE event_id = ?"
        return {event_id for event_id in candidates if self._connection.execute(query, (event_id,)).fetchone()}


class EventDeduplicator(SpecificationDatabase):
    """Whether an event was processed: one event at a time, ids as 32 hex digits."""

    def __init__(
        self,
        memory_cache_size: int = 10000,
        ttl_hours: int = 24,
        db_path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(db_path, "dedup.db", _SCHEMA)
        self.memory_cache_size = memory_cache_size
        self.ttl_hours = ttl_hours
        self._tiers = Tiers(_MarkedIds(self._connection), memory_cache_size)
        self._current = ""

    def is_duplicate(self, event_id: str, session_id: str | None = None) -> bool:
        """Whether the event was marked before, by this process or any other.

        ``session_id`` names the session whose set (L0) is read first; without it, the session marked last.
        """
        session = self._tiers.session(_number(session_id or self._current), new=False)
        return bool(self._tiers.known(session, (_as_bytes(event_id),)))

    def mark_processed(
        self,
        event_id: str,
        session_id: str = "",
        turn_index: int = 0,
        step_n: int = 0,
        event_type: str = "",
        span_id: str | None = None,
    ) -> None:
        """Add the event to all three tiers. Marking it again changes nothing."""
        event = _as_bytes(event_id)
        self._connection.execute(
            "INSERT OR IGNORE INTO processed_events VALUES (?, ?, ?, ?, ?, ?, ?)",
            (event, session_id, turn_index, step_n, event_type, span_id, time.time()),
        )
        self._current = session_id
        self._tiers.session(_number(session_id), new=False).ids.add(event)
        self._tiers.remember((event,))
        self._tiers.trim_sessions()

    def end_session(self, session_id: str) -> None:
        """Free the session's set (L0)."""
        self._tiers.end_session(_number(session_id))

    def get_stats(self) -> dict[str, Any]:
        """Sizes, hits and hit rates of the tiers."""
        query = "SELECT count(*), count(DISTINCT session_id) FROM processed_events"
        total, sessions = self._connection.execute(query).fetchone()
        return {
            "memory_cache_size": self._tiers.recent_count,
            "db_total_events": total,
            "db_sessions": sessions,
            "db_path": self.db_path,
            **{f"{tier}_hits": hits for tier, hits in self._tiers.hits.items()},
            "misses": self._tiers.misses,
            **self._tiers.rates(),
        }

    def cleanup_expired(self) -> int:
        """Remove ids that are older than ``ttl_hours``; how many. Such an event counts as new again."""
        cutoff = time.time() - self.ttl_hours * 3600
        removed = self._connection.execute("DELETE FROM processed_events WHERE processed_at < ?", (cutoff,)).rowcount
        if removed:
            self._tiers.forget()
        return removed


def _number(session_id: str | None) -> int:
    return session_number("", session_id or "")


def _as_bytes(event_id: str) -> bytes:
    """32 hex digits as 16 bytes; any other id as its text with a prefix."""
    if _HEX_ID.fullmatch(event_id):
        return bytes.fromhex(event_id)
    return b"=" + event_id.encode("utf-8", "surrogatepass")
