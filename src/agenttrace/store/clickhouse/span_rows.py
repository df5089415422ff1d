"""The spans of a session with their tokens: see ``store.span_tree`` for subagents.

A session is one range of the key, which is read whole; what its responses used is read apart from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agenttrace.model import USAGE_FIELDS, Session
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.relations import COUNTED, EVENTS, LINKS, SPANS, USAGE, chosen, settled
from agenttrace.store.questions import MAIN_STREAM, SpanPlace, SpanRow
from agenttrace.store.span_tree import LinkedSpan, StoredTraces, Subagents, over_at

_ROWS = f"""
SELECT span_id, trace_id, parent_id, stream, kind, name, start, end, status, model, turn_index, step_n, {{attributes}},
    changed, response
FROM {SPANS} WHERE session = :session{{where}}
ORDER BY start, turn_index, multiIf(kind = 'turn', 0, kind = 'step', 1, 2), number{{part}}
"""
_CHANGED = f"""
 AND (changed > :after OR span_id IN :touched
    OR (kind = 'turn' OR status = 'open') AND stream IN {chosen(LINKS, "stream", " AND session = :session")})
"""
_TOUCHED = f"SELECT DISTINCT span_id FROM {EVENTS} WHERE session = :session AND number > :after"

#: The turns of subagents, and the calls that they may carry out.
_LINKED = f"""
SELECT span_id, trace_id, parent_id, stream, kind, start, end, status, if(kind = 'tool', call, NULL) FROM {SPANS}
WHERE session = :session AND (kind = 'turn' AND stream IN :streams OR kind = 'tool' AND call IN :calls)
ORDER BY start, number
"""
#: When the last thing happened in each stream.
_LAST = f"SELECT stream, max(ifNull(end, start)) FROM {SPANS} WHERE session = :session GROUP BY stream"
_PLACES = f"""
SELECT span_id, kind, parent_id, turn_index, step_n FROM {SPANS} WHERE session = :session AND span_id IN :wanted
"""
_LINKS = f"SELECT stream, parent_stream, call FROM {LINKS} WHERE session = :session"

_ID_BYTES = 8
_TOKENS = ", ".join(USAGE_FIELDS)
_TOLD = f"SELECT response, session, model, {_TOKENS}, estimated, day, variant FROM "
#: Model, tokens, whether they count in the session, whether they are a placeholder, day and variant.
_Told = tuple[Any, ...]
_NOTHING: _Told = (None,) * (1 + len(USAGE_FIELDS)) + (1, None, None, None)


def _ids(wanted: Iterable[bytes]) -> list[bytes]:
    """Those that can be ids of spans: ClickHouse refuses to compare others."""
    return [span_id for span_id in wanted if len(span_id) == _ID_BYTES]


# -- subagents ----------------------------------------------------------------------------------------------------


def subagents_of(database: Database, session: int, over: int | None = None) -> Subagents:
    """Which tool calls the subagents of a session belong to; ``over``: when it ended, where it did."""
    ends = {} if over is None else dict(database.rows(_LAST, session=session)) | {MAIN_STREAM: over}
    links = {row[0]: (row[1], row[2]) for row in database.rows(_LINKS, session=session)}
    place = {"streams": list(links), "calls": sorted({call for _, call in links.values()})}
    linked = database.rows(_LINKED, session=session, **place) if links else []
    return Subagents(links, list(map(LinkedSpan._make, linked)), ends)


# -- rows ---------------------------------------------------------------------------------------------------------


def _stored_rows(
    database: Database,
    session: int,
    *,
    attributes: bool,
    where: str = "",
    part: str = "",
    values: Values | None = None,
) -> list[tuple[SpanRow, bytes | None]]:
    """Spans as they are stored, each with the key of its response; in order of start."""
    statement = _ROWS.format(attributes="attributes" if attributes else "NULL", where=where, part=part)
    rows = database.rows(statement, session=session, **(values or {}))
    told = _told(database, session, {row[-1] for row in rows if row[-1] is not None}, whole=not where and not part)
    return [(_row(row, told), row[-1]) for row in rows]


def _row(row: Sequence[Any], told: Mapping[bytes, _Told]) -> SpanRow:
    model, *tokens, counted, estimated, day, variant = told.get(row[-1], _NOTHING)
    return SpanRow._make((*row[:-1], model, *tokens, counted, estimated, 0, day, variant))


def _told(database: Database, session: int, keys: set[bytes], *, whole: bool) -> dict[bytes, _Told]:
    """What is known of responses of a session: most of them it owns, and only others are looked up by their keys."""
    if not keys:
        return {}
    where = " WHERE session = :session" + ("" if whole else " AND response IN :keys")
    rows = database.rows(_TOLD + COUNTED + where, session=session, keys=keys)
    if others := keys - {row[0] for row in rows}:
        rows += database.rows(_TOLD + settled(":keys"), keys=others)
    return {row[0]: (*row[2:-3], int(row[1] == session), *row[-3:]) for row in rows}


def session_rows(
    database: Database, session: Session, *, attributes: bool, start: int = 0, limit: int = -1
) -> Iterator[SpanRow]:
    """The spans of a session in order of start, subagents under the tool calls that started them."""
    subagents = subagents_of(database, session.id, over_at(session))
    part = f" LIMIT {int(limit)} OFFSET {int(start)}" if limit >= 0 else f" OFFSET {int(start)}" if start else ""
    for row, _ in _stored_rows(database, session.id, attributes=attributes, part=part):
        yield subagents.joined(row)


def some_rows(
    database: Database, session: int, wanted: Iterable[bytes], subagents: Subagents, *, attributes: bool
) -> dict[bytes, SpanRow]:
    """These spans of a session by id, as far as it has them."""
    rows = _stored_rows(
        database, session, attributes=attributes, where=" AND span_id IN :wanted", values={"wanted": _ids(wanted)}
    )
    return {row.span_id: subagents.joined(row) for row, _ in rows}


def changed_rows(database: Database, whose: Session, after: int) -> list[SpanRow]:
    """The spans that are not what they were when ``after`` was the last event, or that later lines belong to."""
    touched = {row[0] for row in database.rows(_TOUCHED, session=whose.id, after=after)}
    if not touched:
        return []  # nothing of this session was written since
    named = [span_id for span_id in touched if span_id is not None]
    values = {"after": after, "touched": named}
    rows = _stored_rows(database, whose.id, attributes=False, where=_CHANGED, values=values)
    return subagents_of(database, whose.id, over_at(whose)).changed([row for row, _ in rows], touched, after)


def session_traces(database: Database, session: int) -> StoredTraces:
    """Everything of a session but attributes and texts."""
    subagents = subagents_of(database, session)
    rows = _stored_rows(database, session, attributes=False)
    first: dict[bytes, tuple[int, bytes]] = {}
    for row, response in rows:
        if response is not None and row.counted and row.day is not None:
            first[response] = min(first.get(response, (row.start, row.span_id)), (row.start, row.span_id))
    payers = {span_id for _, span_id in first.values()}
    return StoredTraces(session, {row.span_id: subagents.joined(row) for row, _ in rows}, payers, subagents)


# -- where they stand ---------------------------------------------------------------------------------------------


def span_places(database: Database, session: int, wanted: Sequence[bytes]) -> dict[bytes, SpanPlace]:
    """The places of these spans, as far as the session has them."""
    rows = database.rows(_PLACES, session=session, wanted=_ids(wanted))
    return {row[0]: SpanPlace._make(row) for row in rows}


def span_name(database: Database, session: int, span_id: bytes | None) -> str | None:
    """The name of a span, such as ``execute_tool Bash``; ``None`` where the session has no such span."""
    query = f"SELECT name FROM {SPANS} WHERE session = :session AND span_id IN :wanted"
    found = None if span_id is None else database.value(query, session=session, wanted=_ids([span_id]))
    return None if found is None else str(found)


def tool_names(database: Database, session: int, after: int) -> tuple[int, dict[str, str]]:
    """The names of the tools by call, of the tool calls stored after a place; and the place of the last of them."""
    rows = database.rows(
        f"SELECT number, call, tool FROM {SPANS} WHERE session = :session AND number > :after AND kind = 'tool' "
        "ORDER BY number",
        session=session,
        after=after,
    )
    return (rows[-1][0] if rows else after), {call: tool for _, call, tool in rows}


def spans_revision(database: Database, session: int) -> tuple[int | None, ...]:
    """Differs when a span of the session was added or changed."""
    query = f"SELECT count(), max(number), max(changed) FROM {SPANS} WHERE session = :session"
    return database.rows(query, session=session)[0]


#: With the counts of the session's row, all that its spans are shown with.
_FIGURES = f"""
SELECT count(), sum(requests), sum(estimated), sum(copies), {", ".join(f"sum({name})" for name in USAGE_FIELDS)},
    (SELECT count() FROM {LINKS} WHERE session = :session)
FROM {USAGE} WHERE session = :session
"""


def figures_revision(database: Database, session: int) -> tuple[int | None, ...]:
    """Differs when tokens of the session's spans are counted elsewhere, or a subagent was linked to its call."""
    return database.rows(_FIGURES, session=session)[0]
