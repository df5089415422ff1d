"""A file's new complete lines, as bytes with their offsets; a half-written last line waits.

Reading decides nothing about content. It promises: a line is handed out once it is complete, memory is bounded by
the longest allowed line, and a file that was truncated, replaced or rewritten is noticed before its next line is
read and read from the start, where known events are dropped by their ids.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat as modes
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import msgspec

from agenttrace.record.files.fingerprint import pread
from agenttrace.record.formats.contract import Source

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
#: The most open descriptors; those of the files idle longest are closed first.
OPEN_FILES = 1024
#: Why a directory or a pipe at the path of a log is not read.
NOT_A_FILE = "not a regular file"
#: An agent's database is known by its name.
NOT_A_LOG = "a database under a name that no agent uses; docs/agents.md has the names"
_DATABASE = b"SQLite format 3\0"
BOM = b"\xef\xbb\xbf"
#: Of the write-ahead log of a database.
LOG_SUFFIX = "-wal"
#: Of the index of that log, which its readers share.
INDEX_SUFFIX = "-shm"
#: Of what a database without such a log keeps while it is written to.
JOURNAL_SUFFIX = "-journal"


@dataclass(frozen=True)
class Chunk:
    """Some consecutive lines of a file."""

    lines: list[bytes]
    #: Where each line begins.
    offsets: list[int]
    #: Where the next line will begin.
    end: int
    #: ``(offset, length, digest)`` of a line that was too long to be loaded; it ends at ``end``.
    oversized: tuple[int, int, bytes] | None = None
    #: The bytes the lines were cut from, up to ``end``; empty where they were not loaded.
    data: bytes = b""
    #: Why nothing behind ``end`` is read, where that is so.
    refused: str | None = None
    #: Why its only line is no line, where that is so: it is a whole document that cannot be read.
    broken: str | None = None


def split_lines(data: bytes, offset: int, most: int = -1) -> tuple[list[bytes], list[int], int]:
    """The first lines of ``data``, which ends with a newline, where they begin in the file, and where they end."""
    lines = data.split(b"\n", most)
    lines.pop()
    offsets = list(accumulate((len(line) + 1 for line in lines), initial=offset))
    return lines, offsets, offsets.pop()


class OpenFile:
    """A file that is being read: its descriptor, device and inode."""

    def __init__(self, path: str, *, follow: bool = True) -> None:
        self.path = path
        # If the path is a pipe by now, opening it must not wait for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        self.descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
        stat = os.fstat(self.descriptor)
        if not modes.S_ISREG(stat.st_mode):
            os.close(self.descriptor)
            raise OSError(errno.EINVAL, NOT_A_FILE, path)
        #: Device and inode.
        self.place = (stat.st_dev, stat.st_ino)

    def stat(self) -> os.stat_result:
        """The file behind the descriptor, whatever its name is now."""
        return os.fstat(self.descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


class Reader(Protocol):
    """Reads lines from a file, from a position on."""

    def read(self, offset: int, size: int, most: int = -1) -> Chunk | None:
        """The next complete lines behind ``offset``, ``most`` of them; ``None`` if there is none yet."""

    def solid_end(self, size: int) -> int:
        """Where the bytes end that somebody wrote, as far as is known: reserved space is not content."""

    def unterminated(self, offset: int, size: int) -> bytes | None:
        """The last line, without its newline, if it is short enough to be looked at."""


def leads_to(path: str, place: tuple[int, int]) -> bool:
    """Whether a path is a name of the file with this device and inode."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == place


class LineReader:
    """Reads lines from a descriptor, from an offset on. Scanning an endless line does not start over each time."""

    def __init__(self, descriptor: int, max_line_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_line_bytes = max_line_bytes
        #: The line at ``_start`` has no newline before ``_scanned``. NULs behind it do not count as scanned: a program
        #: that reserves space for its log writes over them.
        self._start = self._scanned = -1

    def read(self, offset: int, size: int, most: int = -1) -> Chunk | None:
        """The next complete lines between ``offset`` and ``size``, ``most`` of them; ``None`` if there is none yet."""
        if offset >= size:
            return None
        if self._start == offset and self._scanned > offset:
            return self._read_long(offset, size)
        data = pread(self._descriptor, min(CHUNK_BYTES, size - offset), offset)
        if offset == 0 and data.startswith(_DATABASE):
            raise OSError(errno.EINVAL, NOT_A_LOG)
        end = data.rfind(b"\n") + 1
        if end:
            self._start = -1
            data = data[:end]
            lines, offsets, end = split_lines(data, offset, most)
            return Chunk(lines, offsets, end, data=data[: end - offset])
        self._start, self._scanned = offset, offset + len(data.rstrip(b"\0"))
        return self._read_long(offset, size) if offset + len(data) < size else None

    def _read_long(self, offset: int, size: int) -> Chunk | None:
        """Look for the end of a line longer than a chunk, loading it only if it is short enough."""
        position = self._scanned
        while position < size:
            data = pread(self._descriptor, min(CHUNK_BYTES, size - position), position)
            if not data:
                return None
            newline = data.find(b"\n")
            if newline >= 0:
                self._start = -1
                # Should what was scanned have been changed behind our back, it is scanned again.
                return self._finish_long(offset, position + newline) or self.read(offset, size)
            if solid := len(data.rstrip(b"\0")):
                self._scanned = position + solid
            position = self._next_data(position + len(data), size)
        return None

    def _next_data(self, position: int, end: int) -> int:
        """Where bytes are stored again: in space that is only reserved there is nothing to find."""
        try:
            return min(end, os.lseek(self._descriptor, position, os.SEEK_DATA))
        except AttributeError:
            return position
        except OSError as error:
            return end if error.errno == errno.ENXIO else position

    def _finish_long(self, offset: int, end: int) -> Chunk | None:
        """The line from ``offset`` to ``end``; ``None`` if that is not one line."""
        length = end - offset
        if length > self._max_line_bytes:
            digest = self._digest_of(offset, end)
            return None if digest is None else Chunk([], [], end + 1, (offset, length, digest))
        data = pread(self._descriptor, length + 1, offset)
        if data.find(b"\n") != length:
            return None
        return Chunk([data[:-1]], [offset], end + 1, data=data)

    def _digest_of(self, start: int, end: int) -> bytes | None:
        digest = hashlib.sha256()
        while start < end:
            data = pread(self._descriptor, min(CHUNK_BYTES, end - start), start)
            if not data or b"\n" in data:
                return None
            digest.update(data)
            start = self._next_data(start + len(data), end)
        return digest.digest()[:16]

    def solid_end(self, size: int) -> int:
        """Where the written bytes end, as far as is known: reserved space is not content."""
        return size if self._start < 0 else min(size, self._scanned)

    def unterminated(self, offset: int, size: int) -> bytes | None:
        """The last line, without its newline, if it is short enough to be loaded."""
        if not 0 < size - offset <= self._max_line_bytes:
            return None
        return pread(self._descriptor, size - offset, offset)


def open_limit() -> int:
    """How many files may stay open: a quarter of what the system allows, so that the rest of the program can work."""
    try:
        import resource
    except ImportError:
        return OPEN_FILES
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if allowed == resource.RLIM_INFINITY else max(8, min(OPEN_FILES, allowed // 4))


def stored_path(path: str | Path) -> str:
    """A path that can be stored: bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def storable(source: Source) -> Source:
    """A source that can be stored: texts from a path may not be UTF-8."""
    texts = {
        name: stored_path(value)
        for name, value in msgspec.structs.asdict(source).items()
        if isinstance(value, str) and not value.isascii()
    }
    return msgspec.structs.replace(source, **texts)


def database_stat(path: str, size: int, mtime_ns: int) -> tuple[int, int]:
    """Size and time of a database together with its write-ahead log, where what was written last is."""
    try:
        log = os.stat(path + LOG_SUFFIX)
    except OSError:
        return size, mtime_ns
    return size + log.st_size, max(mtime_ns, log.st_mtime_ns)
