"""Why recording fails now, for other processes: a small file in the data directory.

Not in the store: that may be what fails.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

_NAME = "recorder.problem.json"


class RecordingProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why recording fails."""

    reason: str
    #: When it first occurred, in seconds since the epoch.
    since: float
    #: How often recording was restarted because of it.
    restarts: int = 0

    @property
    def told(self) -> str:
        """All of it in a sentence."""
        again = f", begun again {self.restarts} times" if self.restarts > 1 else ""
        return f"recording fails: {self.reason} (since {time.strftime('%H:%M:%S', time.localtime(self.since))}{again})"


def report(home: Path, reason: str, *, restarts: int = 0) -> None:
    """Write down why recording fails; on a full disk this is not possible."""
    known = problem(home)
    found = RecordingProblem(reason=reason, since=time.time() if known is None else known.since, restarts=restarts)
    temporary = home / f".{_NAME}.{os.getpid()}"
    with suppress(OSError):
        temporary.write_bytes(msgspec.json.encode(found))
        temporary.replace(home / _NAME)


def clear(home: Path) -> None:
    """Recording works."""
    with suppress(OSError):
        (home / _NAME).unlink(missing_ok=True)


def problem(home: Path) -> RecordingProblem | None:
    """Why recording fails, as far as is known."""
    try:
        return msgspec.json.decode((home / _NAME).read_bytes(), type=RecordingProblem)
    except (OSError, msgspec.MsgspecError):
        return None
