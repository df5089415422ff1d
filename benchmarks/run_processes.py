"""Starts the programs under test and measures CPU and memory of their process trees."""

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
    """A running program; one that ``talks`` prints lines of JSON."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environ: Mapping[str, str],
        cwd: Path | None = None,
        talks: bool = True,
    ) -> None:
        # A full pipe without a reader would block the program.
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
        """Send a line to the program."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(text.encode() + b"\n")
        self._popen.stdin.flush()

    def complaints(self) -> str:
        """The end of its stderr; kills the program first if it still runs."""
        self._popen.kill()
        self._popen.communicate()
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-2000:]

    def stop(self) -> None:
        """Terminate it; kill it if it does not end."""
        if self._popen.stdin is None or self._popen.stdin.closed:
            return  # it was killed to read its stderr
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.communicate()


@contextlib.contextmanager
def running(command: Sequence[str | Path], *, environ: Mapping[str, str], cwd: Path | None = None) -> Iterator[Process]:
    """Run a program while the block runs."""
    process = Process(command, environ=environ, cwd=cwd)
    try:
        yield process
    finally:
        process.stop()


class Meter:
    """CPU seconds of a process and all its descendants, including ended ones."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return sum(_ticks(pid) for pid in below(self._pid)) / _TICKS

    def resident_mb(self) -> float:
        """Resident memory; shared memory counts in each process."""
        return sum(_resident(pid) for pid in below(self._pid))


def _fields(pid: int) -> list[bytes]:
    # The program name, in brackets, may contain spaces and brackets.
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()


def _ticks(pid: int) -> int:
    """CPU ticks of the process and of the children that it has waited for."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return sum(map(int, _fields(pid)[11:15]))
    return 0


def _resident(pid: int) -> float:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int(_fields(pid)[21]) * _PAGE_MB
    return 0.0


def below(root: int) -> set[int]:
    """A process and all its descendants."""
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
