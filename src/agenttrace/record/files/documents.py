"""Documents that an agent writes anew as a whole: each message in one is a line, and a line that was read stays read.

A document that is not whole yet is being written: it is read at the next look. One that stays so was left behind by an
agent that died, and is quarantined.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from agenttrace.record.files.fingerprint import pread
from agenttrace.record.files.reader import Chunk, OpenFile, Reader
from agenttrace.record.files.tracked import QUIET_SECONDS
from agenttrace.record.files.unsized import UnsizedFile, UnsizedReader
from agenttrace.record.formats.contract import Agent


class DocumentReader(UnsizedReader):
    """Reads the lines of a document that were not in it before; positions count lines."""

    def __init__(self, handle: OpenFile, agent: Agent, max_bytes: int, known: set[bytes]) -> None:
        self._handle, self._agent, self._max_bytes = handle, agent, max_bytes
        #: Digests of the lines that were handed out.
        self._known = known
        self._lines: list[bytes] | None = None

    def read(self, offset: int, size: int, most: int = -1) -> Chunk | None:
        """The next lines, ``most`` of them; ``None`` if there is none, or if the document is not whole yet."""
        stat = self._handle.stat()
        if stat.st_size > self._max_bytes:
            return None if offset else self._oversized(stat.st_size)
        if self._lines is None:
            data = pread(self._handle.descriptor, stat.st_size, 0)
            self._lines = self._agent.lines_of(data, Path(self._handle.path))
            if self._lines is None:
                if offset or not data or time.time() - stat.st_mtime < QUIET_SECONDS:
                    return None
                self._lines = [data.replace(b"\n", b" ")]
        fresh: list[bytes] = []
        numbers: list[int] = []
        end = offset
        for end, line in enumerate(self._lines[offset:], offset + 1):
            digest = hashlib.sha256(line).digest()[:16]
            if digest not in self._known:
                self._known.add(digest)
                fresh.append(line)
                numbers.append(end - 1)
                if len(fresh) == most:
                    break
        return Chunk(fresh, numbers, end) if end > offset else None

    def _oversized(self, size: int) -> Chunk:
        digest = hashlib.sha256(pread(self._handle.descriptor, 1 << 20, 0)).digest()[:16]
        return Chunk([], [], 1, (0, size, digest))


@dataclass(eq=False, slots=True)
class TrackedDocument(UnsizedFile):
    """A document that is read again whenever it changed."""

    _known: set[bytes] = field(default_factory=set, init=False)

    def _new_reader(self) -> Reader:
        return self._reader_of(self._known)

    def _second_reader(self) -> Reader:
        return self._reader_of(set())

    def _reader_of(self, known: set[bytes]) -> Reader:
        assert self.handle is not None
        assert self.home is not None
        return DocumentReader(self.handle, self.home, self.max_line_bytes, known)

    def _verify(self) -> bool:
        """Read it from the first line where it changed; that is what such documents do."""
        if self.position == 0 or self.look() == (self.size, self.mtime_ns):
            return True
        self.start_over_quietly()
        return False

    def start_over_quietly(self) -> None:
        """Read the new lines of a document that was written anew."""
        self.position = 0
        self.generation += 1
        self._ended = False
        self._reader = self._new_reader()

    def fits(self, path: str) -> bool:
        """A document at the path is this one: it is replaced as a whole."""
        return True

    def roll_back(self) -> None:
        """The batch was not stored: its lines are read again."""
        UnsizedFile.roll_back(self)
        self._known = set()
        self._reader = None if self.handle is None else self._new_reader()
