"""The journal of a rule: what it fired for, in a file beside the store.

What a rule decided is in the store because events and decisions must be committed together. But a store can be lost or
deleted to import everything again, and then everything would fire a second time. So each firing that has ended is also
written here, sixteen bytes each, and the time since when the rule fires, again whenever that changes. How the user
switched the rule is in a file of its own: a rule that was on must not be off after that, nor the reverse.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from agenttrace.config.rules import RuleMode

_RECORD = 16
_HEADER = b"since\0\0\0"
_MODES = get_args(RuleMode)


class RuleJournal:
    """The file of one rule."""

    def __init__(self, home: Path, rule: str) -> None:
        self.path = home / "rules" / f"{rule}.fired"
        self._switch = home / "rules" / f"{rule}.switch"

    def mode(self) -> str | None:
        """What the user switched the rule to; ``None``: as its settings say."""
        try:
            found = self._switch.read_text("utf-8", "replace").strip()
        except OSError:
            return None
        return found if found in _MODES else None

    def note_mode(self, mode: str | None) -> None:
        """The rule is switched so."""
        if mode == self.mode():
            return
        if mode is None:
            self._switch.unlink(missing_ok=True)
            return
        self._switch.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._switch.with_name(f"{self._switch.name}.{os.getpid()}.new")
        beside.write_text(mode, "utf-8")
        beside.replace(self._switch)

    def since(self) -> int | None:
        """Since when the rule fires, in microseconds; ``None`` for a rule that is new."""
        data = self._data()
        place = data.rfind(_HEADER)
        while place % _RECORD and place >= 0:
            place = data.rfind(_HEADER, 0, place)
        found = data[place + len(_HEADER) : place + _RECORD]
        return int.from_bytes(found, "big") if place >= 0 and len(found) == _RECORD - len(_HEADER) else None

    def fired(self) -> set[bytes]:
        """What the rule fired for."""
        return {record for record in self._records() if not record.startswith(_HEADER)}

    def begin(self, since: int) -> None:
        """The rule fires since then: it is new, or was off until then."""
        if self.since() != max(since, 0):
            self._append(_HEADER + max(since, 0).to_bytes(8, "big"))

    def add(self, once_keys: Iterable[bytes]) -> None:
        """The rule fired for these."""
        self._append(b"".join(once_keys))

    def _data(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""

    def _records(self) -> Iterator[bytes]:
        data = self._data()
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
