"""Starts the programs under test and says what they cost while they run: CPU and memory of a process tree."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


class Process:
    """A program that runs beside us; one that ``talks`` says things in lines of JSON."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environ: Mapping[str, str],
        cwd: Path | None = None,
        talks: bool = True,
    ) -> None:
        # A pipe that nobody reads would stop the program once it is full.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the program runs
        self._popen = subprocess.Popen(
            [str(part) for part in command],
            env=dict(environ),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if talks else self._errors,
            stderr=self._errors,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._unread = b""

    def line(self, patience: float = 120.0) -> Any:  # noqa: ANN401 - whatever it says
        """The next line of its output, decoded."""
        assert self._popen.stdout is not None
        descriptor, until = self._popen.stdout.fileno(), time.monotonic() + patience
        while b"\n" not in self._unread:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            chunk = os.read(descriptor, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError(f"{self._popen.args!r} said nothing: {self.complaints()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return msgspec.json.decode(line)

    def say(self, text: str) -> None:
        """A line for the program to read."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(text.encode() + b"\n")
        self._popen.stdin.flush()

    def complaints(self) -> str:
        """The end of what it wrote to its error output; kills it first if it still runs."""
        self._popen.kill()
        self._popen.communicate()
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-2000:]

    def stop(self) -> None:
        """Ask it to end, and make it end."""
        if self._popen.stdin is None or self._popen.stdin.closed:
            return  # it was ended to hear its complaints
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.communicate()


@contextlib.contextmanager
def running(command: Sequence[str | Path], *, environ: Mapping[str, str], cwd: Path | None = None) -> Iterator[Process]:
    """A program for the time of the block."""
    process = Process(command, environ=environ, cwd=cwd)
    try:
        yield process
    finally:
        process.stop()


class Meter:
    """CPU seconds of a process and all below it, those that have ended included."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return sum(_ticks(pid) for pid in below(self._pid)) / _TICKS

    def resident_mb(self) -> float:
        """Resident memory; what processes share is counted in each."""
        return sum(_resident(pid) for pid in below(self._pid))


def _fields(pid: int) -> list[bytes]:
    # The name of the program, in brackets, may hold blanks and brackets.
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()


def _ticks(pid: int) -> int:
    """Of the process itself and of the children that it has waited for."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return sum(map(int, _fields(pid)[11:15]))
    return 0


def _resident(pid: int) -> float:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int(_fields(pid)[21]) * _PAGE_MB
    return 0.0


def below(root: int) -> set[int]:
    """A process and all that it and its children have started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                parents[int(entry.name)] = int(_fields(int(entry.name))[1])
    found, fresh = {root}, {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found
