"""A large first import, on all cores: each worker process takes the sessions whose number falls to it.

SQLite has one writer at a time, but only a third of an import is writing; the rest (reading, decoding, folding,
compressing) runs side by side. A session is always one worker's, so no two of them ever work on the same rows;
responses that several sessions share meet in the ledger, inside a transaction. What a worker leaves undone, for
whatever reason, the pass that follows in this process does.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

import msgspec

from agenttrace.config import Settings
from agenttrace.record.lock import RecorderLock
from agenttrace.record.recorder import Recorder, Summary

#: Below this a second process costs more than it saves.
PARALLEL_BYTES = 64 << 20
_STOP_SECONDS = 30


class ImportJob(msgspec.Struct, frozen=True, kw_only=True):
    """What the workers read from their standard input."""

    #: Where each of them writes its reports: descriptors.
    reports: list[int]
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
    workers, pipes = _start(settings, lock, count, paths, agent)
    reports: list[ImportReport] = []
    selector = selectors.DefaultSelector()
    for pipe in pipes:
        selector.register(pipe, selectors.EVENT_READ)
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
        for pipe in pipes:
            pipe.close()
    return reports


def _start(
    settings: Settings, lock: RecorderLock, count: int, paths: Sequence[str], agent: str | None
) -> tuple[subprocess.Popen[bytes], list[BinaryIO]]:
    """Start the process that all workers are forked from, and the pipe of each.

    They have the lock too: no other process can record while they run, even if this process is killed.
    """
    pipes = [os.pipe() for _ in range(count)]
    reports = [report for _, report in pipes]
    try:
        workers = subprocess.Popen(
            [sys.executable, "-m", "agenttrace.record.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(lock.descriptor, *reports),
            env={**os.environ, "AGENTTRACE_HOME": str(settings.home)},
            start_new_session=True,
        )
    finally:
        for report in reports:
            os.close(report)
    assert workers.stdin is not None
    workers.stdin.write(msgspec.json.encode(ImportJob(reports=reports, paths=list(paths), agent=agent)) + b"\n")
    workers.stdin.flush()
    return workers, [open(pipe, "rb") for pipe, _ in pipes]


def _ask_to_stop(workers: subprocess.Popen[bytes]) -> None:
    """The end of their input makes workers commit what they have and exit."""
    if workers.stdin is not None and not workers.stdin.closed:
        workers.stdin.close()


def _end(workers: subprocess.Popen[bytes]) -> None:
    _ask_to_stop(workers)
    try:
        workers.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(workers.pid, signal.SIGKILL)
        workers.wait()
