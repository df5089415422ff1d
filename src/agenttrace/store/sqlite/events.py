"""Recorded events: their numbers, their lines as they were logged, and the files that these came from."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agenttrace.store.batch import BLOCK_BITS
from agenttrace.store.line_cache import LineCache
from agenttrace.store.questions import EventLine, EventMark, EventPlace, FileSource, SourceFile
from agenttrace.store.sqlite.blocks import StoredBlocks
from agenttrace.store.sqlite.database import marks, portions

#: Lines that are read one after the other come from few blocks at a time.
_CACHED_BYTES = 8 << 20
#: Fewer new events than this are looked through one after the other, whatever sessions they belong to.
_FEW = 20_000

_LINES = """
SELECT event_no, session_id, event_type, span_id, turn_index, step_n, block_id, line_n FROM processed_events
WHERE block_id IS NOT NULL AND {where} ORDER BY {order}
"""


class _LineRow(NamedTuple):
    """A recorded line without its text."""

    event_no: int
    session: int
    event_type: str
    span_id: bytes | None
    turn_index: int
    step_n: int
    block_id: int
    line_n: int


# -- lines --------------------------------------------------------------------------------------------------------


def raw_lines(
    connection: sqlite3.Connection, *, session: int | None = None, after: int = 0, limit: int = -1
) -> Iterator[EventLine]:
    """Recorded lines in order: of a session, or of all after a number."""
    where, values = ("event_no > ?", [after]) if session is None else ("session_id = ?", [session])
    rows = connection.execute(_LINES.format(where=where, order="event_no") + f" LIMIT {int(limit)}", values)
    return _with_text(connection, map(_LineRow._make, rows), LineCache(_CACHED_BYTES))


def lines_by_number(
    connection: sqlite3.Connection, numbers: Sequence[int], cache: LineCache | None = None
) -> Iterator[EventLine]:
    """Recorded lines by number, in order; those whose text was pruned are left out."""
    return _with_text(connection, _line_rows(connection, numbers), LineCache(_CACHED_BYTES) if cache is None else cache)


def _line_rows(connection: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[_LineRow]:
    for part in portions(sorted(numbers)):
        query = _LINES.format(where=f"event_no IN {marks(part)}", order="event_no")
        yield from map(_LineRow._make, connection.execute(query, part))


def line_of_event(connection: sqlite3.Connection, session: int, event_id: bytes) -> bytes | None:
    """The text of one recorded line by the event's id; ``None`` where it is not there, or was pruned."""
    query = _LINES.format(where="session_id = ? AND event_id = ?", order="event_no")
    rows = connection.execute(query, (session, event_id))
    found = next(_with_text(connection, map(_LineRow._make, rows), LineCache(0)), None)
    return None if found is None else found.raw


def _with_text(connection: sqlite3.Connection, rows: Iterable[_LineRow], cache: LineCache) -> Iterator[EventLine]:
    held = StoredBlocks(cache, connection)
    for event_no, session, event_type, span_id, turn_index, step_n, block_id, line_n in rows:
        block = held.get(block_id)
        if block is not None:
            place = (block.file_id, block.generation, block.offsets[line_n], block.lines[line_n])
            yield EventLine(event_no, session, event_type, span_id, turn_index, step_n, *place)


# -- numbers ------------------------------------------------------------------------------------------------------

_LAST = "SELECT coalesce(max(event_no), 0) FROM processed_events"


def last_event(connection: sqlite3.Connection) -> int:
    """The number of the latest event; 0 where there is none."""
    return int(connection.execute(_LAST).fetchone()[0])


def newest_events(connection: sqlite3.Connection, session: int | None, count: int) -> list[int]:
    """The numbers of the latest events that have a line, oldest first."""
    where, values = ("session_id = ? AND", [session]) if session is not None else ("", [])
    query = f"SELECT event_no FROM processed_events WHERE {where} block_id IS NOT NULL ORDER BY event_no DESC LIMIT ?"
    return [row[0] for row in connection.execute(query, [*values, count])][::-1]


def events_after(connection: sqlite3.Connection, number: int, session: int | None, limit: int) -> list[int]:
    """The numbers of the events after this one that have a line, oldest first."""
    where, values = ("AND session_id = ?", [session]) if session is not None else ("", [])
    query = (
        f"SELECT event_no FROM processed_events WHERE event_no > ? {where} AND block_id IS NOT NULL "
        "ORDER BY event_no LIMIT ?"
    )
    return [row[0] for row in connection.execute(query, [number, *values, limit])]


def session_events(connection: sqlite3.Connection, session: int) -> array[int]:
    """The numbers of all events of a session, in order."""
    query = "SELECT event_no FROM processed_events WHERE session_id = ? ORDER BY event_no"
    return array("q", (row[0] for row in connection.execute(query, (session,))))


# -- places -------------------------------------------------------------------------------------------------------

_COLUMNS = f"event_no, span_id, turn_index, step_n, block_id >> {BLOCK_BITS}"
_ALL = f"""
SELECT {_COLUMNS} FROM (SELECT event_no AS wanted FROM processed_events WHERE session_id = ? ORDER BY event_no)
    CROSS JOIN processed_events ON event_no = wanted
WHERE block_id IS NOT NULL AND event_no > ? AND event_no <= ?
"""
_NEW = f"""
SELECT {_COLUMNS} FROM processed_events
WHERE +session_id = ? AND block_id IS NOT NULL AND event_no > ? AND event_no <= ?
"""
_MARK = "SELECT event_no, event_id, processed_at FROM processed_events"


def event_places(connection: sqlite3.Connection, session: int, after: int, last: int) -> Iterator[EventPlace]:
    """The places of a session's events after a number and up to another one, where they have a line."""
    return connection.execute(_NEW if last - after < _FEW else _ALL, (session, after, last))


def event_mark(connection: sqlite3.Connection, number: int | None = None) -> EventMark | None:
    """What identifies the event of this number, or the latest one."""
    if number is None:
        row = connection.execute(f"{_MARK} ORDER BY event_no DESC LIMIT 1").fetchone()
    else:
        row = connection.execute(f"{_MARK} WHERE event_no = ?", (number,)).fetchone()
    return None if row is None else EventMark._make(row)


# -- files --------------------------------------------------------------------------------------------------------


def file_source(connection: sqlite3.Connection, file_id: int) -> FileSource:
    """The file of some lines; an empty path where it is not known any more."""
    query = "SELECT filepath, source FROM file_offsets WHERE file_id = ?"
    row = connection.execute(query, (file_id,)).fetchone()
    return FileSource("", None) if row is None else FileSource._make(row)


def source_files(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[SourceFile]:
    """How far these files were read, in the order of their paths."""
    found: list[SourceFile] = []
    for part in portions(numbers):
        query = "SELECT filepath, offset, file_size, gone_at IS NOT NULL FROM file_offsets WHERE file_id IN "
        rows = connection.execute(query + marks(part), part)
        found += [SourceFile(path, offset, size, bool(gone)) for path, offset, size, gone in rows]
    return sorted(found)
