"""The run half at a glance, for the first page: which has more to show, and must not wait for a database for long."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agenttrace.serve.api.running import NOT_RUNNING
from agenttrace.serve.api.shapes import RunState
from agenttrace.serve.context import Context, RunHalf

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine

logger = logging.getLogger(__name__)

PATIENCE = 2.0
_AWAY = "The database of the run half cannot be reached at the moment."
_UNREADABLE = "The state of the run half cannot be read; the server's log says more."


async def run_state(context: Context) -> RunState:
    """Whether the run half works and how its guards stand; never an error, and never after more than two seconds."""
    if context.engine is None:
        return _unavailable(context.run_half.problem or NOT_RUNNING, context.run_half)
    from agenttrace.run.postgres.pool import AWAY

    try:
        async with asyncio.timeout(PATIENCE):
            return await _read(context.engine)
    except (TimeoutError, *AWAY) as error:
        logger.warning("the database is away (%s)", type(error).__name__)
        return _unavailable(_AWAY, context.run_half)
    except Exception as error:
        logger.error("the run half cannot be read: %s", type(error).__name__, exc_info=error)
        return _unavailable(_UNREADABLE, context.run_half)


async def _read(engine: Engine) -> RunState:
    from agenttrace.serve.api.guards import breaker_rows, budget_now

    counts = await engine.dispatcher.jobs.counts()
    return RunState(
        available=True,
        reason=None,
        missing=list(engine.missing),
        budget=await budget_now(engine),
        breakers=await breaker_rows(engine),
        running_jobs=counts.running,
        waiting_jobs=counts.waiting,
        failed_jobs_today=counts.failed_today,
    )


def _unavailable(reason: str, run_half: RunHalf) -> RunState:
    return RunState(
        available=False,
        reason=reason,
        missing=list(run_half.missing),
        budget=None,
        breakers=[],
        running_jobs=0,
        waiting_jobs=0,
        failed_jobs_today=0,
    )
