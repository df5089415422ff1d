"""How far each file was read, kept in the store so that a restart goes on where the last batch ended."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from agenttrace.config import load_settings
from agenttrace.record import fingerprint as fp
from agenttrace.store.sqlite.database import connect, transaction

logger = logging.getLogger(__name__)

#: How a byte of a name that is not UTF-8 is written in the store.
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")

_UPSERT = """
INSERT INTO file_offsets (filepath, offset, inode, fingerprint, file_size, last_read_at, tail_hash, read_count)
VALUES (?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (filepath) DO UPDATE SET
    offset = excluded.offset, inode = excluded.inode, fingerprint = excluded.fingerprint,
    file_size = excluded.file_size, last_read_at = excluded.last_read_at, tail_hash = excluded.tail_hash,
    read_count = file_offsets.read_count + 1
"""


@dataclass(frozen=True)
class FileOffset:
    """Where reading a file stands."""

    filepath: str
    offset: int
    inode: int | None
    fingerprint: str | None
    file_size: int
    last_read_at: float
    read_count: int


class PersistentOffsetStore:
    """Offsets in SQLite, for programs that read one file with ``IncrementalJSONLReader``.

    The recorder writes the same table, but inside each batch's transaction, together with the data.
    """

    def __init__(self, db_path: str | os.PathLike[str] | None = None) -> None:
        path = Path(db_path).expanduser() if db_path is not None else load_settings().home / "agenttrace.db"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.db_path = str(path)
        self._connection = connect(path)
        self._lock = threading.Lock()

    def save_offset(
        self,
        filepath: str,
        offset: int,
        file_size: int,
        inode: int | None = None,
        fingerprint: str | None = None,
    ) -> None:
        """Remember how far ``filepath`` was read.

        A fingerprint that changes with every append is replaced by the file's identity, so that growth is never
        mistaken for another file.
        """
        if fingerprint is None or fp.identity_length(fingerprint) is None:
            fingerprint = _identity_of(filepath) or fingerprint
        self._write(filepath, offset, inode, fingerprint, file_size, time.time(), None)

    def save_read(self, filepath: str, mark: fp.Mark, file_size: int, inode: int | None) -> None:
        """Remember how far ``filepath`` was read, and how that part ends: a rewritten file is told by it."""
        self._write(filepath, mark.end, inode, mark.identity, file_size, time.time(), mark.ending)

    def _write(self, *values: object) -> None:
        with self._lock, transaction(self._connection):
            self._connection.execute(_UPSERT, values)

    def ending(self, filepath: str) -> str | None:
        """How the part of a file ends that was read, where that is known."""
        query = "SELECT tail_hash FROM file_offsets WHERE filepath = ?"
        with self._lock:
            row = self._connection.execute(query, (filepath,)).fetchone()
        return None if row is None else row[0]

    def get_offset(self, filepath: str) -> FileOffset:
        """Where reading stands; a file never seen stands at 0."""
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
        """Whether another file stands under the inode that was read: same inode, other content."""
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
        """Forget files not read for that long. Should one return, its known events are dropped by their ids.

        A file of which lines are stored keeps its row for as long: the row says what those lines mean.
        """
        cutoff = time.time() - max_age_hours * 3600
        with self._lock, transaction(self._connection):
            cursor = self._connection.execute(
                "DELETE FROM file_offsets WHERE last_read_at < ? AND blocks = 0", (cutoff,)
            )
        return cursor.rowcount

    def close(self) -> None:
        """Close the store."""
        self._connection.close()

    def __enter__(self) -> PersistentOffsetStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def path_on_disk(stored: str) -> bytes | None:
    """The file behind a path as the store holds it, or ``None``. Raises ``OSError`` where one may not look."""
    for path in (os.fsencode(stored), _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), stored.encode())):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        return path
    return None


def still_there(stored: str) -> bool:
    """Whether a file is on disk, by its path as the store holds it; what cannot be looked at is not gone."""
    try:
        return path_on_disk(stored) is not None
    except OSError:
        return True


def _head_of(filepath: str) -> bytes | None:
    try:
        with open(filepath, "rb", buffering=0) as file:
            return fp.read_head(file.fileno())
    except OSError:
        return None


def _identity_of(filepath: str) -> str | None:
    head = _head_of(filepath)
    return None if head is None else fp.identity(head)
