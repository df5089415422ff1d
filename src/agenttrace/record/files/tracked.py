"""A file under watch: how far it was read, and whether it is still the file that was read.

That is checked before and after every read, by a ``ReadMark`` of the bytes that were read: the file must still have
them. The mark is taken from those bytes and never from the file afterwards, which may have become another one
meanwhile. The inode decides nothing here: it misses an atomic rewrite (new inode, same file) and a reused number
(same inode, other file). Any doubt means reading from the start: known events are dropped by their ids, so doubt
costs time and never data.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from agenttrace.record.files import fingerprint as fp
from agenttrace.record.files.fingerprint import pread
from agenttrace.record.files.reader import BOM, CHUNK_BYTES, Chunk, LineReader, OpenFile, Reader, leads_to, stored_path
from agenttrace.record.formats.contract import Agent, Source, stored_source
from agenttrace.store.batch import FileRow

logger = logging.getLogger(__name__)

#: A complete last line without its newline is read once the file has not changed for this long.
QUIET_SECONDS = 1.0
#: Clocks of file systems tick this slowly at worst: a file changed twice within a tick may look unchanged.
TICK_SECONDS = 2.0
#: So much of a file tells nearly always what it is.
HEAD_BYTES = 65_536
COUNTS = ("lines", "recorded", "duplicate", "ignored", "quarantined")


@dataclass(eq=False, slots=True)  # slots: there may be ten thousand of them
class TrackedFile:
    """One file. ``row`` is what the store has; the other fields are ahead of it until the next commit."""

    #: Whether a program may go on writing to the old file after another one took its path.
    LEAVES_REST: ClassVar[bool] = True

    path: str
    row: FileRow
    max_line_bytes: int
    #: The agent in whose directory it was found.
    home: Agent | None = None
    max_unpacked_bytes: int = field(default=1 << 62, kw_only=True)

    source: Source | None = field(init=False)
    position: int = field(init=False)
    blocks: int = field(init=False)
    generation: int = field(init=False)
    counts: dict[str, int] = field(init=False)
    lost_bytes: int = field(init=False)
    counted_only: int = field(init=False)
    counted_end: int = field(init=False)
    size: int = field(init=False)
    mtime_ns: int | None = field(init=False)
    #: How often each line occurs before ``position``; built when a line without an id is read again.
    seen_lines: dict[int, int] | None = field(init=False)
    #: Whether a line before ``position`` has the time at which the log began; ``None``: not known without a look.
    begun: bool | None = field(init=False)
    #: Device and inode, as the last look found them.
    place: tuple[int, int] | None = field(default=None, init=False)
    handle: OpenFile | None = field(default=None, init=False)
    #: True once the path names another file: the rest is read through the handle alone.
    detached: bool = field(default=False, init=False)
    last_growth: float = field(default_factory=time.monotonic, init=False)
    #: True while the counts of the row are those of a file that was refused, and are no longer right.
    _forgiven: bool = field(init=False)
    #: ``size`` without the space that is only reserved.
    _content_end: int = field(init=False)
    #: Size and time at the last look and at the one before: bytes that vanish before they are read count as lost.
    _noticed: tuple[int, int | None] = field(default=(0, None), init=False)
    _noticed_before: tuple[int, int | None] = field(default=(0, None), init=False)
    _mark: fp.ReadMark | None = field(init=False)
    #: Changed so shortly before the last look that a further change might not show.
    _fresh: bool = field(default=False, init=False)
    #: Position, size and time at which there was no complete line to read.
    _fruitless: tuple[int, int, int | None] | None = field(init=False)
    _reader: Reader | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.roll_back()

    # -- is it still the same file ----------------------------------------------------------------------------

    def open(self) -> OpenFile:
        """The open file; opened on first use."""
        if self.handle is None:
            # Links were followed when it was found: a link that is here now may lead anywhere.
            self.handle = OpenFile(self.path, follow=False)
            self._reader = self._new_reader()
            self._verify()
        return self.handle

    def _new_reader(self) -> Reader:
        assert self.handle is not None
        return LineReader(self.handle.descriptor, self.max_line_bytes)

    def look(self) -> tuple[int, int]:
        """Size and time of the open file."""
        assert self.handle is not None
        stat = self.handle.stat()
        return stat.st_size, stat.st_mtime_ns

    def close(self) -> None:
        """Close the descriptor; reading can go on later."""
        if self.handle is not None:
            self.handle.close()
            self.handle = self._reader = None
        if not self.dirty:
            # The store has it too; ten thousand quiet files should need no memory.
            self._mark = self.seen_lines = self.begun = None

    def hand_over(self, rest: TrackedFile) -> None:
        """The file was saved anew and goes on from there; ``rest`` reads what is still written to the old one."""
        rest.handle, self.handle, self._reader = self.handle, None, None
        rest.path, rest.home, rest.source, rest.place = self.path, self.home, self.source, self.place
        rest.position = rest.row.offset = self.position
        rest.size, rest.mtime_ns, rest._noticed = self.size, self.mtime_ns, self._noticed
        rest._content_end = self._content_end
        rest._mark = self._mark
        rest._reader = rest._new_reader()
        self.size = self._content_end = self.position
        self._noticed, self._noticed_before = (0, None), (0, None)

    def is_reachable(self) -> bool:
        """Whether the path leads to the open file; if not, it must stay open while a program may write to it."""
        return self.handle is not None and not self.detached and leads_to(self.path, self.handle.place)

    def actual_place(self) -> tuple[int, int] | None:
        """Device and inode of the open file, or else as the last look found them."""
        return self.place if self.handle is None else self.handle.place

    def differs(self, size: int, mtime_ns: int) -> bool:
        """Whether a file of this size and time may have something that was not read."""
        return (size, mtime_ns) != (self.size, self.mtime_ns) or self.unread

    def notice(self, size: int, mtime_ns: int) -> None:
        """Size and time of the file as a search found it."""
        if (size, mtime_ns) != self._noticed:
            self._noticed_before, self._noticed = self._noticed, (size, mtime_ns)

    def renew(self) -> bool:
        """Look at the open file: notice growth, truncation, replacement in place. True: something to read."""
        self.open()
        size, mtime_ns = self.look()
        changed = (size, mtime_ns) != (self.size, self.mtime_ns)
        if changed:
            self.last_growth = time.monotonic()
        if changed or self._fresh:
            self._changed(size)
            self.size, self.mtime_ns = size, mtime_ns
            self._content_end = self.size
            self._fresh = abs(time.time() - mtime_ns / 1e9) < TICK_SECONDS
            self._fruitless = None
        return self.has_more

    def _changed(self, size: int) -> None:
        """The file may be another one than at the last look."""
        if self._verify() and size < self.size:
            self._cut(size)
        if size <= self.size:
            self._reader = self._new_reader()  # what was scanned may be other bytes by now

    @property
    def has_more(self) -> bool:
        """Whether there is something behind the position."""
        return self.size > self.position

    def _verify(self) -> bool:
        """Start over unless what was read is as it was."""
        assert self.handle is not None
        if self.position == 0 or self._is_as_it_was(self.handle.descriptor):
            return True
        self.restart("truncated" if self.handle.stat().st_size < self.position else "replaced")
        return False

    def _is_as_it_was(self, descriptor: int) -> bool:
        row, mark = self.row, self._mark
        if mark is not None and mark.end == self.position:
            return fp.read_mark(descriptor, mark.end, mark.line) == mark
        if self.position != row.offset:
            return False
        self._mark = fp.stored_mark(descriptor, row.offset, row.fingerprint, row.tail_hash) or mark
        return self._mark is not mark

    def fits(self, path: str) -> bool:
        """Whether the file at ``path`` can be this one: it begins with what was read of it."""
        try:
            other = OpenFile(path, follow=False)
        except OSError:
            return False
        try:
            return self.position == 0 or self._is_as_it_was(other.descriptor)
        finally:
            other.close()

    def restart(self, why: str) -> None:
        """Read from the first byte again; bytes that were seen and never read are counted as lost."""
        lost = self.unread_bytes()
        logger.info("%s was %s: reading it from the start (%d unread bytes lost)", self.path, why, lost)
        self.lost_bytes += lost
        self.size, self.mtime_ns, self._content_end, self._noticed_before = 0, None, 0, (0, None)
        if not self._begins_as_before():
            self.counted_end = 0
        self.start_over()

    def _begins_as_before(self) -> bool:
        """Whether lines that were only counted may be where they were."""
        assert self.handle is not None
        known = self._mark.identity if self._mark is not None else self.row.fingerprint
        return known is not None and fp.same_head(known, fp.read_head(self.handle.descriptor))

    def start_over(self) -> None:
        """Read all of it again."""
        self.generation += 1
        self.position = 0
        self.source = self._mark = self.seen_lines = self.begun = self._fruitless = None
        self._reader = self._new_reader()

    def forgive(self) -> None:
        """Read all of a file that no format had recognised; its lines were only counted."""
        self._forgiven = not self.row.recorded and not self.row.ignored
        self.start_over()

    def _cut(self, size: int) -> None:
        """The file lost its end, and nothing that was read."""
        lost = max(0, self.position + self.unread_bytes() - size)
        logger.info("%s was cut off: %d unread bytes lost", self.path, lost)
        self.lost_bytes += lost
        self._noticed_before = (0, None)

    def unread_bytes(self) -> int:
        """How many bytes were seen and not read, before the file became what it is now."""
        noticed = self._noticed
        if self.handle is not None and noticed == self.look():
            noticed = self._noticed_before
        seen = noticed[0] if noticed[0] > self.size else self._content_end
        return max(0, seen - self.position)

    def waiting_bytes(self, size: int) -> int:
        """How many bytes of a file of this size were not read yet."""
        return max(0, size - self.position)

    def is_recorded(self, size: int, mtime_ns: int) -> bool:
        """Whether all of a file of this size and time is in the store; asked of a file that was not opened."""
        reserved = self.row.file_size <= self.position and mtime_ns == self.row.mtime_ns
        return self.position == size or (self.position > 0 and reserved)

    # -- reading ----------------------------------------------------------------------------------------------

    def bytes_in(self, chunk: Chunk) -> int:
        """How many bytes a chunk is that was read at the position."""
        return chunk.end - self.position

    def head(self) -> bytes:
        """The first whole lines, for recognition."""
        return pread(self.open().descriptor, HEAD_BYTES, 0)

    def _second_reader(self) -> Reader:
        """A reader to look at lines with, which changes nothing about how far the file was read."""
        return self._new_reader()

    def lines_from(self, start: int) -> Iterator[bytes]:
        """The complete lines behind ``start``, as they are now; those too long to be loaded are left out."""
        self.open()
        reader = self._second_reader()
        while (chunk := reader.read(start, self.size)) is not None and not chunk.refused:
            yield from chunk.lines
            start = chunk.end

    def read(self, most: int = -1) -> Chunk | None:
        """The next complete lines, ``most`` of them, or ``None``.

        A chunk from a file that changed meanwhile is not handed out.
        """
        self.open()
        assert self._reader is not None
        chunk = self._reader.read(self.position, self.size, most)
        if chunk is None:
            self._fruitless = (self.position, self.size, self.mtime_ns)
            self._content_end = self._reader.solid_end(self.size)
            return None
        if not self._verify():
            return None
        if chunk.lines and not chunk.lines[0] and self._inside_line():
            # The newline of a line that was read before it was there.
            return Chunk(chunk.lines[1:], chunk.offsets[1:], chunk.end, chunk.oversized, chunk.data)
        return chunk

    def _inside_line(self) -> bool:
        return self._mark is not None and not self._mark.tail.endswith(b"\n")

    def passed(self, chunk: Chunk) -> None:
        """Reading goes on behind this chunk."""
        self.position = chunk.end
        if self.handle is None:
            return
        if chunk.oversized is not None:
            self._mark = fp.read_mark(self.handle.descriptor, chunk.end, chunk.oversized[0])
        else:
            line = chunk.offsets[-1] if chunk.offsets else chunk.end
            self._mark = (self._mark or fp.NOTHING_READ).grown(chunk.data, line)

    @property
    def unread(self) -> bool:
        """Whether there may be lines that were not looked for yet."""
        looked = (self.position, self.size, self.mtime_ns) == self._fruitless
        return self._fresh or (self.size > self.position and not looked)

    def is_quiet(self) -> bool:
        """Whether the file has not changed for a while."""
        if self.mtime_ns is not None and time.time() - self.mtime_ns / 1e9 >= QUIET_SECONDS:
            return True
        return time.monotonic() - self.last_growth >= QUIET_SECONDS

    def unterminated(self) -> Chunk | None:
        """The last line without its newline."""
        self.open()
        assert self._reader is not None
        line = self._reader.unterminated(self.position, self.size)
        if line is None or len(line) != self.size - self.position or b"\n" in line:
            return None
        return Chunk([line], [self.position], self.size, data=line)

    def pending(self) -> int:
        """1 if a line has begun and not ended."""
        return int(self.size > self.position)

    def times_seen(self, raw: bytes, offset: int, *, whole: bool = True) -> int:
        """How often this very line occurs before ``offset``; counts it as seen, unless it is a piece of a line.

        A new count of the lines of the file finds no pieces either.
        """
        if self.seen_lines is None:
            self.seen_lines = Counter(map(hash, self.lines_before(offset)))
        mark = hash(raw)
        seen = self.seen_lines.get(mark, 0)
        if whole:
            self.seen_lines[mark] = seen + 1
        return seen

    def lines_before(self, end: int) -> Iterator[bytes]:
        """The lines of the file up to a place that was read."""
        reader = self._second_reader()
        position = 0
        while position < end and (chunk := reader.read(position, min(end, position + CHUNK_BYTES * 64))):
            for line, offset in zip(chunk.lines, chunk.offsets, strict=True):
                if offset < end:
                    yield line if offset else line.removeprefix(BOM)
            position = chunk.end

    # -- what the store keeps ---------------------------------------------------------------------------------

    def next_row(self) -> FileRow:
        """The row to be written with the next batch."""
        before = FileRow(filepath="") if self._forgiven else self.row
        row = msgspec.structs.replace(
            self.row,
            filepath=self.row.filepath if self.detached else stored_path(self.path),
            offset=self.position,
            file_size=self._content_end,
            mtime_ns=self.mtime_ns,
            last_read_at=time.time(),
            read_count=self.row.read_count + 1,
            generation=self.generation,
            blocks=self.blocks,
            source=msgspec.json.encode(self.source) if self.source else None,
            lost_bytes=self.row.lost_bytes + self.lost_bytes,
            counted_only=before.counted_only + self.counted_only,
            counted_end=self.counted_end,
            error=None,
            gone_at=None,
            **{name: getattr(before, name) + count for name, count in self.counts.items()},
        )
        if (place := self.actual_place()) is not None:
            row.device, row.inode = place
        self._sign(row)
        return row

    def _sign(self, row: FileRow) -> None:
        """Write down what tells the file from another one."""
        if self._mark is not None and self._mark.end == self.position:
            row.fingerprint, row.tail_hash = self._mark.identity, self._mark.ending
            row.head_length = len(self._mark.head)
        elif (self.position, self.generation) != (self.row.offset, self.row.generation):
            row.fingerprint = row.tail_hash = None

    def committed(self, row: FileRow) -> None:
        """The row is in the store."""
        self.row = row
        self._count_anew()

    def _count_anew(self) -> None:
        self._forgiven = False
        self.counts = dict.fromkeys(COUNTS, 0)
        self.lost_bytes = self.counted_only = 0

    def roll_back(self) -> None:
        """The batch was not stored: go back to what is."""
        self.position, self.blocks = self.row.offset, self.row.blocks
        self.generation = self.row.generation
        self.source = stored_source(self.row.source)
        self._count_anew()
        self.counted_end = self.row.counted_end
        self.seen_lines = self.begun = self._mark = self._fruitless = None
        # What no path leads to any more must stay open; the rest is opened and checked again.
        self.size, self.mtime_ns = self.row.file_size, self.row.mtime_ns
        self._content_end = self.size

    @property
    def dirty(self) -> bool:
        """Whether there is something to store."""
        return (
            self.position != self.row.offset
            or self.generation != self.row.generation
            or self.lost_bytes > 0
            or any(self.counts.values())
        )
