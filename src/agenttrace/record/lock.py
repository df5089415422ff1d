"""One recorder a data directory: a second one names the process of the first, and exits."""

from __future__ import annotations

from pathlib import Path

from agenttrace.locking import LockedError, ProcessLock, owner_of

_NAME = "recorder.lock"


class AlreadyRecordingError(Exception):
    """Another process records into this data directory."""


class RecorderLock(ProcessLock):
    """Held while recording."""

    def __init__(self, home: Path) -> None:
        try:
            super().__init__(home / _NAME)
        except LockedError as error:
            raise AlreadyRecordingError(
                f"already recording into {home} (process {error.owner or 'unknown'}). "
                "It records everything this one would; stop it first, or set AGENTTRACE_HOME to another directory."
            ) from None


def owner(home: Path) -> int | None:
    """The process that records into this directory now, if any."""
    return owner_of(home / _NAME)
