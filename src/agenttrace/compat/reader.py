"""The specification's reader: the new records of one JSONL file, each once, across restarts."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from agenttrace.compat.offsets import FileOffset, PersistentOffsetStore
from agenttrace.record.files import fingerprint as fp
from agenttrace.record.files.reader import BOM, LineReader, OpenFile

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JSONLRecord:
    """One parsed line."""

    data: dict[str, Any]
    offset: int
    raw: bytes


class IncrementalJSONLReader:
    """The new records of one file.

    The offset is saved with every record, once the caller asks for the next one or stops. After a crash only the
    record that the caller was handling is yielded again.

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
        #: The part that was read, up to ``current_offset``, and how much of it is saved.
        self._mark = fp.NOTHING_READ
        self._saved = 0
        self._restore_offset()

    def _restore_offset(self) -> None:
        """Continue where the last reader stopped, unless this is another file."""
        known = self.offset_store.get_offset(self.filepath)
        if not known.offset:
            return
        try:
            with open(self.filepath, "rb", buffering=0) as file:
                mark = self._restored(file.fileno(), known)
        except OSError as error:
            logger.error("Cannot read %s: %s", self.filepath, error)
            return
        if mark is None:
            logger.warning("File truncated or replaced, starting from the beginning: %s", self.filepath)
            return
        self._mark, self.current_offset, self._saved = mark, known.offset, known.offset

    def _restored(self, descriptor: int, known: FileOffset) -> fp.ReadMark | None:
        """The part that was read, if it is unchanged; offsets that other code saved have the head only."""
        size, ending = os.fstat(descriptor).st_size, self.offset_store.ending(self.filepath)
        if size < max(known.offset, known.file_size):
            return None
        if ending is not None:
            return fp.stored_mark(descriptor, known.offset, known.fingerprint, ending)
        if known.fingerprint and not fp.same_head(known.fingerprint, fp.read_head(descriptor)):
            return None
        return fp.read_mark(descriptor, known.offset, known.offset)

    def read_new_records(self) -> Iterator[JSONLRecord]:
        """Yield the records of all new complete lines."""
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
        reader = LineReader(file.descriptor, self._max_line_bytes)
        self._check(file, size)
        while (chunk := reader.read(self.current_offset, size)) is not None:
            if self._check(file, size):
                continue
            if chunk.oversized is not None:
                self.bad_lines.append((chunk.oversized[0], "line too long"))
                self._mark = fp.read_mark(file.descriptor, chunk.end, chunk.oversized[0])
                self.current_offset = chunk.end
            for line, offset in zip(chunk.lines, chunk.offsets, strict=True):
                record = self._parse(line, offset)
                # Moved before the record is yielded: a caller that stops here has handled it.
                self.current_offset = offset + len(line) + 1
                self._mark = self._mark.grown(line + b"\n", offset)
                if record is not None:
                    yield record
                    self._save(file)

    def _check(self, file: OpenFile, size: int) -> bool:
        """Start from the beginning if the part that was read has changed; True if so."""
        mark = self._mark
        if not mark.end or (size >= mark.end and fp.read_mark(file.descriptor, mark.end, mark.line) == mark):
            return False
        logger.warning("File truncated or replaced, starting from the beginning: %s", self.filepath)
        self.current_offset, self._mark, self._saved = 0, fp.NOTHING_READ, -1
        return True

    def _parse(self, line: bytes, offset: int) -> JSONLRecord | None:
        text = line.removeprefix(BOM) if offset == 0 else line
        if not text.strip():
            return None
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.bad_lines.append((offset, str(error)))
            return None
        if not isinstance(data, dict):
            self.bad_lines.append((offset, "not a JSON object"))
            return None
        return JSONLRecord(data, offset, line)

    def _save(self, file: OpenFile) -> None:
        if self.current_offset != self._saved:
            self.offset_store.save_read(self.filepath, self._mark, file.stat().st_size, file.place[1])
            self._saved = self.current_offset
