"""The specification's rate limiter, as a separate check.

AgentTrace checks the limit as a part of the admission (``biz.ai_admit``), by the same SQL function.
"""

from __future__ import annotations

from dataclasses import dataclass

from agenttrace.run.guards import rate_limit


@dataclass(frozen=True, kw_only=True, slots=True)
class RateVerdict:
    """Whether a call fits into the window, and if not, in how many seconds the next one will."""

    allowed: bool
    retry_after: float


class RateLimiter(rate_limit.RateLimiter):
    """Sliding windows by scope and key; a call that is refused does not count."""

    async def check_user_rate(self, user_id: str, limit: int = 10, window_seconds: float = 60) -> bool:
        """App1: whether this user's call still fits; if so, it is counted."""
        return (await self.hit("user", user_id, limit, window_seconds)).allowed

    async def check_store_rate(self, site_id: int, limit: int = 100, window_seconds: float = 3600) -> bool:
        """App2 to App8: whether this store's call still fits; if so, it is counted."""
        return (await self.hit("store", str(site_id), limit, window_seconds)).allowed

    async def hit(self, scope: str, key: str, limit: int, window_seconds: float) -> RateVerdict:
        """Count a call if it fits."""
        row = await self.database.one(
            "SELECT allowed, retry_after FROM biz.ai_rate_hit(%s, %s, %s, %s, %s)",
            (scope, key, limit, f"{window_seconds} seconds", self.now()),
        )
        assert row is not None
        return RateVerdict(allowed=row[0], retry_after=row[1])
