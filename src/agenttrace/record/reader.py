"""A file's new complete lines, as bytes with their offsets; a half-written last line waits.

Reading decides nothing about content. It promises: a line is handed out once it is complete, memory is bounded by
the longest allowed line, and a file that was truncated, replaced or rewritten is noticed before its next line is
read and read from the start, where the events' ids tell what is known.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from agenttrace.record import fingerprint as fp
from agenttrace.record.offsets import PersistentOffsetStore

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Chunk:
    """Some consecutive lines of a file."""

    lines: list[bytes]
    #: Where each line begins.
    offsets: list[int]
    #: Where the next line will begin.
    end: int
    #: ``(offset, length, digest)`` of a line that was too long to be loaded; it ends at ``end``.
    oversized: tuple[int, int, bytes] | None = None


def split_lines(data: bytes, offset: int) -> tuple[list[bytes], list[int]]:
    """The lines of ``data``, which ends with a newline, and where they begin in the file."""
    lines = data.split(b"\n")
    lines.pop()
    offsets = list(accumulate((len(line) + 1 for line in lines), initial=offset))
    offsets.pop()
    return lines, offsets


class OpenFile:
    """A file that is being read: the descriptor, and what tells it from another file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOCTTY", 0))
        stat = os.fstat(self.descriptor)
        self.device, self.inode = stat.st_dev, stat.st_ino

    def stat(self) -> os.stat_result:
        """The file behind the descriptor, whatever its name is now."""
        return os.fstat(self.descriptor)

    def close(self) -> None:
        """Let the file go."""
        os.close(self.descriptor)


class LineReader:
    """Reads lines from a descriptor, from an offset on. Scanning an endless line does not start over each time."""

    def __init__(self, descriptor: int, max_line_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_line_bytes = max_line_bytes
        #: The line at ``_start`` has no newline before ``_scanned``.
        self._start = self._scanned = -1

    def read(self, offset: int, size: int) -> Chunk | None:
        """The next complete lines between ``offset`` and ``size``; ``None`` if there is none yet."""
        if offset >= size:
            return None
        if self._start == offset and self._scanned > offset:
            return self._read_long(offset, size)
        data = os.pread(self._descriptor, min(CHUNK_BYTES, size - offset), offset)
        end = data.rfind(b"\n") + 1
        if end:
            lines, offsets = split_lines(data[:end], offset)
            return Chunk(lines, offsets, offset + end)
        if not data:
            return None
        self._start, self._scanned = offset, offset + len(data)
        return self._read_long(offset, size) if self._scanned < size else None

    def _read_long(self, offset: int, size: int) -> Chunk | None:
        """Look for the end of a line longer than a chunk, loading it only if it is short enough."""
        while self._scanned < size:
            data = os.pread(self._descriptor, min(CHUNK_BYTES, size - self._scanned), self._scanned)
            if not data:
                return None
            newline = data.find(b"\n")
            if newline >= 0:
                return self._finish_long(offset, self._scanned + newline)
            self._scanned += len(data)
        return None

    def _finish_long(self, offset: int, end: int) -> Chunk:
        length = end - offset
        self._start = -1
        if length > self._max_line_bytes:
            return Chunk([], [], end + 1, (offset, length, self._digest_of(offset, end)))
        line = os.pread(self._descriptor, length, offset)
        return Chunk([line], [offset], end + 1)

    def _digest_of(self, start: int, end: int) -> bytes:
        digest = hashlib.sha256()
        while start < end:
            data = os.pread(self._descriptor, min(CHUNK_BYTES, end - start), start)
            if not data:
                break
            digest.update(data)
            start += len(data)
        return digest.digest()[:16]

    def unterminated(self, offset: int, size: int) -> bytes | None:
        """The last line, without its newline, if it is short enough to be looked at."""
        if not 0 < size - offset <= self._max_line_bytes:
            return None
        return os.pread(self._descriptor, size - offset, offset)


class ZstdReader:
    """Reads lines from a compressed file; offsets count decompressed bytes. Such files never grow in place."""

    def __init__(self, descriptor: int, max_line_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_line_bytes = max_line_bytes
        self._stream: Any = None
        self._position = 0
        self._buffer = b""

    def read(self, offset: int, size: int) -> Chunk | None:
        """The next complete lines; ``size`` does not matter. The last line needs no newline here."""
        if self._stream is None or self._position != offset:
            self._rewind(offset)
        while (newline := self._buffer.rfind(b"\n")) < 0:
            data = self._next()
            if not data:
                return self._last(offset)
            self._buffer += data
            if len(self._buffer) > self._max_line_bytes:
                return self._oversized(offset)
        taken, self._buffer = self._buffer[: newline + 1], self._buffer[newline + 1 :]
        self._position = offset + len(taken)
        lines, offsets = split_lines(taken, offset)
        return Chunk(lines, offsets, self._position)

    def _rewind(self, offset: int) -> None:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        source = os.fdopen(os.dup(self._descriptor), "rb")
        self._stream = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
        self._buffer, self._position = b"", offset
        skip = offset
        while skip > 0:
            data = self._stream.read(min(CHUNK_BYTES, skip))
            if not data:
                break
            skip -= len(data)

    def _next(self) -> bytes:
        try:
            return bytes(self._stream.read(CHUNK_BYTES))
        except zstandard.ZstdError as error:
            # Still being written, or cut off: what was decompressed so far stands.
            logger.warning("%s: %s", "compressed log ends early", error)
            return b""

    def _last(self, offset: int) -> Chunk | None:
        if not self._buffer:
            return None
        line, self._buffer = self._buffer, b""
        self._position = offset + len(line)
        return Chunk([line], [offset], self._position)

    def _oversized(self, offset: int) -> Chunk:
        digest, length = hashlib.sha256(), 0
        data = self._buffer
        while data and b"\n" not in data:
            digest.update(data)
            length += len(data)
            data = self._next()
        head, _, self._buffer = data.partition(b"\n")
        digest.update(head)
        length += len(head)
        self._position = offset + length + 1
        return Chunk([], [], self._position, (offset, length, digest.digest()[:16]))

    def unterminated(self, offset: int, size: int) -> bytes | None:
        """Nothing: a compressed file has no half-written line."""
        return None


@dataclass(frozen=True)
class JSONLRecord:
    """One parsed line."""

    data: dict[str, Any]
    offset: int
    raw: bytes


class IncrementalJSONLReader:
    """The specification's reader: the new records of one JSONL file, each once, across restarts.

    >>> reader = IncrementalJSONLReader(path, store)  # doctest: +SKIP
    >>> for record in reader.read_new_records():      # doctest: +SKIP
    ...     print(record.offset, record.data)
    """

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        offset_store: PersistentOffsetStore,
        *,
        max_line_bytes: int = 32 << 20,
    ) -> None:
        self.filepath = os.fspath(filepath)
        self.offset_store = offset_store
        self.current_offset = 0
        #: Lines that were no JSON object: ``(offset, reason)``.
        self.bad_lines: list[tuple[int, str]] = []
        self._max_line_bytes = max_line_bytes
        self._restore_offset()

    def _restore_offset(self) -> None:
        """Go on where the last reader stopped, unless this is not the file it read."""
        known = self.offset_store.get_offset(self.filepath)
        try:
            with open(self.filepath, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                head = fp.read_head(file.fileno())
        except OSError as error:
            logger.error("Cannot read %s: %s", self.filepath, error)
            return
        if size < known.offset or size < known.file_size:
            logger.warning("File truncated, starting from the beginning: %s", self.filepath)
        elif known.fingerprint and not fp.same_head(known.fingerprint, head):
            logger.warning("File replaced, starting from the beginning: %s", self.filepath)
        else:
            self.current_offset = known.offset

    def read_new_records(self) -> Iterator[JSONLRecord]:
        """Yield the records of all new complete lines; the offset is saved when they are used up."""
        try:
            file = OpenFile(self.filepath)
        except OSError as error:
            logger.error("Cannot read %s: %s", self.filepath, error)
            return
        try:
            yield from self._records(file)
        finally:
            self._save(file)
            file.close()

    def _records(self, file: OpenFile) -> Iterator[JSONLRecord]:
        size = file.stat().st_size
        if size < self.current_offset:
            logger.warning("File truncated, starting from the beginning: %s", self.filepath)
            self.current_offset = 0
        reader = LineReader(file.descriptor, self._max_line_bytes)
        while (chunk := reader.read(self.current_offset, size)) is not None:
            if chunk.oversized is not None:
                self.bad_lines.append((chunk.oversized[0], "line too long"))
            for line, offset in zip(chunk.lines, chunk.offsets, strict=True):
                record = self._parse(line, offset)
                # Moved before the record is handed out: whoever stops here has had it.
                self.current_offset = offset + len(line) + 1
                if record is not None:
                    yield record
            self.current_offset = chunk.end

    def _parse(self, line: bytes, offset: int) -> JSONLRecord | None:
        text = line.removeprefix(BOM) if offset == 0 else line
        if not text.strip():
            return None
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.bad_lines.append((offset, str(error)))
            return None
        if not isinstance(data, dict):
            self.bad_lines.append((offset, "not a JSON object"))
            return None
        return JSONLRecord(data, offset, line)

    def _save(self, file: OpenFile) -> None:
        self.offset_store.save_offset(
            self.filepath,
            self.current_offset,
            file.stat().st_size,
            file.inode,
            fp.identity(fp.read_head(file.descriptor)),
        )


def stored_path(path: str | Path) -> str:
    """A path as the store can hold it: names that are not UTF-8 are shown with escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
