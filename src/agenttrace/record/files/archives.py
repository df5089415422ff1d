"""Compressed logs: lines of a zstd file, which never grows in place."""

from __future__ import annotations

import errno
import hashlib
from dataclasses import dataclass
from typing import Any

import zstandard

from agenttrace.record.files.fingerprint import pread
from agenttrace.record.files.reader import CHUNK_BYTES, Chunk, Reader, split_lines
from agenttrace.record.files.unsized import UnsizedFile, UnsizedReader

#: How the reason begins why the rest of a compressed file is not read.
UNPACKED_LIMIT = "unpacked it is larger than record.max_unpacked_bytes"


@dataclass(eq=False, slots=True)
class TrackedArchive(UnsizedFile):
    """A compressed file; its size and its time tell whether it changed."""

    def _new_reader(self) -> Reader:
        assert self.handle is not None
        return ZstdReader(self.handle.descriptor, self.max_line_bytes, self.max_unpacked_bytes)


class _FromStart:
    """The bytes behind a descriptor, whose own position stays where it is."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._offset = descriptor, 0

    def read(self, size: int) -> bytes:
        data = pread(self._descriptor, size, self._offset)
        self._offset += len(data)
        return data


class ZstdReader(UnsizedReader):
    """Reads lines from a compressed file; offsets count decompressed bytes. Such files never grow in place."""

    def __init__(self, descriptor: int, max_line_bytes: int, max_unpacked_bytes: int = 1 << 62) -> None:
        self._descriptor = descriptor
        self._max_line_bytes = max_line_bytes
        self._max_unpacked_bytes = max_unpacked_bytes
        self._stream: Any = None
        #: How much of the decompressed text the stream has given.
        self._given = 0
        self._step = CHUNK_BYTES
        self._damage: str | None = None
        self._position = 0
        self._buffer = b""

    def read(self, offset: int, size: int, most: int = -1) -> Chunk | None:
        """The next complete lines, ``most`` of them; ``size`` does not matter. The last line needs no newline here.

        Raises ``OSError`` where the file is damaged or still being written; everything before was handed out.
        """
        if self._stream is None or self._position != offset:
            self._buffer, self._position = b"", offset
            self._rewind(offset)
        if offset >= self._max_unpacked_bytes:
            return self._refusal(offset)
        while (newline := self._buffer.rfind(b"\n")) < 0:
            if len(self._buffer) > self._max_line_bytes:
                return self._oversized(offset)
            data = self._next()
            if not data:
                return self._last(offset)
            self._buffer += data
        # The limit falls behind the same line wherever reading has paused before.
        last = self._buffer.find(b"\n", self._max_unpacked_bytes - offset - 1)
        lines, offsets, end = split_lines(self._buffer[: (newline if last < 0 else last) + 1], offset, most)
        self._buffer = self._buffer[end - offset :]
        self._position = end
        return Chunk(lines, offsets, end)

    def _refusal(self, offset: int) -> Chunk | None:
        """What to say of a file that goes on behind the limit; ``None`` where it does not."""
        self._buffer = self._buffer or self._next()
        if not self._buffer:
            return self._last(offset)
        return Chunk([], [], offset, refused=f"{UNPACKED_LIMIT} ({self._max_unpacked_bytes:,} bytes)")

    def _rewind(self, offset: int) -> None:
        self._stream = zstandard.ZstdDecompressor().stream_reader(
            _FromStart(self._descriptor),  # type: ignore[arg-type]  # all that is ever called of it is read()
            read_across_frames=True,
            closefd=False,
        )
        self._given = 0
        while self._given < offset and self._next(offset - self._given):
            pass

    def _next(self, most: int = 1 << 62) -> bytes:
        try:
            data = bytes(self._stream.read(min(most, self._step)))
        except zstandard.ZstdError as error:
            if self._step == 1:
                self._damage = f"compressed log ends early: {error}"
                return b""
            # What was decompressed before the damage went with it: come closer in smaller steps.
            self._step = max(1, self._step // 64)
            self._rewind(self._given)
            return self._next(most)
        self._given += len(data)
        return data

    def _last(self, offset: int) -> Chunk | None:
        if self._damage is not None:
            raise OSError(errno.EIO, self._damage)
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
