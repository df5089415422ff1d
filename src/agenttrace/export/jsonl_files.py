"""JSON Lines files: one line a span, one file a day of writing, ``spans-2026-11-15.jsonl``.

A line is a record of ``span_files``; its first field is the id, so that a line is found without decoding it. A portion
is one write at the end of a file, and is accepted after the sync. An interrupted write leaves complete lines and at
most one half, which is removed before the next write.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from agenttrace.destinations import DestinationSettings
from agenttrace.export.span import ExportSpan
from agenttrace.export.span_files import DoubtfulError, FileDestination, record_of, today
from agenttrace.export.wire_text import encoded

_BEGINNING = b'{"span_id":"'
_ID = slice(len(_BEGINNING), len(_BEGINNING) + 16)
_BLOCK = 1 << 16


class JsonlDestination(FileDestination):
    """Writes lines to one directory."""

    #: A day's file, also one that was rotated to a longer name; compressed files are not read.
    names = r"\.jsonl(?!.*\.(?:gz|bz2|xz|zst|zip)$).*"

    def _write(self, spans: Sequence[ExportSpan]) -> int:
        lines = b"".join(line_of(span, self._settings) for span in spans)
        path = self.path / f"spans-{today()}.jsonl"
        with _opened(path) as file:
            end = mend(file)
            if end == 0:
                self._mend_other(path)
            try:
                _write_all(file, lines)
                os.fsync(file.fileno())
            except OSError as error:
                _roll_back(file, end, error)
                raise
        if end == 0:
            self.sync_directory()
        return len(lines)

    def _mend_other(self, new: Path) -> None:
        """Mend the file of the day before, to which nothing more will be written."""
        other = next((each.path for each in self.files() if each.path != new), None)
        if other is not None:
            with suppress(OSError), _opened(other) as file:
                mend(file)

    def _ids(self, path: Path, wanted: Set[str]) -> Iterable[str]:
        """The ids of complete lines, and of a last line that lacks only its line end."""
        ids = {name.encode() for name in wanted}
        with path.open("rb") as file:
            lines = (line for line in file if line.startswith(_BEGINNING) and line[_ID] in ids)
            return {line[_ID].decode() for line in lines if _is_object(line)}


def line_of(span: ExportSpan, settings: DestinationSettings) -> bytes:
    """A span as a line."""
    record: dict[str, Any] = record_of(span, settings)
    for name in ("start", "end"):
        record[name] = record[name].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return encoded(record) + b"\n"


def _opened(path: os.PathLike[str]) -> IO[bytes]:
    """A file to append to, created where it is missing."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0)


def mend(file: IO[bytes]) -> int:
    """Remove half a line at the end, or complete it where only the line end is missing; the new size of the file."""
    end = file.seek(0, os.SEEK_END)
    start = _last_line(file, end)
    if start == end:
        return end
    file.seek(start)
    if _is_object(file.read(end - start)):
        _write_all(file, b"\n")
        return end + 1
    file.truncate(start)
    return start


def _last_line(file: IO[bytes], end: int) -> int:
    """Where a last line without a line end begins; the end of the file where all lines have one."""
    position = end
    while position > 0:
        begin = max(0, position - _BLOCK)
        file.seek(begin)
        newline = file.read(position - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        position = begin
    return 0


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.MsgspecError, RecursionError):
        return False


def _write_all(file: IO[bytes], data: bytes) -> None:
    """Write everything: the system may write only a part, such as when the disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _roll_back(file: IO[bytes], end: int, error: OSError) -> None:
    try:
        file.truncate(end)
        os.fsync(file.fileno())
    except OSError as second:
        raise DoubtfulError(f"{error.strerror}; the write could not be rolled back: {second.strerror}") from error
