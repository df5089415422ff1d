"""Clean-up after dead processes and expired rows; every server and worker does it every few seconds.

Only one sweeps at a time. Nothing depends on that, it only saves work: each part skips what others have locked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from agenttrace.run.guards.rate_limit import RateLimiter
from agenttrace.run.presence import forget_gone
from agenttrace.run.results.cache import ROWS_LIMIT, AICacheService
from agenttrace.run.results.run_log import AIRunLogService, Row
from agenttrace.run.results.trace_log import TraceLog

logger = logging.getLogger(__name__)

#: Seconds without a call or a sign of life after which a rate window or a process is forgotten.
IDLE_WINDOW_SECONDS = 3_600.0
GONE_PROCESS_SECONDS = 86_400.0
#: Days that the admission no longer reads, and a few more.
_FORGET_SIZES = "DELETE FROM biz.ai_app_sizes WHERE day < now()::date - 14"
_LOCK = 0x61675377  # the number of our lock: the sweeping process holds it
#: The longest that others wait for a process that was frozen while it swept.
_SWEEP_SECONDS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepReport:
    """What one sweep has done."""

    #: False: another process was sweeping, and nothing was done here.
    done: bool = True
    lost: tuple[Row, ...] = ()
    expired: int = 0
    trimmed: int = 0
    idle_windows: int = 0
    gone_processes: int = 0
    old_sizes: int = 0
    old_logs: int = 0


class Sweeper:
    """Closes lost calls and expires results at each sweep; the slower chores come once in ``chores_every`` seconds."""

    def __init__(
        self,
        *,
        run_logs: AIRunLogService,
        cache: AICacheService,
        limiter: RateLimiter,
        lost_after: float = 30.0,
        cache_rows: int = ROWS_LIMIT,
        log_days: int = 0,
        trace: TraceLog | None = None,
        chores_every: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = run_logs.database
        self._run_logs = run_logs
        self._cache = cache
        self._limiter = limiter
        self._trace = trace or TraceLog(None)
        self._lost_after = lost_after
        self._cache_rows = cache_rows
        #: 0: run logs are never deleted.
        self._log_days = log_days
        self._chores_every = chores_every
        self._clock = clock
        self._chores_due = clock()

    async def sweep(self) -> SweepReport:
        """Do what is due, unless another process is at it."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(b"SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
            if await cursor.fetchone() != (True,):
                return SweepReport(done=False)
            # This transaction only holds the lock while others do the work, and some of that takes its time.
            await connection.execute(f"SET LOCAL idle_in_transaction_session_timeout TO '{_SWEEP_SECONDS}s'".encode())
            return await self._sweep()

    async def _sweep(self) -> SweepReport:
        lost = tuple(await self._run_logs.close_lost(lost_after=self._lost_after))
        for call in lost:
            logger.warning("run log %s (%s): its process has died; closed as failed", call["id"], call["app_type"])
            self._trace.write_again(call)
        expired = await self._cache.expire_due()
        if self._clock() < self._chores_due:
            return SweepReport(lost=lost, expired=expired)
        self._chores_due = self._clock() + self._chores_every
        return SweepReport(
            lost=lost,
            expired=expired,
            trimmed=await self._cache.trim(self._cache_rows),
            idle_windows=await self._limiter.forget_idle(IDLE_WINDOW_SECONDS),
            gone_processes=await forget_gone(self._database, GONE_PROCESS_SECONDS),
            old_sizes=await self._database.execute(_FORGET_SIZES),
            old_logs=await self._run_logs.forget_old(self._log_days) if self._log_days else 0,
        )
