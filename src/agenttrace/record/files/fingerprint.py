"""The identity of a file: the hash of its first bytes, which appending does not change.

A file is the same while the prefix that was hashed still hashes the same. A short file's prefix grows with it, up
to ``HEAD_BYTES``; so the length that was hashed is part of the identity: ``"<length>:<hash>"``. Whether the part that
was read has changed is decided by a ``ReadMark``, which covers the end of that part too.
"""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

HEAD_BYTES = 1024
TAIL_BYTES = 1024


def seek_and_read(descriptor: int, length: int, offset: int) -> bytes:
    """``pread`` for systems without it (Windows). A descriptor is read by one thread at a time."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, length)


pread = getattr(os, "pread", seek_and_read)


def digest(data: bytes) -> str:
    """The hash of a part of a file."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def identity(head: bytes) -> str:
    """The identity of a file that begins with these bytes."""
    head = head[:HEAD_BYTES]
    return f"{len(head)}:{digest(head)}"


def identity_length(known: str) -> int | None:
    """How many bytes an identity covers; ``None`` if this is not an identity."""
    length, separator, digest = known.partition(":")
    if not separator or not length.isdigit() or len(digest) != 32:
        return None
    return int(length)


def same_head(known: str, head: bytes) -> bool:
    """Whether a file that begins with ``head`` can be the one that had this identity."""
    length = identity_length(known)
    return length is not None and len(head) >= length and identity(head[:length]) == known


def read_head(descriptor: int) -> bytes:
    """The first bytes of an open file."""
    return pread(descriptor, HEAD_BYTES, 0)


class ReadMark(NamedTuple):
    """What is stored of the part of a file that was read, to detect that it has changed.

    The head alone misses a log that was rewritten with the same first lines; the last bytes alone miss lines of equal
    length with equal ends, so the beginning of the last line goes with them.
    """

    end: int
    #: Where the last line begins.
    line: int
    head: bytes
    #: How the last line begins, where the tail does not reach back to it.
    opening: bytes
    tail: bytes

    @property
    def identity(self) -> str:
        """The head, as it is stored."""
        return identity(self.head)

    @property
    def ending(self) -> str:
        """The last line and the tail, as they are stored: ``"<where the line begins>:<hash>"``."""
        return f"{self.line}:{digest(self.opening + self.tail)}"

    def grown(self, data: bytes, line: int) -> ReadMark:
        """The mark after ``data`` was read too, whose last line begins at ``line``."""
        end = self.end + len(data)
        tail = data[-TAIL_BYTES:] if len(data) >= TAIL_BYTES else (self.tail + data)[-TAIL_BYTES:]
        head = self.head if len(self.head) == HEAD_BYTES else (self.head + data[:HEAD_BYTES])[:HEAD_BYTES]
        opening = data[line - self.end :][: _opening_length(end, line)]
        return ReadMark(end, line, head, opening, tail)


#: Of a file of which nothing was read.
NOTHING_READ = ReadMark(0, 0, b"", b"", b"")


def _opening_length(end: int, line: int) -> int:
    return max(0, min(TAIL_BYTES, end - TAIL_BYTES - line))


def read_mark(descriptor: int, end: int, line: int) -> ReadMark:
    """The mark of a file of which everything before ``end`` was read; the last line begins at ``line``."""
    start = max(0, end - TAIL_BYTES)
    length = _opening_length(end, line)
    opening = pread(descriptor, length, line) if length else b""
    return ReadMark(end, line, read_head(descriptor)[:end], opening, pread(descriptor, end - start, start))


def stored_mark(descriptor: int, end: int, head: str | None, ending: str | None) -> ReadMark | None:
    """The mark of a file as it is now, if it is the one that the store remembers; else ``None``."""
    line, _, _ = (ending or "").partition(":")
    if not line.isdecimal() or not 0 <= int(line) <= end:
        return None
    mark = read_mark(descriptor, end, int(line))
    return mark if (mark.identity, mark.ending) == (head, ending) else None
