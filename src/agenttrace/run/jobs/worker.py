"""The worker: takes jobs out of the queue and runs them, and takes over those whose worker has died.

Procrastinate's own worker fetches, runs and acknowledges. Around it: it is started again if it stops by itself; jobs of
workers without a heartbeat go back to the queue; and a stop is a drain, in which no step is begun,
calls that run may finish for a while, and what is unfinished goes back for others to go on with at once.
"""

from __future__ import annotations

import asyncio
import logging

from procrastinate.worker import Worker as QueueWorker

from agenttrace.run.background import ended
from agenttrace.run.jobs.dispatch import AIDispatcher
from agenttrace.run.jobs.queue import QUEUE, JobQueue, JobUnfinishedError, QueueEntry
from agenttrace.run.postgres.pool import AWAY

logger = logging.getLogger(__name__)

#: The queue is polled this often, also without a notification of a new job.
POLL_SECONDS = 2.0
#: Pause before a worker that stopped by itself is started again.
_RESTART_SECONDS = 1.0
#: Seconds, after those of the drain, for cancelled calls to be recorded.
_GRACE_SECONDS = 10.0


class Worker:
    """Runs jobs, several at a time, until it is stopped."""

    def __init__(
        self,
        queue: JobQueue,
        dispatcher: AIDispatcher,
        *,
        concurrency: int = 10,
        takeover_seconds: float = 15.0,
        drain_seconds: float = 30.0,
    ) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._concurrency = concurrency
        # Half the time without a heartbeat, and two checks: together less than the whole.
        self._silence = takeover_seconds / 2
        self._beat = takeover_seconds / 8
        self._drain_seconds = drain_seconds
        self._stopping = False
        #: Entries that are being run here.
        self._running: set[int] = set()
        self._inner: QueueWorker | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then drain."""
        self._stopping = False
        self._queue.handler = self._handle
        watching = asyncio.create_task(self._give_back_abandoned())
        working = asyncio.create_task(self._work())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
            await self._drain(working)
        finally:
            await ended(watching, stopped, working)

    async def _handle(self, entry_id: int, job_id: int) -> None:
        self._running.add(entry_id)
        try:
            status = await self._dispatcher.execute(job_id, stopping=lambda: self._stopping)
            if status == "superseded":
                # Another worker has the entry now and keeps it; if it is still ours, it has to go back to the queue.
                raise JobUnfinishedError("the job was taken over")
        finally:
            self._running.discard(entry_id)

    async def _work(self) -> None:
        while not self._stopping:
            self._inner = self._new_inner()
            try:
                await self._inner.run()  # type: ignore[no-untyped-call]
            except Exception as error:
                logger.warning("the queue's worker has stopped (%s); starting it again", type(error).__name__)
            if not self._stopping:
                await asyncio.sleep(_RESTART_SECONDS)

    def _new_inner(self) -> QueueWorker:
        return QueueWorker(
            self._queue.app,
            queues=[QUEUE],
            name="agenttrace",
            concurrency=self._concurrency,
            fetch_job_polling_interval=POLL_SECONDS,
            shutdown_graceful_timeout=self._drain_seconds,
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=self._beat,
            stalled_worker_timeout=self._silence * 8,
        )

    async def _drain(self, working: asyncio.Task[None]) -> None:
        """No new jobs and no new steps; after the seconds of the drain the queue's worker cancels what still runs."""
        self._stopping = True
        if self._inner is not None:
            self._inner.stop()  # type: ignore[no-untyped-call]
        await asyncio.wait((working,), timeout=self._drain_seconds + _GRACE_SECONDS)

    async def _give_back_abandoned(self) -> None:
        """Give back entries without a live worker that are seen twice, because the first look may be too early."""
        suspects: set[QueueEntry] = set()
        while True:
            await asyncio.sleep(self._beat)
            try:
                own = self._inner.worker_id if self._inner is not None else None
                seen = await self._queue.unattended(self._silence, own, self._running)
                for entry in seen & suspects:
                    if await self._queue.give_back(entry):
                        logger.warning("queue entry %d has no live worker; it goes back to the queue", entry.id)
                suspects = seen - suspects
            except AWAY:
                suspects = set()
