"""What stands out in many sessions: failures that repeat, lost caches, expensive turns, waits for the user.

Each question is one statement over whole sets of spans; no line is looked at.
"""

from __future__ import annotations

from agenttrace.model import USAGE_FIELDS, Usage
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.insights import CALL, ELSEWHERE, model_test, scope_of, tool_scope
from agenttrace.store.clickhouse.literals import literal
from agenttrace.store.clickhouse.relations import COUNTED, LINKS, SESSIONS, SPANS, chosen
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

#: Calls of a repeated failure that are told, and of a tool that fails again and again in a turn.
_EXAMPLES, _MOST_CALLS = 5, 50

# -- failures -----------------------------------------------------------------------------------------------------

_REPEATED = f"""
SELECT tool, assumeNotNull(error) AS told, count() AS failures, uniqExact(session) AS sessions, min(start) AS first_at,
    max(start) AS last_at, sum(ms) AS total_ms,
    arraySlice(arraySort(call -> (-call.3, call.2), groupArray(({CALL}))), 1, {_EXAMPLES}) AS calls
FROM {{calls}} WHERE status = 'error' AND error <> '' GROUP BY tool, error HAVING sessions > 1
ORDER BY failures DESC, sessions DESC, tool, told LIMIT :limit
"""
_LOOPS = f"""
SELECT session, tool, count() AS failures,
    arraySlice(arraySort(call -> (call.3, call.2), groupArray(({CALL}))), 1, {_MOST_CALLS}) AS calls
FROM {{calls}} WHERE status = 'error' GROUP BY session, trace_id, tool HAVING failures >= {LOOP_FAILURES}
ORDER BY failures DESC, max(start) DESC, session, trace_id, tool LIMIT :limit
"""


def repeated_failures(database: Database, query: FindingsQuery) -> list[RepeatedFailure]:
    """Errors of a tool that several sessions met, the most frequent first."""
    calls, values = tool_scope(query)
    rows = database.rows(_REPEATED.format(calls=calls), **values, limit=query.limit)
    return [RepeatedFailure._make((*row, tuple(map(InsightCall._make, examples)))) for *row, examples in rows]


def failed_in_a_turn(database: Database, query: FindingsQuery) -> list[FailedCalls]:
    """Tools that failed again and again in one turn, the most frequent first."""
    calls, values = tool_scope(query)
    found = []
    for session, tool, failures, rows in database.rows(_LOOPS.format(calls=calls), **values, limit=query.limit):
        told = tuple(map(InsightCall._make, rows))
        found.append(FailedCalls(session, tool, told[0].turn_index, failures, told))
    return found


# -- the prompt cache ---------------------------------------------------------------------------------------------

_PROMPT = "r.input_tokens + r.cache_read_tokens + r.cache_write_tokens"
_STEP = "session, span_id, trace_id, stream, start, turn_index, number, response"
_TOLD = f"response, session, model, day, variant, {', '.join(USAGE_FIELDS)}"
#: As ``record.texts.call_changes.lost_tokens`` has it, of calls of one stream in their order. Calls of which only the
#: tokens are known are in streams of their own.
_LOSSES = f"""
SELECT session, span_id, start, turn_index, model, day, variant, expected - read AS lost, wrote > 0,
    start - before_at
FROM (
    SELECT *, lagInFrame(toNullable(start)) OVER calls AS before_at,
        lagInFrame(toNullable(read)) OVER calls AS before_read,
        least(lagInFrame(toNullable(read + wrote)) OVER calls, prompt) AS expected
    FROM (
        SELECT c.session AS session, c.span_id AS span_id, c.stream AS stream, c.start AS start,
            c.turn_index AS turn_index, c.number AS number, r.model AS model, r.day AS day, r.variant AS variant,
            r.session = c.session AS owned, r.cache_read_tokens AS read, r.cache_write_tokens AS wrote,
            {_PROMPT} AS prompt
        FROM {{steps}} c JOIN {chosen(COUNTED, _TOLD)} r ON r.response = c.response WHERE {_PROMPT} > 0
    ) WINDOW calls AS (PARTITION BY session, stream ORDER BY start, number)
)
WHERE owned AND before_at IS NOT NULL AND lost * 20 > expected
    AND NOT (read > before_read AND lost <= read){{where}}
ORDER BY lost DESC, start DESC, span_id LIMIT :limit
"""


def cache_losses(database: Database, query: CacheQuery) -> list[CacheLoss]:
    """Model calls at which the prompt cache broke, the largest losses first."""
    # The call before may have been earlier than the time that is asked about.
    times, sessions, values = scope_of(query)
    where = times + model_test("model", query, values)
    if query.without_agents:
        of_agents = chosen(SESSIONS, "id", " AND agent IN :without")
        sessions += f" AND session NOT IN {of_agents}"
        values["without"] = sorted(query.without_agents)
    steps = chosen(SPANS, _STEP, f" AND kind = 'step' AND stream NOT IN ('{NOT_IN_LOG}', '{TELEMETRY}'){sessions}")
    rows = database.rows(_LOSSES.format(steps=steps, where=where), **values, limit=query.limit)
    return [CacheLoss._make((*row[:8], bool(row[8]), row[9])) for row in rows]


# -- turns --------------------------------------------------------------------------------------------------------

_RATE_TYPES = ", ".join(
    f"{name} {kind}" for name, kind in zip(Rate._fields, ("String",) * 4 + ("Int64",) * 6, strict=True)
)
#: More than 64 bits have: what a search costs is counted in millionths of a token's.
_COST = """toInt128(u.input_tokens) * p.input + toInt128(u.output_tokens) * p.output
    + toInt128(u.cache_read_tokens) * p.cache_read + toInt128(u.cache_write_tokens - u.an_hour) * p.cache_write
    + toInt128(u.an_hour) * p.cache_write_1h + toInt128(u.web_searches) * p.web_search * 1000000"""
_SUMS = ", ".join(f"sum({{0}}.{name}) AS {name}" for name in USAGE_FIELDS)
#: The turn that the work of a subagent was done for: see ``store.span_tree``.
_ROOTS = """
tools AS {tools},
started AS (
    SELECT l.session AS session, l.stream AS stream, coalesce(run.parent_stream, l.parent_stream) AS parent_stream,
        coalesce(run.call, l.call) AS call
    FROM {links} l LEFT JOIN {links} run ON run.session = l.session AND run.stream = l.call
),
above AS (
    SELECT s.session AS session, s.stream AS stream,
        argMin((t.stream, t.trace_id), if(t.stream = s.parent_stream, (0, -t.start, -t.number), (1, t.start, t.number)))
            AS found
    FROM started s JOIN tools t ON t.session = s.session AND t.call = s.call
    GROUP BY session, stream HAVING found.1 <> stream
),
climbed AS (
    SELECT session, stream, found.1 AS parent_stream, found.2 AS trace_id, 1 AS depth FROM above
    UNION ALL
    SELECT c.session, c.stream, a.found.1, a.found.2, c.depth + 1
    FROM climbed c JOIN above a ON a.session = c.session AND a.stream = c.parent_stream WHERE c.depth < 64
),
roots AS (SELECT session, stream, argMax(trace_id, depth) AS trace_id FROM climbed GROUP BY session, stream)
"""
_TURNS = f"""
WITH RECURSIVE {_ROOTS}
SELECT k.session, t.span_id, k.turn, ifNull(t.start, 0), ifNull(t.turn_index, -1),
    intDiv(nullIf(t.end - t.start, 0), 1000), k.currency, k.cost, k.requests,
    {", ".join(f"k.{name}" for name in USAGE_FIELDS)}
FROM (
    SELECT u.session AS session, u.turn AS turn, p.currency AS currency, sum({_COST}) AS cost,
        sum(u.requests) AS requests, {_SUMS.format("u")}
    FROM (
        SELECT c.session AS session, coalesce(o.trace_id, c.trace_id) AS turn, r.model AS model, r.day AS day,
            r.variant AS variant, count() AS requests, {_SUMS.format("r")},
            sum(least(r.cache_write_1h_tokens, r.cache_write_tokens)) AS an_hour
        FROM {{steps}} c JOIN {chosen(COUNTED, _TOLD)} r ON r.response = c.response AND r.session = c.session
            LEFT JOIN roots o ON o.session = c.session AND o.stream = c.stream
        WHERE TRUE{{models}} GROUP BY session, turn, model, day, variant
    ) u JOIN {{rates}} p ON p.model = u.model AND p.day = u.day AND p.variant = u.variant
    GROUP BY session, turn, currency HAVING cost > 0
    ORDER BY currency, cost DESC, session, turn LIMIT :limit BY currency
) k LEFT JOIN {{turns}} t ON t.session = k.session AND t.trace_id = k.turn
ORDER BY k.currency, k.cost DESC, k.session, k.turn
"""


def expensive_turns(database: Database, query: TurnQuery) -> list[TurnCost]:
    """The most expensive turns of each currency, with the work of their subagents; the most expensive first."""
    if not query.rates:
        return []
    times, sessions, values = scope_of(query)
    models = model_test("model", query, values)
    rates = ", ".join(literal(tuple(rate)) for rate in query.rates)
    statement = _TURNS.format(
        steps=chosen(SPANS, _STEP, f" AND kind = 'step' AND response IS NOT NULL{times}{sessions}"),
        tools=chosen(
            SPANS,
            "session, stream, trace_id, start, number, call",
            f" AND kind = 'tool' AND session IN (SELECT session FROM {chosen(LINKS, 'session')}){sessions}",
        ),
        links=chosen(LINKS, "*", sessions),
        turns=chosen(SPANS, "session, trace_id, span_id, start, end, turn_index", f" AND kind = 'turn'{sessions}"),
        models=models,
        rates=f"values('{_RATE_TYPES}', {rates})",
    )
    rows = database.rows(statement, **values, limit=query.limit)
    return [TurnCost._make((*row[:9], Usage(**dict(zip(USAGE_FIELDS, row[9:], strict=True))))) for row in rows]


# -- waits --------------------------------------------------------------------------------------------------------

_WAITS = f"""
SELECT session, span_id, start, turn_index, intDiv(wait, 1000), tool FROM (
    SELECT session, span_id, start, turn_index, start - ended AS wait, '' AS tool FROM (
        SELECT session, span_id, start, turn_index, prompted_by, lagInFrame(end) OVER before AS ended,
            lagInFrame(toNullable(toString(status))) OVER before AS before_status
        FROM {{turns}} WINDOW before AS (PARTITION BY session ORDER BY start, number)
    ) WHERE prompted_by IS NULL AND before_status IN ('ok', 'error')
    UNION ALL
    SELECT session, span_id, start, turn_index, end - start, tool FROM {{tools}}
)
WHERE wait >= {SHORTEST_WAIT} AND wait < {LONGEST_WAIT}{{where}} AND (session, turn_index) NOT IN ({{copied}})
ORDER BY wait DESC, start DESC, span_id LIMIT :limit
"""


def user_waits(database: Database, query: FindingsQuery) -> list[UserWait]:
    """Where agents waited for the user for long, the longest first; in sessions in which one of the models was used."""
    times, sessions, values = scope_of(query)
    models = model_test("model", query, values)
    if models:
        sessions += f" AND session IN {chosen(COUNTED, 'session', models)}"
    asked = " AND kind = 'tool' AND status IN ('ok', 'error', 'cancelled') AND tool IN :questions"
    statement = _WAITS.format(
        turns=chosen(
            SPANS,
            "session, span_id, start, end, turn_index, status, prompted_by, number",
            f" AND kind = 'turn' AND stream = '{MAIN_STREAM}'{sessions}",
        ),
        tools=chosen(SPANS, "session, span_id, start, end, turn_index, tool", asked + sessions),
        copied=ELSEWHERE.format(columns="session, o.turn_index") + f" AND o.stream = '{MAIN_STREAM}'",
        where=times,
    )
    rows = database.rows(statement, **values, questions=list(QUESTION_TOOLS), limit=query.limit)
    return [UserWait._make(row) for row in rows]
