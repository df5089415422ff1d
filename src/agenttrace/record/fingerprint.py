"""Which file is this: by the hash of its first bytes, not by what changes with every append.

A file is the same while the prefix that was hashed still hashes the same. A short file's prefix grows with it, up
to ``HEAD_BYTES``; so the length that was hashed is part of the identity: ``"<length>:<hash>"``.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

HEAD_BYTES = 1024
TAIL_BYTES = 1024


def _digest(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def identity(head: bytes) -> str:
    """The identity of a file that begins with these bytes."""
    head = head[:HEAD_BYTES]
    return f"{len(head)}:{_digest(head)}"


def identity_length(known: str) -> int | None:
    """How many bytes an identity covers; ``None`` if this is no identity of ours."""
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
    return os.pread(descriptor, HEAD_BYTES, 0)


def tail_hash(descriptor: int, offset: int) -> str:
    """The hash of the bytes just before an offset: a rewritten file with an equal head differs here."""
    start = max(0, offset - TAIL_BYTES)
    return _digest(os.pread(descriptor, offset - start, start))


class FileFingerprint:
    """The specification's view of a file: stat fields, the hash of its head, and one combined value."""

    def __init__(self, filepath: str | os.PathLike[str]) -> None:
        self.filepath = os.fspath(filepath)

    def compute(self) -> dict[str, Any]:
        """Look at the file now.

        ``fingerprint`` changes with every append and answers ``has_changed`` only; ``identity`` stays the same
        while the file does.
        """
        with open(self.filepath, "rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            head = read_head(file.fileno())
        head_hash = _digest(head)
        combined = f"{stat.st_ino}:{stat.st_size}:{stat.st_mtime}:{head_hash}"
        return {
            "inode": stat.st_ino,
            "size": stat.st_size,
            "mtime": stat.st_mtime,
            "head_hash": head_hash,
            "fingerprint": hashlib.sha256(combined.encode()).hexdigest()[:16],
            "identity": identity(head),
        }

    def has_changed(self, other_fingerprint: dict[str, Any]) -> bool:
        """Whether there is something new to read since ``other_fingerprint`` was computed."""
        return bool(self.compute()["fingerprint"] != other_fingerprint.get("fingerprint"))
