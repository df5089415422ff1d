"""Retention: what sessions said goes, what they cost stays.

A pruned session loses its spans, raw lines and folding state. Its usage stays, and so does its row, emptied of
texts and counts, because agent and project give the usage its meaning. The ids of its events stay, too: they are
what keeps a second reading of its files from bringing anything back. Which files those are is remembered in
``pruned``, so that the ids can go when the files are gone.

Each session is pruned in a transaction of its own, so that a recorder never waits long and an interrupted run is
simply continued by the next one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from agenttrace.store.sqlite.database import marks, portions, transaction
from agenttrace.store.sqlite.telemetry import counted_by
from agenttrace.store.sqlite.totals import FORGET_TOTALS, MARK_PRUNED

#: Events that one piece of a sweep looks at.
_SWEPT_EVENTS = 50_000

OLD_SESSIONS = """
SELECT id FROM sessions WHERE events > 0 AND last_at < ?
UNION
SELECT id FROM sessions WHERE events > 0 AND last_at IS NULL
    AND (SELECT max(processed_at) FROM processed_events WHERE session_id = sessions.id) < ?
"""

_REMEMBER_FILES = """
INSERT OR REPLACE INTO pruned (session_id, file_id, pruned_at)
SELECT DISTINCT session_id, file_id, ?
FROM processed_events JOIN raw_blocks USING (block_id) WHERE session_id = ?
"""

#: What is left of a session's row is what its usage is listed under.
_EMPTY_SESSION = """
UPDATE sessions SET title = NULL, first_prompt = NULL, branch = NULL, state = 'ended',
    turns = 0, steps = 0, tools = 0, errors = 0, events = 0
WHERE id = ?
"""
_REPORT = "maintenance"
_UNSWEPT = "maintenance_unswept"

_PRUNED = """
SELECT pruned.session_id, file_offsets.filepath, file_offsets.gone_at FROM pruned
LEFT JOIN file_offsets USING (file_id) WHERE pruned_at < ?
"""
#: The newest event stays: a new one must not get its number, under which the search index may hold words.
_EXPIRED_IDS = """
DELETE FROM processed_events WHERE session_id = ? AND block_id IS NULL AND processed_at < ?
    AND event_no < (SELECT max(event_no) FROM processed_events)
"""
#: Which traces a session had matters as long as anything of it is known.
_FORGET_NOTES = """
DELETE FROM sessions WHERE parent IS NOT NULL AND events = 0 AND started_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM sessions whole JOIN processed_events ON processed_events.session_id = whole.id
    WHERE whole.agent = sessions.agent AND whole.session_id = sessions.parent
)
"""


class Pruned(NamedTuple):
    """What a run removed, or would remove."""

    sessions: int = 0
    spans: int = 0
    events: int = 0
    blocks: int = 0
    #: Compressed size of the raw lines.
    bytes: int = 0
    #: What rules did.
    firings: int = 0


class Report(msgspec.Struct):
    """What was removed since the store was created, and when the last run ended."""

    last_run_at: float | None = None
    sessions: int = 0
    spans: int = 0
    events: int = 0
    bytes: int = 0
    event_ids: int = 0
    files: int = 0
    log_files: int = 0
    firings: int = 0


class Retention:
    """Removes what is older than it has to be; each piece is a transaction of its own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    # -- sessions ---------------------------------------------------------------------------------------------

    def old_sessions(self, cutoff: float) -> list[int]:
        """Sessions whose last event is older than ``cutoff`` (seconds since the epoch)."""
        rows = self._connection.execute(OLD_SESSIONS, (int(cutoff * 1_000_000), cutoff))
        return [row[0] for row in rows]

    def measure(self, cutoff: float) -> Pruned:
        """What ``prune`` would remove."""
        numbers = self.old_sessions(cutoff)
        chosen = set(numbers)
        spans = sum(_count(self._connection, "spans", number) for number in numbers)
        events = sum(
            _count(self._connection, "processed_events", number, "AND block_id IS NOT NULL") for number in numbers
        )
        blocks = _blocks_of(self._connection, numbers) - _blocks_of_others(self._connection, chosen)
        return Pruned(len(numbers), spans, events, len(blocks), _stored_bytes(self._connection, blocks))

    def prune(
        self,
        cutoff: float,
        *,
        stop: Callable[[], bool] = lambda: False,
        on_session: Callable[[], None] = lambda: None,
    ) -> Pruned:
        """Remove what sessions older than ``cutoff`` said. The search index is the caller's to rebuild."""
        sessions = spans = events = 0
        for number in self.old_sessions(cutoff):
            if stop():
                break
            removed = self._prune(number)
            sessions, spans, events = sessions + 1, spans + removed[0], events + removed[1]
            on_session()
        self.forget_quarantined(cutoff)
        swept = list(self._sweep())
        return Pruned(sessions, spans, events, sum(blocks for blocks, _ in swept), sum(size for _, size in swept))

    def prune_session(self, number: int, now: float) -> tuple[int, int]:
        """Remove what one session said; how many spans and events. Its raw lines go with the next sweep."""
        # Before anything is removed: a run that is interrupted leaves raw lines to be swept by the next one.
        self._note(_UNSWEPT, str(now))
        return self._prune(number)

    def _prune(self, number: int) -> tuple[int, int]:
        with transaction(self._connection):
            self._connection.execute(_REMEMBER_FILES, (time.time(), number))
            return empty_session(self._connection, number)

    def forget_quarantined(self, cutoff: float) -> None:
        """The text of old quarantined lines goes; the entry stays, so that the line is not set aside anew."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE quarantine SET raw = NULL WHERE found_at < ? AND raw IS NOT NULL", (cutoff,)
            )

    def sweep(self) -> Iterator[int]:
        """Remove raw lines that pruned sessions left behind, if any; yields the bytes that went with each piece."""
        if self._connection.execute("SELECT 1 FROM meta WHERE key = ?", (_UNSWEPT,)).fetchone() is None:
            return
        for _, size in self._sweep():
            yield size
        with transaction(self._connection):
            self._connection.execute("DELETE FROM meta WHERE key = ?", (_UNSWEPT,))

    def _sweep(self) -> Iterator[tuple[int, int]]:
        """Remove raw lines that no event refers to any more, also those an interrupted run left behind.

        Yields after each piece how many blocks and bytes went with it.
        """
        # Listed before the events are: a block that a recorder adds meanwhile is not in the list.
        unused = {row[0] for row in self._connection.execute("SELECT block_id FROM raw_blocks")}
        last = 0
        while unused:
            query = "SELECT event_no, block_id FROM processed_events WHERE event_no > ? ORDER BY event_no LIMIT ?"
            rows = self._connection.execute(query, (last, _SWEPT_EVENTS)).fetchall()
            if not rows:
                break
            last = rows[-1][0]
            unused.difference_update(block for _, block in rows)
            yield 0, 0
        for part in portions(sorted(unused)):
            size = _stored_bytes(self._connection, part)
            with transaction(self._connection):
                self._connection.execute(f"DELETE FROM raw_blocks WHERE block_id IN {marks(part)}", part)
            yield len(part), size

    # -- ids --------------------------------------------------------------------------------------------------

    def expire_ids(self, cutoff: float, still_there: Callable[[str], bool]) -> Iterator[int]:
        """Remove the ids of pruned sessions all of whose files are gone since ``cutoff``; how many of each session.

        A session that went on after it was pruned has data again; the ids of that data stay.
        """
        rows = self._connection.execute(_PRUNED, (cutoff,)).fetchall()
        kept = {
            number
            for number, path, gone in rows
            if path is not None and ((gone is not None and gone >= cutoff) or still_there(path))
        }
        for number in sorted({number for number, *_ in rows} - kept):
            with transaction(self._connection):
                removed = self._connection.execute(_EXPIRED_IDS, (number, cutoff)).rowcount
                self._connection.execute("DELETE FROM pruned WHERE session_id = ?", (number,))
            yield removed
        with transaction(self._connection):
            self._connection.execute(_FORGET_NOTES)

    # -- the report -------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """What earlier runs did."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (_REPORT,)).fetchone()
        try:
            return Report() if row is None else msgspec.json.decode(row[0], type=Report)
        except msgspec.MsgspecError:
            return Report()

    def save_report(self, report: Report) -> None:
        """Keep what was done."""
        self._note(_REPORT, msgspec.json.encode(report).decode())

    def _note(self, key: str, value: str) -> None:
        with transaction(self._connection):
            self._connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


def empty_session(connection: sqlite3.Connection, number: int) -> tuple[int, int]:
    """Remove what a session said, inside the caller's transaction, but not its lines; how many spans and events."""
    counted = counted_by(connection, number)
    spans = connection.execute("DELETE FROM spans WHERE session_id = ?", (number,)).rowcount
    events = connection.execute(
        "UPDATE processed_events SET block_id = NULL, line_n = NULL, span_id = NULL "
        "WHERE session_id = ? AND block_id IS NOT NULL",
        (number,),
    ).rowcount
    for table in ("streams", "links", "outcomes"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (number,))
    connection.execute(FORGET_TOTALS, (number,))
    connection.execute(MARK_PRUNED, (number, counted))
    connection.execute(_EMPTY_SESSION, (number,))
    return spans, events


def _count(connection: sqlite3.Connection, table: str, number: int, also: str = "") -> int:
    query = f"SELECT count(*) FROM {table} WHERE session_id = ? {also}"
    return int(connection.execute(query, (number,)).fetchone()[0])


def _blocks_of(connection: sqlite3.Connection, numbers: Iterable[int]) -> set[int]:
    query = "SELECT DISTINCT block_id FROM processed_events WHERE session_id = ? AND block_id IS NOT NULL"
    return {row[0] for number in numbers for row in connection.execute(query, (number,))}


def _blocks_of_others(connection: sqlite3.Connection, chosen: set[int]) -> set[int]:
    rows = connection.execute("SELECT DISTINCT session_id, block_id FROM processed_events WHERE block_id IS NOT NULL")
    return {block for number, block in rows if number not in chosen}


def _stored_bytes(connection: sqlite3.Connection, blocks: Iterable[int]) -> int:
    total = 0
    for part in portions(blocks):
        query = f"SELECT coalesce(sum(length(data)), 0) FROM raw_blocks WHERE block_id IN {marks(part)}"
        total += int(connection.execute(query, part).fetchone()[0])
    return total
