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

from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.totals import FORGET_TOTALS, MARK_PRUNED

_PORTION = 500
#: Events that one piece of a sweep looks at.
_SWEPT_EVENTS = 50_000

_OLD_SESSIONS = """
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


class Pruned(NamedTuple):
    """What a run removed, or would remove."""

    sessions: int = 0
    spans: int = 0
    events: int = 0
    blocks: int = 0
    #: Compressed size of the raw lines.
    bytes: int = 0


def old_sessions(connection: sqlite3.Connection, cutoff: float) -> list[int]:
    """Sessions whose last event is older than ``cutoff`` (seconds since the epoch)."""
    rows = connection.execute(_OLD_SESSIONS, (int(cutoff * 1_000_000), cutoff))
    return [row[0] for row in rows]


def measure(connection: sqlite3.Connection, cutoff: float) -> Pruned:
    """What ``prune`` would remove."""
    numbers = old_sessions(connection, cutoff)
    chosen = set(numbers)
    spans = sum(_count(connection, "spans", number) for number in numbers)
    events = sum(_count(connection, "processed_events", number, "AND block_id IS NOT NULL") for number in numbers)
    blocks = _blocks_of(connection, numbers) - _blocks_of_others(connection, chosen)
    return Pruned(len(numbers), spans, events, len(blocks), _stored_bytes(connection, blocks))


def prune(
    connection: sqlite3.Connection,
    cutoff: float,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_session: Callable[[], None] = lambda: None,
) -> Pruned:
    """Remove what sessions older than ``cutoff`` said. The search index is the caller's to rebuild."""
    sessions = spans = events = 0
    for number in old_sessions(connection, cutoff):
        if stop():
            break
        removed = prune_session(connection, number)
        sessions, spans, events = sessions + 1, spans + removed[0], events + removed[1]
        on_session()
    forget_quarantined(connection, cutoff)
    swept = list(sweep(connection))
    return Pruned(sessions, spans, events, sum(blocks for blocks, _ in swept), sum(size for _, size in swept))


def prune_session(connection: sqlite3.Connection, number: int) -> tuple[int, int]:
    """Remove what one session said; how many spans and events."""
    with transaction(connection):
        connection.execute(_REMEMBER_FILES, (time.time(), number))
        spans = connection.execute("DELETE FROM spans WHERE session_id = ?", (number,)).rowcount
        events = connection.execute(
            "UPDATE processed_events SET block_id = NULL, line_n = NULL, span_id = NULL "
            "WHERE session_id = ? AND block_id IS NOT NULL",
            (number,),
        ).rowcount
        connection.execute("DELETE FROM streams WHERE session_id = ?", (number,))
        connection.execute("DELETE FROM links WHERE session_id = ?", (number,))
        connection.execute(FORGET_TOTALS, (number,))
        connection.execute(MARK_PRUNED, (number,))
        connection.execute(_EMPTY_SESSION, (number,))
    return spans, events


def forget_quarantined(connection: sqlite3.Connection, cutoff: float) -> None:
    """The text of old quarantined lines goes; the entry stays, so that the line is not set aside anew."""
    with transaction(connection):
        connection.execute("UPDATE quarantine SET raw = NULL WHERE found_at < ? AND raw IS NOT NULL", (cutoff,))


def sweep(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Remove raw lines that no event refers to any more, also those an interrupted run left behind.

    Yields after each piece how many blocks and bytes went with it.
    """
    # Listed before the events are: a block that a recorder adds meanwhile is not in the list.
    unused = {row[0] for row in connection.execute("SELECT block_id FROM raw_blocks")}
    last = 0
    while unused:
        query = "SELECT event_no, block_id FROM processed_events WHERE event_no > ? ORDER BY event_no LIMIT ?"
        rows = connection.execute(query, (last, _SWEPT_EVENTS)).fetchall()
        if not rows:
            break
        last = rows[-1][0]
        unused.difference_update(block for _, block in rows)
        yield 0, 0
    for part in _portions(unused):
        size = _stored_bytes(connection, part)
        with transaction(connection):
            connection.execute(f"DELETE FROM raw_blocks WHERE block_id IN ({','.join('?' * len(part))})", part)
        yield len(part), size


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
    for part in _portions(blocks):
        query = f"SELECT coalesce(sum(length(data)), 0) FROM raw_blocks WHERE block_id IN ({','.join('?' * len(part))})"
        total += int(connection.execute(query, part).fetchone()[0])
    return total


def _portions(numbers: Iterable[int]) -> list[list[int]]:
    ordered = sorted(numbers)
    return [ordered[start : start + _PORTION] for start in range(0, len(ordered), _PORTION)]
