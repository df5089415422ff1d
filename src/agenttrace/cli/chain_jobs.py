"""Chains of rules as jobs of the run half: ordered once, run by any worker, and waited for.

The database is opened when a chain is due, and closed when none was for a while; an embedded one is started then. A
worker runs beside it, so chains are run also where ``agenttrace up`` has none.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from agenttrace.cli.asking import explained
from agenttrace.model import Usage
from agenttrace.prices.costing import Cashier
from agenttrace.prices.parsing import MILLION
from agenttrace.prices.table import cost_micros, displayed
from agenttrace.rules.actions.chain import LATER, ChainResult, Order, StepAnswer
from agenttrace.run import availability

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.run.engine import Engine
    from agenttrace.run.jobs.jobs import TriggerJob

logger = logging.getLogger(__name__)

#: The database is closed after so many seconds without a chain.
IDLE_SECONDS = 60.0
#: How often a job is looked at.
_FIRST_LOOK, _LONGEST_LOOK = 0.05, 1.0
#: Jobs of this process's worker at the same time.
_CONCURRENCY = 4

#: For calls that run when the rules stop; chains had time to end before.
_DRAIN_SECONDS = 5.0

_Calls = Sequence[Mapping[str, Any]]


class ChainJobs:
    """Runs the chains of rules; enter it, so that its database is closed at the end."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] = os.environ) -> None:
        self._settings = settings
        self._environ = environ
        self._opening = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._engine: Engine | None = None
        #: With which settings the engine was opened.
        self._opened_with: Settings | None = None
        self._users = 0
        self._closing: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._closing is not None:
            self._closing.cancel()
        async with self._opening:
            await self._close()

    def use(self, settings: Settings) -> None:
        """Use these settings for the chains that start from now on."""
        self._settings = settings

    async def run(self, order: Order) -> ChainResult:
        """Run the chain of an order, or wait for the end of the one that was started for its key."""
        if (problem := objection(self._settings, order.apps, self._environ)) is not None:
            return ChainResult("retry", problem)
        try:
            async with self._open() as engine:
                return await self._run(engine, order)
        except Exception as error:
            problem = explained(self._settings.database.url, error)
            if problem is None:
                raise
            return ChainResult("retry", problem)

    async def _run(self, engine: Engine, order: Order) -> ChainResult:
        from agenttrace.run.jobs.jobs import ChainOrder

        known = await engine.dispatcher.jobs.by_key(order.key)
        if known is not None and known.is_over and order.only_result:
            return self._result(order, known, await engine.dispatcher.jobs.calls(known.id))
        text = str((known.payload or {}).get("text", "")) if known is not None else await asyncio.to_thread(order.text)
        job_id = await engine.dispatcher.order(
            ChainOrder(key=order.key, apps=order.apps, payload={**order.facts, "text": text})
        )
        job = await _ended(engine, job_id)
        return self._result(order, job, await engine.dispatcher.jobs.calls(job_id))

    def _result(self, order: Order, job: TriggerJob, calls: _Calls) -> ChainResult:
        answers = {call["step"]: call["response_text"] or "" for call in calls if call["status"] == "success"}
        missing = [app for app in order.apps if app not in answers]
        cost, currency = self._cost(calls)
        result = ChainResult(
            "done",
            answers=tuple(StepAnswer(app, answers[app]) for app in order.apps if app in answers),
            tokens=sum(call["tokens_used"] or 0 for call in calls),
            cost=cost,
            currency=currency,
            job=job.id,
            session=job.session_id,
        )
        return result if not missing else result._replace(**_failure(job, calls, missing))

    def _cost(self, calls: _Calls) -> tuple[float | None, str | None]:
        """What the calls cost; nothing where a model has no price, or they are in several currencies."""
        cashier = Cashier.load(self._settings)
        sums: dict[str, int] = {}
        for call in calls:
            usage = Usage(input_tokens=call["input_tokens"] or 0, output_tokens=call["output_tokens"] or 0)
            if not usage.total:
                continue
            price = cashier.prices.price(call["model"] or "", call["created_at"].date().isoformat())
            if price is None:
                return None, None
            micros, currency = displayed(cost_micros(price, usage), price.currency, cashier.settings)
            sums[currency] = sums.get(currency, 0) + micros
        if len(sums) != 1:
            return None, None
        ((currency, micros),) = sums.items()
        return micros / MILLION, currency

    # -- the database -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Engine]:
        async with self._opening:
            if self._engine is not None and self._opened_with is not self._settings and not self._users:
                await self._close()
            engine = self._engine or await self._opened()
            self._users += 1
        try:
            yield engine
        finally:
            self._users -= 1
            self._close_later()

    async def _opened(self) -> Engine:
        from agenttrace.run.engine import open_engine
        from agenttrace.run.jobs.worker import Worker

        settings, run = self._settings, self._settings.run
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(open_engine(settings, "rules", environ=self._environ))
            stop = asyncio.Event()
            worker = Worker(
                engine.queue,
                engine.dispatcher,
                concurrency=_CONCURRENCY,
                takeover_seconds=run.takeover_seconds,
                drain_seconds=min(run.drain_seconds, _DRAIN_SECONDS),
            )
            stack.push_async_callback(_stopped, asyncio.create_task(worker.run(stop)), stop)
            self._stack, self._engine, self._opened_with = stack.pop_all(), engine, settings
        return engine

    def _close_later(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self._closing = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._start_closing)

    def _start_closing(self) -> None:
        task = asyncio.create_task(self._close_idle())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_idle(self) -> None:
        async with self._opening:
            if not self._users:
                await self._close()

    async def _close(self) -> None:
        stack, self._stack, self._engine, self._opened_with = self._stack, None, None, None
        if stack is not None:
            try:
                await stack.aclose()
            except Exception as error:
                # The database may be away; what was under way is in it.
                logger.warning("the database of chains was not closed properly: %s", type(error).__name__)


def objection(settings: Settings, apps: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Why these applications cannot be called, and what to do about it; asks no database."""
    if not availability.is_installed():
        return str(availability.NotInstalledError())
    from agenttrace.run.catalog.catalog import CatalogError, UnknownEventError, load_catalog

    try:
        catalog = load_catalog(settings, environ)
        steps = catalog.chain_of(apps).steps
    except (CatalogError, UnknownEventError) as error:
        return f"{error}. Correct agenttrace.toml; agenttrace apps lists the applications."
    for step in steps:
        app = catalog.apps[step.app]
        if app.missing:
            fix = f"Set {', '.join(app.missing)}, or write [apps.{app.key}] with a model of yours"
            return f"{app.key} cannot be called. {fix}; agenttrace apps shows what is missing."
    return None


async def _ended(engine: Engine, job_id: int) -> TriggerJob:
    """The job, once it is over."""
    pause = _FIRST_LOOK
    while True:
        job = await engine.database.patiently(lambda: engine.dispatcher.jobs.get(job_id))
        assert job is not None, "jobs are not deleted"
        if job.is_over:
            return job
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_LOOK)


async def _stopped(working: asyncio.Task[None], stop: asyncio.Event) -> None:
    """Stop a worker: running calls may finish, and what is left goes back to the queue."""
    stop.set()
    with suppress(Exception):
        await working


def _failure(job: TriggerJob, calls: _Calls, missing: Sequence[str]) -> dict[str, Any]:
    """What becomes of a chain of which applications have not answered.

    A call that was billed and brought nothing is not repeated unasked. What was refused, or failed for free, is.
    """
    reason = job.error_message or f"{', '.join(missing)}: no answer"
    found: dict[str, Any] = {"reason": f"job {job.id} is {job.status}: {reason}"}
    last = {call["step"]: call["tokens_used"] for call in calls}
    billed = any(last.get(app) for app in missing)
    if job.status == "cancelled" or billed:
        return found | {"outcome": "failed"}
    if "budget_exceeded" in reason or job.status == "budget_exceeded":
        return found | {"outcome": "retry", "retry_after": LATER}
    return found | {"outcome": "retry"}
