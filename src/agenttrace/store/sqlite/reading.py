"""Reading the store: sessions, spans, usage, raw lines. Lists come from roll-ups and never load bodies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from agenttrace.model import Session, Usage
from agenttrace.store.questions import UsageRow as UsageRow
from agenttrace.store.sqlite.blocks import Blocks
from agenttrace.store.sqlite.sessions import find_sessions as find_sessions
from agenttrace.store.sqlite.sessions import list_sessions as list_sessions
from agenttrace.store.sqlite.sessions import sessions_by_number as sessions_by_number
from agenttrace.store.sqlite.span_rows import ENDED_BY, SpanRow, session_rows
from agenttrace.store.sqlite.usage import usage_by_session as usage_by_session
from agenttrace.store.sqlite.usage import usage_rows as usage_rows


class SpanView(msgspec.Struct, kw_only=True):
    """A span as it is shown: under its parent even where that is in another stream."""

    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    stream: str
    kind: str
    name: str
    start: int
    end: int | None
    status: str
    model: str | None
    #: The model that the ledger names for the response, which is what its tokens are priced by.
    billed_model: str | None
    turn_index: int
    step_n: int
    usage: Usage | None
    #: True where the log holds no more than a placeholder of the tokens.
    estimated: bool
    #: False where another session owns this response, so that its tokens count there.
    counted: bool
    attributes: dict[str, Any]


class RawLine(NamedTuple):
    """A recorded line, and where it stood."""

    event_no: int
    event_type: str
    span_id: bytes | None
    turn_index: int
    step_n: int
    file_id: int
    generation: int
    offset: int
    raw: bytes


class SearchHit(NamedTuple):
    """An event whose text matches."""

    event_no: int
    session: Session
    line: RawLine


# -- spans --------------------------------------------------------------------------------------------------------


def session_spans(connection: sqlite3.Connection, session: Session) -> list[SpanView]:
    """All spans of a session in order of start, subagents under the tool calls that started them."""
    return span_views(session_rows(connection, session, attributes=True))


def span_views(rows: Iterable[SpanRow]) -> list[SpanView]:
    """Rows as they are shown."""
    return [_span_view(row) for row in rows]


_attributes = msgspec.json.Decoder(dict[str, Any])


def _span_view(row: SpanRow) -> SpanView:
    attributes = _attributes.decode(row.attributes) if row.attributes else {}
    if row.ended_by:
        attributes["closed_by"] = ENDED_BY[row.ended_by]
    return SpanView(
        span_id=row.span_id,
        trace_id=row.trace_id,
        parent_id=row.parent_id,
        stream=row.stream,
        kind=row.kind,
        name=row.name,
        start=row.start,
        end=row.end,
        status=row.status,
        model=row.model,
        billed_model=row.billed_model,
        turn_index=row.turn_index,
        step_n=row.step_n,
        attributes=attributes,
        usage=row.usage,
        counted=bool(row.counted),
        estimated=bool(row.estimated),
    )


# -- raw lines ----------------------------------------------------------------------------------------------------

_LINES = """
SELECT event_no, event_type, span_id, turn_index, step_n, block_id, line_n FROM processed_events
WHERE block_id IS NOT NULL AND {where} ORDER BY {order}
"""
#: Lines that are read one after the other come from few blocks at a time.
_HELD_BYTES = 8 << 20


class LineRow(NamedTuple):
    """A recorded line without its text."""

    event_no: int
    event_type: str
    span_id: bytes | None
    turn_index: int
    step_n: int
    block_id: int
    line_n: int


def raw_lines(
    connection: sqlite3.Connection,
    *,
    session: int | None = None,
    events: Sequence[int] | None = None,
    after: int | None = None,
    limit: int = -1,
) -> Iterator[RawLine]:
    """Recorded lines: of a session in order, by number, or all after a number."""
    if session is not None:
        where, order, values = "session_id = ?", "event_no", [session]
    elif events is not None:
        where, order, values = f"event_no IN ({','.join('?' * len(events))})", "event_no DESC", list(events)
    else:
        where, order, values = "event_no > ?", "event_no", [after or 0]
    rows = connection.execute(_LINES.format(where=where, order=order) + f" LIMIT {int(limit)}", values)
    return with_text(connection, map(LineRow._make, rows), Blocks(_HELD_BYTES))


def line_rows(connection: sqlite3.Connection, events: Sequence[int]) -> Iterator[LineRow]:
    """Recorded lines by number, in order, without their texts."""
    ordered = sorted(events)
    for start in range(0, len(ordered), 500):
        part = ordered[start : start + 500]
        query = _LINES.format(where=f"event_no IN ({','.join('?' * len(part))})", order="event_no")
        yield from map(LineRow._make, connection.execute(query, part))


def line_of_event(connection: sqlite3.Connection, session: int, event_id: bytes) -> bytes | None:
    """The text of one recorded line by the event's id; ``None`` where it is not there, or its block is gone."""
    rows = connection.execute(
        _LINES.format(where="session_id = ? AND event_id = ?", order="event_no"), (session, event_id)
    )
    found = next(with_text(connection, map(LineRow._make, rows), Blocks(0)), None)
    return None if found is None else found.raw


def with_text(connection: sqlite3.Connection, rows: Iterable[LineRow], blocks: Blocks) -> Iterator[RawLine]:
    """The lines with their texts; those whose block is gone are left out."""
    held = blocks.of(connection)
    for event_no, event_type, span_id, turn_index, step_n, block_id, line_n in rows:
        block = held.get(block_id)
        if block is not None:
            place = (block.file_id, block.generation, block.offsets[line_n], block.lines[line_n])
            yield RawLine(event_no, event_type, span_id, turn_index, step_n, *place)


def file_source(connection: sqlite3.Connection, file_id: int) -> tuple[str, bytes | None]:
    """Path and source of a file; neither where it is not known any more."""
    query = "SELECT filepath, source FROM file_offsets WHERE file_id = ?"
    row = connection.execute(query, (file_id,)).fetchone()
    return ("", None) if row is None else (row[0], row[1])


# -- search -------------------------------------------------------------------------------------------------------


def search(connection: sqlite3.Connection, query: str, *, limit: int = 50) -> list[SearchHit]:
    """Events whose text matches an FTS expression, newest first."""
    numbers = [
        row[0]
        for row in connection.execute(
            "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?", (query, limit)
        )
    ]
    hits = []
    by_number = dict(
        connection.execute(
            f"SELECT event_no, session_id FROM processed_events WHERE event_no IN ({','.join('?' * len(numbers))})",
            numbers,
        ).fetchall()
    )
    sessions = {each.id: each for each in sessions_by_number(connection, sorted(set(by_number.values())))}
    for line in raw_lines(connection, events=numbers):
        if by_number[line.event_no] in sessions:
            hits.append(SearchHit(line.event_no, sessions[by_number[line.event_no]], line))
    return hits
