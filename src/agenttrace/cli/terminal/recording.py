"""Recording while the view is open: ``agenttrace up`` as a child process, which ends with the view."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import IO

#: How long the child may take to store what it has read.
_STOP_SECONDS = 20.0


class Recording:
    """The recorder, console and rules of this machine, run by the view."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    @property
    def process(self) -> int | None:
        """The process, while it runs."""
        return None if self._child is None or self._child.poll() is not None else self._child.pid

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process is not None:
            return
        # A file and not a pipe: nothing here reads it while it runs.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the child
        command = [sys.executable, "-m", "agenttrace.cli.main", "up", "--json", "--no-browser"]
        self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said)

    def failure(self) -> str | None:
        """What it said, where it ended by itself."""
        if self._child is None or not self._child.poll() or self._said is None:
            return None
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip().splitlines()
        self._child = None
        return said[0] if said else "it ended without a message"

    def stop(self) -> None:
        """End it and wait for that."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        if self._said is not None:
            with suppress(OSError):
                self._said.close()
