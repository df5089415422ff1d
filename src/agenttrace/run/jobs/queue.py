"""The durable queue: Procrastinate on our own pool, holding one entry for each trigger job that is not over.

An entry is only the number of a job; its event is in ``ai_trigger_jobs``. Entries are deleted when they are
done, so the queue stays as small as the work that waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from procrastinate import App, PsycopgConnector, exceptions
from procrastinate.connector import Notify
from procrastinate.job_context import JobContext
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.retry import BaseRetryStrategy, RetryDecision
from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from agenttrace.run.postgres.pool import AWAY, Database

logger = logging.getLogger(__name__)

QUEUE = "agenttrace"
TASK = "agenttrace.run_job"
#: Seconds until an entry is tried again whose job could not even be recorded as failed.
RETRY_SECONDS = 2.0
_CHANNEL = f"procrastinate_queue_v1#{QUEUE}"

T = TypeVar("T")
Handler = Callable[[int, int], Awaitable[None]]

_UNATTENDED = """
SELECT j.id, j.worker_id FROM procrastinate_jobs AS j LEFT JOIN procrastinate_workers AS w ON w.id = j.worker_id
    WHERE j.status = 'doing' AND j.queue_name = %(queue)s
        AND (w.id IS NULL OR (w.id = %(own)s AND NOT j.id = ANY(%(running)s))
             -- While the server was away no worker could give a sign of life.
             OR greatest(w.last_heartbeat, pg_postmaster_start_time()) < now() - make_interval(secs => %(silence)s))
"""

# An entry is changed only while it has the same worker: one that was taken for abandoned may have another one now.
_MINE = "id = %(id)s AND status = 'doing' AND worker_id IS NOT DISTINCT FROM %(worker)s"
_GIVE_BACK = f"""
WITH given AS (
    UPDATE procrastinate_jobs
        SET status = 'todo', attempts = attempts + 1, scheduled_at = now() + %(wait)s, worker_id = NULL
        WHERE {_MINE} RETURNING id)
SELECT pg_notify('{_CHANNEL}', json_build_object('type', 'job_inserted', 'job_id', id)::text) FROM given
"""
_FINISH = f"DELETE FROM procrastinate_jobs WHERE {_MINE}"


class JobUnfinishedError(Exception):
    """The job goes back to the queue as it is, for another worker to go on with."""


class QueueEntry(NamedTuple):
    """An entry that a worker has taken out of the queue."""

    id: int
    worker_id: int | None


class JobQueue:
    """The queue of one process. Workers set ``handler``; a process that only adds jobs needs none."""

    def __init__(self, database: Database) -> None:
        self.database = database
        #: Runs a job, given the number of the entry and that of the job.
        self.handler: Handler | None = None
        connector = _Connector(database)
        self.app = App(connector=connector)
        self.app.job_manager = _JobManager(connector, database)
        self._task = self.app.task(name=TASK, queue=QUEUE, pass_context=True, retry=_Again())(self._run)

    async def __aenter__(self) -> JobQueue:
        await self.app.open_async(self.database.pool)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.close_async()

    async def defer(self, connection: AsyncConnection[Any], job_id: int) -> None:
        """Add a job, inside the caller's transaction."""
        await _unwrapped(self._task.configure(connection=connection).defer_async(job_id=job_id))

    async def _run(self, context: JobContext, job_id: int) -> None:
        assert self.handler is not None, "only workers run jobs"
        await self.handler(context.job.id or 0, job_id)

    async def unattended(self, silence: float, own: int | None, running: Iterable[int]) -> set[QueueEntry]:
        """Entries whose worker gave no sign of life for ``silence`` seconds.

        Also those of worker ``own`` that it does not know of: the answer that gave them to it was lost on the way.
        """
        params = {"queue": QUEUE, "silence": silence, "own": own, "running": list(running)}
        return {QueueEntry(*row) for row in await self.database.all(_UNATTENDED, params)}

    async def give_back(self, entry: QueueEntry) -> bool:
        """Let another worker take it; False if one has taken it already."""
        params = {"id": entry.id, "worker": entry.worker_id, "wait": timedelta()}
        return await self.database.one(_GIVE_BACK, params) is not None


class _Again(BaseRetryStrategy):
    """An entry goes back whenever its job is not over: at once if a worker stops, later if something broke."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision:
        at_once = isinstance(exception, JobUnfinishedError | asyncio.CancelledError)
        return RetryDecision(retry_at=None if at_once else datetime.now(UTC) + timedelta(seconds=RETRY_SECONDS))


class _JobManager(JobManager):
    """Procrastinate's manager, which ends an entry only for the worker that has it, and notifies when one goes back."""

    def __init__(self, connector: _Connector, database: Database) -> None:
        super().__init__(connector)
        self._database = database

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        params = {"id": job.id, "worker": job.worker_id}
        await self._database.patiently(lambda: self._database.execute(_FINISH, params))

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        # The database's clock counts; ours may differ.
        wait = timedelta() if retry_at is None else max(retry_at - datetime.now(UTC), timedelta())
        params = {"id": job.id, "worker": job.worker_id, "wait": wait}
        await self._database.patiently(lambda: self._database.one(_GIVE_BACK, params))


class _Connector(PsycopgConnector):
    """Procrastinate's connector, patient: its worker would stop, with all its jobs, when the server restarts."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:  # noqa: ANN401 - as inherited
        call = super().execute_query_async
        await self._database.patiently(lambda: _unwrapped(call(query, **arguments)))

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as inherited
        call = super().execute_query_one_async
        return await self._database.patiently(lambda: _unwrapped(call(query, **arguments)))

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as inherited
        call = super().execute_query_all_async
        return await self._database.patiently(lambda: _unwrapped(call(query, **arguments)))

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """Listen on a separate connection, and on the next one when that is lost."""
        while True:
            try:
                await self._listen(on_notification, channels)
            except AWAY as error:
                logger.warning("no notifications of new jobs (%s); listening again", type(error).__name__)
            await asyncio.sleep(1)

    async def _listen(self, on_notification: Notify, channels: Iterable[str]) -> None:
        # Not from the pool, which would wait for it to come back for ever.
        url = str(self._database.pool.conninfo)
        async with await AsyncConnection.connect(url, autocommit=True, application_name="agenttrace") as connection:
            for channel in channels:
                await connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
            async for notification in connection.notifies():
                await on_notification(channel=notification.channel, payload=notification.payload)


async def _unwrapped(call: Awaitable[T]) -> T:
    """Raise the error of the database instead of Procrastinate's, so that callers see whether it is away."""
    try:
        return await call
    except exceptions.ConnectorException as error:
        if isinstance(error.__cause__, AWAY):
            raise error.__cause__ from None
        raise
