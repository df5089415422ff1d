"""A dispatcher with all that belongs to it, on a real database and against the simulator, for the tests of jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from agenttrace.run.catalog.catalog import AppCatalog
from agenttrace.run.guards.admission import Admissions
from agenttrace.run.guards.breaker import CircuitBreaker
from agenttrace.run.guards.guarded import GuardedClient
from agenttrace.run.jobs.dispatch import AIDispatcher
from agenttrace.run.jobs.jobs import TriggerEvent, TriggerJob
from agenttrace.run.jobs.queue import JobQueue
from agenttrace.run.jobs.worker import Worker
from agenttrace.run.postgres.pool import Database
from agenttrace.run.presence import Presence
from agenttrace.run.results.cache import AICacheService
from agenttrace.run.results.clues import RetentionClues
from agenttrace.run.results.run_log import AIRunLogService
from agenttrace.run.results.trace_log import TraceLog
from agenttrace.run.simulator import BUILTIN_APP_IDS, Simulator, environment
from agenttrace.run.upstream.client import UpstreamClient
from agenttrace.run.upstream.providers import providers_of

#: "app3" to the simulator's id of it, and back.
APP_IDS = {name.partition("_")[0]: app_id for name, app_id in BUILTIN_APP_IDS.items()}
KEYS = {app_id: key for key, app_id in APP_IDS.items()}
PLENTY = 10**9
_members = count(1000)


@dataclass(frozen=True, kw_only=True)
class Crew:
    """One process, so to speak."""

    database: Database
    dispatcher: AIDispatcher
    queue: JobQueue
    cache: AICacheService
    clues: RetentionClues
    run_logs: AIRunLogService
    breaker: CircuitBreaker
    simulator: Simulator

    def worker(self, **options: Any) -> Worker:  # noqa: ANN401 - those of Worker
        return Worker(self.queue, self.dispatcher, **{"takeover_seconds": 2.0, "drain_seconds": 5.0, **options})

    async def run(self, event: TriggerEvent) -> TriggerJob:
        """Accept the event and run its job here and now; the job then."""
        accepted = await self.dispatcher.handle_trigger(event)
        await self.dispatcher.execute(accepted.job_id)
        return await self.job(accepted.job_id)

    async def job(self, job_id: int) -> TriggerJob:
        found = await self.database.patiently(lambda: self.dispatcher.jobs.get(job_id))
        assert found is not None
        return found

    async def ended(self, *job_ids: int) -> list[TriggerJob]:
        """The jobs, once all are over."""
        while True:
            found = [await self.job(job_id) for job_id in job_ids]
            if all(job.status not in ("pending", "running") for job in found):
                return found
            await asyncio.sleep(0.02)

    def asked(self, job: TriggerJob) -> dict[str, list[dict[str, Any]]]:
        """What the simulator was asked for the member of this job, by step, in the order of the first calls."""
        found: dict[str, list[dict[str, Any]]] = {}
        for call in self.simulator.calls:
            facts = facts_of(call.body)
            if (facts["site_id"], facts["member_id"]) == (job.site_id, job.member_id):
                key = KEYS[call.app_id]
                step = f"{key}:{facts['dimension']}" if facts["dimension"] else key
                found.setdefault(step, []).append(facts)
        return found


def facts_of(body: dict[str, Any]) -> dict[str, Any]:
    """The JSON part of a prompt."""
    facts: dict[str, Any] = json.loads(body["input"]["prompt"].partition("\n\n")[2])
    return facts


def new_member() -> int:
    """A member that no test has used."""
    return next(_members)


@asynccontextmanager
async def open_crew(
    url: str,
    simulator: Simulator,
    *,
    logs: Path | None = None,
    daily_limit: int = PLENTY,
    store_limit: int = 10**6,
    failure_threshold: int = 10**6,
    table: dict[str, Any] | None = None,
    clock: Callable[[], Any] | None = None,
    sleep: Callable[[float], Any] | None = None,
) -> AsyncIterator[Crew]:
    """A crew whose client does not wait between attempts, and whom nothing limits unless told."""
    environ = environment(simulator.base_url)
    catalog = AppCatalog.load(environ, table, store_limit=store_limit)
    trace = TraceLog(logs)
    async with (
        Database(url, size=12) as database,
        Presence(database, "test") as presence,
        JobQueue(database) as queue,
        UpstreamClient(providers_of(catalog.apps.values(), environ), sleep=sleep or _at_once) as client,
    ):
        breaker = CircuitBreaker(database, failure_threshold=failure_threshold)
        admissions = Admissions(database, process_id=presence.process_id, daily_limit=daily_limit, monthly_limit=PLENTY)
        run_logs = AIRunLogService(database)
        cache = AICacheService(database)
        clues = RetentionClues(database)
        calls = GuardedClient(client, admissions, breaker, run_logs, trace)
        dispatcher = AIDispatcher(
            database,
            catalog,
            calls,
            cache=cache,
            run_logs=run_logs,
            clues=clues,
            queue=queue,
            trace=trace,
            clock=clock,
        )
        yield Crew(
            database=database,
            dispatcher=dispatcher,
            queue=queue,
            cache=cache,
            clues=clues,
            run_logs=run_logs,
            breaker=breaker,
            simulator=simulator,
        )
    trace.close()


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


@contextmanager
def lasting_crew(url: str, **options: Any) -> Iterator[tuple[asyncio.Runner, Crew]]:  # noqa: ANN401 - those of open_crew
    """A crew for all examples of a property, and the loop that it lives in."""

    @asynccontextmanager
    async def both() -> AsyncIterator[Crew]:
        async with Simulator() as simulator, open_crew(url, simulator, **options) as crew:
            yield crew

    with asyncio.Runner() as runner:
        context = both()
        crew = runner.run(context.__aenter__())
        try:
            yield runner, crew
        finally:
            runner.run(context.__aexit__(None, None, None))
