"""Locks for one process of a kind on a data directory, with the owner's number."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class LockedError(Exception):
    """Another process has the lock."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by process {owner or 'unknown'}")
        #: Its number, as it wrote it down; empty where it has not yet.
        self.owner = owner


class ProcessLock:
    """A locked file with the number of the process in it, or another text. The system frees it when that dies."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock_patiently(self.descriptor)
        except OSError:
            owner = _written(self.descriptor)
            os.close(self.descriptor)
            raise LockedError(owner) from None
        os.ftruncate(self.descriptor, 0)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.write(self.descriptor, (str(os.getpid()) if text is None else text).encode())

    def release(self) -> None:
        """Release it."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def owner_of(path: Path) -> int | None:
    """The process that has the lock now, if any; 0 if it has not written its number yet."""
    text = held_text(path)
    return None if text is None else int(text) if text.isdigit() else 0


def held_text(path: Path) -> str | None:
    """The text of the process that has the lock; None if it is free."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        _lock(descriptor)
    except OSError:
        return _written(descriptor)
    finally:
        os.close(descriptor)
    return None


def _written(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    # Up to the byte that Windows locks.
    return os.read(descriptor, 4096).decode("ascii", "replace").strip()


def _lock_patiently(descriptor: int) -> None:
    """Lock, with retries: a process that asks for the owner has the lock for an instant."""
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
