"""Events: their numbers, their lines as they were logged, and the files that these came from."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.relations import EVENTS, NUMBERED_EVENTS
from agenttrace.store.questions import EventLine, EventMark, EventPlace, FileSource, SourceFile

#: Lines that are read at a time.
_PORTION = 2_000
#: A line whose text was pruned has none.
_WITH_LINE = "raw IS NOT NULL"
_LINES = f"""
SELECT number, session, event_type, span_id, turn_index, step_n, file_id, generation, offset, raw FROM {{events}}
WHERE {_WITH_LINE} AND {{where}} ORDER BY number {{limit}}
"""
_MARK = f"SELECT number, event_id, recorded_at FROM {EVENTS}"


# -- lines --------------------------------------------------------------------------------------------------------


def raw_lines(
    database: Database, *, session: int | None = None, after: int = 0, limit: int = -1
) -> Iterator[EventLine]:
    """Recorded lines in order: of a session, or of all after a number."""
    where = "number > :after" if session is None else "session = :session AND number > :after"
    left, last = limit, after if session is None else -1
    while left:
        size = _PORTION if left < 0 else min(left, _PORTION)
        found = _lines(database, where, {"after": last, "session": session}, size)
        yield from found
        if len(found) < size:
            return
        last, left = found[-1].event_no, left - len(found) if left > 0 else left


def _lines(
    database: Database, where: str, values: Values, limit: int | None = None, events: str = EVENTS
) -> list[EventLine]:
    query = _LINES.format(events=events, where=where, limit="" if limit is None else f"LIMIT {limit}")
    return list(map(EventLine._make, database.rows(query, raw=("raw",), **values)))


def lines_by_number(database: Database, numbers: Sequence[int]) -> Iterator[EventLine]:
    """Recorded lines by number, in order; those whose text was pruned are left out."""
    ordered = sorted(set(numbers))
    for start in range(0, len(ordered), _PORTION):
        part = ordered[start : start + _PORTION]
        yield from _lines(database, "number IN :numbers", _between(part), events=NUMBERED_EVENTS)


def _between(numbers: Sequence[int]) -> Values:
    """Numbers, and the smallest and the largest, which is what an index of blocks can be asked."""
    return {"numbers": list(numbers), "first": numbers[0], "last": numbers[-1]}


def line_of_event(database: Database, session: int, event_id: bytes) -> bytes | None:
    """The text of one recorded line by the event's id; ``None`` where it is not there, or was pruned."""
    found = _lines(database, "session = :session AND event_id = :key", {"session": session, "key": event_id})
    return found[0].raw if found else None


# -- numbers ------------------------------------------------------------------------------------------------------


def last_event(database: Database) -> int:
    """The number of the latest event; 0 where there is none."""
    return int(database.value(f"SELECT max(number) FROM {EVENTS}") or 0)


def newest_events(database: Database, session: int | None, count: int) -> list[int]:
    """The numbers of the latest events that have a line, oldest first."""
    return _numbers(database, session, f"ORDER BY number DESC LIMIT {int(count)}")[::-1]


def events_after(database: Database, number: int, session: int | None, limit: int) -> list[int]:
    """The numbers of the events after this one that have a line, oldest first."""
    return _numbers(database, session, f"ORDER BY number LIMIT {int(limit)}", after=number)


def _numbers(database: Database, session: int | None, order: str, after: int = -1) -> list[int]:
    where = "" if session is None else "AND session = :session"
    query = f"SELECT number FROM {EVENTS} WHERE {_WITH_LINE} AND number > :after {where} {order}"
    return [row[0] for row in database.rows(query, after=after, session=session)]


def session_events(database: Database, session: int) -> array[int]:
    """The numbers of all events of a session, in order."""
    query = f"SELECT number FROM {EVENTS} WHERE session = :session ORDER BY number"
    return array("q", (row[0] for row in database.rows(query, session=session)))


# -- places -------------------------------------------------------------------------------------------------------


def event_places(database: Database, session: int, after: int, last: int) -> Iterator[EventPlace]:
    """The places of a session's events after a number and up to another one, where they have a line."""
    query = f"""
    SELECT number, span_id, turn_index, step_n, file_id FROM {EVENTS}
    WHERE session = :session AND {_WITH_LINE} AND number > :after AND number <= :last ORDER BY number
    """
    return iter(database.rows(query, session=session, after=after, last=last))


def event_mark(database: Database, number: int | None = None) -> EventMark | None:
    """What identifies the event of this number, or the latest one."""
    where = "ORDER BY number DESC LIMIT 1" if number is None else "WHERE number = :number"
    found = database.rows(f"{_MARK} {where}", number=number)
    return EventMark._make(found[0]) if found else None


# -- files --------------------------------------------------------------------------------------------------------


def file_source(database: Database, file_id: int) -> FileSource:
    """The file of some lines; an empty path where it is not known any more."""
    query = "SELECT path, source FROM files FINAL WHERE file_id = :file_id"
    found = database.rows(query, raw=("source",), file_id=file_id)
    return FileSource._make(found[0]) if found else FileSource("", None)


def source_files(database: Database, numbers: Sequence[int]) -> list[SourceFile]:
    """The files by number, in the order of their paths; how far they were read is known on their machines."""
    query = "SELECT path FROM files FINAL WHERE file_id IN :numbers"
    found = database.rows(query, numbers=list(numbers)) if numbers else []
    return sorted(SourceFile(path, 0, 0, False) for (path,) in found)
