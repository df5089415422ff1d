"""Recorded lines that were read lately, decompressed; several questions and threads may share a cache."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Hashable
from typing import NamedTuple


class LineBlock(NamedTuple):
    """Lines of one file that were stored together."""

    file_id: int
    generation: int
    offsets: array[int]
    lines: list[bytes]
    #: About as much memory as it takes.
    size: int


class LineCache:
    """Decompressed blocks up to a number of bytes, the least used leave first. Threads may share one."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[Hashable, LineBlock] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """How much is held."""
        return self._bytes

    def taken(self, key: Hashable) -> LineBlock | None:
        """A block that is held, which is the youngest from now on."""
        with self._lock:
            block = self._held.pop(key, None)
            if block is not None:
                self._held[key] = block
            return block

    def put(self, key: Hashable, block: LineBlock) -> None:
        """Hold a block; the latest one is held however large it is, because its lines are read one by one."""
        with self._lock:
            if key in self._held:
                return
            self._held[key] = block
            self._bytes += block.size
            while self._bytes > self._most and len(self._held) > 1:
                self._bytes -= self._held.pop(next(iter(self._held))).size
