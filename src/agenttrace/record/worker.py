"""One process of a parallel import: reads its share from standard input, writes reports to standard output."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading

import msgspec

from agenttrace.config import load_settings
from agenttrace.record.importing import ImportReport, ImportShare
from agenttrace.record.recorder import Recorder


def main() -> None:
    """Import a share of the sessions; the end of the input means stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A batch makes many objects and no cycles.
    gc.set_threshold(100_000, 50, 100)
    job = msgspec.json.decode(_first_line(), type=ImportShare)
    stop = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(stop,), daemon=True).start()
    recorder = Recorder(
        load_settings(os.environ),
        paths=job.paths,
        agent=job.agent,
        share=(job.index, job.count),
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
