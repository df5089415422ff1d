"""Figures of tools and models over many sessions: calls, failures, percentiles of their durations."""

from __future__ import annotations

from typing import NamedTuple

from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.relations import COUNTED, SESSIONS, SPANS, chosen
from agenttrace.store.clickhouse.session_conditions import session_conditions
from agenttrace.store.insights import (
    CallOrder,
    InsightCall,
    InsightQuery,
    InsightSplit,
    ModelFigures,
    ToolFigures,
)

#: Sessions that may repeat what is in others.
_FORKED = chosen(SESSIONS, "id, copied, parent, born")
FORKS = f"""SELECT id FROM {_FORKED} WHERE copied OR parent IS NOT NULL
    OR born IN (SELECT born FROM {_FORKED} WHERE born IS NOT NULL GROUP BY born HAVING count() > 1)"""
#: Spans of forks whose response counts in another session.
ELSEWHERE = f"""SELECT o.{{columns}} FROM {chosen(SPANS, "*", f" AND session IN ({FORKS}) AND response IS NOT NULL")} o
    JOIN {chosen(COUNTED, "response, session")} r ON r.response = o.response WHERE r.session <> o.session"""

#: As the log says, or else from its times. Two equal times say nothing.
_DURATION = """if(status NOT IN ('ok', 'error'), NULL, coalesce(intDiv(duration, 1000),
    intDiv(nullIf(end - start, 0), 1000)))"""
_NO_SPAN = "toFixedString('', 8)"

PARTS: dict[InsightSplit, str] = {
    "total": "''",
    "agent": "w.agent",
    "project": "ifNull(w.project, '')",
    "machine": "ifNull(w.machine, '')",
    "person": "ifNull(w.person, '')",
}


class Scope(NamedTuple):
    """Which spans, as SQL."""

    #: Of the spans themselves.
    times: str
    #: Of their sessions.
    sessions: str
    values: Values


def scope_of(query: InsightQuery) -> Scope:
    """The time, agents and projects of a query; models are another matter for each kind of span."""
    found = session_conditions(query)
    times = ""
    if query.since is not None:
        times += " AND start >= :since"
        found.add("last_at >= :since", since=query.since)
    if query.until is not None:
        times += " AND start < :until"
        found.values["until"] = query.until
    sessions = f" AND session IN {chosen(SESSIONS, 'id', f' AND {found.where}')}" if found.tests else ""
    return Scope(times, sessions, found.values)


def model_test(column: str, query: InsightQuery, values: Values) -> str:
    """The models of a query as a test, whose values are added."""
    if not query.models:
        return ""
    values["models"] = sorted(query.models)
    return f" AND {column} IN :models"


# -- tools --------------------------------------------------------------------------------------------------------

_CALL_COLUMNS = ("session", "span_id", "parent_id", "trace_id", "start", "turn_index", "status", "tool", "error", "ms")
_CALLS = ", ".join(f"c.{name} AS {name}" for name in _CALL_COLUMNS)


def tool_scope(query: InsightQuery, split: InsightSplit = "total") -> tuple[str, Values]:
    """The tool calls of a query as a table, and its values."""
    times, sessions, values = scope_of(query)
    models = model_test("ifNull(p.model, '')", query, values)
    calls = chosen(SPANS, f"{', '.join(_CALL_COLUMNS[:-1])}, {_DURATION} AS ms", f" AND kind = 'tool'{sessions}{times}")
    asked = chosen(SPANS, "session, span_id, model", f" AND kind <> 'tool'{sessions}")
    joins = (
        f" LEFT JOIN {asked} p ON p.session = c.session AND p.span_id = c.parent_id"
        if models or split == "model"
        else ""
    )
    part = "ifNull(p.model, '')" if split == "model" else PARTS[split]
    if part.startswith(("w.", "ifNull(w.")):
        joins += f" JOIN {chosen(SESSIONS, 'id, agent, project, machine, person')} w ON w.id = c.session"
    copied = ELSEWHERE.format(columns="session, o.span_id")
    where = f"(c.session, ifNull(c.parent_id, {_NO_SPAN})) NOT IN ({copied}){models}"
    return f"(SELECT {_CALLS}, {part} AS part FROM {calls} c{joins} WHERE {where})", values


_FIGURES = """uniqExact(session) AS sessions, max(start) AS last_at, arraySort(groupArray(ms)) AS lengths,
    length(lengths) AS timed"""
_NEAREST = "if(timed = 0, NULL, lengths[intDiv(timed * {} + 99, 100)])"
_P50, _P95, _MAX = (_NEAREST.format(hundredths) for hundredths in (50, 95, 100))


def tool_figures(database: Database, query: InsightQuery, split: InsightSplit) -> list[ToolFigures]:
    """The tools of the calls that match, in the order of their names."""
    calls, values = tool_scope(query, split)
    rows = database.rows(
        f"SELECT tool, part, calls, failures, cancelled, sessions, last_at, timed, "
        f"if(timed = 0, NULL, arraySum(lengths)), {_P50}, {_P95}, {_MAX} FROM ("
        "SELECT tool, part, count() AS calls, countIf(status = 'error') AS failures, "
        f"countIf(status = 'cancelled') AS cancelled, {_FIGURES} FROM {calls} GROUP BY tool, part) ORDER BY tool, part",
        **values,
    )
    return [ToolFigures._make(row) for row in rows]


# -- models -------------------------------------------------------------------------------------------------------

#: A model call is over when it asked for its last tool, although its log may close it with the results. Where tools
#: were asked for after the first one had ended, the first one counts.
_ANSWERED = """multiIf(c.status <> 'ok', NULL, t.last IS NULL, c.end, t.done IS NULL OR t.last <= t.done, t.last,
    t.first) - c.start"""


def call_table(query: InsightQuery, split: InsightSplit = "total") -> tuple[str, Values]:
    """The model calls of a query as a table, and its values."""
    times, sessions, values = scope_of(query)
    models = model_test("model", query, values)
    steps = chosen(
        SPANS,
        "session, span_id, trace_id, start, end, status, turn_index, model, response, error",
        f" AND kind = 'step'{sessions}{times}",
    )
    asked = chosen(SPANS, "session, parent_id, start, end", f" AND kind = 'tool'{sessions} AND parent_id IS NOT NULL")
    tools = (
        f"(SELECT session, parent_id, min(start) AS first, max(start) AS last, min(end) AS done FROM {asked} "
        "GROUP BY session, parent_id)"
    )
    told = chosen(COUNTED, "response, session, model, output_tokens, estimated")
    part = PARTS.get(split, "''")
    of_session = (
        f"JOIN {chosen(SESSIONS, 'id, agent, project, machine, person')} w ON w.id = c.session" if "w." in part else ""
    )
    return (
        f"""(SELECT c.session AS session, c.span_id AS span_id, c.trace_id AS trace_id, c.start AS start,
    c.status AS status, c.turn_index AS turn_index, c.error AS error, coalesce(r.model, c.model, '') AS model,
    r.output_tokens AS output_tokens, ifNull(r.estimated, false) AS estimated, {_ANSWERED} AS length,
    if(length > 0, intDiv(length, 1000), NULL) AS ms, {part} AS part
FROM {steps} c LEFT JOIN {tools} t ON t.session = c.session AND t.parent_id = c.span_id
    LEFT JOIN {told} r ON r.response = c.response {of_session}
WHERE (r.session IS NULL OR r.session = c.session){models})""",
        values,
    )


_WRITTEN = "ms IS NOT NULL AND output_tokens > 0 AND NOT estimated"


def model_figures(database: Database, query: InsightQuery, split: InsightSplit) -> list[ModelFigures]:
    """The models of the calls that match, in the order of their names."""
    calls, values = call_table(query, split)
    rows = database.rows(
        f"SELECT model, part, calls, errors, sessions, turns, last_at, timed, {_P50}, {_P95}, {_MAX}, "
        "written, writing FROM (SELECT model, part, count() AS calls, countIf(status = 'error') AS errors, "
        f"uniqExact(trace_id) AS turns, {_FIGURES}, ifNull(sumIf(output_tokens, {_WRITTEN}), 0) AS written, "
        f"ifNull(sumIf(ms, {_WRITTEN}), 0) AS writing FROM {calls} GROUP BY model, part) ORDER BY model, part",
        **values,
    )
    return [ModelFigures._make(row) for row in rows]


# -- the calls behind the figures ---------------------------------------------------------------------------------

_ORDERS: dict[CallOrder, str] = {
    "failed": "status = 'error' ORDER BY start DESC, span_id",
    "slow": "ms IS NOT NULL ORDER BY ms DESC, start DESC, span_id",
}
CALL = "session, span_id, start, turn_index, ms, status, error"


def tool_calls(database: Database, query: InsightQuery, tool: str, order: CallOrder, limit: int) -> list[InsightCall]:
    """The latest failures of a tool, or its longest calls."""
    calls, values = tool_scope(query)
    rows = database.rows(
        f"SELECT {CALL} FROM {calls} WHERE tool = :tool AND {_ORDERS[order]} LIMIT :limit",
        **values,
        tool=tool,
        limit=limit,
    )
    return [InsightCall._make(row) for row in rows]


def model_calls(database: Database, query: InsightQuery, order: CallOrder, limit: int) -> list[InsightCall]:
    """The latest failures of the models of a query, or their longest calls."""
    calls, values = call_table(query)
    rows = database.rows(f"SELECT {CALL} FROM {calls} WHERE {_ORDERS[order]} LIMIT :limit", **values, limit=limit)
    return [InsightCall._make(row) for row in rows]
