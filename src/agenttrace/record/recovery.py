"""A damaged store is moved aside, never deleted; what can be read of it goes into a new one.

Log files that are still there are simply read again: ids are deterministic, so the rows come out the same. What the
agents deleted meanwhile lives on in the raw lines, which are recorded a second time from there. Everything else that
cannot be had from the logs is copied: ids and usage of pruned sessions, quarantined lines, counters, and the ledgers
of exports.

Killed at any instant, the recovery is begun again or finished by the next start: see ``store/sqlite/replacement.py``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from agenttrace.calendar import day_finder
from agenttrace.ids import file_number, session_number
from agenttrace.record.files.kinds import home_of, tracked_file
from agenttrace.record.files.reader import stored_path
from agenttrace.record.files.stored_paths import path_on_disk
from agenttrace.record.formats.contract import stored_source
from agenttrace.record.ingest import replay
from agenttrace.store.batch import BLOCK_BITS, FileRow
from agenttrace.store.sqlite import rebuilding
from agenttrace.store.sqlite.rebuilding import BlockPlace, QuarantinedLine, Rebuilding, SavedTable
from agenttrace.store.sqlite.replacement import Replacement

logger = logging.getLogger(__name__)


class Recovery(msgspec.Struct, kw_only=True):
    """What a recovery saved and what it could not."""

    #: Where the damaged store is now.
    damaged: Path
    #: How it could be read: ``as it is``, ``with a new header``, ``with a new first page``, ``not at all``.
    read: str = "not at all"
    tables: dict[str, SavedTable] = msgspec.field(default_factory=dict)
    #: Log files that are still there, to be read again from their start.
    files_to_read: int = 0
    #: Log files that are gone, and what was recorded of them again.
    files_gone: int = 0
    lines: int = 0
    sessions: int = 0
    blocks_lost: int = 0

    def told(self) -> list[str]:
        """The same in words."""
        text = [
            f"The damaged store was moved to {self.damaged}; nothing of it was deleted.",
            f"It could be read {self.read}.",
            f"{self.files_to_read} log files are still there and are read again.",
            f"{self.files_gone} log files are gone; the store gave {self.lines} lines of {self.sessions} sessions.",
        ]
        if self.blocks_lost:
            text.append(f"Lost: {self.blocks_lost} blocks of lines whose log files are gone.")
        lost = [name for name, kept in self.tables.items() if not kept.complete]
        if lost:
            text.append(f"Not all could be read of: {', '.join(lost)}.")
        return text


def recover(home: Path, *, timezone: str = "local", logs: Iterable[str] | None = None) -> Recovery:
    """Replace the damaged store of a data directory by a new one with everything that can be saved.

    The caller holds the recorder's lock, has closed its own connections, and records afterwards: ``logs`` are the
    files it is going to read, as a listing shows them; ``None``: all that are still there. Lines of any other file
    are taken from the store.
    """
    replacement = Replacement(home)
    logger.warning("the store is damaged: building a new one, the old one goes to %s", replacement.damaged)
    report = Recovery(damaged=replacement.damaged)
    with replacement.built() as (old, new):
        if old is not None:
            report.read = old.how
            day_of = day_finder(timezone)
            _Salvage(Rebuilding(old, new, day_of), report, day_of, logs).run()
        rebuilding.note_recovery(new, msgspec.json.encode(report, enc_hook=str).decode())
    for line in report.told():
        logger.warning("%s", line)
    return report


# -- what is saved ------------------------------------------------------------------------------------------------


class _Salvage:
    """One pass from a damaged store to a new one."""

    def __init__(
        self, stores: Rebuilding, report: Recovery, day_of: Callable[[int], str], logs: Iterable[str] | None
    ) -> None:
        self.stores, self.report, self.day_of = stores, report, day_of
        self.logs = None if logs is None else {stored_path(path) for path in logs}
        #: What is known of each file, by its number.
        self.rows: dict[int, FileRow] = {}
        #: Files that will be read again from their start.
        self.readable: set[int] = set()
        self.pruned_files: set[int] = set()
        #: Databases and documents: reading them again may not give all that was recorded of them.
        self.changing: set[int] = set()

    def run(self) -> None:
        """Copy what the logs cannot give, then record the lines of logs that are gone."""
        stores = self.stores
        self.rows = {row.file_id: row for row in stores.file_rows()}
        places = stores.places(
            row.file_id << BLOCK_BITS | number for row in self.rows.values() for number in range(row.blocks)
        )
        self._identify({place.file_id for place in places})
        self._sort_files(places)
        self.pruned_files = stores.copy(list(self.rows.values()), self._will_be_found)
        needed = [place for place in places if self._is_needed(place)]
        lost = self._lost(needed, replay.replay(stores, self.rows, needed, self.day_of))
        stores.copy_counters(lost, self._sessions_in(lost) if lost else set())
        self._report(lost)

    def _is_needed(self, place: BlockPlace) -> bool:
        """Lines that no file will give: it is gone, or was rewritten since."""
        row = self.rows.get(place.file_id)
        return place.file_id not in self.readable or (row is not None and self._may_be_gone(place, row))

    def _may_be_gone(self, place: BlockPlace, row: FileRow) -> bool:
        """Whether lines were replaced since, or may be missing: rows are deleted from databases, and messages too."""
        return place.generation < row.generation or place.file_id in self.changing

    def _lost(self, needed: Iterable[BlockPlace], replayed: set[int]) -> set[int]:
        """The blocks whose lines could not be recovered."""
        whole = (row for row in self.rows.values() if self._should_be_whole(row))
        expected = {row.file_id << BLOCK_BITS | number for row in whole for number in range(row.blocks)}
        return (expected | {place.block_id for place in needed}) - replayed

    def _sessions_in(self, blocks: set[int]) -> set[int]:
        """The sessions whose lines were in these blocks: by the events, and by the rows of the files."""
        rows = (self.rows[number] for number in {block >> BLOCK_BITS for block in blocks} & self.rows.keys())
        sources = (stored_source(row.source) for row in rows)
        named = {session_number(source.agent, source.session_id) for source in sources if source is not None}
        return named | self.stores.sessions_in(blocks)

    def _should_be_whole(self, row: FileRow) -> bool:
        """Retention removes blocks too; those are not missing."""
        return row.file_id not in self.readable and row.file_id not in self.pruned_files

    def _report(self, lost: set[int]) -> None:
        report = self.report
        report.tables = self.stores.tables
        report.lines, report.sessions = rebuilding.count_lines(self.stores.new)
        report.files_to_read = len(self.readable)
        report.files_gone = len(self.rows.keys() - self.readable)
        report.blocks_lost = len(lost)

    # -- files ------------------------------------------------------------------------------------------------

    def _identify(self, file_ids: set[int]) -> None:
        """Files whose rows are lost: an index may still know their paths, or the listing has them."""
        listed = {file_number(path, attempt): path for path in self.logs or () for attempt in range(3)}
        indexed = self.stores.indexed_paths()
        named = listed | indexed
        for file_id in (file_ids | indexed.keys()) - self.rows.keys():
            path = named.get(file_id, f"(unknown file {file_id})")
            self.rows[file_id] = FileRow(filepath=path, file_id=file_id, last_read_at=time.time())

    def _sort_files(self, places: Iterable[BlockPlace]) -> None:
        """Which files will be read again, each after the blocks of its earlier generations."""
        self.readable = {number for number, row in self.rows.items() if self._will_be_read(row)}
        self.changing = {number for number in self.readable if home_of(self.rows[number]) is not None}
        after = dict.fromkeys(self.readable, 0)
        for place in places:
            if place.file_id in after and self._may_be_gone(place, self.rows[place.file_id]):
                after[place.file_id] = max(after[place.file_id], place.number + 1)
        self.rows |= {number: _to_be_read(self.rows[number], blocks) for number, blocks in after.items()}

    def _will_be_read(self, row: FileRow) -> bool:
        return (self.logs is None or row.filepath in self.logs) and _is_intact(row)

    def _will_be_found(self, line: QuarantinedLine) -> bool:
        """Whether a quarantined line is still where it was, so that reading its file sets it aside again."""
        if line.file_id not in self.readable or line.resolved_at is not None:
            return False
        row = self.rows[line.file_id]
        if line.file_id in self.changing:
            return False  # its place counts something else than bytes
        path = path_on_disk(row.filepath)
        if path is None or line.generation != row.generation:
            return False
        return _digest_of(path, line.offset, line.length) == line.digest


# -- files on disk ------------------------------------------------------------------------------------------------


def _is_intact(row: FileRow) -> bool:
    """Whether the file still has what was read of it: then reading it again gives everything."""
    try:
        found = path_on_disk(row.filepath)
    except OSError:
        return False
    path = None if found is None else os.fsdecode(found)
    return path is not None and (row.offset == 0 or tracked_file(path, row, 0, home_of(row)).fits(path))


def _to_be_read(row: FileRow, blocks: int) -> FileRow:
    """The row of a file that is read again: as new, but under its old number, after its earlier generations."""
    device, inode = _place_on_disk(row)
    return FileRow(
        filepath=row.filepath,
        file_id=row.file_id,
        # By these the recorder sees that the row belongs to the file; there is no content to compare yet.
        device=device,
        inode=inode,
        generation=row.generation,
        blocks=blocks,
        lost_bytes=row.lost_bytes,
        read_count=row.read_count,
        last_read_at=row.last_read_at,
    )


def _place_on_disk(row: FileRow) -> tuple[int | None, int | None]:
    try:
        stat = os.stat(path_on_disk(row.filepath) or row.filepath)
    except OSError:
        return row.device, row.inode
    return stat.st_dev, stat.st_ino


def _digest_of(path: bytes, offset: int, length: int) -> bytes:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            while length > 0 and (data := file.read(min(length, 1 << 20))):
                digest.update(data)
                length -= len(data)
    except OSError:
        return b""
    return digest.digest()[:16]
