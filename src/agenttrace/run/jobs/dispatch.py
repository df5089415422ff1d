"""Events become jobs, and jobs become calls: the dispatcher accepts triggers and, in workers, runs their chains.

Accepting writes the job's row and its entry in the queue in one transaction, so that no accepted trigger is lost and
none is run that was not accepted. A run may end at any instant and be continued by another worker: steps that have
succeeded are not called again, and a worker that was taken for dead is refused its next step by its claim.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from psycopg import AsyncConnection

from agenttrace.run.catalog.catalog import AppCatalog, Chain
from agenttrace.run.guards.admission import JobCancelledError, StepSupersededError
from agenttrace.run.guards.guarded import GuardedClient
from agenttrace.run.jobs.chain import ChainReport, ChainRun, Tools
from agenttrace.run.jobs.jobs import ChainOrder, Jobs, TriggerEvent, TriggerJob
from agenttrace.run.jobs.queue import JobQueue, JobUnfinishedError
from agenttrace.run.postgres.pool import AWAY, Clock, Database, DatabaseService
from agenttrace.run.results.cache import AICacheService
from agenttrace.run.results.clues import RetentionClues
from agenttrace.run.results.run_log import AIRunLogService
from agenttrace.run.results.trace_log import TraceLog
from agenttrace.run.states import JobStatus, RunStatus

logger = logging.getLogger(__name__)

#: Seconds that accepting a trigger waits for a database that is away.
ACCEPT_PATIENCE = 10.0


class Accepted(NamedTuple):
    """The row that a trigger got."""

    job_id: int
    #: ``pending`` or ``skipped_duplicate``.
    status: JobStatus
    #: The job that does the same already.
    duplicate_of: int | None = None


class NotConfiguredError(Exception):
    """Nothing can be called: no application has all its variables."""


class _CommitUnknownError(Exception):
    """The connection broke after everything was written: it is not known whether it was committed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class AIDispatcher(DatabaseService):
    """Accepts events and runs their chains."""

    def __init__(
        self,
        database: Database,
        catalog: AppCatalog,
        calls: GuardedClient | None,
        *,
        cache: AICacheService,
        run_logs: AIRunLogService,
        clues: RetentionClues,
        queue: JobQueue,
        trace: TraceLog | None = None,
        zone: str = "Asia/Shanghai",
        step_concurrency: int = 8,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(database, clock)
        self.catalog = catalog
        self.jobs = Jobs(database, zone=zone)
        self._tools = None
        if calls is not None:
            self._tools = Tools(catalog=catalog, calls=calls, cache=cache, clues=clues, run_logs=run_logs)
        self._run_logs = run_logs
        self._cache = cache
        self._queue = queue
        self._trace = trace or TraceLog(None)
        self._step_concurrency = step_concurrency

    # ── triggers ──

    async def handle_trigger(self, event: TriggerEvent) -> Accepted:
        """Write the job and queue it for a worker, or write that it is a duplicate. Raises UnknownEventError."""
        chain = self._chain(event).text
        try:
            return await self.database.patiently(lambda: self._accept_once(event, chain), ACCEPT_PATIENCE)
        except _CommitUnknownError as unknown:
            # Only the caller can decide to ask again: an event that is not forced would be a duplicate of itself.
            raise unknown.error from None

    async def _accept_once(self, event: TriggerEvent, chain: str) -> Accepted:
        written = False
        try:
            async with self.database.transaction() as connection:
                accepted = await self._write(connection, event, chain)
                written = True
        except AWAY as error:
            if written:
                raise _CommitUnknownError(error) from None
            raise
        return accepted

    async def accept_in(self, connection: AsyncConnection[Any], event: TriggerEvent) -> Accepted:
        """The same as a part of the caller's transaction."""
        chain = self._chain(event).text
        return await self._write(connection, event, chain)

    async def _write(self, connection: AsyncConnection[Any], event: TriggerEvent, chain: str) -> Accepted:
        now = self.now()
        event = replace(event, connector_type=event.connector_type or self.catalog.connector)
        job_id = await self.jobs.insert(connection, event, chain, now)
        if job_id is None:
            number, first = await self.jobs.insert_duplicate(connection, event, chain, now)
            return Accepted(number, JobStatus.SKIPPED_DUPLICATE, first)
        await self._queue.defer(connection, job_id)
        return Accepted(job_id, JobStatus.PENDING)

    async def rerun(self, job_id: int) -> Accepted | None:
        """Run the event of a job again, today's duplicates or not; None if there is no such job."""
        job = await self.jobs.get(job_id)
        if job is None:
            return None
        event = TriggerEvent(
            event_type=job.event_type,
            site_id=job.site_id,
            member_id=job.member_id,
            connector_type=job.connector_type,
            payload=job.payload,
            is_forced=True,
            rerun_of=job.id,
            apps=None if job.apps is None else tuple(job.apps),
        )
        return await self.handle_trigger(event)

    def _chain(self, event: TriggerEvent | TriggerJob) -> Chain:
        return self.catalog.chain(event.event_type, event.payload, event.apps)

    # ── chains that rules order ──

    async def order(self, order: ChainOrder) -> int:
        """Queue a chain; the number of its job, which is the same for every order with one key.

        Where that job is over, its applications are called that have not succeeded in it. Raises UnknownEventError.
        """
        chain = self.catalog.chain_of(order.apps).text
        return await self.database.patiently(lambda: self._order_once(order, chain), ACCEPT_PATIENCE)

    async def _order_once(self, order: ChainOrder, chain: str) -> int:
        async with self.database.transaction() as connection:
            job_id = await self.jobs.order(connection, order, chain, self.now())
            if job_id is not None:
                await self._queue.defer(connection, job_id)
                return job_id
        found = await self.jobs.by_key(order.key)
        assert found is not None
        if not found.is_over or not await self._missing_steps(found.id, order.apps):
            return found.id
        async with self.database.transaction() as connection:
            if await self.jobs.continue_order(connection, found.id, order.apps, chain):
                await self._queue.defer(connection, found.id)
        return found.id

    async def _missing_steps(self, job_id: int, apps: Sequence[str]) -> bool:
        done = {row["step"] for row in await self.jobs.calls(job_id) if row["status"] == RunStatus.SUCCESS}
        return not done.issuperset(apps)

    # ── running ──

    async def execute(self, job_id: int, *, stopping: Callable[[], bool] = bool) -> str:
        """Run a job to its end, or what is left of it; its status then.

        Raises JobUnfinishedError when ``stopping`` says so before a step: the job is to be given back to the queue.
        """
        job = await self.database.patiently(lambda: self._claim(job_id))
        if job is None:
            ended = await self.database.patiently(lambda: self.jobs.get(job_id))
            if ended is not None and ended.started_at is not None:
                # The worker that ended it may have died before it wrote this line; writing it twice changes nothing.
                self._trace.job_end(ended.session_id, ended.status, ended.error_message)
            return "missing" if ended is None else ended.status
        await self._trace_beginning(job)
        try:
            return await self._end(job, *await self._outcome(job, stopping))
        except StepSupersededError:
            logger.info("job %d has another worker now", job_id)
            return "superseded"

    async def _claim(self, job_id: int) -> TriggerJob | None:
        async with self.database.transaction() as connection:
            job = await self.jobs.claim(connection, job_id)
            if job is not None and job.claim > 1:
                await self._run_logs.close_open_of_job(connection, job_id)
                await self._cache.free_job(connection, job_id)
            return job

    async def _outcome(self, job: TriggerJob, stopping: Callable[[], bool]) -> tuple[JobStatus, str | None]:
        try:
            report = await self._execute_chain(job, stopping)
        except JobCancelledError:
            return JobStatus.CANCELLED, "cancelled"
        except (StepSupersededError, JobUnfinishedError, *AWAY):
            raise
        except Exception as error:
            logger.exception("job %d failed", job.id)
            return JobStatus.FAILED, f"{type(error).__name__}: {error}"
        return report.status, report.message

    async def _end(self, job: TriggerJob, status: JobStatus, error: str | None) -> str:
        if not await self.database.patiently(lambda: self.jobs.finish(job, status, error)):
            raise StepSupersededError
        self._trace.job_end(job.session_id, status, error)
        return status

    async def _execute_chain(self, job: TriggerJob, stopping: Callable[[], bool] = bool) -> ChainReport:
        """Run the chain of a claimed job, without the steps that an earlier worker has finished."""
        if job.cancel_requested:
            raise JobCancelledError(f"job {job.id} was cancelled")
        if self._tools is None:
            raise NotConfiguredError("the variables of the applications are not set")
        finished = await self._run_logs.finished_steps(job.id) if job.claim > 1 else {}
        run = ChainRun(
            job,
            self._chain(job),
            self._tools,
            finished=finished,
            concurrency=self._step_concurrency,
            stopping=stopping,
        )
        await run.run()
        return run.report

    # ── the trace ──

    async def _trace_beginning(self, job: TriggerJob) -> None:
        self._trace.job_begin(
            job.session_id,
            site_id=job.site_id,
            event_type=job.event_type if job.apps is None else f"{job.event_type} {(job.payload or {}).get('rule')}",
            chain=job.app_chain or "",
            prompt=f"{job.event_type} {json.dumps(_about(job), ensure_ascii=False, sort_keys=True)}",
        )
        if job.claim > 1:
            # Lines that an earlier worker may have died before writing.
            whose = {"site_id": job.site_id, "session_id": job.session_id, "trigger_job_id": job.id}
            for row in await self.database.patiently(lambda: self.jobs.calls(job.id)):
                self._trace.write_again(row | whose)


def _about(job: TriggerJob) -> dict[str, Any]:
    if job.apps is None:
        return {"site_id": job.site_id, "member_id": job.member_id, "payload": job.payload}
    # The text is in the prompt of each call.
    return {name: value for name, value in (job.payload or {}).items() if name != "text"}


#: The dispatcher of this process, for :func:`fire_event`.
_current: AIDispatcher | None = None


def use_dispatcher(dispatcher: AIDispatcher | None) -> None:
    """Make this the dispatcher that ``fire_event`` hands events to; None: there is none any more."""
    global _current
    _current = dispatcher


async def fire_event(
    event_type: str,
    site_id: int,
    member_id: int | None = None,
    payload: Mapping[str, Any] | None = None,
    *,
    connector_type: str | None = None,
    is_forced: bool = False,
) -> Accepted:
    """Trigger an event from code in the same process; it returns as soon as the job is safely queued."""
    if _current is None:
        raise RuntimeError("no dispatcher: the engine is not open in this process")
    event = TriggerEvent(
        event_type=event_type,
        site_id=site_id,
        member_id=member_id,
        connector_type=connector_type,
        payload=payload,
        is_forced=is_forced,
    )
    return await _current.handle_trigger(event)
