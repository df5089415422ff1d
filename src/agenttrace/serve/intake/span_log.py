"""The log of received spans: a file a day under the data directory, appended to and never rewritten.

What is appended is on the disk when ``append`` returns. A line that was torn, by a crash or a full disk, is ended
before the next one begins, so that it spoils nobody else's.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from agenttrace.record.files.fingerprint import pread

#: A larger file is left for another one of the same day: what may have to be read again should have an end.
MOST_FILE_BYTES = 256 << 20

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_NAME = re.compile(r"spans-(\d{4}-\d{2}-\d{2})\.(\d+)\.jsonl")
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def log_directory(home: Path) -> Path:
    """Where the log of a data directory is."""
    return home / "logs" / "otlp"


class SpanLog:
    """Appends to ``directory/spans-YYYY-MM-DD.N.jsonl`` (days in UTC). Used by one thread."""

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self._descriptor: int | None = None
        self._day = ""

    def append(self, data: bytes) -> None:
        """Write whole lines with a single write, and return when they are on the disk; OSError if they may not be."""
        try:
            self._append(data)
        except OSError:
            # After a failed sync nobody knows what of the file is on the disk: begin with a fresh look at it.
            self.close()
            raise

    def _append(self, data: bytes) -> None:
        descriptor, end = self._open()
        if end and pread(descriptor, 1, end - 1) != b"\n":
            data = b"\n" + data
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _sync(descriptor)

    def close(self) -> None:
        """Let go of the file; whatever is appended later opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> tuple[int, int]:
        """The file of the day, and where it ends."""
        day = time.strftime("%Y-%m-%d", time.gmtime(self._clock()))
        if self._descriptor is not None:
            found = os.fstat(self._descriptor)
            if day == self._day and found.st_nlink and found.st_size < MOST_FILE_BYTES:
                return self._descriptor, found.st_size
            self.close()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / f"spans-{day}.{self._number(day)}.jsonl"
        fresh = not path.exists()
        self._descriptor = os.open(path, _FLAGS, 0o600)
        self._day = day
        if fresh:
            self._sync_directory()
        return self._descriptor, os.fstat(self._descriptor).st_size

    def _number(self, day: str) -> int:
        """Of the latest file of the day, or the next one where that is full."""
        sizes = {
            int(match[2]): entry.stat().st_size
            for entry in os.scandir(self._directory)
            if (match := _NAME.fullmatch(entry.name)) and match[1] == day
        }
        latest = max(sizes, default=1)
        return latest + 1 if sizes.get(latest, 0) >= MOST_FILE_BYTES else latest

    def _sync_directory(self) -> None:
        """A file is there after a power cut only once its directory knows of it."""
        if not hasattr(os, "O_DIRECTORY"):
            return  # Windows knows by itself
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
