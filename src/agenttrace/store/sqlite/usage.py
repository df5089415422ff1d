"""Usage: tokens by group from the roll-ups, each response counted once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agenttrace.model import USAGE_FIELDS, Usage
from agenttrace.projects import DEMO
from agenttrace.store.questions import (
    RecentQuery,
    ResponseCount,
    TimedUsage,
    TimeQuery,
    UsageGroup,
    UsageQuery,
    UsageRow,
    folded,
)
from agenttrace.store.sqlite.database import marks, portions

_PROJECT = "coalesce(s.project, '')"
_MACHINE, _PERSON = "coalesce(s.machine, '')", "coalesce(s.person, '')"
_REAL = f"{_PROJECT} NOT LIKE '{DEMO}/%'"
_GROUPS: dict[UsageGroup, str] = {
    "day": "u.day",
    "month": "substr(u.day, 1, 7)",
    "model": "u.model",
    "agent": "s.agent",
    "project": _PROJECT,
    "machine": _MACHINE,
    "person": _PERSON,
    "session": "CAST(u.session_id AS TEXT)",
    "total": "''",
}
#: What groups are ordered by where it is not the group itself.
_ORDERS: dict[UsageGroup, str] = {"session": "s.session_id, "}
_SUMS = ", ".join(f"sum(u.{name})" for name in ("requests", "estimated", "copies", *USAGE_FIELDS))


def usage_rows(connection: sqlite3.Connection, query: UsageQuery = UsageQuery()) -> list[UsageRow]:  # noqa: B008 - frozen
    """Tokens per group, part of the group, model, and what its price depends on.

    In the order of the groups; sessions in the order of their ids.
    """
    where, values = _conditions(query)
    whole, part, order = _GROUPS[query.by], _GROUPS[query.split], _ORDERS.get(query.by, "")
    join = "JOIN sessions s ON s.id = u.session_id" if "s." in f"{whole} {part} {order} {where}" else ""
    rows = connection.execute(
        f"SELECT {whole} AS whole, u.model, {_SUMS}, {part} AS part, u.day, u.variant "
        f"FROM usage_rollup u {join} WHERE {where} GROUP BY whole, part, u.model, u.day, u.variant "
        f"ORDER BY {order}whole, part, u.model, u.day, u.variant",
        values,
    )
    return list(map(_usage_row, rows))


def _conditions(query: UsageQuery) -> tuple[str, list[str]]:
    where, values = session_conditions(query)
    tests = [where]
    for test, day in (("u.day >= ?", query.since_day), ("u.day < ?", query.before_day)):
        if day is not None:
            tests.append(test)
            values.append(day)
    if query.models:
        tests.append(f"u.model IN {marks(sorted(query.models))}")
        values += sorted(query.models)
    return " AND ".join(tests), values


def session_conditions(query: UsageQuery) -> tuple[str, list[str]]:
    """What a query asks of sessions, as SQL over ``sessions s``."""
    tests, values = ["TRUE"], list[str]()
    for value, wanted in _wanted(query):
        if wanted:
            tests.append(f"{value} IN {marks(sorted(wanted))}")
            values += sorted(wanted)
    if query.project_contains is not None:
        tests.append("s.project IS NOT NULL AND instr(folded(s.project), ?) > 0")
        values.append(folded(query.project_contains))
    if query.real:
        tests.append(_REAL)
    return " AND ".join(tests), values


def _wanted(query: UsageQuery | RecentQuery) -> tuple[tuple[str, frozenset[str]], ...]:
    """Columns of sessions with the values that a query asks for."""
    return (
        ("s.agent", query.agents),
        (_PROJECT, query.projects),
        (_MACHINE, query.machines),
        (_PERSON, query.persons),
    )


def _usage_row(row: Sequence[Any]) -> UsageRow:
    counts, place = row[5 : 5 + len(USAGE_FIELDS)], row[5 + len(USAGE_FIELDS) :]
    return UsageRow._make((*row[:5], Usage(**dict(zip(USAGE_FIELDS, counts, strict=True))), *place))


def usage_by_session(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[UsageRow]]:
    """Tokens per model of each of these sessions."""
    found: dict[int, list[UsageRow]] = {}
    for part in portions(numbers):
        rows = connection.execute(
            f"SELECT u.session_id, u.model, {_SUMS}, '', u.day, u.variant FROM usage_rollup u "
            f"WHERE u.session_id IN {marks(part)} GROUP BY u.session_id, u.model, u.day, u.variant",
            part,
        )
        for row in rows:
            found.setdefault(row[0], []).append(_usage_row(("", *row[1:])))
    return found


def recent_usage(connection: sqlite3.Connection, query: RecentQuery) -> list[TimedUsage]:
    """The responses from a moment on, in their order."""
    tests, values = ["u.at >= ?"], list[object]([query.since])
    if query.before is not None:
        tests.append("u.at < ?")
        values.append(query.before)
    for value, wanted in (*_wanted(query), ("u.model", query.models)):
        if wanted:
            tests.append(f"{value} IN {marks(sorted(wanted))}")
            values += sorted(wanted)
    if query.real:
        tests.append(_REAL)
    tokens = ", ".join(f"u.{name}" for name in USAGE_FIELDS)
    rows = connection.execute(
        f"SELECT u.at, CAST(u.session_id AS TEXT), u.model, 1, u.estimated, u.copies, {tokens}, '', u.day, u.variant "
        f"FROM responses u JOIN sessions s ON s.id = u.session_id WHERE {' AND '.join(tests)} ORDER BY u.at",
        values,
    )
    return [TimedUsage(row[0], _usage_row(row[1:])) for row in rows]


def usage_over_time(connection: sqlite3.Connection, query: TimeQuery) -> list[TimedUsage]:
    """Tokens of a span of time, by step, model and what its price depends on."""
    sums = ", ".join(f"sum(u.{name})" for name in ("estimated", "copies", *USAGE_FIELDS))
    source, values = _in_time(query)
    rows = connection.execute(
        f"SELECT u.at / ? * ? AS step, '', u.model, count(*), {sums}, '', u.day, u.variant FROM {source} "
        "GROUP BY step, u.model, u.day, u.variant ORDER BY step, u.model, u.day, u.variant",
        values,
    )
    return [TimedUsage(row[0], _usage_row(row[1:])) for row in rows]


def responses_over_time(connection: sqlite3.Connection, query: TimeQuery) -> list[ResponseCount]:
    """How many responses came in each step of a span of time; without filters only the index of times is read."""
    source, values = _in_time(query)
    rows = connection.execute(
        f"SELECT u.at / ? * ? AS step, count(*) FROM {source} GROUP BY step ORDER BY step", values
    )
    return list(map(ResponseCount._make, rows))


def _in_time(query: TimeQuery) -> tuple[str, list[object]]:
    """The responses of a span of time, as SQL with its values after those of the steps."""
    source, tests = "responses u", ["u.at >= ?", "u.at < ?"]
    values: list[object] = [query.step, query.step, query.since, query.before]
    if query.agents or query.real:
        source += " JOIN sessions s ON s.id = u.session_id"
    if query.agents:
        tests.append(f"s.agent IN {marks(sorted(query.agents))}")
        values += sorted(query.agents)
    if query.real:
        tests.append(_REAL)
    return f"{source} WHERE {' AND '.join(tests)}", values


def recorded_models(connection: sqlite3.Connection) -> list[str]:
    """The models whose tokens are in the store, the most used first."""
    total = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens"
    query = f"SELECT model FROM usage_rollup GROUP BY model ORDER BY sum({total}) DESC, model"
    return [model for (model,) in connection.execute(query)]
