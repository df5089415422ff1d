"""Has this event been recorded: asked of the session's set, then of the recent ids, then of the store.

L0, a set for each session that is being read, answers nearly everything: as long as it is complete (the session is
new, or the set was never thrown away) a miss there is final and nothing else is asked. L1 is an LRU over all
sessions. L2 is the unique index on ``processed_events``, asked for a whole chunk of lines at once.

Ids live as long as the data they guard; a time limit would bring duplicates back when an older file is read again.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttrace.config import load_settings
from agenttrace.ids import session_number
from agenttrace.record.offsets import still_there
from agenttrace.store.sqlite.database import connect, transaction
from agenttrace.store.sqlite.writing import known_event_ids

#: Ids that all L0 sets may hold together; the set of the session that was idle longest goes first.
SESSION_IDS_LIMIT = 200_000
_HEX_ID = re.compile("[0-9a-f]{32}")


#: Which traces a session had matters as long as anything of it is known.
_FORGET_NOTES = """
DELETE FROM sessions WHERE parent IS NOT NULL AND events = 0 AND started_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM sessions whole JOIN processed_events ON processed_events.session_id = whole.id
    WHERE whole.agent = sessions.agent AND whole.session_id = sessions.parent
)
"""


class SessionIds:
    """L0 for one session."""

    __slots__ = ("complete", "ids", "number")

    def __init__(self, number: int, *, complete: bool) -> None:
        self.number = number
        self.ids: set[bytes] = set()
        #: True while every id of the session that the store holds is in ``ids``.
        self.complete = complete


class Tiers:
    """The three tiers over one connection; holds ids as 16 bytes."""

    def __init__(self, connection: sqlite3.Connection, recent_size: int = 10_000) -> None:
        self._connection = connection
        self._sessions: dict[int, SessionIds] = {}
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        #: Ids on their way into L1, entered when it is asked: a long import hardly ever does.
        self._young: deque[bytes] = deque(maxlen=recent_size)
        self.recent_size = recent_size
        self.hits = {"l0": 0, "l1": 0, "l2": 0}
        self.misses = 0

    def session(self, number: int, *, new: bool) -> SessionIds:
        """L0 of a session, moved to the young end; ``new``: the store has nothing of it."""
        known = self._sessions.pop(number, None)
        if known is None:
            known = SessionIds(number, complete=new)
        self._sessions[number] = known
        return known

    def known(self, session: SessionIds, candidates: Sequence[bytes]) -> set[bytes]:
        """Which candidates were recorded before, asked tier by tier, the store once for all of them."""
        found = session.ids.intersection(candidates)
        if session.complete and not found:
            self.misses += len(candidates)
            return found
        unsure: list[bytes] = []
        self._enter_young()
        for candidate in candidates:
            if candidate in session.ids:
                self.hits["l0"] += 1
            elif session.complete:
                self.misses += 1
            elif candidate in self._recent:
                self.hits["l1"] += 1
                self._refresh(candidate)
                found.add(candidate)
            else:
                unsure.append(candidate)
        if unsure:
            stored = self._stored(session.number, unsure)
            hits = sum(candidate in stored for candidate in unsure)
            self.hits["l2"] += hits
            self.misses += len(unsure) - hits
            self.remember(stored)
            found |= stored
        return found

    def repeated(self) -> None:
        """An id that was new when its chunk was looked up, met a second time in that chunk."""
        self.misses -= 1
        self.hits["l0"] += 1

    def _stored(self, session: int, candidates: list[bytes]) -> set[bytes]:
        return known_event_ids(self._connection, session, candidates)

    def _refresh(self, candidate: bytes) -> None:
        self._recent.move_to_end(candidate)

    def count_from(self, counted: Mapping[str, int]) -> None:
        """Take back what was counted since: those look-ups are done again."""
        self.hits = {tier: counted.get(f"dedup_{tier}_hits", 0) for tier in self.hits}
        self.misses = counted.get("dedup_misses", 0)

    def remember_later(self, event_ids: Iterable[bytes]) -> None:
        """Enter ids into L1 as soon as somebody asks it."""
        self._young.extend(event_ids)

    def _enter_young(self) -> None:
        if self._young:
            self.remember(self._young)
            self._young.clear()

    def remember(self, event_ids: Iterable[bytes]) -> None:
        """Enter ids into L1; the least recently used leave."""
        recent = self._recent
        for event_id in event_ids:
            recent[event_id] = None
            recent.move_to_end(event_id)
        while len(recent) > self.recent_size:
            recent.popitem(last=False)

    def trim_sessions(self) -> None:
        """Keep L0 within its limit; what is thrown away is still in the store."""
        total = sum(len(session.ids) for session in self._sessions.values())
        for number in list(self._sessions):
            if total <= SESSION_IDS_LIMIT:
                break
            total -= len(self._sessions.pop(number).ids)

    def end_session(self, number: int) -> None:
        """Free a session's set; later lines of it are looked up in L1 and L2."""
        self._sessions.pop(number, None)

    def forget(self) -> None:
        """Drop L0 and L1, after a batch was rolled back: they may hold ids that were never stored."""
        self._sessions.clear()
        self._recent.clear()
        self._young.clear()

    @property
    def recent_count(self) -> int:
        """How many ids L1 holds."""
        self._enter_young()
        return len(self._recent)

    def rates(self) -> dict[str, float]:
        """The share of all questions that each tier answered with yes."""
        asked = sum(self.hits.values()) + self.misses
        return {f"{tier}_hit_rate": (hits / asked if asked else 0.0) for tier, hits in self.hits.items()}


class _TiersOfAllSessions(Tiers):
    """Tiers whose L2 finds an id in whatever session it was marked."""

    def _stored(self, session: int, candidates: list[bytes]) -> set[bytes]:
        query = "SELECT 1 FROM processed_events WHERE event_id = ?"
        return {event_id for event_id in candidates if self._connection.execute(query, (event_id,)).fetchone()}


class EventDeduplicator:
    """The specification's deduplicator: one event at a time, ids as 32 hex digits."""

    def __init__(
        self,
        memory_cache_size: int = 10000,
        ttl_hours: int = 24,
        db_path: str | os.PathLike[str] | None = None,
    ) -> None:
        path = Path(db_path).expanduser() if db_path is not None else load_settings().home / "agenttrace.db"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.memory_cache_size = memory_cache_size
        self.ttl_hours = ttl_hours
        self.db_path = str(path)
        self._connection = connect(path)
        # The recorder always knows an event's session; here an id must be found by itself.
        self._connection.execute("CREATE INDEX IF NOT EXISTS idx_event_id ON processed_events(event_id)")
        self._tiers = _TiersOfAllSessions(self._connection, memory_cache_size)
        self._current = ""

    def is_duplicate(self, event_id: str, session_id: str | None = None) -> bool:
        """Whether the event was marked before, by this process or any other.

        ``session_id`` names the session whose set (L0) is asked first; without it, the one marked last.
        """
        candidate = _as_bytes(event_id)
        session = self._tiers.session(_number(session_id or self._current), new=False)
        return bool(self._tiers.known(session, (candidate,)))

    def mark_processed(
        self,
        event_id: str,
        session_id: str = "",
        turn_index: int = 0,
        step_n: int = 0,
        event_type: str = "",
        span_id: str | None = None,
    ) -> None:
        """Remember the event in all three tiers. Marking it again changes nothing."""
        event = _as_bytes(event_id)
        number = _number(session_id)
        with transaction(self._connection):
            self._connection.execute(
                "INSERT OR IGNORE INTO sessions (id, agent, session_id) VALUES (?, '', ?)", (number, session_id)
            )
            self._connection.execute(
                "INSERT INTO processed_events "
                "(event_id, session_id, turn_index, step_n, event_type, span_id, processed_at) "
                "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 "
                "WHERE NOT EXISTS (SELECT 1 FROM processed_events WHERE event_id = ?1)",
                (event, number, turn_index, step_n, event_type, span_id, time.time()),
            )
        self._current = session_id
        self._tiers.session(number, new=False).ids.add(event)
        self._tiers.remember((event,))
        self._tiers.trim_sessions()

    def end_session(self, session_id: str) -> None:
        """Free the session's set (L0)."""
        self._tiers.end_session(_number(session_id))

    def get_stats(self) -> dict[str, Any]:
        """Sizes, hits and hit rates of the tiers."""
        total, sessions = self._connection.execute(
            "SELECT count(*), count(DISTINCT session_id) FROM processed_events"
        ).fetchone()
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
        """Remove ids whose data was pruned and whose file is gone, once they are older than ``ttl_hours``."""
        return cleanup_expired(self._connection, time.time() - self.ttl_hours * 3600)

    def close(self) -> None:
        """Close the store."""
        self._connection.close()

    def __enter__(self) -> EventDeduplicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cleanup_expired(connection: sqlite3.Connection, cutoff: float) -> int:
    """Remove the ids of what was pruned from sessions all of whose files are gone since ``cutoff``; how many."""
    return sum(expired_ids(connection, cutoff))


def expired_ids(connection: sqlite3.Connection, cutoff: float) -> Iterator[int]:
    """The same session by session, each in a transaction of its own.

    A session that went on after it was pruned has data again; the ids of that data stay.
    """
    rows = connection.execute(
        "SELECT pruned.session_id, file_offsets.filepath, file_offsets.gone_at FROM pruned "
        "LEFT JOIN file_offsets USING (file_id) WHERE pruned_at < ?",
        (cutoff,),
    ).fetchall()
    kept = {number for number, path, gone in rows if path is not None and _is_needed(path, gone, cutoff)}
    for number in sorted({number for number, *_ in rows} - kept):
        with transaction(connection):
            # The newest event stays: a new one must not get its number, under which the search index may hold words.
            removed = connection.execute(
                "DELETE FROM processed_events WHERE session_id = ? AND block_id IS NULL AND processed_at < ? "
                "AND event_no < (SELECT max(event_no) FROM processed_events)",
                (number, cutoff),
            ).rowcount
            connection.execute("DELETE FROM pruned WHERE session_id = ?", (number,))
        yield removed
    with transaction(connection):
        connection.execute(_FORGET_NOTES)


def _is_needed(path: str, gone: float | None, cutoff: float) -> bool:
    """Whether a file may be read again: it is there, or was not long ago."""
    return (gone is not None and gone >= cutoff) or still_there(path)


def _number(session_id: str | None) -> int:
    return session_number("", session_id or "")


def _as_bytes(event_id: str) -> bytes:
    """32 hex digits as 16 bytes; any other id as it is, so that callers may bring their own, and marked as such."""
    if _HEX_ID.fullmatch(event_id):
        return bytes.fromhex(event_id)
    return b"=" + event_id.encode("utf-8", "surrogatepass")
