"""The specification's fingerprint of a file, and its store of offsets: how far a program has read each file."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

from agenttrace.compat.database import SpecificationDatabase
from agenttrace.record.files import fingerprint as fp

logger = logging.getLogger(__name__)

_SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS file_offsets (
        filepath     TEXT PRIMARY KEY,
        offset       INTEGER NOT NULL DEFAULT 0,
        inode        INTEGER,
        fingerprint  TEXT,
        file_size    INTEGER NOT NULL DEFAULT 0,
        last_read_at REAL NOT NULL,
        read_count   INTEGER NOT NULL DEFAULT 0,
        -- How the part that was read ends.
        tail_hash    TEXT
    )
    """,
    "CREATE INDEX IF NOT EXISTS idx_last_read ON file_offsets(last_read_at)",
)

_UPSERT = """
INSERT INTO file_offsets (filepath, offset, inode, fingerprint, file_size, last_read_at, tail_hash, read_count)
VALUES (?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (filepath) DO UPDATE SET
    offset = excluded.offset, inode = excluded.inode, fingerprint = excluded.fingerprint,
    file_size = excluded.file_size, last_read_at = excluded.last_read_at, tail_hash = excluded.tail_hash,
    read_count = file_offsets.read_count + 1
"""


class FileFingerprint:
    """A file now: stat fields, the hash of its head, and one combined value."""

    def __init__(self, filepath: str | os.PathLike[str]) -> None:
        self.filepath = os.fspath(filepath)

    def compute(self) -> dict[str, Any]:
        """Read the file's fingerprint.

        ``fingerprint`` changes with every append, and is for ``has_changed`` only; ``identity`` stays the same for as
        long as it is the same file.
        """
        with open(self.filepath, "rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            head = fp.read_head(file.fileno())
        head_hash = fp.digest(head)
        combined = f"{stat.st_ino}:{stat.st_size}:{stat.st_mtime}:{head_hash}"
        return {
            "inode": stat.st_ino,
            "size": stat.st_size,
            "mtime": stat.st_mtime,
            "head_hash": head_hash,
            "fingerprint": hashlib.sha256(combined.encode()).hexdigest()[:16],
            "identity": fp.identity(head),
        }

    def has_changed(self, other_fingerprint: dict[str, Any]) -> bool:
        """Whether there is something new to read since ``other_fingerprint`` was computed."""
        return bool(self.compute()["fingerprint"] != other_fingerprint.get("fingerprint"))


@dataclass(frozen=True)
class FileOffset:
    """How far a file was read."""

    filepath: str
    offset: int
    inode: int | None
    fingerprint: str | None
    file_size: int
    last_read_at: float
    read_count: int


class PersistentOffsetStore(SpecificationDatabase):
    """Offsets in SQLite, for programs that read files with ``IncrementalJSONLReader``.

    The recorder stores its offsets in the trace store, in the transaction of the data.
    """

    def __init__(self, db_path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(db_path, "offsets.db", _SCHEMA)
        self._lock = threading.Lock()

    def save_offset(
        self,
        filepath: str,
        offset: int,
        file_size: int,
        inode: int | None = None,
        fingerprint: str | None = None,
    ) -> None:
        """Store how far ``filepath`` was read.

        A fingerprint that changes with every append is replaced by the file's identity, so that growth is never
        mistaken for another file.
        """
        if fingerprint is None or fp.identity_length(fingerprint) is None:
            fingerprint = _identity_of(filepath) or fingerprint
        self._write(filepath, offset, inode, fingerprint, file_size, time.time(), None)

    def save_read(self, filepath: str, mark: fp.ReadMark, file_size: int, inode: int | None) -> None:
        """Store how far ``filepath`` was read, and how that part ends, by which a rewritten file is recognised."""
        self._write(filepath, mark.end, inode, mark.identity, file_size, time.time(), mark.ending)

    def _write(self, *values: object) -> None:
        with self._lock:
            self._connection.execute(_UPSERT, values)

    def ending(self, filepath: str) -> str | None:
        """The hash of the end of the part that was read, where it is known."""
        query = "SELECT tail_hash FROM file_offsets WHERE filepath = ?"
        with self._lock:
            row = self._connection.execute(query, (filepath,)).fetchone()
        return None if row is None else row[0]

    def get_offset(self, filepath: str) -> FileOffset:
        """How far the file was read; 0 for an unknown file."""
        with self._lock:
            row = self._connection.execute(
                "SELECT offset, inode, fingerprint, file_size, last_read_at, read_count "
                "FROM file_offsets WHERE filepath = ?",
                (filepath,),
            ).fetchone()
        if row is None:
            return FileOffset(filepath, 0, None, None, 0, 0, 0)
        return FileOffset(filepath, *row)

    def check_inode_reuse(self, filepath: str, current_inode: int, current_fingerprint: str) -> bool:
        """Whether the inode belongs to another file now: same inode, other content."""
        stored = self.get_offset(filepath)
        if stored.inode is None or stored.inode != current_inode or not stored.fingerprint:
            return False
        if stored.fingerprint == current_fingerprint:
            return False
        head = _head_of(filepath)
        if head is not None and fp.identity_length(stored.fingerprint) is not None:
            reused = not fp.same_head(stored.fingerprint, head)
        else:
            reused = True
        if reused:
            logger.warning("Inode reuse detected: %s (inode=%s, content changed)", filepath, current_inode)
        return reused

    def cleanup_old_records(self, max_age_hours: int = 168) -> int:
        """Remove files that were not read for that long; how many. One that returns is read from its start."""
        cutoff = time.time() - max_age_hours * 3600
        with self._lock:
            return self._connection.execute("DELETE FROM file_offsets WHERE last_read_at < ?", (cutoff,)).rowcount


def _head_of(filepath: str) -> bytes | None:
    try:
        with open(filepath, "rb", buffering=0) as file:
            return fp.read_head(file.fileno())
    except OSError:
        return None


def _identity_of(filepath: str) -> str | None:
    head = _head_of(filepath)
    return None if head is None else fp.identity(head)
