"""The rate limits: sliding windows in ``biz.ai_rate_windows``, exact for all processes together.

A window stores the instants of the calls it allowed, and never more of them than its limit. A call leaves the window
exactly ``window_seconds`` after it came: then the next one fits. Calls are counted by the admission (``biz.ai_admit``).
"""

from __future__ import annotations

from dataclasses import dataclass

from agenttrace.run.postgres.pool import DatabaseService

_VIEW = """
SELECT scope, key, extract(epoch FROM span)::double precision, calls
FROM biz.ai_rate_windows, LATERAL (
    SELECT count(*) AS calls FROM unnest(hits) AS hit WHERE hit > coalesce(%s, clock_timestamp()) - span) AS c
WHERE calls > 0 AND (%s::text IS NULL OR scope = %s)
ORDER BY calls DESC, scope, key, span LIMIT %s
"""
_FORGET = """
DELETE FROM biz.ai_rate_windows
WHERE last_at + span <= coalesce(%s, clock_timestamp()) - make_interval(secs => %s::double precision)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RateView:
    """A window as it is shown: how many calls are in it now."""

    scope: str
    key: str
    seconds: float
    calls: int


class RateLimiter(DatabaseService):
    """The sliding windows by scope and key, as they are shown and forgotten."""

    async def windows(self, scope: str | None = None, limit: int = 100) -> list[RateView]:
        """The windows with calls in them, the fullest first."""
        rows = await self.database.all(_VIEW, (self.now(), scope, scope, limit))
        return [RateView(scope=scope, key=key, seconds=seconds, calls=calls) for scope, key, seconds, calls in rows]

    async def forget_idle(self, older_than: float = 0.0) -> int:
        """Drop the windows that have been empty for that many seconds; how many there were."""
        return await self.database.execute(_FORGET, (self.now(), older_than))
