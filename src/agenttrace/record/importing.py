"""A large first import, on all cores: each worker process takes the sessions whose number falls to it.

SQLite has one writer at a time, but only a third of an import is writing; the rest (reading, decoding, folding,
compressing) runs side by side. A session is always one worker's, so no two of them ever work on the same rows;
responses that several sessions share meet in the ledger, inside a transaction. What a worker leaves undone, for
whatever reason, the pass that follows in this process does.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from agenttrace.config import Settings
from agenttrace.record.lock import RecorderLock
from agenttrace.record.recorder import Recorder, Summary

#: Below this a second process costs more than it saves.
PARALLEL_BYTES = 64 << 20
_STOP_SECONDS = 30


class ImportShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reads from its standard input."""

    index: int
    count: int
    paths: list[str]
    agent: str | None


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker writes: how many bytes it has read meanwhile, and at the end what it did."""

    bytes: int = 0
    summary: Summary | None = None
    sessions: list[tuple[str, str]] = []


def import_all(
    settings: Settings,
    lock: RecorderLock,
    *,
    paths: Sequence[str] = (),
    agent: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    on_total: Callable[[int], None] = lambda _: None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Summary:
    """Record everything that is there, on as many cores as it is worth."""
    started = time.monotonic()
    parts: list[Summary] = []
    sessions: set[tuple[str, str]] = set()
    backlog, files = _backlog(settings, paths, agent)
    on_total(backlog)
    workers = _workers(settings, backlog, files)
    if workers > 1:
        for report in _run_workers(settings, lock, workers, paths, agent, stop, on_progress):
            parts += [report.summary] if report.summary is not None else []
            sessions.update(report.sessions)
    recorder = Recorder(settings, paths=paths, agent=agent, on_progress=on_progress)
    try:
        recorder.catch_up(stop=stop)
        last = recorder.finish(started)
        sessions |= recorder.sessions
    finally:
        recorder.close()
    for part in parts:  # files, sessions and time are those of the whole run, not a sum
        last.add(msgspec.structs.asdict(part))
        last.bytes += part.bytes
    last.sessions = len(sessions)
    return last


def _backlog(settings: Settings, paths: Sequence[str], agent: str | None) -> tuple[int, int]:
    """Bytes that wait to be read, and in how many files."""
    recorder = Recorder(settings, paths=paths, agent=agent)
    try:
        return recorder.backlog(), len(recorder.dirty)
    finally:
        recorder.close()


def _workers(settings: Settings, backlog: int, files: int) -> int:
    """How many processes; a few files are hardly ever sessions of equal size, and one cannot be shared."""
    workers = settings.record.workers or min(8, os.cpu_count() or 1)
    if backlog < PARALLEL_BYTES or files < 4 * workers or sys.platform == "win32":
        return 1
    return workers


def _run_workers(
    settings: Settings,
    lock: RecorderLock,
    count: int,
    paths: Sequence[str],
    agent: str | None,
    stop: Callable[[], bool],
    on_progress: Callable[[int], None],
) -> list[ImportReport]:
    workers = [
        _start(settings, lock, ImportShare(index=n, count=count, paths=list(paths), agent=agent)) for n in range(count)
    ]
    reports: list[ImportReport] = []
    selector = selectors.DefaultSelector()
    for worker in workers:
        assert worker.stdout is not None
        selector.register(worker.stdout, selectors.EVENT_READ)
    try:
        while selector.get_map():
            if stop():
                _ask_to_stop(workers)
            for key, _ in selector.select(timeout=0.2):
                line = key.fileobj.readline()  # type: ignore[union-attr]  # registered above: binary streams
                if not line:
                    selector.unregister(key.fileobj)
                    continue
                report = msgspec.json.decode(line, type=ImportReport)
                on_progress(report.bytes)
                if report.summary is not None:
                    reports.append(report)
    finally:
        selector.close()
        _end(workers)
    return reports


def _start(settings: Settings, lock: RecorderLock, job: ImportShare) -> subprocess.Popen[bytes]:
    """A worker has the lock too: no other process can record while it runs, even if this process is killed."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "agenttrace.record.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(lock.descriptor,),
        env={**os.environ, "AGENTTRACE_HOME": str(settings.home)},
        start_new_session=True,
    )
    assert worker.stdin is not None
    worker.stdin.write(msgspec.json.encode(job) + b"\n")
    worker.stdin.flush()
    return worker


def _ask_to_stop(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """The end of its input makes a worker commit what it has and exit."""
    for worker in workers:
        if worker.stdin is not None and not worker.stdin.closed:
            worker.stdin.close()


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    _ask_to_stop(workers)
    for worker in workers:
        try:
            worker.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()
