"""The journal of a destination: which spans were sent, in a file beside the store.

The ledger is in the store because spans and queue must be committed together. But a store can be lost, damaged, or
deleted to import everything again, and then everything would be sent a second time. So each span is also written here
when it is sent and when it is acknowledged, sixteen bytes each time; missing rows of the ledger are restored from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from agenttrace.store.exports import SpanKey
from agenttrace.store.sqlite.export_ledger import ExportLedger

_RECORD = 16
_SESSION_BYTES = 7
#: A larger file with many repeats is compacted to the last mark of each span.
_WORTH_COMPACTING = 1 << 20

#: ``S``: sent. ``A``: acknowledged.
Mark = Literal["S", "A"]


class Journal:
    """The file of one destination."""

    def __init__(self, home: Path, name: str) -> None:
        self.path = home / "exports" / f"{name}.sent"
        self._descriptor: int | None = None

    def add(self, mark: Mark, places: Iterable[SpanKey]) -> None:
        """Append the mark of these spans and sync the file."""
        data = b"".join(_record(mark, place) for place in places)
        descriptor = self._opened()
        os.write(descriptor, data)
        os.fsync(descriptor)

    def read(self) -> dict[bytes, tuple[Mark, int]]:
        """The last mark of each span, and its session."""
        found: dict[bytes, tuple[Mark, int]] = {}
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return found
        for start in range(0, len(data) - _RECORD + 1, _RECORD):
            record = data[start : start + _RECORD]
            session, span_id = int.from_bytes(record[1:8], "big"), record[8:]
            if record[:1] == b"A":
                found[span_id] = ("A", session)
            elif record[:1] == b"S":
                found.setdefault(span_id, ("S", session))
        return found

    def fill(self, ledger: ExportLedger, destination: int) -> int:
        """Restore rows that the ledger lacks, before anything else is queued; returns how many."""
        marks = self.read()
        sent = ledger.known(destination, marks)
        missing = [
            (SpanKey(session, span_id), mark == "A")
            for span_id, (mark, session) in marks.items()
            if (known := sent.get(span_id)) is None or (mark == "A" and known.state in ("queued", "sending", "unknown"))
        ]
        if missing:
            ledger.restore(destination, missing)
        self._compact(marks)
        return len(missing)

    def _compact(self, marks: dict[bytes, tuple[Mark, int]]) -> None:
        if not self.path.exists() or self.path.stat().st_size < max(_WORTH_COMPACTING, len(marks) * _RECORD * 3 // 2):
            return
        self.close()
        fresh = self.path.with_suffix(".new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(b"".join(_record(mark, SpanKey(session, span)) for span, (mark, session) in marks.items()))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.path)

    def _opened(self) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            # Half a record of a crash would shift all that follow.
            size = os.fstat(self._descriptor).st_size
            os.ftruncate(self._descriptor, size - size % _RECORD)
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _record(mark: Mark, place: SpanKey) -> bytes:
    return mark.encode() + place.session_id.to_bytes(_SESSION_BYTES, "big") + place.span_id
