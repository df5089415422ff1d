"""Files with the changes of a store, version 1: what ``agenttrace team export`` writes and ``team import`` reads.

A file is frames of zstd, so ``zstd -dc FILE`` prints it as lines of JSON. The first frame has one line, the header.
Each further one is a page: a row on each line (bytes are Base64), and then where the page ends. The last frame has one
line with the number of all rows, without which a file is not whole. Before each frame stands a skippable frame with the
length of the frame and the number of its rows. What is damaged is therefore one page, and the next one is found.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import msgspec
import zstandard

from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.team import wire

FORMAT, VERSION = "agenttrace-changes", 1
SUFFIX = ".changes.zst"

#: A skippable frame of 16 bytes: its magic number and size, then the length of the next frame and its rows.
_MARK = struct.Struct("<II QQ")
_MAGIC, _SIZE = 0x184D2A50, 16
_MAGIC_BYTES = struct.pack("<II", _MAGIC, _SIZE)
_LEVEL = 6
#: So much is looked through at a time for the next page after a damaged one.
_CHUNK = 1 << 20
#: How much of a line that cannot be read is quoted, and how many such lines of a file.
QUOTED_BYTES, MOST_QUOTED = 2_000, 1_000


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a file is, and whose."""

    format: str
    version: int
    machine: str
    #: Identifies the store, however much it grows: see ``importing``.
    mark: str
    #: Seconds since the epoch.
    created_at: float


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a page."""

    until: ChangesCursor


class _Whole(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a file."""

    rows: int


class BadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file that cannot be read: a line of a page, or all of one (line 0)."""

    #: Where the page begins.
    offset: int
    line: int
    reason: str
    quoted: str = ""


class FilePage(NamedTuple):
    """A page as far as it can be read; without an end where that cannot be."""

    rows: list[Row]
    until: ChangesCursor | None
    bad: list[BadLine]


class NotChangesError(ValueError):
    """A file of another kind, or of a newer version."""


_rows: msgspec.json.Decoder[Row] = msgspec.json.Decoder(Row)
_header = msgspec.json.Decoder(Header)
_end, _whole = msgspec.json.Decoder(_End), msgspec.json.Decoder(_Whole)
_encoder = msgspec.json.Encoder()
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# -- writing -------------------------------------------------------------------------------------------------------


class ChangesWriter:
    """Writes a file; what is there is replaced when it is whole."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._part = path, path.with_name(f"{path.name}.part")
        # Texts of sessions are for their owner only.
        self._file = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self.rows = 0
        self._write([_encoder.encode(header)], 0)

    def add(self, rows: list[Row], until: ChangesCursor) -> None:
        """Write a page."""
        lines = [_line(row) for row in rows]
        self._write([*lines, _encoder.encode(_End(until=until))], len(rows))
        self.rows += len(rows)

    def finish(self) -> int:
        """End the file; how many bytes it has."""
        self._write([_encoder.encode(_Whole(rows=self.rows))], 0)
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        os.replace(self._part, self._path)
        return size

    def _write(self, lines: list[bytes], rows: int) -> None:
        frame = self._compressor.compress(b"".join(line + b"\n" for line in lines))
        self._file.write(_MARK.pack(_MAGIC, _SIZE, len(frame), rows) + frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def _line(row: Row) -> bytes:
    try:
        return _encoder.encode(row)
    except UnicodeEncodeError:
        return _encoder.encode(wire.speakable(row))  # a name of a file may have bytes that are no text


# -- reading -------------------------------------------------------------------------------------------------------


class ChangesFile:
    """Reads a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.header = _read_header(file)

    def expected_rows(self) -> int:
        """About how many rows there are; no page is unpacked."""
        with self.path.open("rb") as file:
            return sum(found.rows for found in _frames(file))

    def digest(self) -> str:
        """Identifies the contents."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]

    def pages(self) -> Iterator[FilePage]:
        """All pages; the last one has no rows, and says whether something is missing."""
        rows, whole = 0, None
        with self.path.open("rb") as file:
            frames = _frames(file)
            next(frames)
            for place in frames:
                found = _page(file, place)
                if isinstance(found, _Whole):
                    whole = found
                    continue
                rows += len(found.rows) + sum(bad.line > 0 for bad in found.bad)
                yield found
        if whole is None or whole.rows != rows:
            reason = "the file has no end" if whole is None else f"{whole.rows - rows} rows are missing"
            yield FilePage([], None, [BadLine(offset=0, line=0, reason=reason)])


def is_changes_file(path: Path) -> bool:
    """Whether a file begins as these do."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC_BYTES)) == _MAGIC_BYTES
    except OSError:
        return False


class _Place(NamedTuple):
    offset: int
    #: 0: what is here is no page.
    length: int
    rows: int


def _frames(file: BinaryIO) -> Iterator[_Place]:
    """The frames by their marks; where there is none, the next one is looked for."""
    size, offset = os.fstat(file.fileno()).st_size, 0
    while offset < size:
        file.seek(offset)
        mark = file.read(_MARK.size)
        if len(mark) == _MARK.size and mark.startswith(_MAGIC_BYTES):
            _, _, length, rows = _MARK.unpack(mark)
            begin = offset + _MARK.size
            following = begin + length
            if following <= size:
                yield _Place(begin, length, min(rows, wire.MOST_ROWS))
                offset = following
                if following < size and not _is_mark(file, following):
                    # The length is damaged, or something stands between two pages.
                    offset = _next_mark(file, begin, size)
                    if offset > following:
                        yield _Place(following, 0, 0)
                continue
        yield _Place(offset, 0, 0)
        offset = _next_mark(file, offset + 1, size)


def _is_mark(file: BinaryIO, offset: int) -> bool:
    file.seek(offset)
    return file.read(len(_MAGIC_BYTES)) == _MAGIC_BYTES


def _next_mark(file: BinaryIO, offset: int, size: int) -> int:
    while offset < size:
        file.seek(offset)
        found = file.read(_CHUNK).find(_MAGIC_BYTES)
        if found >= 0:
            return offset + found
        offset += _CHUNK - len(_MAGIC_BYTES) + 1
    return size


def _unpacked(file: BinaryIO, place: _Place) -> bytes:
    """The lines of a frame; ``BadPageError`` where it is damaged."""
    if not place.length:
        raise wire.BadPageError("a part of the file is damaged")
    file.seek(place.offset)
    return wire.decompressed(file.read(min(place.length, wire.MOST_SENT + 1)))


def _read_header(file: BinaryIO) -> Header:
    try:
        header = _header.decode(_unpacked(file, next(_frames(file), _Place(0, 0, 0))))
    except (wire.BadPageError, *_UNREADABLE):
        raise NotChangesError("it is no file of changes, or its beginning is damaged") from None
    if header.format != FORMAT:
        raise NotChangesError(f"it is a file of another kind ({header.format[:50]!r})")
    if header.version > VERSION:
        raise NotChangesError("it was written by a newer AgentTrace; update this one")
    return header


def _page(file: BinaryIO, place: _Place) -> FilePage | _Whole:
    try:
        plain = _unpacked(file, place)
    except wire.BadPageError as error:
        return FilePage([], None, [BadLine(offset=place.offset, line=0, reason=str(error))])
    lines = plain.removesuffix(b"\n").split(b"\n")
    if len(lines) == 1:
        try:
            return _whole.decode(lines[0])
        except _UNREADABLE:
            pass
    rows, bad, until = list[Row](), list[BadLine](), None
    try:
        until = _end.decode(lines[-1]).until
        lines.pop()
    except _UNREADABLE as error:
        bad.append(BadLine(offset=place.offset, line=0, reason=f"the page has no end ({error})"))
    for number, line in enumerate(lines, 1):
        try:
            wire.check_row(row := _rows.decode(line))
            rows.append(row)
        except (wire.BadPageError, *_UNREADABLE) as error:
            quoted = line[:QUOTED_BYTES].decode("utf-8", "replace")
            bad.append(BadLine(offset=place.offset, line=number, reason=str(error), quoted=quoted))
    return FilePage(rows, until, bad)
