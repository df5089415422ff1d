"""Calls that nobody is at any more: those of dead processes are closed as failed, old ones are forgotten.

Nobody waits in a circle: rows that somebody is just settling are skipped, and the rest is written day by day, oldest
first, because the budget's trigger locks the sums of the days in the order in which their rows were written.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from agenttrace.run.postgres.pool import Database

#: How the reason of a row begins that was closed for somebody who died.
LOST = "lost: "
#: Seconds after which a row that names no process is taken for lost.
UNOWNED_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LostCall:
    """A call whose process died before it could say how it ended."""

    id: int
    app_type: str
    site_id: int
    session_id: str | None
    trigger_job_id: int | None
    step: str | None
    process_id: uuid.UUID | None
    #: The row itself, as it was closed.
    row: Mapping[str, Any]


_NAMES = ("id", "app_type", "site_id", "session_id", "trigger_job_id", "step", "process_id")

#: The server's own start counts as a sign of life of everyone: while it was away nobody could give one.
_FIND_LOST = b"""
SELECT l.id, biz.ai_business_day(l.created_at) FROM biz.ai_run_logs AS l
WHERE l.status IN ('pending', 'running')
    AND l.created_at < now() - make_interval(secs => CASE WHEN l.process_id IS NULL THEN greatest(%(lost)s, %(unowned)s)
                                                          ELSE %(lost)s END)
    AND pg_postmaster_start_time() < now() - make_interval(secs => %(lost)s)
    AND NOT EXISTS (SELECT FROM biz.ai_processes AS p
                    WHERE p.id = l.process_id AND p.seen_at >= now() - make_interval(secs => %(lost)s))
ORDER BY l.id LIMIT 1000 FOR UPDATE OF l SKIP LOCKED
"""

_FIND_OPEN_OF_JOB = b"""
SELECT id, biz.ai_business_day(created_at) FROM biz.ai_run_logs
WHERE trigger_job_id = %(job)s AND status IN ('pending', 'running')
ORDER BY id FOR UPDATE SKIP LOCKED
"""

#: What the provider has billed is unknown; what was reserved is the best guess, and keeps the budget safe.
_CLOSE = b"""
UPDATE biz.ai_run_logs
SET status = 'failed', error_message = %s, tokens_used = tokens_reserved, tokens_estimated = true,
    latency_ms = least(extract(epoch FROM clock_timestamp() - created_at) * 1000, 2147483647)::integer,
    finished_at = clock_timestamp()
WHERE id = ANY(%s)
RETURNING *
"""

#: Never of the current month: the budget is their sum.
_FIND_OLD = b"""
SELECT l.id, biz.ai_business_day(l.created_at) FROM biz.ai_run_logs AS l, biz.ai_business_zone AS z
WHERE l.created_at < least(now() - make_interval(days => %(days)s),
                           date_trunc('month', now() AT TIME ZONE z.zone) AT TIME ZONE z.zone)
    AND l.status NOT IN ('pending', 'running')
ORDER BY l.created_at LIMIT 5000 FOR UPDATE OF l SKIP LOCKED
"""


async def close_lost(database: Database, lost_after: float) -> list[LostCall]:
    """Close as failed what processes left open that have not been seen for that many seconds."""
    values = {"lost": lost_after, "unowned": UNOWNED_SECONDS}
    lost: list[LostCall] = []
    while True:
        async with database.transaction() as connection:
            closed = await _close(connection, _FIND_LOST, values, "the process of this call has died")
        lost += closed
        if not closed:
            return lost


async def close_open_of_job(connection: AsyncConnection[Any], job_id: int) -> int:
    """Close as failed what an earlier worker of a job left open; how many."""
    return len(await _close(connection, _FIND_OPEN_OF_JOB, {"job": job_id}, "the worker died in mid-call"))


async def forget_old(database: Database, days: int) -> int:
    """Delete ended calls of more than that many days ago, but none of this month; how many."""
    total = 0
    while True:
        async with database.transaction() as connection:
            old = await _locked(connection, _FIND_OLD, {"days": days})
            for ids in old:
                await connection.execute(b"DELETE FROM biz.ai_run_logs WHERE id = ANY(%s)", [ids])
        total += sum(map(len, old))
        if not old:
            return total


async def _close(
    connection: AsyncConnection[Any], find: bytes, values: Mapping[str, object], reason: str
) -> list[LostCall]:
    closed: list[LostCall] = []
    for ids in await _locked(connection, find, values):
        async with connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_CLOSE, [LOST + reason, ids])
            closed += [LostCall(row=row, **{name: row[name] for name in _NAMES}) for row in await cursor.fetchall()]
    return closed


async def _locked(connection: AsyncConnection[Any], find: bytes, values: Mapping[str, object]) -> list[list[int]]:
    """Lock rows that nobody else has locked; their ids by day, oldest first."""
    days: dict[date, list[int]] = {}
    for log_id, day in await (await connection.execute(find, values)).fetchall():
        days.setdefault(day, []).append(log_id)
    return [days[day] for day in sorted(days)]
