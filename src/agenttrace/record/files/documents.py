"""Documents that an agent writes anew as a whole: each message in one is a line, and a line that was read stays read.

A document that is not whole yet is being written: it is read at the next look. One that stays so was left behind by an
agent that died, and is quarantined.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from agenttrace.record.files.fingerprint import pread
from agenttrace.record.files.reader import Chunk, OpenFile, Reader, stored_path
from agenttrace.record.files.tracked import QUIET_SECONDS
from agenttrace.record.files.unsized import UnsizedFile, UnsizedReader
from agenttrace.record.formats.contract import Agent

#: The reason why a document is quarantined.
NOT_WHOLE = "document is not whole"
#: The reason why one is not loaded.
TOO_LARGE = "document is larger than record.max_line_bytes"
#: What a format may raise for a document that is not what it expects.
_FAULTS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class DocumentReader(UnsizedReader):
    """Reads the lines of a document that were not in it before; positions count lines."""

    def __init__(self, handle: OpenFile, agent: Agent, max_bytes: int, known: set[bytes]) -> None:
        self._handle, self._agent, self._max_bytes = handle, agent, max_bytes
        #: Digests of the lines that were handed out.
        self._known = known
        self._lines: list[bytes] | None = None
        #: Whether the document was not whole and may still be written.
        self.waiting = False
        #: The digest of the lines that were found, or of what was read in their place.
        self.content: bytes | None = None

    def read(self, offset: int, size: int, most: int = -1) -> Chunk | None:
        """The next lines, ``most`` of them; ``None`` if there is none, or if the document is not whole yet."""
        return self._read(offset, most, self._known)

    def opening(self, most: int) -> Chunk | None:
        """The first lines, which count as read only when they are read; what was loaded for them stays loaded."""
        return self._read(0, most, set())

    def _read(self, offset: int, most: int, known: set[bytes]) -> Chunk | None:
        self.waiting = False
        stat = self._handle.stat()
        if stat.st_size > self._max_bytes:
            return None if offset else self._oversized(stat)
        if self._lines is None:
            data = self._load(stat.st_size)
            if self._lines is None:
                return None if offset or not data else self._broken(data, stat.st_mtime)
        return self._fresh(self._lines, offset, most, known)

    def _load(self, size: int) -> bytes:
        data = pread(self._handle.descriptor, size, 0)
        try:
            self._lines = self._agent.lines_of(data, Path(self._handle.path))
        except _FAULTS:
            self._lines = None
        self.content = _digest(data if self._lines is None else b"\n".join(self._lines))
        return data

    def _broken(self, data: bytes, written: float) -> Chunk | None:
        if abs(time.time() - written) < QUIET_SECONDS:
            self.waiting = True
            return None
        return Chunk([data.replace(b"\n", b" ")], [0], 1, broken=NOT_WHOLE)

    def _fresh(self, lines: list[bytes], offset: int, most: int, known: set[bytes]) -> Chunk | None:
        fresh: list[bytes] = []
        numbers: list[int] = []
        end = offset
        for end, line in enumerate(lines[offset:], offset + 1):
            digest = _digest(line)
            if digest not in known:
                known.add(digest)
                fresh.append(line)
                numbers.append(end - 1)
                if len(fresh) == most:
                    break
        if end == offset:
            self._lines = None  # all of it was handed out: it need not stay in memory
            return None
        return Chunk(fresh, numbers, end)

    @staticmethod
    def _oversized(stat: os.stat_result) -> Chunk:
        digest = _digest(f"{stat.st_size} {stat.st_mtime_ns}".encode())
        return Chunk([], [], 1, (0, stat.st_size, digest), refused=TOO_LARGE)

    def has_other_content(self) -> bool:
        """Whether the document, or a file beside it, says other things than when it was read, as far as is known."""
        size, before = self._handle.stat().st_size, self.content
        if before is None or size > self._max_bytes:
            return False
        lines = self._lines
        self._load(size)
        self._lines, after, self.content = lines, self.content, before
        return after != before

    def beginning(self) -> bytes | None:
        """The digest of the first line; ``None`` where there is none, or where the document is not whole."""
        size = self._handle.stat().st_size
        if self._lines is None and size <= self._max_bytes:
            self._load(size)
        return _digest(self._lines[0]) if self._lines else None


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]


@dataclass(eq=False, slots=True)
class TrackedDocument(UnsizedFile):
    """A document that is read again whenever it changed."""

    LEAVES_REST: ClassVar[bool] = False

    _known: set[bytes] = field(default_factory=set, init=False)
    #: Whether what was read last was not whole: what the document is must be found out again.
    _was_broken: bool = field(default=False, init=False)
    #: Whether it is not whole, and may still be written.
    _waiting: bool = field(default=False, init=False)

    def _new_reader(self) -> Reader:
        return self._reader_of(self._known)

    def _second_reader(self) -> Reader:
        return self._reader_of(set())

    def _reader_of(self, known: set[bytes]) -> DocumentReader:
        assert self.handle is not None
        assert self.home is not None
        return DocumentReader(self.handle, self.home, self.max_line_bytes, known)

    def _changed(self, size: int) -> None:
        if self._verify() and self._is_settled() and self._has_other_content():
            self._read_anew()

    def _has_other_content(self) -> bool:
        return isinstance(self._reader, DocumentReader) and self._reader.has_other_content()

    def _verify(self) -> bool:
        """Read it from the first line where it changed; that is what such documents do."""
        if self.look() == (self.size, self.mtime_ns):
            return True
        self._read_anew()
        return False

    def _read_anew(self) -> None:
        """Look for new lines in a document that was written anew."""
        self._ended = False
        self._reader = reader = self._reader_of(self._known)
        if self.position == 0:
            return
        self.position = 0
        self.generation += 1
        self.begun = None
        beginning = reader.beginning()
        if beginning is not None and (self._was_broken or beginning not in self._known):
            self.source = None  # the first line says what the document is

    def fits(self, path: str) -> bool:
        """A document is replaced as a whole, at its path: its inode means nothing."""
        return stored_path(path) == self.row.filepath

    def bytes_in(self, chunk: Chunk) -> int:
        """Of its lines."""
        return sum(map(len, chunk.lines))

    def waiting_bytes(self, size: int) -> int:
        """All of it: it is read as a whole."""
        return size

    def read(self, most: int = -1) -> Chunk | None:
        """The next lines, ``most`` of them, or ``None``."""
        chunk = UnsizedFile.read(self, most)
        self._waiting = isinstance(self._reader, DocumentReader) and self._reader.waiting
        if self._waiting:
            self._ended, self._fruitless = False, None
        return chunk

    def head(self) -> bytes:
        """The first whole lines, for recognition."""
        self.open()
        reader = self._reader
        assert isinstance(reader, DocumentReader)
        chunk = reader.opening(50)
        self._waiting = reader.waiting
        return b"" if chunk is None else b"\n".join(chunk.lines) + b"\n"

    def pending(self) -> int:
        """1 if the document is not whole yet."""
        return int(self._waiting)

    def passed(self, chunk: Chunk) -> None:
        """Reading goes on behind this chunk."""
        UnsizedFile.passed(self, chunk)
        self._was_broken = chunk.broken is not None

    def close(self) -> None:
        """Close the descriptor; known lines are dropped by their ids when it is read again."""
        UnsizedFile.close(self)
        if not self.dirty:
            self._known = set()

    def roll_back(self) -> None:
        """The batch was not stored: its lines are read again."""
        UnsizedFile.roll_back(self)
        self._known = set()
        self._was_broken = True
        self._reader = None if self.handle is None else self._new_reader()
