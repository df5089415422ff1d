"""The log of what was received over OTLP: a file a day under the data directory, appended to and never rewritten.

What is appended is on the disk when ``append`` returns. A line that was torn, by a crash or a full disk, is ended
before the next one begins, so that it damages no other line.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agenttrace.record.files.fingerprint import pread
from agenttrace.serve.intake.lines import Taken
from agenttrace.serve.intake.rejections import BusyError, IntakeError

logger = logging.getLogger(__name__)

#: A larger file is followed by another one of the same day: reading one again should not take for ever.
MOST_FILE_BYTES = 256 << 20
#: How long a request may be read when the server closes.
_CLOSE_SECONDS = 2.0
#: Requests and bytes that are written and synced together.
_GROUP_JOBS = 256
_GROUP_BYTES = 32 << 20

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_NAME = re.compile(r"spans-(\d{4}-\d{2}-\d{2})\.(\d+)\.jsonl")
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def log_directory(home: Path) -> Path:
    """Where the log of a data directory is."""
    return home / "logs" / "otlp"


class SpanLog:
    """Appends to ``directory/spans-YYYY-MM-DD.N.jsonl`` (days in UTC). Used by one thread."""

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self._descriptor: int | None = None
        self._day = ""

    def append(self, data: bytes) -> None:
        """Write whole lines with a single write, and return when they are on the disk; OSError if they may not be."""
        try:
            self._append(data)
        except OSError:
            # After a failed sync it is unknown what of the file is on the disk: open it again.
            self.close()
            raise

    def _append(self, data: bytes) -> None:
        descriptor, end = self._open()
        if end and pread(descriptor, 1, end - 1) != b"\n":
            data = b"\n" + data
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _sync(descriptor)

    def close(self) -> None:
        """Close the file; the next append opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> tuple[int, int]:
        """The file of the day, and where it ends."""
        day = time.strftime("%Y-%m-%d", time.gmtime(self._clock()))
        if self._descriptor is not None:
            found = os.fstat(self._descriptor)
            if day == self._day and found.st_nlink and found.st_size < MOST_FILE_BYTES:
                return self._descriptor, found.st_size
            self.close()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / f"spans-{day}.{self._number(day)}.jsonl"
        fresh = not path.exists()
        self._descriptor = os.open(path, _FLAGS, 0o600)
        self._day = day
        if fresh:
            self._sync_directory()
        return self._descriptor, os.fstat(self._descriptor).st_size

    def _number(self, day: str) -> int:
        """Of the latest file of the day, or the next one where that is full."""
        sizes = {
            int(match[2]): entry.stat().st_size
            for entry in os.scandir(self._directory)
            if (match := _NAME.fullmatch(entry.name)) and match[1] == day
        }
        latest = max(sizes, default=1)
        return latest + 1 if sizes.get(latest, 0) >= MOST_FILE_BYTES else latest

    def _sync_directory(self) -> None:
        """A file exists after a power cut only once its directory was synced."""
        if not hasattr(os, "O_DIRECTORY"):
            return  # not needed on Windows
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Job(NamedTuple):
    read: Callable[[], Taken]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Taken]

    def answer(self, outcome: Taken | IntakeError) -> None:
        """Answer the request, if it still waits; runs in its loop."""
        if self.done.done():
            return
        if isinstance(outcome, Taken):
            self.done.set_result(outcome)
        else:
            self.done.set_exception(outcome)


class SpanWriter:
    """The one thread that reads requests and appends their spans; what it confirmed is on the disk.

    A sync takes milliseconds, and one is enough for everything written before it: requests that wait meanwhile share
    the next one. Reading bodies here leaves the loop to the other requests.
    """

    def __init__(self, log: SpanLog) -> None:
        self.log = log
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failing = False

    async def take(self, read: Callable[[], Taken]) -> Taken:
        """Read a request and write its spans; raises what is wrong with it, or that it cannot be written now."""
        loop = asyncio.get_running_loop()
        job = _Job(read, loop, loop.create_future())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="otlp intake", daemon=True)
            self._thread.start()
        self._jobs.put(job)
        return await job.done

    def close(self) -> None:
        """Finish what was begun; a request that takes too long stays unanswered."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(_CLOSE_SECONDS)
            if self._thread.is_alive():
                logger.warning("a received request is still being read after %g s and is given up", _CLOSE_SECONDS)
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
        """Read these requests, and write their lines together."""
        group: list[tuple[_Job, Taken | IntakeError]] = []
        size = 0
        for job in jobs:
            outcome = _outcome(job)
            group.append((job, outcome))
            size += outcome.size if isinstance(outcome, Taken) else 0
            if size >= _GROUP_BYTES:
                self._write(group)
                group, size = [], 0
        self._write(group)

    def _write(self, group: list[tuple[_Job, Taken | IntakeError]]) -> None:
        lines = [line for _, outcome in group if isinstance(outcome, Taken) for line in outcome.written]
        problem = self._append(lines) if lines else None
        for job, outcome in group:
            result = problem if problem is not None and isinstance(outcome, Taken) and outcome.lines else outcome
            with contextlib.suppress(RuntimeError):  # the loop of the request may be closed
                job.loop.call_soon_threadsafe(job.answer, result)

    def _append(self, lines: list[bytes]) -> IntakeError | None:
        try:
            self.log.append(b"\n".join([*lines, b""]))
        except OSError as error:
            reason = error.strerror or str(error)
            if not self._failing:
                logger.warning("what was received over OTLP cannot be written (%s); senders retry", reason)
            self._failing = True
            return BusyError(f"It cannot be written at the moment: {reason}.")
        if self._failing:
            logger.warning("what is received over OTLP is written again")
        self._failing = False
        return None


def _outcome(job: _Job) -> Taken | IntakeError:
    try:
        return job.read()
    except IntakeError as error:
        return error
    except Exception as error:
        logger.error("a request could not be read", exc_info=error)
        return IntakeError("Something went wrong in the server; its log says more.", 500, 13)
