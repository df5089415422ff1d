"""A second try for lines that were set aside: today's code may understand what an older one did not.

A line that can be read now is recorded through the same pipeline as any other, so that it cannot be recorded twice,
and its entry is marked as resolved. It joins its session late: after what was recorded since, under its own time.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from agenttrace.config import Settings
from agenttrace.model import Event
from agenttrace.record.agents import AGENTS
from agenttrace.record.agents.contract import Source
from agenttrace.record.calendar import day_finder
from agenttrace.record.offsets import path_on_disk
from agenttrace.record.pipeline import Pipeline
from agenttrace.record.positioned import pread
from agenttrace.record.reader import BOM, Chunk
from agenttrace.record.tracked import FileRow, TrackedFile
from agenttrace.store.database import transaction

_FILE_COLUMNS = tuple(field.name for field in msgspec.structs.fields(FileRow))
_UNRECOGNISED = "format not recognised"

_ENTRIES = """
SELECT quarantine_id, file_id, filepath, offset, length, digest, reason, salvaged, found_at, resolved_at, raw
FROM quarantine
"""


class Entry(NamedTuple):
    """A line that was set aside."""

    quarantine_id: int
    file_id: int
    filepath: str
    offset: int
    length: int
    digest: bytes
    reason: str
    #: Whole events that could be cut out of it; they are recorded.
    salvaged: int
    found_at: float
    resolved_at: float | None
    #: The line, compressed, up to a limit; ``None`` where nothing of it was kept.
    packed: bytes | None

    def kept(self) -> bytes | None:
        """What was kept of the line."""
        return None if self.packed is None else zstandard.decompress(self.packed)


class Outcome(NamedTuple):
    """What a second try came to."""

    entry: Entry
    #: ``recorded``, ``duplicate``, ``ignored``, ``reread`` (its whole file is understood now and is to be recorded
    #: from its start); all of them resolve it. Or ``unchanged``.
    result: str
    detail: str = ""


def entries(
    connection: sqlite3.Connection, *, resolved: bool = False, only: int | None = None, limit: int = -1
) -> list[Entry]:
    """Lines that were set aside, newest first; ``resolved`` with those that were read since."""
    where = ["1"] if resolved or only is not None else ["resolved_at IS NULL"]
    values: list[int] = []
    if only is not None:
        where.append("quarantine_id = ?")
        values.append(only)
    rows = connection.execute(
        f"{_ENTRIES} WHERE {' AND '.join(where)} ORDER BY quarantine_id DESC LIMIT ?", [*values, limit]
    )
    return [Entry(*row) for row in rows]


def retry(connection: sqlite3.Connection, settings: Settings, chosen: Sequence[Entry]) -> list[Outcome]:
    """Decode these lines again, oldest first. The caller holds the recorder's lock."""
    return _SecondTry(connection, settings).run(sorted(chosen))


class _SecondTry:
    def __init__(self, connection: sqlite3.Connection, settings: Settings) -> None:
        self._connection = connection
        self._settings = settings
        self._agents = {agent.name: agent for agent in AGENTS}
        self._pipeline = Pipeline(connection, self._agents, day_of=day_finder(settings.usage.timezone))

    def run(self, chosen: Sequence[Entry]) -> list[Outcome]:
        return [self._try(entry) for entry in chosen]

    def _try(self, entry: Entry) -> Outcome:
        row = self._file_row(entry.file_id)
        if row is None:
            return Outcome(entry, "unchanged", "its file is unknown by now")
        if entry.reason == _UNRECOGNISED:
            return self._try_file(entry, row)
        raw = whole_line(entry, self._settings.record.max_line_bytes)
        if raw is None:
            return Outcome(entry, "unchanged", "the whole line was not kept and is not in its file any more")
        file = TrackedFile(row.filepath, row, self._settings.record.max_line_bytes)
        if file.source is None or file.source.agent not in self._agents:
            return Outcome(entry, "unchanged", "the format of its file is unknown")
        return self._try_line(entry, file, file.source, raw)

    def _file_row(self, file_id: int) -> FileRow | None:
        found = self._connection.execute(
            f"SELECT {', '.join(_FILE_COLUMNS)} FROM file_offsets WHERE file_id = ?", (file_id,)
        ).fetchone()
        if found is None:
            return None
        try:
            return msgspec.convert(dict(zip(_FILE_COLUMNS, found, strict=True)), FileRow)
        except msgspec.ValidationError:
            return None

    def _try_line(self, entry: Entry, file: TrackedFile, source: Source, raw: bytes) -> Outcome:
        line = raw.removeprefix(BOM) if entry.offset == 0 else raw
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return Outcome(entry, "unchanged", f"invalid UTF-8 at byte {error.start} of the line")
        event = self._agents[source.agent].decode(line, source)
        if isinstance(event, Event):
            result = self._record(entry, file, line)
        elif event.harmless:
            result = "ignored"
            file.counts["ignored"] += 1
            file.counts["quarantined"] -= 1
            self._pipeline.touch_file(file)
            self._pipeline.commit()
        else:
            return Outcome(entry, "unchanged", event.reason)
        self._resolve(entry)
        return Outcome(entry, result)

    def _record(self, entry: Entry, file: TrackedFile, line: bytes) -> str:
        position = file.position
        # Which of several identical lines it was cannot be told without the file; the first one serves.
        file.seen_lines = {}
        self._pipeline.take(file, Chunk([line], [entry.offset], entry.offset + len(line) + 1))
        # The line was counted when it was set aside, and reading stands where it stood.
        file.position = position
        file.counts["lines"] -= 1
        file.counts["quarantined"] -= 1
        result = "recorded" if file.counts["recorded"] else "duplicate"
        self._pipeline.commit()
        return result

    def _try_file(self, entry: Entry, row: FileRow) -> Outcome:
        """A file that nobody recognised: if somebody does now, the next recording reads it from its start."""
        try:
            with Path(row.filepath).open("rb") as stream:
                head = stream.read(65_536)
        except OSError as error:
            return Outcome(entry, "unchanged", error.strerror or str(error))
        if not any(agent.recognise(Path(row.filepath), head) for agent in self._agents.values()):
            return Outcome(entry, "unchanged", _UNRECOGNISED)
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE file_offsets SET offset = 0, lines = 0, quarantined = 0, fingerprint = NULL, tail_hash = NULL, "
                "source = NULL WHERE file_id = ?",
                (row.file_id,),
            )
        self._resolve(entry)
        return Outcome(entry, "reread")

    def _resolve(self, entry: Entry) -> None:
        # Not in the transaction that records the line: if we die in between, the next try finds a duplicate.
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE quarantine SET resolved_at = ? WHERE quarantine_id = ?", (time.time(), entry.quarantine_id)
            )


def whole_line(entry: Entry, limit: int) -> bytes | None:
    """The line as it was: from what was kept, or from its file while that still holds it."""
    kept = entry.kept()
    if kept is not None and len(kept) == entry.length:
        return kept
    if entry.length > limit:
        return None
    try:
        path = path_on_disk(entry.filepath)
        if path is None:
            return None
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        found = pread(descriptor, entry.length, entry.offset)
    finally:
        os.close(descriptor)
    return found if hashlib.sha256(found).digest()[:16] == entry.digest else None
