"""The user's own status line beside ours: its command gets the same input, and what it prints is kept as it is."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

#: Claude Code waits for the line; one that takes longer is left out this time.
_SECONDS = 5.0


class OtherLine:
    """A command that runs while ours is made."""

    def __init__(self, command: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # What cannot be started has no line; ours is printed all the same.
        with suppress(OSError, ValueError):
            self._process = subprocess.Popen(  # noqa: S602 - from the user's own settings, as Claude Code hands it to the shell
                command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=os.name != "nt",
            )

    def text(self, data: bytes) -> str:
        """What the command prints for this input, without the last line end."""
        if self._process is None:
            return ""
        try:
            found, _ = self._process.communicate(data, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self._stop(self._process)
            return ""
        except OSError:
            return ""
        return found.decode("utf-8", "replace").rstrip("\r\n")

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """End the command with all that it started."""
        with suppress(OSError):
            if os.name == "nt":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
