"""The one thread that reads requests and appends their spans; requests that wait meanwhile share the next sync.

A sync takes milliseconds, and one is enough for everything written before it. So the more senders there are, the fewer
syncs a span costs. Reading bodies here keeps the loop free for whoever looks at the console.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from agenttrace.serve.intake.lines import Taken
from agenttrace.serve.intake.rejections import BusyError, RefusedError
from agenttrace.serve.intake.span_log import SpanLog
from agenttrace.serve.threads import CLOSE_SECONDS

logger = logging.getLogger(__name__)

#: Of what is written and synced together.
_GROUP_JOBS = 256
_GROUP_BYTES = 32 << 20


class _Job(NamedTuple):
    read: Callable[[], Taken]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Taken]

    def answer(self, outcome: Taken | RefusedError) -> None:
        """Tell whoever waits, if anybody still does; runs in their loop."""
        if self.done.done():
            return
        if isinstance(outcome, Taken):
            self.done.set_result(outcome)
        else:
            self.done.set_exception(outcome)


class SpanWriter:
    """Takes requests from any loop; what it answered with is on the disk."""

    def __init__(self, log: SpanLog) -> None:
        self.log = log
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failing = False

    async def take(self, read: Callable[[], Taken]) -> Taken:
        """Have a request read and its spans written; raises what is wrong with it, or that it cannot be kept now."""
        loop = asyncio.get_running_loop()
        job = _Job(read, loop, loop.create_future())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="otlp intake", daemon=True)
            self._thread.start()
        self._jobs.put(job)
        return await job.done

    @property
    def waiting(self) -> int:
        """How many requests wait to be read."""
        return self._jobs.qsize()

    def close(self) -> None:
        """Finish what was begun; a request that takes longer than it may is given up, unanswered."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                logger.warning("a received request is still being read after %g s and is given up", CLOSE_SECONDS)
            self._thread = None

    def _run(self) -> None:
        stopping = False
        while not stopping:
            jobs = [self._jobs.get()]
            while len(jobs) < _GROUP_JOBS and not self._jobs.empty():
                jobs.append(self._jobs.get())
            stopping = None in jobs
            self._handle([job for job in jobs if job is not None])
        self.log.close()

    def _handle(self, jobs: list[_Job]) -> None:
        """Read these requests, and write what they bring together."""
        group: list[tuple[_Job, Taken | RefusedError]] = []
        size = 0
        for job in jobs:
            outcome = _outcome(job)
            group.append((job, outcome))
            size += outcome.size if isinstance(outcome, Taken) else 0
            if size >= _GROUP_BYTES:
                self._write(group)
                group, size = [], 0
        self._write(group)

    def _write(self, group: list[tuple[_Job, Taken | RefusedError]]) -> None:
        lines = [line for _, outcome in group if isinstance(outcome, Taken) for line in outcome.written]
        problem = self._append(lines) if lines else None
        for job, outcome in group:
            told = problem if problem is not None and isinstance(outcome, Taken) and outcome.lines else outcome
            with contextlib.suppress(RuntimeError):  # whoever asked is gone, and their loop with them
                job.loop.call_soon_threadsafe(job.answer, told)

    def _append(self, lines: list[bytes]) -> RefusedError | None:
        try:
            self.log.append(b"\n".join([*lines, b""]))
        except OSError as error:
            reason = error.strerror or str(error)
            if not self._failing:
                logger.warning("received spans cannot be written (%s); senders are told to try again", reason)
            self._failing = True
            return BusyError(f"The spans cannot be written at the moment: {reason}.")
        if self._failing:
            logger.warning("received spans are written again")
        self._failing = False
        return None


def _outcome(job: _Job) -> Taken | RefusedError:
    try:
        return job.read()
    except RefusedError as error:
        return error
    except Exception as error:
        logger.error("a request could not be read", exc_info=error)
        return _BrokenError("Something went wrong in the server; its log says more.")


class _BrokenError(RefusedError):
    """A mistake of ours."""

    status = 500
    code = 13
