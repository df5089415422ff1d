"""Reading the store: sessions, spans, usage, raw lines. Lists come from roll-ups and never load bodies."""

from __future__ import annotations

import sqlite3
import time
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import zstandard

from agenttrace.model import Session, Usage

USAGE_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
)
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
    sessions = (_session(row, stale_minutes) for row in rows)
    found: list[Session] = []
    for session in sessions:
        if state is None or session.state == state:
            found.append(session)
        if limit is not None and len(found) >= limit:
            break
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


def _session(row: Sequence[Any], stale_minutes: int) -> Session:
    session = Session(**dict(zip(_SESSION_COLUMNS, row, strict=True)))
    session.copied = bool(session.copied)
    # Nobody logs their own death: a session that says nothing for long was interrupted.
    horizon = (time.time() - stale_minutes * 60) * 1_000_000
    if session.state == "working" and session.last_at is not None and session.last_at < horizon:
        session.state = "interrupted"
    return session


def find_sessions(connection: sqlite3.Connection, name: str, *, stale_minutes: int = 15) -> list[Session]:
    """Sessions whose id is ``name`` or begins with it, newest first; pruned ones (without events) too."""
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
    found = [_session(row, stale_minutes) for row in rows]
    _name_parents(connection, found)
    return found


# -- spans --------------------------------------------------------------------------------------------------------

_SPANS = f"""
SELECT spans.span_id, trace_id, parent_id, stream, kind, name, start, "end", status, spans.model, turn_index,
    step_n, attributes, {", ".join(f"responses.{name}" for name in USAGE_FIELDS)},
    responses.session_id IS NULL OR responses.session_id = spans.session_id, responses.estimated
FROM spans LEFT JOIN responses USING (response)
WHERE spans.session_id = ? ORDER BY spans.span_no
"""


def session_spans(connection: sqlite3.Connection, session: Session) -> list[SpanView]:
    """All spans of a session in order of start, subagents under the tool calls that started them."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    spans = []
    for row in connection.execute(_SPANS, (session.id,)):
        spans.append(
            SpanView(
                span_id=row[0],
                trace_id=row[1],
                parent_id=row[2],
                stream=row[3],
                kind=row[4],
                name=row[5],
                start=row[6],
                end=row[7],
                status=row[8],
                model=row[9],
                turn_index=row[10],
                step_n=row[11],
                attributes=decode(row[12]) if row[12] else {},
                usage=None if row[13] is None else _usage(row[13:19]),
                counted=bool(row[19]),
                estimated=bool(row[20]),
            )
        )
    _join_subagents(connection, session.id, spans)
    spans.sort(key=lambda span: (span.start, span.turn_index, _DEPTH[span.kind]))
    return spans


_DEPTH = {"turn": 0, "step": 1, "tool": 2}


def _join_subagents(connection: sqlite3.Connection, number: int, spans: list[SpanView]) -> None:
    """Hang the turns of each subagent under its tool call; they join its trace."""
    links = {
        stream: (parent, call)
        for stream, parent, call in connection.execute(
            "SELECT stream, parent_stream, call FROM links WHERE session_id = ?", (number,)
        )
    }
    if not links:
        return
    calls: dict[tuple[str, str], SpanView] = {}
    for span in spans:
        if span.kind == "tool":
            calls[(span.stream, span.attributes.get("call", ""))] = span
            calls.setdefault(("", span.attributes.get("call", "")), span)
    parents: dict[bytes, SpanView] = {}
    for span in spans:
        if span.kind == "turn" and span.stream in links:
            stream, call = links[span.stream]
            parent = calls.get((stream, call)) or calls.get(("", call))
            if parent is not None and parent.stream != span.stream:
                span.parent_id = parent.span_id
                parents[span.trace_id] = parent
    for span in spans:
        if span.trace_id in parents:
            _end_with_call(span, parents[span.trace_id])
    for span in spans:
        span.trace_id = _root_trace(span.trace_id, parents)


def _end_with_call(span: SpanView, call: SpanView) -> None:
    """Work of a subagent whose log stops short was done when its call was answered."""
    if span.status == "open" and call.end is not None and call.status in ("ok", "error", "cancelled"):
        span.end, span.status = max(call.end, span.start), call.status
        span.attributes["closed_by"] = "result of its call"


def _root_trace(trace: bytes, parents: dict[bytes, SpanView]) -> bytes:
    for _ in range(64):  # links that lead in a circle must not hang the reader
        parent = parents.get(trace)
        if parent is None:
            break
        trace = parent.trace_id
    return trace


# -- usage --------------------------------------------------------------------------------------------------------

_GROUPS = {
    "day": "u.day",
    "month": "substr(u.day, 1, 7)",
    "model": "u.model",
    "agent": "s.agent",
    "project": "coalesce(s.project, '')",
    "session": "s.session_id",
    "total": "''",
}


def usage_rows(
    connection: sqlite3.Connection, *, by: str = "total", since_day: str | None = None, session: int | None = None
) -> list[UsageRow]:
    """Tokens per group and model, in order of the group."""
    where: list[str] = []
    values: list[str | int] = []
    if since_day is not None:
        where.append("u.day >= ?")
        values.append(since_day)
    if session is not None:
        where.append("u.session_id = ?")
        values.append(session)
    sums = ", ".join(f"sum(u.{name})" for name in ("requests", "estimated", "copies", *USAGE_FIELDS))
    join = "JOIN sessions s ON s.id = u.session_id" if "s." in _GROUPS[by] else ""
    rows = connection.execute(
        f"SELECT {_GROUPS[by]} AS part, u.model, {sums} FROM usage_rollup u {join} "
        f"{'WHERE ' + ' AND '.join(where) if where else ''} GROUP BY part, u.model ORDER BY part, u.model",
        values,
    )
    return [_usage_row(row) for row in rows]


def _usage_row(row: Sequence[Any]) -> UsageRow:
    group, model, requests, estimated, copies = row[:5]
    return UsageRow(group, model, requests, estimated, copies, _usage(row[5:]))


def _usage(counts: Sequence[int]) -> Usage:
    return Usage(**dict(zip(USAGE_FIELDS, counts, strict=True)))


def usage_by_session(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
    """Tokens per model of each of these sessions."""
    found: dict[int, list[UsageRow]] = {}
    sums = ", ".join(f"sum({name})" for name in ("requests", "estimated", "copies", *USAGE_FIELDS))
    for start in range(0, len(numbers), 500):
        part = numbers[start : start + 500]
        rows = connection.execute(
            f"SELECT session_id, model, {sums} FROM usage_rollup "
            f"WHERE session_id IN ({','.join('?' * len(part))}) GROUP BY session_id, model",
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


def raw_lines(
    connection: sqlite3.Connection,
    *,
    session: int | None = None,
    events: Sequence[int] | None = None,
    after: int | None = None,
    limit: int = -1,
) -> Iterator[RawLine]:
    """Recorded lines: of a session in order, by number, or all after a number."""
    blocks = _Blocks(connection)
    if session is not None:
        where, order, values = "session_id = ?", "event_no", [session]
    elif events is not None:
        where, order, values = f"event_no IN ({','.join('?' * len(events))})", "event_no DESC", list(events)
    else:
        where, order, values = "event_no > ?", "event_no", [after or 0]
    for row in connection.execute(_LINES.format(where=where, order=order) + f" LIMIT {int(limit)}", values):
        event_no, event_type, span_id, turn_index, step_n, block_id, line_n = row
        block = blocks.get(block_id)
        if block is not None:
            place = (block.file_id, block.generation, block.offsets[line_n], block.lines[line_n])
            yield RawLine(event_no, event_type, span_id, turn_index, step_n, *place)


class _Block(NamedTuple):
    file_id: int
    generation: int
    offsets: array[int]
    lines: list[bytes]


class _Blocks:
    """Decompressed blocks, the latest few."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cache: dict[int, _Block | None] = {}

    def get(self, block_id: int) -> _Block | None:
        if block_id not in self._cache:
            if len(self._cache) >= 4:
                del self._cache[next(iter(self._cache))]
            self._cache[block_id] = self._load(block_id)
        return self._cache[block_id]

    def _load(self, block_id: int) -> _Block | None:
        row = self._connection.execute(
            "SELECT file_id, generation, offsets, data FROM raw_blocks WHERE block_id = ?", (block_id,)
        ).fetchone()
        if row is None:
            return None
        offsets = array("Q")
        offsets.frombytes(row[2])
        return _Block(row[0], row[1], offsets, zstandard.decompress(row[3]).split(b"\n"))


def file_sources(connection: sqlite3.Connection) -> dict[int, tuple[str, bytes | None]]:
    """Path and source of each file by its number."""
    rows = connection.execute("SELECT file_id, filepath, source FROM file_offsets")
    return {file_id: (path, source) for file_id, path, source in rows}


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
            sessions[number] = _session(row, 15)
        hits.append(SearchHit(line.event_no, sessions[number], line))
    return hits
