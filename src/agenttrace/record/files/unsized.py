"""Files whose size does not tell how far they were read: compressed ones, databases, documents.

A position in them is the reader's own business. They are read until the reader has nothing more, and again when size
or time have changed.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from agenttrace.record.files.reader import Chunk
from agenttrace.record.files.tracked import TICK_SECONDS, TrackedFile
from agenttrace.store.batch import UNSIZED, FileRow

#: In place of the hash of a tail: this file was read to its end.
END = "end"


class UnsizedReader:
    """What readers of such files have in common."""

    def solid_end(self, size: int) -> int:
        """The end: no space is reserved in such files."""
        return size

    def unterminated(self, offset: int, size: int) -> bytes | None:
        """Nothing: such files have no half-written line."""
        return None


@dataclass(eq=False, slots=True)
class UnsizedFile(TrackedFile):
    """One that is read to its end, whatever its size is."""

    #: Whether the reader has nothing more.
    _ended: bool = field(default=False, init=False)

    def _changed(self, size: int) -> None:
        if (size, self.look()[1]) != (self.size, self.mtime_ns) or self._is_settled():
            self._ended = False
        self._verify()

    def _is_settled(self) -> bool:
        """Whether the clock has ticked since the last change: one more look finds what changed in the same tick."""
        return self.mtime_ns is not None and time.time() - self.mtime_ns / 1e9 >= TICK_SECONDS

    @property
    def has_more(self) -> bool:
        """Whether the reader may have something."""
        return not self._ended

    def _is_as_it_was(self, descriptor: int) -> bool:
        stat = os.fstat(descriptor)
        return (self.size, self.mtime_ns) == (stat.st_size, stat.st_mtime_ns)

    def start_over(self) -> None:
        """Read all of it again."""
        TrackedFile.start_over(self)
        self._ended = False

    def unread_bytes(self) -> int:
        """Unknown, and counted as none."""
        return 0

    def waiting_bytes(self, size: int) -> int:
        """What was added since the last look; all of a file that was never read."""
        return max(0, size - self.size) if self.position else size

    def is_recorded(self, size: int, mtime_ns: int) -> bool:
        """Whether it was read to its end and has not changed since then."""
        return self.row.tail_hash == END and (size, mtime_ns) == (self.row.file_size, self.row.mtime_ns)

    def head(self) -> bytes:
        """The first whole lines, for recognition."""
        self.open()
        chunk = self._second_reader().read(0, 0, 50)
        # Of a first line that is too long to be loaded nothing is left but its end.
        return b"" if chunk is None else b"\n".join(chunk.lines) + b"\n"

    def read(self, most: int = -1) -> Chunk | None:
        """The next lines, ``most`` of them, or ``None``."""
        self.open()
        assert self._reader is not None
        chunk = None if self._ended else self._reader.read(self.position, self.size, most)
        if chunk is None:
            self._fruitless = (self.position, self.size, self.mtime_ns)
        self._ended = chunk is None or chunk.refused is not None
        return chunk

    def passed(self, chunk: Chunk) -> None:
        """Reading goes on behind this chunk."""
        self.position = chunk.end

    @property
    def unread(self) -> bool:
        """Whether there may be lines that nobody has looked for yet."""
        return self._fresh or not self._ended

    def pending(self) -> int:
        """None: there are no half-written lines."""
        return 0

    def _sign(self, row: FileRow) -> None:
        row.fingerprint = UNSIZED  # size and time tell whether it changed
        row.tail_hash = END if self._ended else None

    def roll_back(self) -> None:
        """The batch was not stored: go back to what is."""
        TrackedFile.roll_back(self)
        self._ended = self.row.tail_hash == END

    @property
    def dirty(self) -> bool:
        """Whether there is something to store."""
        return TrackedFile.dirty.fget(self) or self._ended != (self.row.tail_hash == END)  # type: ignore[attr-defined]
