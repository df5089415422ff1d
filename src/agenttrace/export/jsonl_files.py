"""Files of JSON lines: one line a span, one file a day of writing, ``spans-2026-11-15.jsonl``.

The shape of a line is that of ``records``; its first field is the id, by which a line is found without being read. A
portion is one write at the end of a file, and counts only after the disk has it. Whatever breaks off in the middle
leaves complete lines and at most one half, which is taken away before anything is written behind it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import IO, Any

import msgspec

from agenttrace.destinations import DestinationSettings
from agenttrace.export.destination import Delivery
from agenttrace.export.json_values import encoded
from agenttrace.export.records import record_of
from agenttrace.export.span import ExportSpan
from agenttrace.export.span_directory import DoubtfulError, SpanDirectory, earliest, not_written, today

#: A day's file, also one that was moved aside under a longer name; compressed ones are not looked into.
_NAMES = r"\.jsonl(?!.*\.(?:gz|bz2|xz|zst|zip)$).*"
_BEGINNING = b'{"span_id":"'
_ID = slice(len(_BEGINNING), len(_BEGINNING) + 16)
_BLOCK = 1 << 16
#: Two destinations may share a directory.
_writing = threading.Lock()


class JsonlDestination:
    """Writes to one directory."""

    #: A line that is written twice is there twice.
    ignores_repeats = False
    can_read_back = True
    #: It is on the disk by then.
    accepted_is_stored = True

    def __init__(self, settings: DestinationSettings) -> None:
        self._settings = settings
        self._directory = SpanDirectory(settings.path or "")
        self.max_spans = settings.batch_spans

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Write lines at the end of today's file."""
        return await asyncio.to_thread(self._written, spans)

    def _written(self, spans: Sequence[ExportSpan]) -> Delivery:
        lines = b"".join(line_of(span, self._settings) for span in spans)
        try:
            with _writing:
                self._directory.ensure()
                self._append(lines)
        except DoubtfulError as error:
            return Delivery(verdict="unknown", reason=str(error))
        except OSError as error:
            return not_written(error)
        return Delivery(verdict="accepted", sent_bytes=len(lines))

    def _append(self, lines: bytes) -> None:
        path = self._directory.path / f"spans-{today()}.jsonl"
        with _opened(path) as file:
            end = mend(file)
            if end == 0:
                self._mend_other(path)
            try:
                _write(file, lines)
                os.fsync(file.fileno())
            except OSError as error:
                _take_back(file, end, error)
                raise
        if end == 0:
            self._directory.sync()

    def _mend_other(self, new: Path) -> None:
        """Mend what broke off on another day: nothing will be written behind it that would."""
        other = next((each.path for each in self._directory.files(_NAMES) if each.path != new), None)
        if other is not None:
            with suppress(OSError), _opened(other) as file:
                mend(file)

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans have a line; None where the files cannot be read."""
        wanted = {span.span_id.hex().encode(): span.span_id for span in spans}
        try:
            return await asyncio.to_thread(self._found, wanted, earliest(spans))
        except OSError:
            return None

    def _found(self, wanted: dict[bytes, bytes], since: date) -> set[bytes]:
        found: set[bytes] = set()
        with _writing:
            for each in self._directory.files(_NAMES):
                if each.day < since or len(found) == len(wanted):
                    break
                with suppress(FileNotFoundError), each.path.open("rb") as file:
                    found |= {wanted[name] for name in _ids(file, wanted.keys())}
        return found

    async def check(self) -> str:
        """Whether the directory can be written to; it is not made yet."""
        return await asyncio.to_thread(self._directory.problem)

    async def close(self) -> None:
        """Nothing is kept open: files may be moved away at any time."""


def line_of(span: ExportSpan, settings: DestinationSettings) -> bytes:
    """A span as a line."""
    record: dict[str, Any] = record_of(span, settings)
    for name in ("start", "end"):
        record[name] = record[name].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return encoded(record) + b"\n"


def _opened(path: os.PathLike[str]) -> IO[bytes]:
    """A file to write at the end of, whatever has become of it since the last time."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0)


def mend(file: IO[bytes]) -> int:
    """Take away half a line at the end, or complete it where only its end is missing; where the file ends then."""
    end = file.seek(0, os.SEEK_END)
    start = _last_line(file, end)
    if start == end:
        return end
    file.seek(start)
    if _is_object(file.read(end - start)):
        _write(file, b"\n")
        return end + 1
    file.truncate(start)
    return start


def _last_line(file: IO[bytes], end: int) -> int:
    """Where the last line begins that has no end; the end of the file where all have one."""
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


def _write(file: IO[bytes], data: bytes) -> None:
    """One write; the system may take only a part of it, such as when the disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _take_back(file: IO[bytes], end: int, error: OSError) -> None:
    try:
        file.truncate(end)
        os.fsync(file.fileno())
    except OSError as second:
        raise DoubtfulError(f"{error.strerror}; what was written could not be taken back: {second.strerror}") from error


def _ids(lines: Iterable[bytes], wanted: Set[bytes]) -> set[bytes]:
    """The ids among those wanted that have a whole line, also a last one that will be completed."""
    return {line[_ID] for line in lines if line.startswith(_BEGINNING) and line[_ID] in wanted and _is_object(line)}
