"""Blocks of raw lines, decompressed."""

from __future__ import annotations

import sqlite3
from array import array

import zstandard

from agenttrace.store.errors import CorruptStoreError
from agenttrace.store.line_cache import LineBlock, LineCache

#: What a line costs beside its bytes: an object, its place in a list, its offset.
_LINE_BYTES = 64


class StoredBlocks:
    """The blocks of one store, seen through one connection for as long as one question takes."""

    def __init__(self, cache: LineCache, connection: sqlite3.Connection) -> None:
        self._cache, self._connection = cache, connection
        self._stored_at: dict[int, float | None] = {}

    def get(self, block_id: int) -> LineBlock | None:
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
        block = self._cache.taken(key)
        if block is None:
            block = self._load(block_id)
            if block is not None:
                self._cache.put(key, block)
        return block

    def _load(self, block_id: int) -> LineBlock | None:
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
        return LineBlock(row[0], row[1], offsets, lines, len(data) + _LINE_BYTES * len(lines))
