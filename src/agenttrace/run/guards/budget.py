"""The token budget of the day and the month: how much of it is gone, and how much open calls hold.

``biz.ai_budget_days`` has the sums of ``ai_run_logs`` by day of the business time zone. A trigger maintains them in the
transaction that changes the log. The admission of a call is judged by the same sums, so the number that refuses is
the number shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from agenttrace.run.postgres.pool import Clock, Database, DatabaseService

_SUMS = """
SELECT coalesce(sum(used) FILTER (WHERE day = today), 0)::bigint, coalesce(sum(used), 0)::bigint,
       coalesce(sum(reserved) FILTER (WHERE day = today), 0)::bigint, coalesce(sum(reserved), 0)::bigint,
       coalesce(sum(failed) FILTER (WHERE day = today), 0)::bigint, coalesce(sum(failed), 0)::bigint,
       coalesce(sum(ceiling) FILTER (WHERE day = today), 0)::bigint, coalesce(sum(ceiling), 0)::bigint
FROM (SELECT today, date_trunc('month', today::timestamp) AS month
      FROM biz.ai_business_day(coalesce(%s, clock_timestamp())) AS today) AS t
LEFT JOIN biz.ai_budget_days ON day >= month AND day < month + interval '1 month'
"""


@dataclass(frozen=True)
class BudgetStatus:
    """Whether there is anything left, and where the tokens went."""

    allowed: bool
    daily_used: int
    monthly_used: int
    #: ``daily_exceeded`` or ``monthly_exceeded``.
    reason: str | None = None
    daily_limit: int = 0
    monthly_limit: int = 0
    #: Held for calls that have not ended yet.
    daily_reserved: int = 0
    monthly_reserved: int = 0
    #: Billed for calls that brought no result.
    daily_failed: int = 0
    monthly_failed: int = 0
    #: What the calls that have not ended may take at most; while it does not fit, calls pass one at a time.
    daily_ceiling: int = 0
    monthly_ceiling: int = 0


class BudgetTracker(DatabaseService):
    """The sums of the day and of the month against their limits."""

    def __init__(
        self,
        database: Database,
        daily_limit: int = 100_000,
        monthly_limit: int = 2_000_000,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(database, clock)
        self.daily_limit = daily_limit
        self.monthly_limit = monthly_limit

    async def check_budget(self) -> BudgetStatus:
        """Whether a call could be admitted now: only while used, failed and reserved together are below the limits."""
        row = await self.database.one(_SUMS, (self.now(),))
        assert row is not None
        used, used_in_month, reserved, reserved_in_month, failed, failed_in_month, *ceilings = row
        reason = None
        if used + reserved + failed >= self.daily_limit:
            reason = "daily_exceeded"
        elif used_in_month + reserved_in_month + failed_in_month >= self.monthly_limit:
            reason = "monthly_exceeded"
        return BudgetStatus(
            allowed=reason is None,
            daily_used=used,
            monthly_used=used_in_month,
            reason=reason,
            daily_limit=self.daily_limit,
            monthly_limit=self.monthly_limit,
            daily_reserved=reserved,
            monthly_reserved=reserved_in_month,
            daily_failed=failed,
            monthly_failed=failed_in_month,
            daily_ceiling=ceilings[0],
            monthly_ceiling=ceilings[1],
        )

    async def _get_daily_usage(self) -> int:
        return (await self.check_budget()).daily_used

    async def _get_monthly_usage(self) -> int:
        return (await self.check_budget()).monthly_used
