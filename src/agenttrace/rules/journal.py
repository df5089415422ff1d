"""The journal of a rule: what it fired for, in a file beside the store.

What a rule decided is in the store because events and decisions must be committed together. But a store can be lost or
deleted to import everything again, and then everything would fire a second time. So each firing that has ended is also
written here, sixteen bytes each, after the time since when the rule fires.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_RECORD = 16
_HEADER = b"since\0\0\0"


class RuleJournal:
    """The file of one rule."""

    def __init__(self, home: Path, rule: str) -> None:
        self.path = home / "rules" / f"{rule}.fired"

    def since(self) -> int | None:
        """Since when the rule fires, in microseconds; ``None`` for a rule that is new."""
        first = next(self._records(), b"")
        return int.from_bytes(first[len(_HEADER) :], "big") if first.startswith(_HEADER) else None

    def fired(self) -> set[bytes]:
        """What the rule fired for."""
        return {record for record in self._records() if not record.startswith(_HEADER)}

    def begin(self, since: int) -> None:
        """Start the file of a rule that is new."""
        if self.since() is None:
            self._append(_HEADER + max(since, 0).to_bytes(8, "big"))

    def add(self, once_keys: Iterable[bytes]) -> None:
        """The rule fired for these."""
        self._append(b"".join(once_keys))

    def _records(self) -> Iterator[bytes]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        for start in range(0, len(data) - _RECORD + 1, _RECORD):
            yield data[start : start + _RECORD]

    def _append(self, data: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # Half a record of a crash would shift all that follow.
            size = os.fstat(descriptor).st_size
            os.ftruncate(descriptor, size - size % _RECORD)
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
