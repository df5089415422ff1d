"""Cached results of the applications: at most one valid row a target; older ones are history, up to a limit.

``generating`` marks that a worker generates the result of a target; it is a lease, which expires after a crash.
Statements that change rows which other transactions may be writing skip the locked ones, so that the transaction which
stores a paid result is never part of a deadlock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from psycopg import AsyncConnection
from psycopg.types.numeric import Int8

from agenttrace.run.postgres.pool import Clock, Database, DatabaseService
from agenttrace.run.postgres.sql_call import SqlCall
from agenttrace.run.results.storable import storable_json

ROWS_LIMIT = 20_000
_END_OF_DAY = time(23, 59, 59, fold=1)

Row = dict[str, Any]
Rows = list[Row]


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheRule:
    """The name under which results of an application are cached, and for how long; for ever if neither is set."""

    cache_type: str
    days: int | None = None
    #: Until 23:59:59 of the business day on which the result was written.
    end_of_day: bool = False


def job_name(job_id: int) -> str:
    """How a job is named as the one that made a result."""
    return f"job_{job_id}"


def expires_at(rule: CacheRule, written_at: datetime, zone: str = "Asia/Shanghai") -> datetime | None:
    """When a result that was written at that time stops being valid."""
    if rule.end_of_day:
        place = ZoneInfo(zone)
        # fold: where the clocks change at midnight, the last 23:59:59 of the day is meant, and never the next day's.
        return datetime.combine(written_at.astimezone(place).date(), _END_OF_DAY, place).astimezone(UTC)
    if rule.days is not None:
        return written_at.astimezone(UTC) + timedelta(days=rule.days)
    return None


_COLUMNS = "id, cache_type, site_id, target_id, triggered_by, created_at, expires_at, status"

_BEGIN = "SELECT biz.ai_cache_begin(%s, %s, %s, %s, %s, %s)"

# A row that a crash of the server brings back expires.
_ABANDON = """
DELETE FROM biz.ai_cache WHERE id = %s AND status = 'generating'
RETURNING set_config('synchronous_commit', 'off', true)
"""

_FREE = b"DELETE FROM biz.ai_cache WHERE status = 'generating' AND triggered_by = %s"

_GET = """
SELECT * FROM biz.ai_cache
WHERE cache_type = %s AND site_id = %s AND target_id = %s AND status = 'valid'
    AND (expires_at IS NULL OR expires_at > coalesce(%s::timestamptz, now()))
"""

_VALID = """
SELECT * FROM biz.ai_cache
WHERE cache_type = %(type)s AND site_id = %(site)s AND target_id = coalesce(%(target)s, target_id) AND status = 'valid'
    AND (expires_at IS NULL OR expires_at > coalesce(%(now)s::timestamptz, now())) AND id < %(before)s
ORDER BY id DESC LIMIT %(limit)s
"""

_EXPIRE = """
UPDATE biz.ai_cache SET status = 'expired' WHERE id = ANY(ARRAY(
    SELECT id FROM biz.ai_cache
    WHERE status IN ('valid', 'generating') AND expires_at <= coalesce(%s::timestamptz, now())
    ORDER BY expires_at LIMIT 10000 FOR UPDATE SKIP LOCKED))
"""

#: An index-only count; the index is ordered by type, so each type is counted in one run through its part.
_OVERFULL = "SELECT cache_type, count(*) - %(limit)s FROM biz.ai_cache GROUP BY cache_type HAVING count(*) > %(limit)s"

#: The inner choice reads nothing but the index; only what it chose is locked.
_TRIM = """
DELETE FROM biz.ai_cache WHERE id = ANY(ARRAY(
    SELECT id FROM biz.ai_cache WHERE id = ANY(ARRAY(
        SELECT id FROM biz.ai_cache WHERE cache_type = %s
        ORDER BY coalesce(status IN ('valid', 'generating'), false), created_at, id LIMIT %s))
    FOR UPDATE SKIP LOCKED))
"""


class AICacheService(DatabaseService):
    """Writes and reads ``biz.ai_cache``."""

    def __init__(self, database: Database, *, zone: str = "Asia/Shanghai", clock: Clock | None = None) -> None:
        super().__init__(database, clock)
        self.zone = zone

    def expiry(self, rule: CacheRule, written_at: datetime | None = None) -> datetime | None:
        """When a result of an application stops being valid, written now unless said otherwise."""
        return expires_at(rule, written_at or self.now() or datetime.now(UTC), self.zone)

    # ── writing ──

    async def begin_generating(
        self, cache_type: str, site_id: int, target_id: str, triggered_by: str | None = None, lease: float = 600.0
    ) -> int | None:
        """Take the lease of a target for so many seconds; None while another worker has it."""
        values = [cache_type, Int8(site_id), target_id, triggered_by, lease, self.now()]
        row = await self.database.one(_BEGIN, values)
        return None if row is None or row[0] is None else int(row[0])

    def storing(
        self,
        cache_type: str,
        site_id: int,
        target_id: str,
        result: dict[str, Any],
        expires_at: datetime | None,
        triggered_by: str | None = None,
        generating_id: int | None = None,
    ) -> SqlCall:
        """The call that makes a result the valid one of its target, for the statement that settles its call."""
        work = None if generating_id is None else Int8(generating_id)
        target = (cache_type, Int8(site_id), target_id)
        written = (storable_json(result), triggered_by, expires_at, work, self.now())
        return SqlCall(function="ai_cache_store", arguments=(*target, *written))

    async def abandon(self, generating_id: int) -> None:
        """Give the lease of a target back without a result."""
        await self.database.execute(_ABANDON, [Int8(generating_id)])

    async def free_job(self, connection: AsyncConnection[Any], job_id: int) -> int:
        """Give back the leases of a dead earlier worker of a job, in the caller's transaction; how many."""
        return (await connection.execute(_FREE, [job_name(job_id)])).rowcount

    async def invalidate(
        self,
        id: int | None = None,  # noqa: A002 - the column's name
        *,
        cache_type: str | None = None,
        site_id: int | None = None,
        target_id: str | None = None,
    ) -> int:
        """Invalidate results by hand, by id or by type, site and target; how many."""
        wanted = {"id": id, "cache_type": cache_type, "site_id": site_id, "target_id": target_id}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        if not wanted:
            raise ValueError("say which results: an id, a cache type, a site or a target")
        where = " AND ".join(f"{name} = %({name})s" for name in wanted)
        sql = f"""
            UPDATE biz.ai_cache SET status = 'invalidated' WHERE id = ANY(ARRAY(
                SELECT id FROM biz.ai_cache WHERE status = 'valid' AND {where} ORDER BY id FOR UPDATE))"""
        return await self.database.execute(sql, wanted)

    # ── reading ──

    async def valid(
        self,
        cache_type: str,
        site_id: int,
        target_id: str | None = None,
        *,
        limit: int = 100,
        before_id: int | None = None,
    ) -> Rows:
        """The results of a store that are valid now, newest first, with everything about them."""
        values = {
            "type": cache_type,
            "site": Int8(site_id),
            "target": target_id,
            "now": self.now(),
            "before": Int8(before_id or 2**63 - 1),
            "limit": limit,
        }
        return await self.database.rows(_VALID, values)

    async def get(self, cache_type: str, site_id: int, target_id: str) -> Row | None:
        """The valid result of a target that has not expired, with all columns; there is never more than one."""
        rows = await self.database.rows(_GET, [cache_type, site_id, target_id, self.now()])
        return rows[0] if rows else None

    async def find(self, id: int) -> Row | None:  # noqa: A002 - the column's name
        """One row in any state, with all columns."""
        rows = await self.database.rows("SELECT * FROM biz.ai_cache WHERE id = %s", [id])
        return rows[0] if rows else None

    async def list(
        self,
        *,
        cache_type: str | None = None,
        site_id: int | None = None,
        target_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        before_id: int | None = None,
        bodies: bool = False,
    ) -> Rows:
        """Rows in any state that match, newest first; the next page is ``before_id`` the last id of this one."""
        columns = _COLUMNS + (", result_json" if bodies else "")
        where = {
            "cache_type = %s": cache_type,
            "site_id = %s": site_id,
            "target_id = %s": target_id,
            "status = %s": status,
        }
        return await self.database.newest("ai_cache", columns, where, limit=limit, before_id=before_id)

    # ── tidying ──

    async def expire_due(self) -> int:
        """Mark expired rows: results past their time, and leases of work that was never finished; how many."""
        total = 0
        while count := await self.database.execute(_EXPIRE, [self.now()]):
            total += count
        return total

    async def trim(self, limit: int = ROWS_LIMIT) -> int:
        """Delete what is beyond ``limit`` rows a type: history first, then the oldest; how many."""
        overfull = await self.database.all(_OVERFULL, {"limit": limit})
        return sum([await self.database.execute(_TRIM, [cache_type, excess]) for cache_type, excess in overfull])
