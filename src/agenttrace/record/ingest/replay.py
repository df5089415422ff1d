"""Records lines a second time, from the raw lines in a store instead of the deleted file."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
import zstandard

from agenttrace.record.files.reader import Chunk
from agenttrace.record.files.recognition import recognised
from agenttrace.record.files.tracked import HEAD_BYTES, TrackedFile
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Source, stored_source
from agenttrace.record.ingest.pipeline import Pipeline
from agenttrace.store.batch import FileRow
from agenttrace.store.sqlite.rebuilding import BlockPlace, Rebuilding, StoredLines

_BATCH_LINES = 10_000
_BATCH_BYTES = 8 << 20


def replay(
    stores: Rebuilding, rows: Mapping[int, FileRow], places: Iterable[BlockPlace], day_of: Callable[[int], str]
) -> set[int]:
    """Record the blocks in these places, in the order in which they were recorded first; which ones could be.

    ``rows`` are the rows of their files, in which the kind of a file is noted where it had to be found out.
    """
    work = _Replay(stores, rows, day_of)
    for place in _in_order(places):
        work.take(place)
    work.pipeline.commit()
    return work.taken


class _Replay:
    def __init__(self, stores: Rebuilding, rows: Mapping[int, FileRow], day_of: Callable[[int], str]) -> None:
        self.stores, self.rows = stores, rows
        self.agents = {agent.name: agent for agent in AGENTS}
        self.pipeline = Pipeline(stores.new, self.agents, day_of=day_of)
        self.taken: set[int] = set()
        self._files: dict[int, _StoredFile | None] = {}
        self._occurrences: dict[tuple[str, int], int] = {}

    def take(self, place: BlockPlace) -> None:
        block = self.stores.lines_of(place.block_id)
        chunk = None if block is None else _unpacked(block)
        file = None if chunk is None else self._file(place.file_id, chunk)
        if chunk is None or file is None:
            return
        file.blocks, file.generation = place.number, place.generation
        self.pipeline.take(file, chunk)
        self.taken.add(place.block_id)
        if self.pipeline.lines >= _BATCH_LINES or self.pipeline.bytes >= _BATCH_BYTES:
            self.pipeline.commit()

    def _file(self, file_id: int, chunk: Chunk) -> _StoredFile | None:
        if file_id not in self._files:
            row = self.rows[file_id]
            source = self._source(row, chunk)
            self._files[file_id] = None if source is None else _StoredFile(row, source, self._occurrences)
            if source is not None:
                row.source = row.source or msgspec.json.encode(source)
        return self._files[file_id]

    def _source(self, row: FileRow, chunk: Chunk) -> Source | None:
        head = b"\n".join(chunk.lines)[:HEAD_BYTES] + b"\n"
        found = stored_source(row.source) or recognised(AGENTS, Path(row.filepath), head)
        return found if found is not None and found.agent in self.agents else None


class _StoredFile(TrackedFile):
    """Replaces a deleted file: its lines come from the store, its row stays as it was."""

    __slots__ = ("_occurrences",)

    def __init__(self, row: FileRow, source: Source, occurrences: dict[tuple[str, int], int]) -> None:
        super().__init__(row.filepath, row, 0)
        # Companions of a log are deleted with it; their absence must not be taken for a fact about the session.
        self.source = source if os.path.isdir(source.directory) else msgspec.structs.replace(source, directory="")
        self.seen_lines, self.begun = {}, True
        self._occurrences = occurrences

    def times_seen(self, raw: bytes, offset: int, *, whole: bool = True) -> int:
        """Equal lines were stored because they were different events: count them over all files of the session."""
        assert self.source is not None
        key = (self.source.session_id, hash(raw))
        seen = self._occurrences.get(key, 0)
        self._occurrences[key] = seen + 1
        return seen

    def next_row(self) -> FileRow:
        """The row as it was."""
        return msgspec.structs.replace(self.row, blocks=max(self.row.blocks, self.blocks))


def _in_order(places: Iterable[BlockPlace]) -> list[BlockPlace]:
    """By the time they were stored, but never against their order in a file: clocks go backwards."""
    latest: dict[int, float] = {}
    ordered: list[tuple[float, BlockPlace]] = []
    for place in sorted(places):
        latest[place.file_id] = max(place.stored_at, latest.get(place.file_id, 0.0))
        ordered.append((latest[place.file_id], place))
    return [place for _, place in sorted(ordered)]


def _unpacked(block: StoredLines) -> Chunk | None:
    """The lines of a block; ``None`` if it is damaged."""
    try:
        if zstandard.get_frame_parameters(block.data).content_size != block.raw_bytes:
            return None
        lines = zstandard.decompress(block.data).split(b"\n")
        offsets = array("Q", block.offsets)
    except (zstandard.ZstdError, ValueError, TypeError, MemoryError):
        return None
    if len(lines) != block.lines or len(offsets) != len(lines):
        return None
    return Chunk(lines, list(offsets), 0)
