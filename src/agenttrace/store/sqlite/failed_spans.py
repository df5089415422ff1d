"""Failed spans: tool calls with an error, model calls that broke off, turns that ended with one."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator

from agenttrace.store.questions import ErrorQuery, FailedSpan
from agenttrace.store.sqlite.session_conditions import session_conditions

_FIRST, _LAST = -(2**63), 2**63 - 1

_SESSIONS = """
SELECT id, last_at FROM sessions s WHERE s.errors > 0{where} ORDER BY s.last_at DESC
"""
_TESTS = {"session": "s.id = :session", "since": "s.last_at >= :since"}
_FAILED = """
SELECT start, span_no, session_id, span_id, kind, name, turn_index, attributes FROM spans
WHERE session_id = :number AND status = 'error' AND (start, span_no) < (:start, :span)
    AND start >= :since AND start < :until
ORDER BY start DESC, span_no DESC LIMIT :limit
"""


def failed_spans(connection: sqlite3.Connection, query: ErrorQuery) -> list[FailedSpan]:
    """The latest failed spans, without looking into more sessions than it takes.

    Nothing in a session is later than the session's last event: once there are enough failures after that of the next
    session, the remaining sessions cannot matter.
    """
    start, span = query.before or (_LAST, _LAST)
    values = {
        "start": start,
        "span": span,
        "since": _FIRST if query.since is None else query.since,
        "until": _LAST if query.until is None else query.until,
        "limit": query.limit,
    }
    found: list[FailedSpan] = []
    for number, last_at in _sessions(connection, query):
        if len(found) == query.limit and last_at is not None and found[0].start > last_at:
            break
        for row in map(FailedSpan._make, connection.execute(_FAILED, {**values, "number": number})):
            if len(found) < query.limit:
                heapq.heappush(found, row)
            elif heapq.heappushpop(found, row) == row:
                break
    return sorted(found, reverse=True)


def _sessions(connection: sqlite3.Connection, query: ErrorQuery) -> Iterator[tuple[int, int | None]]:
    """Sessions with failures, those with the latest last event first."""
    where, values = session_conditions(
        agents=query.agents,
        project_contains=query.project_contains,
        machines=query.machines,
        persons=query.persons,
    )
    for name, test in _TESTS.items():
        if getattr(query, name) is not None:
            where += f" AND {test}"
            values[name] = getattr(query, name)
    yield from connection.execute(_SESSIONS.format(where=where), values)
