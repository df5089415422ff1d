"""Reading at a place in a file, on systems without ``pread`` (Windows) too."""

from __future__ import annotations

import os


def seek_and_read(descriptor: int, length: int, offset: int) -> bytes:
    """The same in two steps. A descriptor is read by one thread at a time, so nothing comes between them."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, length)


pread = getattr(os, "pread", seek_and_read)
