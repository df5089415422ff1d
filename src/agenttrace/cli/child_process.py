"""Exporter and rules as child processes: their work does not slow recording, and their failure does not end it.

A child ends when its input ends: a pipe from here, which the system closes when this process dies.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from agenttrace.cli import output
from agenttrace.export.lock import owner

if TYPE_CHECKING:
    from agenttrace.config import Settings

#: A child that ended is restarted after these pauses in seconds; the pause doubles each time.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: After so many seconds without a failure the pause is reset.
_WELL_AFTER = 60.0
#: How often the lock of another process is checked.
_LOOK_SECONDS = 1.0
#: How often a child that has nothing to do is asked whether it has by now.
_WANTED_SECONDS = 2.0
#: How often the store is checked for being another file.
_CHECK_SECONDS = 1.0
#: How long a request may still take after the stop; the spans of one that is cut off become unknown.
GRACE_SECONDS = 35.0

#: What another process of the same kind is said to do.
_PROGRAMS = {"export": "the exporter has", "rules": "the process of rules has"}
_DOING = {"export": "is exporting", "rules": "runs the rules"}


@contextmanager
def exporting(settings: Settings, *, announce: bool = True) -> Iterator[None]:
    """Export spans while the block lasts, if there are destinations."""
    if not settings.destinations:
        yield
        return
    # The exporter reports destinations that it cannot use.
    for each in settings.destinations if announce else ():
        if not each.missing:
            output.say(f"Sending to {each.name} ({each.type}{', ' + each.address if each.address else ''}).")
    with ChildProcess(settings, "export", owner):
        yield


class ChildProcess:
    """Keeps ``agenttrace NAME run`` running and passes on its messages."""

    def __init__(
        self,
        settings: Settings,
        name: Literal["export", "rules"],
        owner: Callable[[Path], int | None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._name = name
        self._owner = owner
        self._is_wanted = is_wanted
        self._stop = threading.Event()
        self._child: subprocess.Popen[str] | None = None
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def command(self) -> list[str]:
        """Its command line."""
        return [sys.executable, "-m", "agenttrace.cli.main", self._name, "run", "--until-input-ends"]

    def stop(self) -> None:
        """Let it finish its current request, and wait for that."""
        self._stop.set()
        with self._starting:
            child = self._child
        if child is not None:
            _end_input(child)
        try:
            self._thread.join(1.0)
            if self._thread.is_alive():
                output.note("Waiting for the current request; Ctrl-C ends it at once.")
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
            output.note(f"{_PROGRAMS[self._name]} ended (exit code {code}); it restarts in {pause:.0f} s", "yellow")
            self._stop.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _is_our_turn(self) -> bool:
        """Wait until it has something to do and no other process does it; False once it is stopped."""
        while not self._is_wanted():
            if self._stop.wait(_WANTED_SECONDS):
                return False
        other = self._owner(self._settings.home)
        if other is not None:
            doing = _DOING[self._name]
            output.note(f"Process {other or 'unknown'} {doing}; this process takes over when it ends.")
        while other is not None and not self._stop.wait(_LOOK_SECONDS):
            other = self._owner(self._settings.home)
        return not self._stop.is_set()

    def _run(self) -> int:
        """One exporter, from its start to its end."""
        with self._starting:
            if self._stop.is_set():
                return 0
            self._child = child = subprocess.Popen(
                self.command(),
                env={**os.environ, "AGENTTRACE_HOME": str(self._settings.home)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="backslashreplace",
                # Ctrl-C must not reach it: it stops by the end of its input, after its current request.
                start_new_session=True,
            )
        assert child.stderr is not None
        with child.stderr as lines:
            for line in lines:
                output.note(f"{self._name}: {line.rstrip()}", "yellow")
        code = child.wait()
        _end_input(child)
        return code


def _end_input(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    with suppress(OSError, ValueError):
        child.stdin.close()


def when_input_ends(notify: Callable[[], object]) -> None:
    """Call ``notify``, in a thread, when standard input ends."""

    def wait() -> None:
        # Not through sys.stdin: its lock, held by a thread that waits for ever, would disturb the end of the program.
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        notify()

    threading.Thread(target=wait, name="input", daemon=True).start()


@asynccontextmanager
async def watching_store(path: Path, stop: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """An event that is set when ``stop`` is set, or the store is another file than before the block opened it."""
    done = asyncio.Event()
    watching = asyncio.create_task(_until_changed(path, _identity(path), stop, done))
    try:
        yield done
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _until_changed(path: Path, known: tuple[int, int] | None, stop: asyncio.Event, done: asyncio.Event) -> None:
    while not stop.is_set() and (known is None or _identity(path) in (known, None)):
        known = known or _identity(path)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _CHECK_SECONDS)
    done.set()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
