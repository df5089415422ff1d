"""Retries lines in quarantine: this version may understand what an older one did not.

A line that can be read now is recorded through the same pipeline as any other, so that it cannot be recorded twice,
and its entry is marked as resolved. It joins its session late: after what was recorded since, under its own time.

Only the process with the recorder's lock retries. Others write a request to the store, and read the result there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from agenttrace.calendar import day_finder
from agenttrace.config import Settings
from agenttrace.model import Event
from agenttrace.record.files.archives import UNPACKED_LIMIT
from agenttrace.record.files.databases import RowReader
from agenttrace.record.files.documents import NOT_WHOLE
from agenttrace.record.files.fingerprint import pread
from agenttrace.record.files.kinds import home_of, tracked_file
from agenttrace.record.files.reader import BOM, Chunk
from agenttrace.record.files.recognition import openings, recognised
from agenttrace.record.files.stored_paths import path_on_disk
from agenttrace.record.files.tracked import TrackedFile
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Agent, Source
from agenttrace.record.ingest.bad_lines import BadLineError, blame, is_a_lines_fault
from agenttrace.record.ingest.pipeline import Pipeline, utf8_error
from agenttrace.record.ingest.quarantine_rows import UNRECOGNISED, digest_of
from agenttrace.record.recorder import Recorder
from agenttrace.store.batch import FileRow
from agenttrace.store.sqlite.quarantine import QuarantineEntry
from agenttrace.store.sqlite.store import SqliteStore

#: Retried at once; new lines wait meanwhile.
_PORTION = 50


class Outcome(NamedTuple):
    """The result of a retry."""

    entry: QuarantineEntry
    #: ``recorded``, ``duplicate``, ``ignored``, ``reread`` (its whole file is understood now and was recorded from its
    #: start); all of them resolve it. Or ``unchanged``.
    result: str
    detail: str = ""

    @property
    def told(self) -> str:
        """Both in one."""
        return f"{self.result}: {self.detail}" if self.detail else self.result


def retry(store: SqliteStore, settings: Settings, chosen: Sequence[QuarantineEntry]) -> list[Outcome]:
    """Decode these lines again, oldest first, and read files again that are understood now.

    The caller holds the recorder's lock.
    """
    outcomes = _outcomes(store, settings, chosen)
    _read_again(settings, outcomes)
    return outcomes


def requested(store: SqliteStore) -> list[QuarantineEntry]:
    """The next portion of the entries for which another try is pending."""
    return store.quarantine.requested(_PORTION)


def retry_requested(
    store: SqliteStore, settings: Settings, chosen: Sequence[QuarantineEntry], stop: Callable[[], bool] = lambda: False
) -> None:
    """Retry what was requested, and store the results. The caller has the recorder's lock."""
    outcomes = _outcomes(store, settings, chosen)
    _read_again(settings, outcomes, stop)
    store.quarantine.note_results((outcome.entry.quarantine_id, outcome.told) for outcome in outcomes)


def _outcomes(store: SqliteStore, settings: Settings, chosen: Sequence[QuarantineEntry]) -> list[Outcome]:
    second = _SecondTry(store, settings)
    return [second.whatever_comes(entry) for entry in sorted(chosen)]


def _read_again(settings: Settings, outcomes: Iterable[Outcome], stop: Callable[[], bool] = lambda: False) -> None:
    """By a recorder for these files alone: they need not be in a watched directory."""
    paths = sorted({each.entry.filepath for each in outcomes if each.result == "reread"})
    if paths:
        recorder = Recorder(settings, paths=paths)
        try:
            recorder.run_once(stop=stop)
        finally:
            recorder.close()


def _is_read_as_a_whole(home: Agent) -> bool:
    """Whether a single line cannot be read: of documents, and of rows whose place is a row of each of two tables."""
    return home.writes_documents or (home.table is not None and home.table.beside is not None)


class _SecondTry:
    def __init__(self, store: SqliteStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._agents = {agent.name: agent for agent in AGENTS}
        self._pipeline = Pipeline(store, self._agents, day_of=day_finder(settings.usage.timezone))

    def whatever_comes(self, entry: QuarantineEntry) -> Outcome:
        """The outcome, whatever the line makes fail: a line must not stop a recorder."""
        if entry.resolved_at is not None:
            return Outcome(entry, "resolved")
        try:
            return self.outcome(entry)
        except Exception as error:
            if not is_a_lines_fault(error):
                raise
            self._pipeline.roll_back()
            return Outcome(entry, "unchanged", str(error) if isinstance(error, BadLineError) else blame(error))

    def outcome(self, entry: QuarantineEntry) -> Outcome:
        row = self._store.files.get(entry.file_id)
        if row is None:
            return Outcome(entry, "unchanged", "its file is unknown by now")
        if entry.reason in (UNRECOGNISED, NOT_WHOLE):
            return self._try_file(entry, row)
        if entry.reason.startswith(UNPACKED_LIMIT):
            return self._try_rest(entry, row)
        home = home_of(row)
        if home is not None and entry.kept() is None and _is_read_as_a_whole(home):
            if entry.length > self._settings.record.max_line_bytes:
                return Outcome(entry, "unchanged", entry.reason)
            return self._try_file(entry, row)  # it was too large
        raw = self._whole_line(entry, row)
        if raw is None:
            return Outcome(entry, "unchanged", "the whole line was not kept and is not in its file any more")
        file = tracked_file(row.filepath, row, self._settings.record.max_line_bytes)
        if file.source is None or file.source.agent not in self._agents:
            return Outcome(entry, "unchanged", "the format of its file is unknown")
        return self._try_line(entry, file, file.source, raw)

    def _whole_line(self, entry: QuarantineEntry, row: FileRow) -> bytes | None:
        """The whole line: from quarantine, or from its file or database while it is still there."""
        home = home_of(row)
        if home is None:
            return whole_line(entry, self._settings.record.max_line_bytes)
        kept = entry.kept()
        if kept is not None and len(kept) == entry.length:
            return kept
        limit = self._settings.record.max_line_bytes
        if home.table is None or entry.offset < 1 or entry.length > limit:
            return None
        try:
            chunk = RowReader(row.filepath, home.table, limit).read(entry.offset - 1, 0, 1)
        except OSError:
            return None
        if chunk is None or chunk.offsets != [entry.offset]:
            return None
        same = (
            kept is None or digest_of(chunk.lines[0]) == entry.digest
        )  # of one that was too long only parts are known
        return chunk.lines[0] if same else None

    def _try_line(self, entry: QuarantineEntry, file: TrackedFile, source: Source, raw: bytes) -> Outcome:
        line = raw.removeprefix(BOM) if entry.offset == 0 else raw
        if (reason := utf8_error(line)) is not None:
            return Outcome(entry, "unchanged", reason)
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

    def _record(self, entry: QuarantineEntry, file: TrackedFile, line: bytes) -> str:
        position = file.position
        # Which of several identical lines it was is not known without the file; the first one is assumed.
        file.seen_lines, file.begun = {}, True
        self._pipeline.take(file, Chunk([line], [entry.offset], entry.offset + len(line) + 1))
        # The line was counted when it was set aside, and the read position stays.
        file.position = position
        file.counts["lines"] -= 1
        file.counts["quarantined"] -= 1
        result = "recorded" if file.counts["recorded"] else "duplicate"
        self._pipeline.commit()
        return result

    def _try_file(self, entry: QuarantineEntry, row: FileRow) -> Outcome:
        """A file that no format recognised: if one does now, the next recording reads it from its start."""
        try:
            known = self._is_known(row)
        except OSError as error:
            return Outcome(entry, "unchanged", error.strerror or str(error))
        if not known:
            return Outcome(entry, "unchanged", entry.reason)
        self._store.files.read_anew(row.file_id)
        self._resolve(entry)
        return Outcome(entry, "reread")

    def _is_known(self, row: FileRow) -> bool:
        path, home = row.filepath, home_of(row)
        file = tracked_file(path, FileRow(filepath=path), self._settings.record.max_line_bytes, home)
        try:
            file.renew()
            writers = [agent for agent in self._agents.values() if agent.writes_lines]
            agents = writers if home is None else [home]
            return any(recognised(agents, Path(path), opening) is not None for opening in openings(file))
        finally:
            file.close()

    def _try_rest(self, entry: QuarantineEntry, row: FileRow) -> Outcome:
        """The rest of a compressed file: if it may be read now, the next recording goes on with it."""
        if self._settings.record.max_unpacked_bytes <= entry.offset:
            return Outcome(entry, "unchanged", entry.reason)
        self._store.files.read_on(row.file_id)
        self._resolve(entry)
        return Outcome(entry, "reread")

    def _resolve(self, entry: QuarantineEntry) -> None:
        # Not in the transaction that records the line: if we die in between, the next try finds a duplicate.
        self._store.quarantine.resolve(entry.quarantine_id)


def whole_line(entry: QuarantineEntry, limit: int) -> bytes | None:
    """The whole line: from quarantine, or from its file while it is still there."""
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
    return found if digest_of(found) == entry.digest else None
