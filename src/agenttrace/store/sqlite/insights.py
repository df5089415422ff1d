"""Figures of tools and models over many sessions: calls, failures, percentiles of their durations.

Each question is a scan of the spans and one sort or two, without a look at lines. Durations are grouped by millisecond
before they are ranked: what is exact for milliseconds needs no ranking of a million rows.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from agenttrace.store.insights import (
    CallOrder,
    InsightCall,
    InsightQuery,
    InsightSplit,
    ModelFigures,
    ToolFigures,
)
from agenttrace.store.sqlite.session_conditions import session_conditions

#: The tool of a tool call ``c``; spans of other programs have names of their own.
TOOL = """CASE WHEN substr(c.name, 1, 13) = 'execute_tool ' THEN substr(c.name, 14)
    ELSE coalesce(json_extract(c.attributes, '$.tool'), c.name) END"""
#: How long a tool call took: as the log says, or else from its times. Two equal times say nothing.
DURATION = """CASE WHEN c.status NOT IN ('ok', 'error') THEN NULL
    WHEN instr(c.attributes, '"duration"') > 0 THEN coalesce(json_extract(c.attributes, '$.duration') / 1000,
        nullif(c."end" - c.start, 0) / 1000)
    ELSE nullif(c."end" - c.start, 0) / 1000 END"""

FORKS = """SELECT id FROM sessions WHERE copied OR parent IS NOT NULL OR born IN (
    SELECT born FROM sessions WHERE born IS NOT NULL GROUP BY born HAVING count(*) > 1)"""
#: Tool calls of a fork whose model call counts in another session are a copy.
_NOT_COPIED = f"""(c.session_id NOT IN ({FORKS}) OR NOT EXISTS (
    SELECT 1 FROM spans o JOIN responses r ON r.response = o.response
    WHERE o.session_id = c.session_id AND o.span_id = c.parent_id AND r.session_id <> c.session_id))"""

_ASKER = "LEFT JOIN spans p ON p.session_id = c.session_id AND p.span_id = c.parent_id"
_OF_SESSION = "JOIN sessions w ON w.id = c.session_id"
_TOOL_PARTS: dict[InsightSplit, tuple[str, str]] = {
    "total": ("''", ""),
    "agent": ("w.agent", _OF_SESSION),
    "project": ("coalesce(w.project, '')", _OF_SESSION),
    "model": ("coalesce(p.model, '')", _ASKER),
    "machine": ("coalesce(w.machine, '')", _OF_SESSION),
    "person": ("coalesce(w.person, '')", _OF_SESSION),
}

#: The table ``figures``, of rows with name, part, ms, failed, cancelled and start of calls.
_FIGURES = """
lengths AS MATERIALIZED (
    SELECT name, part, ms, count(*) AS calls, sum(failed) AS failures, sum(cancelled) AS cancelled,
        max(start) AS last_at
    FROM ({calls}) GROUP BY name, part, ms
),
counts AS MATERIALIZED (
    SELECT name, part, sum(calls) AS calls, sum(failures) AS failures, sum(cancelled) AS cancelled,
        max(last_at) AS last_at, sum(calls) FILTER (WHERE ms IS NOT NULL) AS timed, sum(calls * ms) AS total_ms,
        max(ms) AS max_ms
    FROM lengths GROUP BY name, part
),
ranks AS (
    SELECT name, part, ms, sum(calls) OVER (PARTITION BY name, part ORDER BY ms) AS upto FROM lengths
    WHERE ms IS NOT NULL
),
figures AS (
    SELECT c.name, c.part, c.calls, c.failures, c.cancelled, c.last_at, coalesce(c.timed, 0) AS timed, c.total_ms,
        min(r.ms) FILTER (WHERE r.upto * 100 >= c.timed * 50) AS p50_ms,
        min(r.ms) FILTER (WHERE r.upto * 100 >= c.timed * 95) AS p95_ms, c.max_ms
    FROM counts c LEFT JOIN ranks r ON r.name = c.name AND r.part = c.part GROUP BY c.name, c.part
)
"""


class Scope(NamedTuple):
    """Which spans ``c``, as SQL."""

    where: str
    values: dict[str, str | int]
    #: The part of it that whole sessions match.
    sessions: str = ""


def scope_of(query: InsightQuery) -> Scope:
    """The time, agents and projects of a query; models are another matter for each kind of span."""
    where, values = session_conditions(
        agents=query.agents,
        projects=query.projects,
        project_contains=query.project_contains,
        machines=query.machines,
        persons=query.persons,
    )
    times = ""
    if query.since is not None:
        times += " AND c.start >= :since"
        where += " AND s.last_at >= :since"
        values["since"] = query.since
    if query.until is not None:
        times += " AND c.start < :until"
        values["until"] = query.until
    sessions = f" AND c.session_id IN (SELECT s.id FROM sessions s WHERE TRUE{where})" if where else ""
    return Scope(times + sessions, values, sessions)


def tool_scope(query: InsightQuery) -> tuple[str, Scope]:
    """Joins and conditions of the tool calls ``c`` of a query."""
    where, values, _ = scope_of(query)
    models = model_test("coalesce(p.model, '')", query, values)
    return _ASKER if models else "", Scope(f"c.kind = 'tool'{where}{models} AND {_NOT_COPIED}", values)


def model_test(column: str, query: InsightQuery, values: dict[str, str | int]) -> str:
    """The models of a query as a test, whose values are added."""
    named = {f"model{number}": model for number, model in enumerate(sorted(query.models))}
    values |= named
    return f" AND {column} IN ({', '.join(f':{name}' for name in named)})" if named else ""


# -- tools --------------------------------------------------------------------------------------------------------

_TOOLS = """SELECT {tool} AS name, {part} AS part, {duration} AS ms, c.status = 'error' AS failed,
    c.status = 'cancelled' AS cancelled, c.start FROM spans c {joins} WHERE {where}"""
_TOOL_SESSIONS = """SELECT name, part, count(*) FROM (
    SELECT DISTINCT {tool} AS name, {part} AS part, c.session_id FROM spans c {joins} WHERE {where}
) GROUP BY name, part"""


def tool_figures(connection: sqlite3.Connection, query: InsightQuery, split: InsightSplit) -> list[ToolFigures]:
    """The tools of the calls that match, in the order of their names."""
    joins, scope = tool_scope(query)
    part, more = _TOOL_PARTS[split]
    joined = joins if more in joins else f"{joins} {more}"
    place = {"tool": TOOL, "part": part, "joins": joined, "where": scope.where, "duration": DURATION}
    sessions = {row[:2]: row[2] for row in connection.execute(_TOOL_SESSIONS.format(**place), scope.values)}
    figures = _FIGURES.format(calls=_TOOLS.format(**place))
    rows = connection.execute(f"WITH {figures} SELECT * FROM figures ORDER BY name, part", scope.values)
    return [ToolFigures._make((*row[:5], sessions[row[:2]], *row[5:])) for row in rows]


# -- models -------------------------------------------------------------------------------------------------------

#: Model calls with their response, which is looked up in the order of its table: a third of the time.
STEPS = """
SELECT c.session_id, c.span_id, c.trace_id, c.stream, c.start, c.turn_index, c.span_no, c.response
FROM spans c WHERE c.kind = 'step'{where} ORDER BY c.response
"""
#: Model calls with the times of the tools that they asked for: one sort of both is faster than a join.
_ANSWERED = """
SELECT session_id, span_id, max(trace_id) AS trace_id, max(start) AS start, max("end") AS "end", max(status) AS status,
    max(turn_index) AS turn_index, max(model) AS model, max(response) AS response, min(asked) AS first,
    max(asked) AS last, min(done) AS done
FROM (
    SELECT c.session_id, c.span_id, c.trace_id, c.start, c."end", c.status, c.turn_index, c.model, c.response,
        NULL AS asked, NULL AS done
    FROM spans c WHERE c.kind = 'step'{where}
    UNION ALL
    SELECT c.session_id, c.parent_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c.start, c."end"
    FROM spans c WHERE c.kind = 'tool'{sessions}
) GROUP BY session_id, span_id HAVING max(start) IS NOT NULL ORDER BY max(response)
"""
#: A model call is over when it asked for its last tool, although its log may close it with the results. Where tools
#: were asked for after the first one had ended, the first one counts.
_CALLS = """
steps AS MATERIALIZED ({steps}),
calls AS MATERIALIZED (
    SELECT c.session_id, c.span_id, c.trace_id, c.start, c.status, c.turn_index,
        coalesce(r.model, c.model, '') AS model, r.output_tokens, coalesce(r.estimated, 0) AS estimated,
        nullif(max(CASE WHEN c.status <> 'ok' THEN NULL WHEN c.last IS NULL THEN c."end"
            WHEN c.done IS NULL OR c.last <= c.done THEN c.last ELSE c.first END - c.start, 0), 0) / 1000 AS ms
    FROM steps c LEFT JOIN responses r ON r.response = c.response
    WHERE (r.response IS NULL OR r.session_id = c.session_id){models}
)
"""
_MODEL_PARTS: dict[InsightSplit, tuple[str, str]] = {
    "total": ("''", ""),
    "agent": ("w.agent", _OF_SESSION),
    "project": ("coalesce(w.project, '')", _OF_SESSION),
    "model": ("''", ""),
    "machine": ("coalesce(w.machine, '')", _OF_SESSION),
    "person": ("coalesce(w.person, '')", _OF_SESSION),
}
_MODELS = """SELECT c.model AS name, {part} AS part, c.ms, c.status = 'error' AS failed, 0 AS cancelled, c.start
FROM calls c {joins}"""
_MODEL_COUNTS = """SELECT c.model AS name, {part} AS part, count(DISTINCT c.session_id) AS sessions,
    count(DISTINCT c.trace_id) AS turns, coalesce(sum(c.output_tokens) FILTER ({counted}), 0) AS output_tokens,
    coalesce(sum(c.ms) FILTER ({counted}), 0) AS output_ms
FROM calls c {joins} GROUP BY 1, 2"""
_COUNTED = "WHERE c.ms IS NOT NULL AND c.output_tokens > 0 AND NOT c.estimated"


def model_figures(connection: sqlite3.Connection, query: InsightQuery, split: InsightSplit) -> list[ModelFigures]:
    """The models of the calls that match, in the order of their names."""
    calls, values, _ = call_tables(query)
    part, joins = _MODEL_PARTS[split]
    figures = _FIGURES.format(calls=_MODELS.format(part=part, joins=joins))
    counts = _MODEL_COUNTS.format(part=part, joins=joins, counted=_COUNTED)
    rows = connection.execute(
        f"WITH {calls}, {figures} SELECT f.name, f.part, f.calls, f.failures, n.sessions, n.turns, f.last_at, f.timed, "
        f"f.p50_ms, f.p95_ms, f.max_ms, n.output_tokens, n.output_ms FROM figures f "
        f"JOIN ({counts}) n ON n.name = f.name AND n.part = f.part ORDER BY f.name, f.part",
        values,
    )
    return [ModelFigures._make(row) for row in rows]


def call_tables(query: InsightQuery) -> Scope:
    """The tables ``calls`` and ``steps`` of a query, for a statement that begins with ``WITH``."""
    where, values, sessions = scope_of(query)
    models = model_test("coalesce(r.model, c.model, '')", query, values)
    steps = _ANSWERED.format(where=where, sessions=sessions)
    return Scope(_CALLS.format(steps=steps, models=models), values)


# -- the calls behind the figures ---------------------------------------------------------------------------------

_ORDERS: dict[CallOrder, str] = {
    "failed": "AND c.status = 'error' ORDER BY c.start DESC, c.span_id",
    "slow": "AND c.ms IS NOT NULL ORDER BY c.ms DESC, c.start DESC, c.span_id",
}
_CALL = "c.session_id, c.span_id, c.start, c.turn_index, c.ms, c.status, json_extract(c.attributes, '$.error')"


def tool_calls(
    connection: sqlite3.Connection, query: InsightQuery, tool: str, order: CallOrder, limit: int
) -> list[InsightCall]:
    """The latest failures of a tool, or its longest calls."""
    joins, (where, values, _) = tool_scope(query)
    inner = f"SELECT c.*, {DURATION} AS ms FROM spans c {joins} WHERE {where} AND {TOOL} = :tool"
    rows = connection.execute(
        f"SELECT {_CALL} FROM ({inner}) c WHERE TRUE {_ORDERS[order]} LIMIT :limit",
        {**values, "tool": tool, "limit": limit},
    )
    return [InsightCall._make(row) for row in rows]


def model_call_list(
    connection: sqlite3.Connection, query: InsightQuery, order: CallOrder, limit: int
) -> list[InsightCall]:
    """The latest failures of the models of a query, or their longest calls."""
    calls, values, _ = call_tables(query)
    # Attributes are read of the few that are wanted.
    found = f"SELECT * FROM calls c WHERE TRUE {_ORDERS[order]} LIMIT :limit"
    rows = connection.execute(
        f"WITH {calls} SELECT {_CALL.replace('c.attributes', 's.attributes')} FROM ({found}) c "
        f"JOIN spans s ON s.session_id = c.session_id AND s.span_id = c.span_id WHERE TRUE {_ORDERS[order]}",
        {**values, "limit": limit},
    )
    return [InsightCall._make(row) for row in rows]
