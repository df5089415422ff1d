"""The run half as the API reaches it, and its state at a glance for the overview, which must not wait long for it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agenttrace.serve.api.shapes.runs import RunState
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError

if TYPE_CHECKING:
    from agenttrace.run.catalog.catalog import App, AppCatalog
    from agenttrace.run.engine import Engine

logger = logging.getLogger(__name__)

PATIENCE = 2.0
_NOT_RUNNING = "The run half does not run in this server."
_AWAY = "The database of the run half cannot be reached at the moment."
_UNREADABLE = "The state of the run half cannot be read; the server's log says more."


def engine_of(context: ServerContext) -> Engine:
    """The open engine; 503 with the reason where there is none."""
    if context.engine is None:
        raise ProblemError(503, context.run_half.problem or _NOT_RUNNING)
    return context.engine


def app_named(catalog: AppCatalog, name: str) -> App | None:
    """An application by its name in chains (``app3``) or its type (``app3_clue``)."""
    return catalog.apps.get(name) or next((app for app in catalog.apps.values() if app.app_type == name), None)


async def run_state(context: ServerContext) -> RunState:
    """Whether the run half works, and its guards; never an error, and never after more than two seconds."""
    if context.engine is None:
        return _unavailable(context, context.run_half.problem or _NOT_RUNNING)
    from agenttrace.run.postgres.pool import AWAY

    try:
        async with asyncio.timeout(PATIENCE):
            return await _read(context.engine)
    except (TimeoutError, *AWAY) as error:
        logger.warning("the database is away (%s)", type(error).__name__)
        return _unavailable(context, _AWAY)
    except Exception as error:
        logger.error("the run half cannot be read: %s", type(error).__name__, exc_info=error)
        return _unavailable(context, _UNREADABLE)


async def _read(engine: Engine) -> RunState:
    from agenttrace.serve.api.runs.applications import breaker_rows, budget_now

    counts = await engine.dispatcher.jobs.counts()
    return RunState(
        available=True,
        used=True,
        reason=None,
        missing=list(engine.missing),
        budget=await budget_now(engine),
        breakers=await breaker_rows(engine),
        running_jobs=counts.running,
        waiting_jobs=counts.waiting,
        failed_jobs_today=counts.failed_today,
    )


def _unavailable(context: ServerContext, reason: str) -> RunState:
    return RunState(False, context.run_half.used, reason, list(context.run_half.missing), None, [], 0, 0, 0)
