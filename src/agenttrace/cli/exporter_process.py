"""The exporter as a process beside the recorder: encoding and masking never slow recording, nor does it die with them.

It ends when its input does: that is a pipe from here, which the system closes when this process dies, however it dies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from agenttrace.cli import output

if TYPE_CHECKING:
    from agenttrace.config import Settings

#: One that died is started again after so many seconds, each time after longer.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Having lived so long, it counts as well.
_WELL_AFTER = 60.0
#: How often is looked whether somebody else has stopped sending.
_LOOK_SECONDS = 5.0
#: How long a request under way may take when everything else has ended; one that is cut off is doubtful from then on.
GRACE_SECONDS = 35.0


@contextmanager
def exporting(settings: Settings, *, announce: bool = True) -> Iterator[None]:
    """Send what is recorded while the block lasts, if there is anywhere to send it to."""
    if not settings.destinations:
        yield
        return
    # The exporter itself says which it cannot use.
    for each in settings.destinations if announce else ():
        if not each.missing:
            output.say(f"Sending to {each.name} ({each.type}{', ' + each.address if each.address else ''}).")
    process = ExporterProcess(settings)
    process.start()
    try:
        yield
    finally:
        process.stop()


def command() -> list[str]:
    """The exporter as a command."""
    return [sys.executable, "-m", "agenttrace.cli.main", "export", "run", "--until-input-ends"]


class ExporterProcess:
    """Keeps an exporter running, and passes on what it has to say."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._child: subprocess.Popen[str] | None = None
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="exporter", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Let it finish the request under way, and wait for that."""
        self._stop.set()
        with self._starting:
            child = self._child
        if child is not None:
            _end_input(child)
        try:
            self._thread.join(1.0)
            if self._thread.is_alive():
                output.note("Waiting for what is being sent; Ctrl-C does not wait.")
                self._thread.join(GRACE_SECONDS)
        finally:
            if child is not None and child.poll() is None:
                child.kill()

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while self._is_our_turn():
            began = time.monotonic()
            code = self._run()
            if self._stop.is_set():
                return
            if time.monotonic() - began >= _WELL_AFTER:
                pause = FIRST_PAUSE
            output.note(f"the exporter has ended (exit code {code}); started again in {pause:.0f} s", "yellow")
            self._stop.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _is_our_turn(self) -> bool:
        """Wait while somebody else sends; False where it is time to stop."""
        from agenttrace.export.lock import owner

        other = owner(self._settings.home)
        if other is not None:
            output.note(f"Process {other or 'unknown'} sends what is recorded; this one does when that has ended.")
        while other is not None and not self._stop.wait(_LOOK_SECONDS):
            other = owner(self._settings.home)
        return not self._stop.is_set()

    def _run(self) -> int:
        """One exporter, from its start to its end."""
        with self._starting:
            if self._stop.is_set():
                return 0
            self._child = child = subprocess.Popen(
                command(),
                env={**os.environ, "AGENTTRACE_HOME": str(self._settings.home)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="backslashreplace",
                # Ctrl-C is for us: it is told by its input, and finishes what it sends.
                start_new_session=True,
            )
        assert child.stderr is not None
        with child.stderr as lines:
            for line in lines:
                output.note(f"export: {line.rstrip()}", "yellow")
        code = child.wait()
        _end_input(child)
        return code


def _end_input(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    with suppress(OSError, ValueError):
        child.stdin.close()


def when_input_ends(tell: Callable[[], object]) -> None:
    """Call ``tell``, in a thread of its own, when the standard input ends."""

    def wait() -> None:
        # Not through sys.stdin: its lock, held by a thread that waits for ever, would disturb the end of the program.
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        tell()

    threading.Thread(target=wait, name="input", daemon=True).start()
