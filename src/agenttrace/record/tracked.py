"""A file under watch: where reading stands, and whether it is still the file that was read.

Identity is checked before every read, by head and tail: the first KiB must hash as before, and so must the KiB just
before the offset. Head alone misses a log rewritten with the same first lines; the inode alone misses an atomic
rewrite (new inode, same file) and a reused inode (same number, other file). Any doubt means reading from the start:
known events are dropped by their ids, so doubt costs time and never data.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from agenttrace.record import fingerprint as fp
from agenttrace.record.agents.contract import Source
from agenttrace.record.reader import CHUNK_BYTES, Chunk, LineReader, OpenFile, ZstdReader, stored_path

logger = logging.getLogger(__name__)

#: A complete last line without its newline is taken once the file has been quiet for this long.
QUIET_SECONDS = 1.0
COUNTS = ("lines", "recorded", "duplicate", "ignored", "quarantined")


class FileRow(msgspec.Struct, kw_only=True):
    """A file's row in ``file_offsets``."""

    filepath: str
    offset: int = 0
    inode: int | None = None
    fingerprint: str | None = None
    file_size: int = 0
    last_read_at: float = 0.0
    read_count: int = 0
    file_id: int = 0
    device: int | None = None
    mtime_ns: int | None = None
    head_length: int = 0
    tail_hash: str | None = None
    generation: int = 0
    blocks: int = 0
    source: bytes | None = None
    lines: int = 0
    recorded: int = 0
    duplicate: int = 0
    ignored: int = 0
    quarantined: int = 0
    lost_bytes: int = 0
    error: str | None = None
    gone_at: float | None = None


class TrackedFile:
    """One file. ``row`` is what the store holds; the other fields are ahead of it until the next commit."""

    #: There may be ten thousand of them.
    __slots__ = (
        "_max_line_bytes",
        "_reader",
        "blocks",
        "counts",
        "detached",
        "generation",
        "handle",
        "last_growth",
        "lost_bytes",
        "mtime_ns",
        "path",
        "position",
        "row",
        "seen_lines",
        "size",
        "source",
    )

    def __init__(self, path: str, row: FileRow, max_line_bytes: int) -> None:
        self.path = path
        self.row = row
        self.source: Source | None = _decode_source(row.source)
        self.position = row.offset
        self.blocks = row.blocks
        self.generation = row.generation
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self.lost_bytes = 0
        self.size = row.file_size
        self.mtime_ns = row.mtime_ns
        self.handle: OpenFile | None = None
        #: True once the path names another file: what is left is read through the handle alone.
        self.detached = False
        self.last_growth = time.monotonic()
        #: How often each line stood before ``position``; built when a line without an id turns up again.
        self.seen_lines: dict[int, int] | None = None
        self._reader: LineReader | ZstdReader | None = None
        self._max_line_bytes = max_line_bytes

    @property
    def compressed(self) -> bool:
        """Whether this is a zstd file."""
        return self.path.endswith(".zst")

    # -- is it still the same file ----------------------------------------------------------------------------

    def open(self) -> OpenFile:
        """The open file; opened on first use."""
        if self.handle is None:
            self.handle = OpenFile(self.path)
            self._make_reader()
            if self.row.inode is not None:
                self._verify()
        return self.handle

    def _make_reader(self) -> None:
        assert self.handle is not None
        kind = ZstdReader if self.compressed else LineReader
        self._reader = kind(self.handle.descriptor, self._max_line_bytes)

    def close(self) -> None:
        """Give the descriptor back; reading can go on later."""
        if self.handle is not None:
            self.handle.close()
            self.handle = self._reader = None

    def renew(self) -> bool:
        """Look at the open file: notice growth, truncation, replacement in place. True: something to read."""
        handle = self.open()
        stat = handle.stat()
        changed = stat.st_size != self.size or stat.st_mtime_ns != self.mtime_ns
        if changed:
            self.last_growth = time.monotonic()
            if stat.st_size < self.position and not self.compressed:
                self.restart("truncated")
            else:
                self._verify()
            self.size, self.mtime_ns = stat.st_size, stat.st_mtime_ns
        return self.size > self.position or (self.compressed and changed)

    def _verify(self) -> None:
        """Start over unless head and tail are as they were."""
        assert self.handle is not None
        descriptor, row = self.handle.descriptor, self.row
        if self.position == 0 or row.fingerprint is None:
            return
        if self.compressed:
            if (row.inode, row.file_size, row.mtime_ns) != _signature(os.fstat(descriptor)):
                self.restart("replaced")
            return
        if os.fstat(descriptor).st_size < self.position:
            self.restart("truncated")
        elif not fp.same_head(row.fingerprint, fp.read_head(descriptor)):
            self.restart("replaced")
        elif row.tail_hash is not None and fp.tail_hash(descriptor, row.offset) != row.tail_hash:
            self.restart("rewritten")

    def restart(self, why: str) -> None:
        """Read from the first byte again; bytes that were seen and never read are counted as lost."""
        lost = max(0, self.size - self.position) if why == "truncated" else 0
        logger.info("%s was %s: reading it from the start (%d unread bytes lost)", self.path, why, lost)
        self.lost_bytes += lost
        self.generation += 1
        self.position = 0
        self.source = None
        self.seen_lines = None
        self._make_reader()

    def replaced_at_path(self) -> bool:
        """Whether the path names another file than the open one. Raises ``OSError`` when the path is gone."""
        stat = os.stat(self.path)
        return self.handle is not None and (stat.st_dev, stat.st_ino) != (self.handle.device, self.handle.inode)

    # -- reading ----------------------------------------------------------------------------------------------

    def head(self) -> bytes:
        """The first whole lines, for recognition."""
        self.open()
        assert self._reader is not None
        assert self.handle is not None
        if isinstance(self._reader, ZstdReader):
            chunk = ZstdReader(self.handle.descriptor, self._max_line_bytes).read(0, 0)
            return b"\n".join(chunk.lines[:50]) + b"\n" if chunk and chunk.lines else b""
        return os.pread(self.handle.descriptor, 65_536, 0)

    def read(self) -> Chunk | None:
        """The next complete lines, or ``None``. A chunk from a file that changed meanwhile is not handed out."""
        self.open()
        assert self._reader is not None
        assert self.handle is not None
        chunk = self._reader.read(self.position, self.size)
        if chunk is None or self.compressed:
            return chunk
        if self.row.fingerprint and not fp.same_head(self.row.fingerprint, fp.read_head(self.handle.descriptor)):
            self.restart("replaced")
            return None
        if chunk.lines and not chunk.lines[0] and self._inside_line():
            # The newline of a line that was taken before it came.
            return Chunk(chunk.lines[1:], chunk.offsets[1:], chunk.end, chunk.oversized)
        return chunk

    def _inside_line(self) -> bool:
        assert self.handle is not None
        return self.position > 0 and os.pread(self.handle.descriptor, 1, self.position - 1) != b"\n"

    def unterminated(self) -> bytes | None:
        """The last line without its newline, once the file is quiet."""
        self.open()
        assert self._reader is not None
        if self.size <= self.position or self.mtime_ns is None:
            return None
        if time.time() - self.mtime_ns / 1e9 < QUIET_SECONDS and time.monotonic() - self.last_growth < QUIET_SECONDS:
            return None
        return self._reader.unterminated(self.position, self.size)

    def pending(self) -> int:
        """1 if a line has begun and not ended."""
        if self.compressed or self.size <= self.position:
            return 0
        return 1

    def times_seen(self, raw: bytes, offset: int) -> int:
        """How often this very line stood in the file before ``offset``; counts it as seen."""
        if self.seen_lines is None:
            self.seen_lines = self._count_lines(offset)
        mark = hash(raw)
        seen = self.seen_lines.get(mark, 0)
        self.seen_lines[mark] = seen + 1
        return seen

    def _count_lines(self, end: int) -> dict[int, int]:
        counts: dict[int, int] = {}
        for line in self._lines_before(end):
            mark = hash(line)
            counts[mark] = counts.get(mark, 0) + 1
        return counts

    def _lines_before(self, end: int) -> Iterator[bytes]:
        assert self.handle is not None
        kind = ZstdReader if self.compressed else LineReader
        reader = kind(self.handle.descriptor, self._max_line_bytes)
        position = 0
        while position < end and (chunk := reader.read(position, min(end, position + CHUNK_BYTES * 64))):
            for line, offset in zip(chunk.lines, chunk.offsets, strict=True):
                if offset < end:
                    yield line
            position = chunk.end

    # -- what the store keeps ---------------------------------------------------------------------------------

    def next_row(self) -> FileRow:
        """The row to be written with the next batch."""
        row = msgspec.structs.replace(
            self.row,
            filepath=self.row.filepath if self.detached else stored_path(self.path),
            offset=self.position,
            file_size=self.size,
            mtime_ns=self.mtime_ns,
            last_read_at=time.time(),
            read_count=self.row.read_count + 1,
            generation=self.generation,
            blocks=self.blocks,
            source=msgspec.json.encode(self.source) if self.source else None,
            lost_bytes=self.row.lost_bytes + self.lost_bytes,
            error=None,
            gone_at=None,
            **{name: getattr(self.row, name) + count for name, count in self.counts.items()},
        )
        if self.handle is not None:
            descriptor = self.handle.descriptor
            head = fp.read_head(descriptor)[: self.position]
            row.device, row.inode = self.handle.device, self.handle.inode
            row.fingerprint, row.head_length = fp.identity(head), len(head)
            row.tail_hash = None if self.compressed else fp.tail_hash(descriptor, self.position)
        return row

    def committed(self, row: FileRow) -> None:
        """The row is in the store."""
        self.row = row
        self.counts = dict.fromkeys(COUNTS, 0)
        self.lost_bytes = 0

    def roll_back(self) -> None:
        """The batch was not stored: go back to what is."""
        self.position, self.blocks = self.row.offset, self.row.blocks
        self.generation = self.row.generation
        self.source = _decode_source(self.row.source)
        self.counts = dict.fromkeys(COUNTS, 0)
        self.lost_bytes = 0
        self.seen_lines = None
        self.close()

    @property
    def dirty(self) -> bool:
        """Whether there is something to store."""
        return (
            self.position != self.row.offset
            or self.generation != self.row.generation
            or self.lost_bytes > 0
            or any(self.counts.values())
        )


def _signature(stat: os.stat_result) -> tuple[int, int, int]:
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _decode_source(data: bytes | None) -> Source | None:
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Source)
    except msgspec.MsgspecError:
        return None


def row_values(row: FileRow) -> tuple[Any, ...]:
    """A row in the order of ``FileRow``'s fields."""
    return msgspec.structs.astuple(row)
