"""Spans as rows of the store, joined across streams: what a list of views and what columns of figures are made of.

A subagent writes a stream of its own. Where a link says which tool call it carries out, its turns hang under that call,
and what its log left open ends with the call. What is left open in a session that is over ends with its last event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from agenttrace.model import Session
from agenttrace.store.questions import MAIN_STREAM, SpanPlace, SpanView
from agenttrace.store.questions import NOT_IN_LOG as NOT_IN_LOG
from agenttrace.store.questions import SpanRow as SpanRow

USAGE_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "web_searches",
)

MAIN = MAIN_STREAM
_PORTION = 500
#: Links may lead in a circle, which must not hang the reader.
_DEEPEST = 64

_ROWS = f"""
SELECT spans.span_id, trace_id, parent_id, stream, kind, name, start, "end", status, spans.model, turn_index, step_n,
    {{attributes}}, changed, responses.model, {", ".join(f"responses.{name}" for name in USAGE_FIELDS)},
    responses.session_id IS NULL OR responses.session_id = spans.session_id, responses.estimated, FALSE,
    responses.day, responses.variant
FROM spans LEFT JOIN responses USING (response)
WHERE spans.session_id = :session AND ({{where}})
ORDER BY start, turn_index, CASE kind WHEN 'turn' THEN 0 WHEN 'step' THEN 1 ELSE 2 END, span_no
{{part}}
"""

#: What changed, what lines were written about, and what a change of a subagent's call may reach.
_CHANGED = """
changed > :after
OR spans.span_id IN (SELECT span_id FROM processed_events WHERE event_no > :after AND +session_id = :session)
OR (kind = 'turn' OR status = 'open') AND stream IN (SELECT stream FROM links WHERE session_id = :session)
"""

_TOUCHED = "SELECT DISTINCT span_id FROM processed_events WHERE event_no > ? AND +session_id = ?"

#: The turns of subagents, and the calls that they may carry out.
_LINKED = """
SELECT span_id, trace_id, parent_id, stream, kind, start, "end", status,
    iif(kind = 'tool', json_extract(attributes, '$.call'), NULL) AS call
FROM spans
WHERE session_id = :session AND (
    kind = 'turn' AND stream IN (SELECT stream FROM links WHERE session_id = :session)
    OR kind = 'tool' AND call IN (SELECT call FROM links WHERE session_id = :session)
)
ORDER BY start, span_no
"""


_BY_CALL, _BY_END = 1, 2
#: What is said of a span for each.
ENDED_BY = {_BY_CALL: "result of its call", _BY_END: "end of the log"}

#: When the last thing happened in each stream.
_LAST = 'SELECT stream, max(coalesce("end", start)) FROM spans WHERE session_id = ? GROUP BY stream'


def over_at(session: Session) -> int | None:
    """When a session's last event was, where no more can be expected: it ended, or was silent for long."""
    return (session.last_at or 0) if session.state in ("ended", "interrupted") else None


class _Linked(NamedTuple):
    """A turn of a subagent, or a call that one carries out."""

    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    stream: str
    kind: str
    start: int
    end: int | None
    status: str
    call: str | None


class Subagents:
    """The tool calls under which the streams of a session's subagents hang, and the end of what was left open.

    ``over``: when the session's last event was, where it is over.
    """

    def __init__(self, connection: sqlite3.Connection, session: int, over: int | None = None) -> None:
        self._ends: dict[str, int] = {}
        if over is not None:
            self._ends = dict(connection.execute(_LAST, (session,)).fetchall()) | {MAIN: over}
        #: The call that a trace belongs to, by trace.
        self._calls: dict[bytes, _Linked] = {}
        query = "SELECT stream, parent_stream, call FROM links WHERE session_id = ?"
        self._links = {row[0]: (row[1], row[2]) for row in connection.execute(query, (session,))}
        if self._links:
            rows = connection.execute(_LINKED, {"session": session})
            self._connect(list(map(_Linked._make, rows)))

    def _connect(self, rows: Sequence[_Linked]) -> None:
        calls: dict[tuple[str, str], _Linked] = {}
        for row in rows:
            if row.call is not None:
                calls[(row.stream, row.call)] = row
                calls.setdefault(("", row.call), row)
        for row in rows:
            if row.kind == "turn":
                stream, call = self._links[row.stream]
                # A workflow's agents name its run, and the run is linked to the call.
                stream, call = self._links.get(call, (stream, call))
                found = calls.get((stream, call)) or calls.get(("", call))
                if found is not None and found.stream != row.stream:
                    self._calls[row.trace_id] = found

    def joined(self, row: SpanRow) -> SpanRow:
        """The row under its call, in that call's trace, and ended with it, or with the session."""
        call = self._calls.get(row.trace_id)
        if call is not None:
            if row.kind == "turn":
                row = row._replace(parent_id=call.span_id)
            if row.status == "open":
                row = self._ended(row, call)
            row = row._replace(trace_id=self.root_trace(row.trace_id))
        if row.status == "open" and row.stream in self._ends:
            end = max(self._ends[row.stream], row.start)
            row = row._replace(end=end, status="unclosed", ended_by=_BY_END)
        return row

    def _ended(self, row: SpanRow, call: _Linked) -> SpanRow:
        """Work of a subagent whose log stops short was done when its call was answered."""
        for _ in range(_DEEPEST):
            if call.end is not None and call.status in ("ok", "error", "cancelled"):
                return row._replace(end=max(call.end, row.start), status=call.status, ended_by=_BY_CALL)
            above = self._calls.get(call.trace_id)
            if above is None or call.status != "open":
                break
            call = above  # which ends this call as well
        return row

    def root_trace(self, trace: bytes) -> bytes:
        """The trace of the turn that everything in this trace was done for."""
        for _ in range(_DEEPEST):
            call = self._calls.get(trace)
            if call is None:
                break
            trace = call.trace_id
        return trace

    def streams(self, fresh: Iterable[SpanRow]) -> set[str]:
        """The streams of subagents among those of these spans."""
        return {row.stream for row in fresh} & self._links.keys()

    def reach(self, row: SpanRow, streams: set[str], fresh: set[bytes]) -> bool:
        """Whether a span may show differently because of a fresh call above it, or because that was found only now."""
        stream, trace = row.stream, row.trace_id
        for _ in range(_DEEPEST):
            call = self._calls.get(trace)
            if call is None:
                break
            if stream in streams or call.span_id in fresh or call.parent_id in fresh:
                return True
            stream, trace = call.stream, call.trace_id
        return False


def stored_rows(
    connection: sqlite3.Connection,
    session: int,
    *,
    attributes: bool,
    where: str = "1",
    values: Mapping[str, object] = MappingProxyType({}),
    start: int = 0,
    limit: int = -1,
) -> Iterator[SpanRow]:
    """Spans as they are stored, in order of start; without ``attributes`` these are not read."""
    # SQLite sorts everything in less time than it takes to find many of the first; few are found sooner.
    part = "LIMIT :limit OFFSET :start" if limit >= 0 else ""
    query = _ROWS.format(attributes="attributes" if attributes else "NULL", where=where, part=part)
    bound = {"session": session, "start": start, "limit": limit, **values}
    return map(SpanRow._make, connection.execute(query, bound))


def session_rows(
    connection: sqlite3.Connection, session: Session, *, attributes: bool, start: int = 0, limit: int = -1
) -> Iterator[SpanRow]:
    """The spans of a session in order of start, subagents under the tool calls that started them."""
    subagents = Subagents(connection, session.id, over_at(session))
    return map(subagents.joined, stored_rows(connection, session.id, attributes=attributes, start=start, limit=limit))


def some_rows(
    connection: sqlite3.Connection, session: int, wanted: Sequence[bytes], subagents: Subagents, *, attributes: bool
) -> dict[bytes, SpanRow]:
    """These spans of a session by id, as far as it has them."""
    values = {f"span{number}": span_id for number, span_id in enumerate(wanted)}
    where = f"spans.span_id IN ({', '.join(f':{name}' for name in values)})"
    rows = stored_rows(connection, session, attributes=attributes, where=where, values=values)
    return {row.span_id: subagents.joined(row) for row in rows}


def changed_rows(connection: sqlite3.Connection, whose: Session, after: int) -> list[SpanRow]:
    """The spans that are not what they were when ``after`` was the last event, or that lines since then belong to."""
    session = whose.id
    touched = {row[0] for row in connection.execute(_TOUCHED, (after, session))}
    if not touched:
        return []  # nothing of this session was written since
    rows = list(stored_rows(connection, session, attributes=False, where=_CHANGED, values={"after": after}))
    fresh = touched | {row.span_id for row in rows if row.changed > after}
    subagents = Subagents(connection, session, over_at(whose))
    streams = subagents.streams(row for row in rows if row.span_id in fresh)
    return [subagents.joined(row) for row in rows if row.span_id in fresh or subagents.reach(row, streams, fresh)]


# -- as they are shown --------------------------------------------------------------------------------------------


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


# -- where they stand ---------------------------------------------------------------------------------------------


def span_places(connection: sqlite3.Connection, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
    """The places of these spans, as far as the session has them."""
    found: dict[bytes, SpanPlace] = {}
    for start in range(0, len(wanted), _PORTION):
        part = wanted[start : start + _PORTION]
        rows = connection.execute(
            "SELECT span_id, kind, parent_id, turn_index, step_n FROM spans "
            f"WHERE session_id = ? AND span_id IN ({','.join('?' * len(part))})",
            (session, *part),
        )
        found.update((row[0], SpanPlace._make(row)) for row in rows)
    return found


def span_name(connection: sqlite3.Connection, session: int, span_id: bytes | None) -> str | None:
    """The name of a span, such as ``execute_tool Bash``; ``None`` where the session has no such span."""
    query = "SELECT name FROM spans WHERE session_id = ? AND span_id = ?"
    row = None if span_id is None else connection.execute(query, (session, span_id)).fetchone()
    return None if row is None else str(row[0])


def tool_names(connection: sqlite3.Connection, session: int, after: int) -> tuple[int, dict[str, str]]:
    """The names of the tools by call, of the tool calls stored after a place; and the place of the last of them."""
    rows = connection.execute(
        "SELECT span_no, json_extract(attributes, '$.call'), json_extract(attributes, '$.tool') FROM spans "
        "WHERE session_id = ? AND span_no > ? AND kind = 'tool' ORDER BY span_no",
        (session, after),
    ).fetchall()
    return (rows[-1][0] if rows else after), {call: tool for _, call, tool in rows}


def spans_revision(connection: sqlite3.Connection, session: int) -> tuple[int | None, ...]:
    """Differs when a span of the session was added or changed."""
    query = "SELECT count(*), max(span_no), max(changed) FROM spans WHERE session_id = ?"
    found: tuple[int | None, ...] = connection.execute(query, (session,)).fetchone()
    return found


#: With the counts of the session's row, all that its spans are shown with.
_FIGURES = """
SELECT count(*), sum(requests), sum(estimated), sum(copies), sum(input_tokens), sum(output_tokens),
    sum(cache_read_tokens), sum(cache_write_tokens), sum(cache_write_1h_tokens),
    (SELECT count(*) FROM links WHERE session_id = :session)
FROM usage_rollup WHERE session_id = :session
"""


def figures_revision(connection: sqlite3.Connection, session: int) -> tuple[int | None, ...]:
    """Differs when tokens of the session's spans are counted elsewhere, or a subagent was linked to its call."""
    found: tuple[int | None, ...] = connection.execute(_FIGURES, {"session": session}).fetchone()
    return found
