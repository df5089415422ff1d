"""The rate limits: sliding windows in ``biz.ai_rate_windows``, exact for all processes together.

A window stores the instants of the calls it allowed, and never more of them than its limit. A call leaves the window
exactly ``window_seconds`` after it came: then the next one fits. Calls are counted by the admission (``biz.ai_admit``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from agenttrace.run.postgres.pool import Database

Clock = Callable[[], datetime]

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


class RateLimiter:
    """The sliding windows by scope and key, as they are shown and forgotten."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        #: None: the database's own clock, the one that all processes share.
        self._clock = clock

    async def windows(self, scope: str | None = None, limit: int = 100) -> list[RateView]:
        """The windows with calls in them, the fullest first."""
        rows = await self._database.all(_VIEW, (self._now(), scope, scope, limit))
        return [RateView(scope=scope, key=key, seconds=seconds, calls=calls) for scope, key, seconds, calls in rows]

    async def forget_idle(self, older_than: float = 0.0) -> int:
        """Drop the windows that have been empty for that many seconds; how many there were."""
        return await self._database.execute(_FORGET, (self._now(), older_than))

    def _now(self) -> datetime | None:
        return self._clock() if self._clock else None
