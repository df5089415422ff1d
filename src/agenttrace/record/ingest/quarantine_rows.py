"""Which bad lines get a row in quarantine: up to a limit per file and in all; the others are only counted.

A line that is only counted is known by its offset: read a second time, it is before the furthest offset that was
counted. So it counts once, as a line with a row does.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, NamedTuple

import zstandard

from agenttrace.record.files.tracked import TrackedFile
from agenttrace.store.batch import COMPRESSION_LEVEL
from agenttrace.store.sqlite.quarantine import Quarantine

#: So much of a quarantined line is stored; its offset in the file always is.
QUARANTINE_BYTES = 1 << 20


#: The reason why a whole file is refused.
UNRECOGNISED = "format not recognised"


class QuarantineLimits(NamedTuple):
    """How many rows may be pending."""

    of_file: int
    in_all: int


LIMITS = QuarantineLimits(of_file=1000, in_all=100_000)


class _FileRows:
    """The rows of one file, those of the batch included."""

    def __init__(self, stored: Quarantine, file_id: int) -> None:
        found = stored.of_file(file_id)
        self.known = {(offset, digest) for offset, digest, *_ in found}
        self.waiting = sum(waiting for *_, waiting in found)
        self.reasons = {reason for *_, reason, waiting in found if waiting}


class QuarantineRows:
    """The quarantine as a batch sees it."""

    def __init__(self, stored: Quarantine, limits: QuarantineLimits) -> None:
        self._stored = stored
        self._limits = limits
        self.forget()

    def forget(self) -> None:
        """The batch is over: the store has it all."""
        #: The rows that are written with the batch.
        self.rows: list[tuple[Any, ...]] = []
        self._files: dict[int, _FileRows] = {}
        self._total: int | None = None

    def add(self, file: TrackedFile, offset: int, raw: bytes, reason: str, salvaged: int = 0) -> bool:
        """Set a line aside; False if that very line was set aside before."""
        return self.add_unread(file, offset, len(raw), digest_of(raw), reason, raw, salvaged)

    def add_unread(
        self,
        file: TrackedFile,
        offset: int,
        length: int,
        digest: bytes,
        reason: str,
        raw: bytes | None = None,
        salvaged: int = 0,
    ) -> bool:
        """The same for a line that was not loaded, or not as a whole."""
        file_id = file.row.file_id
        rows = self._of(file_id)
        if (offset, digest) in rows.known:
            return False
        if rows.waiting >= self._limits.of_file or self._in_all() >= self._limits.in_all:
            return self._count(file, offset)
        if offset < file.counted_end:
            return False
        rows.known.add((offset, digest))
        rows.waiting += 1
        rows.reasons.add(reason)
        self._total = self._in_all() + 1
        data = None if raw is None else zstandard.compress(raw[:QUARANTINE_BYTES], COMPRESSION_LEVEL)
        place = (file_id, file.row.filepath, file.generation, offset, length, digest)
        self.rows.append((*place, reason, salvaged, time.time(), data))
        return True

    def is_waiting(self, file: TrackedFile, reason: str) -> bool:
        """Whether something of this file waits for another try for this very reason."""
        return reason in self._of(file.row.file_id).reasons

    def _of(self, file_id: int) -> _FileRows:
        rows = self._files.get(file_id)
        if rows is None:
            rows = self._files[file_id] = _FileRows(self._stored, file_id)
        return rows

    @staticmethod
    def _count(file: TrackedFile, offset: int) -> bool:
        if offset < file.counted_end:
            return False
        file.counted_only += 1
        file.counted_end = offset + 1
        return True

    def _in_all(self) -> int:
        if self._total is None:
            self._total = self._stored.waiting()
        return self._total


def digest_of(raw: bytes) -> bytes:
    """What identifies a line in quarantine, with its offset."""
    return hashlib.sha256(raw).digest()[:16]
