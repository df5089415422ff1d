"""Usage: tokens by group from the sums of sessions, each response counted once: see ``clickhouse.ledger``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenttrace.model import USAGE_FIELDS, Usage
from agenttrace.projects import DEMO
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.relations import COUNTED, COUNTS, SESSIONS, USAGE, chosen
from agenttrace.store.clickhouse.session_conditions import Conditions, session_conditions
from agenttrace.store.questions import (
    RecentQuery,
    ResponseCount,
    TimedUsage,
    TimeQuery,
    UsageGroup,
    UsageQuery,
    UsageRow,
)

#: A response may be told a little after the last event of its session.
_DAY = 86_400_000_000
#: Not of the demo data.
_REAL = "NOT startsWith(ifNull(project, ''), :demo)"
_GROUPS: dict[UsageGroup, str] = {
    "day": "u.day",
    "month": "substring(u.day, 1, 7)",
    "model": "u.model",
    "agent": "s.agent",
    "project": "ifNull(s.project, '')",
    "machine": "ifNull(s.machine, '')",
    "person": "ifNull(s.person, '')",
    "session": "toString(u.session)",
    "total": "''",
}
_SUMS = ", ".join(f"sum(u.{name}) AS {name}" for name in COUNTS)
_NAMES = "id, agent, session_id, project, machine, person"


def usage_rows(database: Database, query: UsageQuery) -> list[UsageRow]:
    """Tokens per group, part of the group, model, and what its price depends on."""
    where, values = _conditions(query)
    # Sessions of one id are told apart by their number, as a text.
    order = "any(s.session_id), " if query.by == "session" else ""
    whole, part = _GROUPS[query.by], _GROUPS[query.split]
    join = f"JOIN {chosen(SESSIONS, _NAMES)} s ON s.id = u.session" if "s." in whole + part + order else ""
    rows = database.rows(
        f"SELECT {whole} AS whole, u.model AS model, {_SUMS}, {part} AS part, u.day AS day, u.variant AS variant "
        f"FROM {chosen(USAGE, '*', where)} u {join} GROUP BY whole, part, model, day, variant "
        f"HAVING requests > 0 ORDER BY {order}whole, part, model, day, variant",
        **values,
    )
    return list(map(_usage_row, rows))


def _conditions(query: UsageQuery) -> tuple[str, Values]:
    where, values = _of_sessions(query)
    if query.since_day is not None:
        where += " AND day >= :since_day"
        values["since_day"] = query.since_day
    if query.before_day is not None:
        where += " AND day < :before_day"
        values["before_day"] = query.before_day
    return where, values


def _of_sessions(query: UsageQuery | RecentQuery) -> tuple[str, Values]:
    """What a query asks of sessions and models."""
    found = wanted_sessions(query)
    where = f" AND session IN {chosen(SESSIONS, 'id', f' AND {found.where}')}" if found.tests else ""
    if query.models:
        where += " AND model IN :models"
        found.values["models"] = sorted(query.models)
    return where, found.values


def wanted_sessions(query: UsageQuery | RecentQuery) -> Conditions:
    """What a query asks of sessions."""
    found = session_conditions(query)
    if query.real:
        found.add(_REAL, demo=f"{DEMO}/")
    return found


def _usage_row(row: Sequence[Any]) -> UsageRow:
    counts, place = row[5 : 5 + len(USAGE_FIELDS)], row[5 + len(USAGE_FIELDS) :]
    return UsageRow._make((*row[:5], Usage(**dict(zip(USAGE_FIELDS, counts, strict=True))), *place))


def usage_by_session(database: Database, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
    """Tokens per model of each of these sessions."""
    found: dict[int, list[UsageRow]] = {}
    if not numbers:
        return found
    rows = database.rows(
        f"SELECT session, model, {_SUMS}, '', day, variant FROM {chosen(USAGE, '*', ' AND session IN :numbers')} u "
        "GROUP BY session, model, day, variant HAVING requests > 0 ORDER BY session, model, day, variant",
        numbers=list(numbers),
    )
    for row in rows:
        found.setdefault(row[0], []).append(_usage_row(("", *row[1:])))
    return found


def _active(since: int) -> tuple[str, int]:
    """Which sessions may have responses from a moment on: these are found by their key, single responses are not."""
    return f" AND session IN {chosen(SESSIONS, 'id', ' AND (last_at IS NULL OR last_at >= :active)')}", since - _DAY


def recent_usage(database: Database, query: RecentQuery) -> list[TimedUsage]:
    """The responses from a moment on, in their order."""
    where, values = _of_sessions(query)
    active, values["active"] = _active(query.since)
    if query.before is not None:
        where, values["before"] = f"{where} AND at < :before", query.before
    tokens = ", ".join(USAGE_FIELDS)
    rows = database.rows(
        f"SELECT at, toString(session), model, 1, toInt64(estimated), copies, {tokens}, '', day, variant "
        f"FROM {COUNTED} WHERE at >= :since{active}{where} ORDER BY at, response",
        **values,
        since=query.since,
    )
    return [TimedUsage(row[0], _usage_row(row[1:])) for row in rows]


def usage_over_time(database: Database, query: TimeQuery) -> list[TimedUsage]:
    """Tokens of a span of time, by step, model and what its price depends on."""
    sums = ", ".join(f"sum({name})" for name in USAGE_FIELDS)
    where, values = _in_time(query)
    rows = database.rows(
        f"SELECT intDiv(at, :step) * :step AS step, '', model, count(), sum(toInt64(estimated)), sum(copies), {sums}, "
        f"'', day, variant FROM {COUNTED} WHERE at >= :since AND at < :before{where} "
        "GROUP BY step, model, day, variant ORDER BY step, model, day, variant",
        **values,
    )
    return [TimedUsage(row[0], _usage_row(row[1:])) for row in rows]


def responses_over_time(database: Database, query: TimeQuery) -> list[ResponseCount]:
    """How many responses came in each step of a span of time."""
    where, values = _in_time(query)
    rows = database.rows(
        f"SELECT intDiv(at, :step) * :step AS step, count() FROM {COUNTED} WHERE at >= :since AND at < :before{where} "
        "GROUP BY step ORDER BY step",
        **values,
    )
    return list(map(ResponseCount._make, rows))


def _in_time(query: TimeQuery) -> tuple[str, Values]:
    """Which responses of a span of time, beside the time."""
    where, active = _active(query.since)
    found = Conditions(values={"step": query.step, "since": query.since, "before": query.before, "active": active})
    found.add_any("agents", "agent", query.agents)
    if query.real:
        found.add(_REAL, demo=f"{DEMO}/")
    if found.tests:
        where += f" AND session IN {chosen(SESSIONS, 'id', f' AND {found.where}')}"
    return where, found.values


def recorded_models(database: Database) -> list[str]:
    """The models whose tokens are in the store, the most used first."""
    total = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens"
    query = f"SELECT model FROM {USAGE} GROUP BY model HAVING sum(requests) > 0 ORDER BY sum({total}) DESC, model"
    return [model for (model,) in database.rows(query)]
