"""The processes of a parallel import: each takes its share of the sessions and reports through a pipe of its own.

The first one imports the modules and reads the job from standard input, the others are forked from it: starting an
interpreter costs more than importing ten megabytes.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading

import msgspec

from agenttrace.config import load_settings
from agenttrace.record.importing import ImportJob, ImportReport
from agenttrace.record.recorder import Recorder


def main() -> None:
    """Import a share of the sessions; the end of the input means stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A batch makes many objects and no cycles.
    gc.set_threshold(100_000, 50, 100)
    job = msgspec.json.decode(_first_line(), type=ImportJob)
    index, started = _forked(len(job.reports))
    os.dup2(job.reports[index], 1)
    for descriptor in job.reports:
        os.close(descriptor)
    try:
        _import(job, index)
    finally:
        for process in started:
            os.waitpid(process, 0)


def _forked(count: int) -> tuple[int, list[int]]:
    """Fork so many processes, this one included, before it has threads: which one it is, and those it has to await."""
    started: list[int] = []
    for index in range(1, count):
        process = os.fork()
        if not process:
            return index, []
        started.append(process)
    return 0, started


def _import(job: ImportJob, index: int) -> None:
    stop = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(stop,), daemon=True).start()
    recorder = Recorder(
        load_settings(os.environ),
        paths=job.paths,
        agent=job.agent,
        share=(index, len(job.reports)),
        on_progress=lambda count: _say(ImportReport(bytes=count)),
    )
    try:
        recorder.scan()
        recorder.drain(fair=False, stop=stop.is_set)
        _say(ImportReport(summary=recorder.summary, sessions=sorted(recorder.sessions)))
    finally:
        recorder.close()


def _first_line() -> bytes:
    """Read without buffering: the thread that waits for the end must not hold a lock when the process exits."""
    line = b""
    while not line.endswith(b"\n") and (data := os.read(0, 1 << 16)):
        line += data
    return line


def _await_end_of_input(stop: threading.Event) -> None:
    while os.read(0, 1):
        pass
    stop.set()


def _say(report: ImportReport) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The process that started this one is gone; what was read is still worth committing.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # stays open for the rest of the process


if __name__ == "__main__":
    main()
