"""The token budget of the day and the month: how much of it is gone, and what a call will probably take.

``biz.ai_budget_days`` holds the sums of ``ai_run_logs`` by day of the business time zone, kept by a trigger in the
transaction that changes the log. The admission of a call is judged by the same sums, so the number that refuses is
the number shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from agenttrace.run.database import Database
from agenttrace.run.wire import estimate_tokens

Clock = Callable[[], datetime]

#: How many calls of an application are remembered for the next estimate.
REMEMBERED = 20

_SUMS = """
SELECT coalesce(sum(used) FILTER (WHERE day = today), 0)::bigint, coalesce(sum(used), 0)::bigint,
       coalesce(sum(reserved) FILTER (WHERE day = today), 0)::bigint, coalesce(sum(reserved), 0)::bigint,
       coalesce(sum(failed) FILTER (WHERE day = today), 0)::bigint, coalesce(sum(failed), 0)::bigint
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


class BudgetTracker:
    """The sums of the day and of the month against their limits."""

    def __init__(
        self,
        database: Database,
        daily_limit: int = 100_000,
        monthly_limit: int = 2_000_000,
        clock: Clock | None = None,
    ) -> None:
        self.daily_limit = daily_limit
        self.monthly_limit = monthly_limit
        self._database = database
        #: None: the database's own clock, the one that all processes share.
        self._clock = clock

    async def check_budget(self) -> BudgetStatus:
        """Whether a call could be admitted now: only while used, failed and reserved together are below the limits."""
        row = await self._database.one(_SUMS, (self._clock() if self._clock else None,))
        assert row is not None
        used, used_in_month, reserved, reserved_in_month, failed, failed_in_month = row
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
        )

    async def _get_daily_usage(self) -> int:
        return (await self.check_budget()).daily_used

    async def _get_monthly_usage(self) -> int:
        return (await self.check_budget()).monthly_used


class TokenEstimator:
    """What a call will use: rather too much, because what is reserved in excess comes back when the call is settled."""

    def __init__(self) -> None:
        self._totals: dict[str, deque[int]] = {}

    def estimate(self, app_type: str, prompt: str, expected: int = 2000) -> int:
        """The most that the latest calls of the application used; before the first, its prompt and ``expected``."""
        asked = estimate_tokens(prompt)
        totals = self._totals.get(app_type)
        return max(asked, *totals) if totals else asked + expected

    def learn(self, app_type: str, tokens: int) -> None:
        """A call of the application used so many."""
        self._totals.setdefault(app_type, deque(maxlen=REMEMBERED)).append(tokens)
