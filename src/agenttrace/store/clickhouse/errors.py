"""Failed spans: tool calls with an error, model calls that broke off, turns that ended with one."""

from __future__ import annotations

from collections.abc import Iterator

from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.relations import SESSIONS, SPANS
from agenttrace.store.clickhouse.session_conditions import session_conditions
from agenttrace.store.questions import ErrorQuery, FailedSpan

_FIRST, _LAST = -(2**62), 2**62
#: Sessions that are looked into at a time: few at first.
_PORTION, _MORE = 100, 8

_SESSIONS = f"""
SELECT id, last_at FROM {SESSIONS} WHERE errors > 0 AND {{where}} ORDER BY last_at DESC NULLS LAST, id
LIMIT :size OFFSET :passed
"""
_FAILED = f"""
SELECT start, number, session, span_id FROM {SPANS}
WHERE session IN :sessions AND status = 'error' AND (start, number) < (:start, :number)
    AND start >= :since AND start < :until
ORDER BY start DESC, number DESC LIMIT :limit
"""
#: Attributes are read of the few that are wanted.
_WHOLE = f"""
SELECT start, number, session, span_id, kind, name, turn_index, attributes FROM {SPANS}
WHERE session IN :sessions AND (session, span_id) IN :wanted ORDER BY start DESC, number DESC
"""


def failed_spans(database: Database, query: ErrorQuery) -> list[FailedSpan]:
    """The latest failed spans, without looking into more sessions than it takes.

    Nothing in a session is later than the session's last event: once there are enough failures after that of the next
    session, the remaining sessions cannot matter.
    """
    start, number = query.before or (_LAST, _LAST)
    values: Values = {
        "start": start,
        "number": number,
        "since": _FIRST if query.since is None else query.since,
        "until": _LAST if query.until is None else query.until,
        "limit": query.limit,
    }
    found: list[tuple[int, int, int, bytes]] = []
    for sessions, latest in _portions(database, query):
        if len(found) == query.limit and latest is not None and found[-1][0] > latest:
            break
        found += database.rows(_FAILED, sessions=sessions, **values)
        found = sorted(found, reverse=True)[: query.limit]
    wanted = [(session, span_id) for _, _, session, span_id in found]
    place: Values = {"sessions": {session for session, _ in wanted}, "wanted": wanted}
    return list(map(FailedSpan._make, database.rows(_WHOLE, **place))) if wanted else []


def _portions(database: Database, query: ErrorQuery) -> Iterator[tuple[list[int], int | None]]:
    """Sessions with failures, those with the latest last event first; and when the first of them ended."""
    found = session_conditions(query)
    if query.session is not None:
        found.add("id = :session", session=query.session)
    if query.since is not None:
        found.add("last_at >= :since", since=query.since)
    statement, size, passed = _SESSIONS.format(where=found.where), _PORTION, 0
    while rows := database.rows(statement, **found.values, size=size, passed=passed):
        yield [number for number, _ in rows], rows[0][1]
        size, passed = size * _MORE, passed + len(rows)
