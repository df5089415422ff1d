"""The spans of a session as rows, with their tokens: see ``store.span_tree`` for subagents."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from agenttrace.model import USAGE_FIELDS, Session
from agenttrace.store.questions import MAIN_STREAM, SpanPlace, SpanView
from agenttrace.store.questions import NOT_IN_LOG as NOT_IN_LOG
from agenttrace.store.questions import SpanRow as SpanRow
from agenttrace.store.span_tree import LinkedSpan, Subagents, over_at
from agenttrace.store.sqlite.database import marks, portions

MAIN = MAIN_STREAM

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


#: When the last thing happened in each stream.
_LAST = 'SELECT stream, max(coalesce("end", start)) FROM spans WHERE session_id = ? GROUP BY stream'


def subagents_of(connection: sqlite3.Connection, session: int, over: int | None = None) -> Subagents:
    """Which tool calls the subagents of a session belong to; ``over``: when it ended, where it did."""
    ends = {} if over is None else dict(connection.execute(_LAST, (session,)).fetchall()) | {MAIN: over}
    query = "SELECT stream, parent_stream, call FROM links WHERE session_id = ?"
    links = {row[0]: (row[1], row[2]) for row in connection.execute(query, (session,))}
    linked = connection.execute(_LINKED, {"session": session}) if links else ()
    return Subagents(links, list(map(LinkedSpan._make, linked)), ends)


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
    subagents = subagents_of(connection, session.id, over_at(session))
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
    return subagents_of(connection, session, over_at(whose)).changed(rows, touched, after)


# -- as they are shown --------------------------------------------------------------------------------------------


def session_spans(connection: sqlite3.Connection, session: Session) -> list[SpanView]:
    """All spans of a session in order of start, subagents under the tool calls that started them."""
    return [SpanView.of(row) for row in session_rows(connection, session, attributes=True)]


# -- where they stand ---------------------------------------------------------------------------------------------


def span_places(connection: sqlite3.Connection, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
    """The places of these spans, as far as the session has them."""
    found: dict[bytes, SpanPlace] = {}
    query = "SELECT span_id, kind, parent_id, turn_index, step_n FROM spans WHERE session_id = ? AND span_id IN "
    for part in portions(wanted):
        rows = connection.execute(query + marks(part), (session, *part))
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
