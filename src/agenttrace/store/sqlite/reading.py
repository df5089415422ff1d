"""Reading the store: sessions, spans, usage, raw lines. Lists come from roll-ups and never load bodies."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agenttrace.model import Session, Usage
from agenttrace.store.sqlite.blocks import Blocks
from agenttrace.store.sqlite.span_rows import ENDED_BY, USAGE_FIELDS, SpanRow, session_rows

_SESSION_COLUMNS = tuple(field.name for field in msgspec.structs.fields(Session))
_SESSION_LIST = ", ".join(f"s.{name}" for name in _SESSION_COLUMNS)


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


class UsageRow(NamedTuple):
    """Tokens of one model in one group."""

    group: str
    model: str
    requests: int
    estimated: int
    copies: int
    usage: Usage
    #: The part of the group, where groups were split.
    part: str = ""
    #: What the price depends on beside the model.
    day: str = ""
    variant: str = ""


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


def list_sessions(
    connection: sqlite3.Connection,
    *,
    agent: str | None = None,
    project: str | None = None,
    since: int | None = None,
    state: str | None = None,
    stale_minutes: int = 15,
    limit: int | None = None,
) -> list[Session]:
    """Sessions, newest first, with their state as of now."""
    where: list[str] = ["s.agent <> '' AND s.events > 0"]
    values: list[str | int] = []
    if agent is not None:
        where.append("s.agent = ?")
        values.append(agent)
    if project is not None:
        where.append("s.project LIKE ? ESCAPE '\\'")
        values.append(f"%{_like(project)}%")
    if since is not None:
        where.append("s.last_at >= ?")
        values.append(since)
    rows = connection.execute(
        f"SELECT {_SESSION_LIST} FROM sessions s WHERE {' AND '.join(where)} ORDER BY s.last_at DESC", values
    )
    sessions = (_session(connection, row, stale_minutes) for row in rows)
    found: list[Session] = []
    for session in sessions:
        if state is None or session.state == state:
            found.append(session)
        if limit is not None and len(found) >= limit:
            break
    _name_parents(connection, found)
    return found


def sessions_by_number(
    connection: sqlite3.Connection, numbers: Sequence[int], *, stale_minutes: int = 15
) -> list[Session]:
    """These sessions, where they have events, with their state as of now."""
    found: list[Session] = []
    for start in range(0, len(numbers), 500):
        part = numbers[start : start + 500]
        rows = connection.execute(
            f"SELECT {_SESSION_LIST} FROM sessions s "
            f"WHERE s.agent <> '' AND s.events > 0 AND s.id IN ({','.join('?' * len(part))})",
            part,
        )
        found += [_session(connection, row, stale_minutes) for row in rows]
    _name_parents(connection, found)
    return found


_FIRST_OWNER = """
SELECT owners.session_id
FROM spans JOIN responses USING (response) JOIN sessions owners ON owners.id = responses.session_id
WHERE spans.session_id = ? AND responses.session_id <> spans.session_id LIMIT 1
"""


def _name_parents(connection: sqlite3.Connection, sessions: Sequence[Session]) -> None:
    """Most forks do not say what they are a copy of; the session that owns what they share is it."""
    for session in sessions:
        if session.copied and session.parent is None:
            row = connection.execute(_FIRST_OWNER, (session.id,)).fetchone()
            session.parent = None if row is None else row[0]


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _session(connection: sqlite3.Connection, row: Sequence[Any], stale_minutes: int) -> Session:
    session = Session(**dict(zip(_SESSION_COLUMNS, row, strict=True)))
    session.copied = bool(session.copied)
    # Nobody logs their own death: a session that says nothing for long was interrupted.
    horizon = (time.time() - stale_minutes * 60) * 1_000_000
    if session.state == "working" and heard_of(connection, session) < horizon:
        session.state = "interrupted"
    return session


def heard_of(connection: sqlite3.Connection, session: Session) -> float:
    """When a session last said something; when that was recorded, where its lines have no times."""
    if session.last_at is not None:
        return session.last_at
    query = "SELECT max(processed_at) FROM processed_events WHERE session_id = ?"
    return (connection.execute(query, (session.id,)).fetchone()[0] or 0) * 1_000_000


_JOINED = """
SELECT whole.id FROM sessions part JOIN sessions whole ON whole.agent = part.agent AND whole.session_id = part.parent
WHERE part.id = ? AND part.events = 0 AND part.started_at IS NULL
"""


def find_sessions(connection: sqlite3.Connection, name: str, *, stale_minutes: int = 15) -> list[Session]:
    """Sessions whose id is ``name`` or begins with it, newest first; pruned ones (without events) too.

    A trace that is part of a session is found by its id, and the session is what comes back.
    """
    query = f"SELECT {_SESSION_LIST} FROM sessions s WHERE s.agent <> '' AND s.session_id"
    rows = connection.execute(f"{query} = ?", (name,)).fetchall()
    if not rows:
        rows = connection.execute(
            f"{query} LIKE ? ESCAPE '\\' ORDER BY s.last_at DESC LIMIT 20", (_like(name) + "%",)
        ).fetchall()
    if not rows and "session_" not in name:
        rows = connection.execute(
            f"{query} LIKE ? ESCAPE '\\' ORDER BY s.last_at DESC LIMIT 20", (f"session\\_{_like(name)}%",)
        ).fetchall()
    found = [_whole(connection, _session(connection, row, stale_minutes), stale_minutes) for row in rows]
    _name_parents(connection, found)
    return list({session.id: session for session in found}.values())


def joined_to(connection: sqlite3.Connection, number: int) -> int | None:
    """The session that a trace became part of, where its row is only the note of that."""
    row = connection.execute(_JOINED, (number,)).fetchone()
    return None if row is None else int(row[0])


def _whole(connection: sqlite3.Connection, session: Session, stale_minutes: int) -> Session:
    """The session itself, or the one that it became part of."""
    number = joined_to(connection, session.id) if session.events == 0 else None
    found = [] if number is None else sessions_by_number(connection, [number], stale_minutes=stale_minutes)
    return found[0] if found else session


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


# -- usage --------------------------------------------------------------------------------------------------------

_GROUPS = {
    "day": "u.day",
    "month": "substr(u.day, 1, 7)",
    "model": "u.model",
    "agent": "s.agent",
    "project": "coalesce(s.project, '')",
    "session": "s.session_id",
    "number": "CAST(u.session_id AS TEXT)",
    "total": "''",
}
_SUMS = ", ".join(f"sum(u.{name})" for name in ("requests", "estimated", "copies", *USAGE_FIELDS))


def usage_rows(
    connection: sqlite3.Connection,
    *,
    by: str = "total",
    split: str = "total",
    since_day: str | None = None,
    before_day: str | None = None,
    agents: Sequence[str] = (),
    projects: Sequence[str] = (),
    models: Sequence[str] = (),
) -> list[UsageRow]:
    """Tokens per group, part of the group, model, and what its price depends on; in the order of the groups.

    Of what is named, one must fit, where any is.
    """
    where, values = _usage_filter(since_day, before_day, {"agent": agents, "project": projects, "model": models})
    join = "JOIN sessions s ON s.id = u.session_id" if "s." in f"{_GROUPS[by]} {_GROUPS[split]} {where}" else ""
    rows = connection.execute(
        f"SELECT {_GROUPS[by]} AS whole, u.model, {_SUMS}, {_GROUPS[split]} AS part, u.day, u.variant "
        f"FROM usage_rollup u {join} WHERE {where} GROUP BY whole, part, u.model, u.day, u.variant "
        "ORDER BY whole, part, u.model, u.day, u.variant",
        values,
    )
    return list(map(_usage_row, rows))


def _usage_filter(
    since_day: str | None, before_day: str | None, named: Mapping[str, Sequence[str]]
) -> tuple[str, list[str]]:
    where, values = ["1"], []
    for test, day in (("u.day >= ?", since_day), ("u.day < ?", before_day)):
        if day is not None:
            where.append(test)
            values.append(day)
    for name, wanted in named.items():
        if wanted:
            where.append(f"{_GROUPS[name]} IN ({','.join('?' * len(wanted))})")
            values += wanted
    return " AND ".join(where), values


def _usage_row(row: Sequence[Any]) -> UsageRow:
    counts, place = row[5 : 5 + len(USAGE_FIELDS)], row[5 + len(USAGE_FIELDS) :]
    return UsageRow._make((*row[:5], _usage(counts), *place))


def _usage(counts: Sequence[int]) -> Usage:
    return Usage(**dict(zip(USAGE_FIELDS, counts, strict=True)))


def usage_by_session(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
    """Tokens per model of each of these sessions."""
    found: dict[int, list[UsageRow]] = {}
    for start in range(0, len(numbers), 500):
        part = numbers[start : start + 500]
        rows = connection.execute(
            f"SELECT u.session_id, u.model, {_SUMS}, '', u.day, u.variant FROM usage_rollup u "
            f"WHERE u.session_id IN ({','.join('?' * len(part))}) GROUP BY u.session_id, u.model, u.day, u.variant",
            part,
        )
        for row in rows:
            found.setdefault(row[0], []).append(_usage_row(("", *row[1:])))
    return found


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
    sessions: dict[int, Session] = {}
    hits = []
    by_number = dict(
        connection.execute(
            f"SELECT event_no, session_id FROM processed_events WHERE event_no IN ({','.join('?' * len(numbers))})",
            numbers,
        ).fetchall()
    )
    for line in raw_lines(connection, events=numbers):
        number = by_number[line.event_no]
        if number not in sessions:
            row = connection.execute(f"SELECT {_SESSION_LIST} FROM sessions s WHERE s.id = ?", (number,)).fetchone()
            if row is None:
                continue
            sessions[number] = _session(connection, row, 15)
        hits.append(SearchHit(line.event_no, sessions[number], line))
    return hits
