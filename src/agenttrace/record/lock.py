"""One recorder a data directory: the second one says who the first is, and leaves."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from agenttrace.record.positioned import pread

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class AlreadyRecordingError(Exception):
    """Another process records into this data directory."""


class RecorderLock:
    """Held while recording. The system frees it when the process dies, however it dies."""

    def __init__(self, home: Path) -> None:
        self.path = home / "recorder.lock"
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock_patiently(self.descriptor)
        except OSError:
            owner = pread(self.descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self.descriptor)
            raise AlreadyRecordingError(
                f"already recording into {home} (process {owner or 'unknown'}). "
                "It records everything this one would; stop it first, or set AGENTTRACE_HOME to another directory."
            ) from None
        os.ftruncate(self.descriptor, 0)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.write(self.descriptor, str(os.getpid()).encode())

    def release(self) -> None:
        """Let another recorder start."""
        os.close(self.descriptor)

    def __enter__(self) -> RecorderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def owner(home: Path) -> int | None:
    """The process that records into this directory now, if any."""
    try:
        descriptor = os.open(home / "recorder.lock", os.O_RDWR)
    except OSError:
        return None
    try:
        _lock(descriptor)
    except OSError:
        text = pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def _lock_patiently(descriptor: int) -> None:
    """Whoever only asks for the owner holds the lock for an instant."""
    for _ in range(5):
        try:
            return _lock(descriptor)
        except OSError:
            time.sleep(0.05)
    return _lock(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        # Windows locks bytes against reading too: one behind the owner's number, which others must read.
        os.lseek(descriptor, 4096, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
