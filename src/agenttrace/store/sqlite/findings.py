"""What stands out in many sessions: failures that repeat, lost caches, expensive turns, waits for the user.

Each question is one statement over whole sets of spans; no line is looked at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import msgspec

from agenttrace.model import USAGE_FIELDS, Usage
from agenttrace.store.insights import (
    LONGEST_WAIT,
    LOOP_FAILURES,
    QUESTION_TOOLS,
    SHORTEST_WAIT,
    CacheLoss,
    CacheQuery,
    FailedCalls,
    FindingsQuery,
    InsightCall,
    Rate,
    RepeatedFailure,
    TurnCost,
    TurnQuery,
    UserWait,
)
from agenttrace.store.questions import MAIN_STREAM, NOT_IN_LOG, TELEMETRY
from agenttrace.store.sqlite.insights import DURATION, FORKS, STEPS, TOOL, model_test, scope_of, tool_scope

#: Calls of a repeated failure that are told, and of a tool that fails again and again in a turn.
_EXAMPLES, _MOST_CALLS = 5, 50

# -- failures -----------------------------------------------------------------------------------------------------

_FAILED = f"""
failed AS MATERIALIZED (
    SELECT c.session_id, c.span_id, c.start, c.turn_index, {DURATION} AS ms, c.status,
        json_extract(c.attributes, '$.error') AS error, {TOOL} AS tool, c.trace_id
    FROM spans c {{joins}} WHERE {{where}} AND c.status = 'error'
)
"""
_CALL = "f.session_id, f.span_id, f.start, f.turn_index, f.ms, f.status, f.error"
_REPEATED = f"""
WITH {_FAILED},
repeated AS (
    SELECT tool, error, count(*) AS failures, count(DISTINCT session_id) AS sessions, min(start) AS first_at,
        max(start) AS last_at, sum(ms) AS total_ms
    FROM failed WHERE error <> '' GROUP BY tool, error HAVING count(DISTINCT session_id) > 1
    ORDER BY failures DESC, sessions DESC, tool, error LIMIT :limit
)
SELECT * FROM (
    SELECT r.tool, r.error, r.failures, r.sessions, r.first_at, r.last_at, r.total_ms, {_CALL},
        row_number() OVER (PARTITION BY r.tool, r.error ORDER BY f.start DESC, f.span_id) AS place
    FROM repeated r JOIN failed f ON f.tool = r.tool AND f.error = r.error
) WHERE place <= {_EXAMPLES} ORDER BY 3 DESC, 4 DESC, 1, 2, place
"""
_LOOPS = f"""
WITH {_FAILED},
loops AS (
    SELECT session_id, trace_id, tool, count(*) AS failures FROM failed GROUP BY session_id, trace_id, tool
    HAVING count(*) >= {LOOP_FAILURES} ORDER BY failures DESC, max(start) DESC, session_id, trace_id, tool LIMIT :limit
)
SELECT * FROM (
    SELECT l.session_id, l.trace_id, l.tool, l.failures, {_CALL},
        row_number() OVER (PARTITION BY l.session_id, l.trace_id, l.tool ORDER BY f.start, f.span_id) AS place,
        max(f.start) OVER (PARTITION BY l.session_id, l.trace_id, l.tool) AS last_at
    FROM loops l JOIN failed f ON f.session_id = l.session_id AND f.trace_id = l.trace_id AND f.tool = l.tool
) WHERE place <= {_MOST_CALLS} ORDER BY failures DESC, last_at DESC, 1, 2, 3, place
"""


def repeated_failures(connection: sqlite3.Connection, query: FindingsQuery) -> list[RepeatedFailure]:
    """Errors of a tool that several sessions met, the most frequent first."""
    rows = _failed_rows(connection, query, _REPEATED)
    return [
        RepeatedFailure._make((*key, tuple(InsightCall._make(row[7:14]) for row in calls)))
        for key, calls in groupby(rows, key=itemgetter(slice(0, 7)))
    ]


def failed_in_a_turn(connection: sqlite3.Connection, query: FindingsQuery) -> list[FailedCalls]:
    """Tools that failed again and again in one turn, the most frequent first."""
    found = []
    for (session, _, tool, failures), rows in groupby(
        _failed_rows(connection, query, _LOOPS), key=itemgetter(slice(0, 4))
    ):
        calls = tuple(InsightCall._make(row[4:11]) for row in rows)
        found.append(FailedCalls(session, tool, calls[0].turn_index, failures, calls))
    return found


def _failed_rows(connection: sqlite3.Connection, query: FindingsQuery, statement: str) -> sqlite3.Cursor:
    joins, (where, values, _) = tool_scope(query)
    return connection.execute(statement.format(joins=joins, where=where), {**values, "limit": query.limit})


# -- the prompt cache ---------------------------------------------------------------------------------------------

_PROMPT = "input_tokens + cache_read_tokens + cache_write_tokens"
#: As ``record.texts.call_changes.lost_tokens`` has it, of calls of one stream in their order. Calls of which only the
#: tokens are known are in streams of their own.
_LOSSES = f"""
WITH steps AS MATERIALIZED ({{steps}}),
used AS (
    SELECT c.session_id, c.span_id, c.stream, c.start, c.turn_index, c.span_no, r.model, r.day, r.variant,
        r.session_id = c.session_id AS owned, r.cache_read_tokens, r.cache_write_tokens, {_PROMPT} AS prompt
    FROM steps c CROSS JOIN responses r ON r.response = c.response
    WHERE {_PROMPT} > 0 AND c.stream NOT IN ('{NOT_IN_LOG}', '{TELEMETRY}')
),
compared AS (
    SELECT *, lag(start) OVER calls AS before_at, lag(cache_read_tokens) OVER calls AS before_read,
        min(lag(cache_read_tokens + cache_write_tokens) OVER calls, prompt) AS expected
    FROM used WINDOW calls AS (PARTITION BY session_id, stream ORDER BY start, span_no)
)
SELECT c.session_id, c.span_id, c.start, c.turn_index, c.model, c.day, c.variant, expected - cache_read_tokens AS lost,
    cache_write_tokens > 0, c.start - before_at
FROM compared c
WHERE owned AND before_at IS NOT NULL AND (expected - cache_read_tokens) * 20 > expected
    AND NOT (cache_read_tokens > before_read AND expected - cache_read_tokens <= cache_read_tokens){{where}}
ORDER BY lost DESC, c.start DESC, c.span_id LIMIT :limit
"""


def cache_losses(connection: sqlite3.Connection, query: CacheQuery) -> list[CacheLoss]:
    """Model calls at which the prompt cache broke, the largest losses first."""
    where, values, sessions = scope_of(query)
    # The call before may have been earlier than the time that is asked about.
    where = where.removesuffix(sessions) + model_test("c.model", query, values)
    without = {f"without{number}": agent for number, agent in enumerate(sorted(query.without_agents))}
    if without:
        values |= without
        names = ", ".join(f":{name}" for name in without)
        sessions += f" AND c.session_id NOT IN (SELECT id FROM sessions WHERE agent IN ({names}))"
    statement = _LOSSES.format(steps=STEPS.format(where=sessions), where=where)
    return [
        CacheLoss._make((*row[:8], bool(row[8]), row[9]))
        for row in connection.execute(statement, {**values, "limit": query.limit})
    ]


# -- turns --------------------------------------------------------------------------------------------------------

_RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "web_search")
#: Texts as such, or SQLite would compare each row with all rates.
_RATE_COLUMNS = ", ".join(
    [f"CAST(json_extract(value, '$[{place}]') AS TEXT) AS {name}" for place, name in enumerate(Rate._fields[:4])]
    + [f"json_extract(value, '$[{place}]') AS {name}_rate" for place, name in enumerate(_RATES, 4)]
)
_COST = """u.input_tokens * p.input_rate + u.output_tokens * p.output_rate + u.cache_read_tokens * p.cache_read_rate
    + (u.cache_write_tokens - u.an_hour) * p.cache_write_rate + u.an_hour * p.cache_write_1h_rate
    + u.web_searches * p.web_search_rate * 1000000"""
#: The turn that the work of a subagent was done for: see ``store.span_tree``.
_ROOTS = """
tools AS MATERIALIZED (
    SELECT c.session_id, c.stream, c.trace_id, c.start, c.span_no, json_extract(c.attributes, '$.call') AS call
    FROM spans c WHERE c.kind = 'tool' AND c.session_id IN (SELECT session_id FROM links){sessions}
),
started AS (
    SELECT l.session_id, l.stream, coalesce(run.parent_stream, l.parent_stream) AS parent_stream,
        coalesce(run.call, l.call) AS call
    FROM links l LEFT JOIN links run ON run.session_id = l.session_id AND run.stream = l.call
),
above AS MATERIALIZED (
    SELECT * FROM (
        SELECT s.session_id, s.stream, t.stream AS parent_stream, t.trace_id, row_number() OVER (
            PARTITION BY s.session_id, s.stream
            ORDER BY t.stream = s.parent_stream DESC,
                CASE WHEN t.stream = s.parent_stream THEN -t.start ELSE t.start END,
                CASE WHEN t.stream = s.parent_stream THEN -t.span_no ELSE t.span_no END
        ) AS place
        FROM started s JOIN tools t ON t.session_id = s.session_id AND t.call = s.call
    ) WHERE place = 1 AND parent_stream <> stream
),
climbed (session_id, stream, parent_stream, trace_id, depth) AS (
    SELECT session_id, stream, parent_stream, trace_id, 1 FROM above
    UNION ALL
    SELECT c.session_id, c.stream, a.parent_stream, a.trace_id, c.depth + 1
    FROM climbed c JOIN above a ON a.session_id = c.session_id AND a.stream = c.parent_stream WHERE c.depth < 64
),
roots AS MATERIALIZED (
    SELECT session_id, stream, trace_id FROM (
        SELECT *, row_number() OVER (PARTITION BY session_id, stream ORDER BY depth DESC) AS place FROM climbed
    ) WHERE place = 1
)
"""
_SUMS = ", ".join(f"sum(r.{name}) AS {name}" for name in USAGE_FIELDS)
_TURNS = f"""
WITH RECURSIVE rates AS MATERIALIZED (SELECT {_RATE_COLUMNS} FROM json_each(:rates)),
steps AS MATERIALIZED ({{steps}}),
{_ROOTS},
used AS (
    SELECT c.session_id, coalesce(o.trace_id, c.trace_id) AS turn, r.model, r.day, r.variant, count(*) AS requests,
        {_SUMS}, sum(min(r.cache_write_1h_tokens, r.cache_write_tokens)) AS an_hour
    FROM steps c CROSS JOIN responses r ON r.response = c.response AND r.session_id = c.session_id
        LEFT JOIN roots o ON o.session_id = c.session_id AND o.stream = c.stream
    WHERE TRUE{{models}} GROUP BY 1, 2, 3, 4, 5
),
costs AS (
    SELECT u.session_id, u.turn, p.currency, sum({_COST}) AS cost, sum(u.requests) AS requests,
        {_SUMS.replace("r.", "u.")}
    FROM used u CROSS JOIN rates p ON p.model = u.model AND p.day = u.day AND p.variant = u.variant GROUP BY 1, 2, 3
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY currency ORDER BY cost DESC, session_id, turn) AS place
    FROM costs WHERE cost > 0
)
SELECT k.session_id, t.span_id, k.turn, t.start, t.turn_index, nullif(t."end" - t.start, 0) / 1000, k.currency, k.cost,
    k.requests, {", ".join(f"k.{name}" for name in USAGE_FIELDS)}
FROM ranked k LEFT JOIN spans t ON t.session_id = k.session_id AND t.kind = 'turn' AND t.trace_id = k.turn
WHERE k.place <= :limit ORDER BY k.currency, k.place
"""


def expensive_turns(connection: sqlite3.Connection, query: TurnQuery) -> list[TurnCost]:
    """The most expensive turns of each currency, with the work of their subagents; the most expensive first."""
    where, values, sessions = scope_of(query)
    models = model_test("r.model", query, values)
    statement = _TURNS.format(steps=STEPS.format(where=where), sessions=sessions, models=models)
    rates = msgspec.json.encode(list(query.rates)).decode()
    return [
        TurnCost._make(
            (*row[:3], row[3] or 0, -1 if row[4] is None else row[4], *row[5:9], _usage(row[9:])),
        )
        for row in connection.execute(statement, {**values, "rates": rates, "limit": query.limit})
    ]


def _usage(counts: Sequence[int]) -> Usage:
    return Usage(**dict(zip(USAGE_FIELDS, counts, strict=True)))


# -- waits --------------------------------------------------------------------------------------------------------

_WAITS = f"""
WITH turns AS (
    SELECT c.session_id, c.span_id, c.start, c.turn_index, json_extract(c.attributes, '$.origin') AS origin,
        lag(c."end") OVER before AS ended, lag(c.status) OVER before AS status
    FROM spans c WHERE c.kind = 'turn' AND c.stream = '{MAIN_STREAM}'{{sessions}}
    WINDOW before AS (PARTITION BY c.session_id ORDER BY c.start, c.span_no)
),
waits AS (
    SELECT session_id, span_id, start, turn_index, start - ended AS wait, '' AS tool FROM turns
    WHERE origin IS NULL AND status IN ('ok', 'error')
    UNION ALL
    SELECT c.session_id, c.span_id, c.start, c.turn_index, c."end" - c.start, {TOOL} FROM spans c
    WHERE c.kind = 'tool' AND c.status IN ('ok', 'error', 'cancelled'){{sessions}} AND {TOOL} IN ({{tools}})
)
SELECT c.session_id, c.span_id, c.start, c.turn_index, c.wait / 1000, c.tool FROM waits c
WHERE c.wait >= {SHORTEST_WAIT} AND c.wait < {LONGEST_WAIT}{{where}}
    AND (c.session_id NOT IN ({FORKS}) OR NOT EXISTS (
        SELECT 1 FROM spans o JOIN spans k ON k.session_id = o.session_id AND k.turn_index = o.turn_index
            JOIN responses r ON r.response = k.response
        WHERE o.session_id = c.session_id AND o.span_id = c.span_id AND k.stream = '{MAIN_STREAM}'
            AND r.session_id <> c.session_id))
ORDER BY c.wait DESC, c.start DESC, c.span_id LIMIT :limit
"""
_OF_MODELS = " AND c.session_id IN (SELECT c.session_id FROM usage_rollup c WHERE TRUE{})"


def user_waits(connection: sqlite3.Connection, query: FindingsQuery) -> list[UserWait]:
    """Where agents waited for the user for long, the longest first; in sessions in which one of the models was used."""
    where, values, sessions = scope_of(query)
    times = where.removesuffix(sessions)
    models = model_test("c.model", query, values)
    if models:
        sessions += _OF_MODELS.format(models)
    tools = {f"tool{number}": tool for number, tool in enumerate(QUESTION_TOOLS)}
    statement = _WAITS.format(sessions=sessions, where=times, tools=", ".join(f":{name}" for name in tools))
    rows = connection.execute(statement, {**values, **tools, "limit": query.limit})
    return [UserWait._make(row) for row in rows]
