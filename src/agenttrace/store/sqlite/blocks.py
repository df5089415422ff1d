"""Blocks of raw lines, decompressed: the latest few megabytes stay at hand."""

from __future__ import annotations

import sqlite3
import threading
from array import array
from typing import NamedTuple

import zstandard

from agenttrace.store.errors import CorruptStoreError

#: A block's number is its file's number, shifted by so many bits, and its place among the blocks of the file.
BLOCK_BITS = 20
#: What a line costs beside its bytes: an object, its place in a list, its offset.
_LINE_BYTES = 64


class Block(NamedTuple):
    """Lines of one file that were stored together."""

    file_id: int
    generation: int
    offsets: array[int]
    lines: list[bytes]
    #: About as much memory as it takes.
    size: int


class Blocks:
    """Decompressed blocks up to a number of bytes, the least used leave first. Threads may share one."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[tuple[int, float], Block] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, connection: sqlite3.Connection) -> StoredBlocks:
        """The blocks as one reader of the store finds them."""
        return StoredBlocks(self, connection)

    @property
    def bytes(self) -> int:
        """How much is held."""
        return self._bytes

    def taken(self, key: tuple[int, float]) -> Block | None:
        """A block that is held, which is the youngest from now on."""
        with self._lock:
            block = self._held.pop(key, None)
            if block is not None:
                self._held[key] = block
            return block

    def put(self, key: tuple[int, float], block: Block) -> None:
        """Hold a block; the latest one is held however large it is, because its lines are read one by one."""
        with self._lock:
            if key in self._held:
                return
            self._held[key] = block
            self._bytes += block.size
            while self._bytes > self._most and len(self._held) > 1:
                self._bytes -= self._held.pop(next(iter(self._held))).size


class StoredBlocks:
    """The blocks of one store, seen through one connection for as long as one question takes."""

    def __init__(self, blocks: Blocks, connection: sqlite3.Connection) -> None:
        self._blocks, self._connection = blocks, connection
        self._stored_at: dict[int, float | None] = {}

    def get(self, block_id: int) -> Block | None:
        """The block, ``None`` where it is gone."""
        if block_id not in self._stored_at:
            query = "SELECT stored_at FROM raw_blocks WHERE block_id = ?"
            row = self._connection.execute(query, (block_id,)).fetchone()
            self._stored_at[block_id] = None if row is None else row[0]
        # A store that was rebuilt may have other lines in a block of that number; it has them since another time.
        stored_at = self._stored_at[block_id]
        if stored_at is None:
            return None
        key = (block_id, stored_at)
        block = self._blocks.taken(key)
        if block is None:
            block = self._load(block_id)
            if block is not None:
                self._blocks.put(key, block)
        return block

    def _load(self, block_id: int) -> Block | None:
        query = "SELECT file_id, generation, offsets, data FROM raw_blocks WHERE block_id = ?"
        row = self._connection.execute(query, (block_id,)).fetchone()
        if row is None:
            return None
        offsets = array("Q")
        offsets.frombytes(row[2])
        try:
            data = zstandard.decompress(row[3])
        except zstandard.ZstdError as error:
            raise CorruptStoreError(f"what was recorded cannot be read ({error})") from error
        lines = data.split(b"\n")
        return Block(row[0], row[1], offsets, lines, len(data) + _LINE_BYTES * len(lines))
