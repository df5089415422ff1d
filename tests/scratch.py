"""Directories for tests: in memory where there is enough of it, since stores wait for the disk most of the time."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What all tests together write, with a margin.
_NEEDED_BYTES = 6 << 30


def _memory() -> Path | None:
    place = Path("/dev/shm")
    try:
        free = shutil.disk_usage(place).free
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    return place if min(free, available) >= _NEEDED_BYTES and os.access(place, os.W_OK) else None


#: The usual place for temporary files, on a disk.
_DISK = tempfile.gettempdir()
#: A file system in memory, or None where tests use the disk.
MEMORY = _memory()


@contextmanager
def on_disk() -> Iterator[Path]:
    """A directory on a real file system, which uses the numbers of deleted files again; memory does not."""
    with tempfile.TemporaryDirectory(prefix="agenttrace-test-", dir=_DISK) as name:
        yield Path(name)


@contextmanager
def quick() -> Iterator[Path]:
    """A directory for a store."""
    with tempfile.TemporaryDirectory(prefix="agenttrace-test-", dir=MEMORY) as name:
        yield Path(name)
