"""The specification's fingerprint of a file."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from agenttrace.record.files.fingerprint import digest, identity, read_head


class FileFingerprint:
    """A file as it is now: stat fields, the hash of its head, and one combined value."""

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
        head_hash = digest(head)
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
