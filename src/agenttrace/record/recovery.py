"""A damaged store is moved aside, never deleted; what can be read of it goes into a new one.

Log files that are still there are simply read again: ids are deterministic, so the rows come out the same. What the
agents deleted meanwhile lives on in the raw lines, which are recorded a second time from there. Everything else that
cannot be had from the logs is copied: ids and usage of pruned sessions, quarantined lines, counters, and the ledgers
of exports.

The new store is built beside the damaged one and put in its place when it is complete. Killed at any instant, the
recovery is begun again or finished by the next start.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.ids import file_number, session_number
from agenttrace.record import replay
from agenttrace.record.calendar import day_finder
from agenttrace.record.offsets import path_on_disk
from agenttrace.record.pipeline import BLOCK_BITS
from agenttrace.record.reader import stored_path
from agenttrace.record.replay import Place
from agenttrace.record.tracked import FileRow, TrackedFile, row_values
from agenttrace.store.sqlite import ledger, salvage
from agenttrace.store.sqlite.database import connect, transaction
from agenttrace.store.sqlite.salvage import Damaged, Salvaged

logger = logging.getLogger(__name__)

STORE = "agenttrace.db"
#: Beside the store: where a new one is built. What is in it is ours to throw away, except a complete new store.
WORKSHOP = "recovering"
_SIDE_FILES = ("", "-wal", "-shm")
_FILE_COLUMNS = tuple(field.name for field in msgspec.structs.fields(FileRow))
#: Tables of later features that only they understand; they are copied whole.
_EXPORTS = "export_"
#: What a session's row counts, and counts anew when its lines come back.
_COUNTED = ("turns", "steps", "tools", "errors", "events")
#: Written by what has to be done anew.
_STALE_META = ("search_event_no",)


class Kept(msgspec.Struct, frozen=True):
    """What was saved of a table."""

    rows: int
    #: False: some rows could not be read.
    complete: bool


class Recovery(msgspec.Struct, kw_only=True):
    """What a recovery saved and what it could not."""

    #: Where the damaged store is now.
    damaged: Path
    #: How it could be read: ``as it is``, ``with a new header``, ``with a new first page``, ``not at all``.
    read: str = "not at all"
    tables: dict[str, Kept] = msgspec.field(default_factory=dict)
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
    finish_interrupted(home)
    damaged = _free_name(home)
    logger.warning("the store is damaged: building a new one, the old one goes to %s", damaged)
    workshop = _clean_workshop(home)
    report = Recovery(damaged=damaged)
    with salvage.opened(home / STORE, workshop) as old:
        new = connect(workshop / "building.db")
        try:
            if old is not None:
                report.read = old.how
                _Salvage(old, new, report, timezone, logs).run()
            with transaction(new):
                _note(new, report)
            new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            new.close()
    os.replace(workshop / "building.db", workshop / STORE)
    _swap(home, damaged)
    for line in report.told():
        logger.warning("%s", line)
    return report


def finish_interrupted(home: Path) -> bool:
    """Put a complete new store in its place if a recovery was killed just before doing so; True if it was."""
    ready = home / WORKSHOP / STORE
    if not ready.exists() or (home / STORE).exists():
        return False
    moved = sorted(path for path in home.glob(f"{STORE}.damaged-*") if not path.name.endswith(_SIDE_FILES[1:]))
    _swap(home, moved[-1] if moved else _free_name(home))
    return True


def _free_name(home: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path, attempt = home / f"{STORE}.damaged-{stamp}", 1
    while path.exists():
        attempt += 1
        path = home / f"{STORE}.damaged-{stamp}-{attempt}"
    return path


def _clean_workshop(home: Path) -> Path:
    workshop = home / WORKSHOP
    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir(mode=0o700)
    return workshop


def _swap(home: Path, damaged: Path) -> None:
    """The damaged store aside, then its side files, then the new store in: in this order it can be resumed."""
    for suffix in _SIDE_FILES:
        if (home / (STORE + suffix)).exists():
            os.replace(home / (STORE + suffix), damaged.with_name(damaged.name + suffix))
    os.replace(home / WORKSHOP / STORE, home / STORE)
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)
    shutil.rmtree(home / WORKSHOP, ignore_errors=True)


def _note(new: sqlite3.Connection, report: Recovery) -> None:
    """Kept in the store, for whoever asks later why something is missing."""
    value = msgspec.json.encode(report, enc_hook=str).decode()
    new.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (f"recovery {time.time():.0f}", value))


# -- what is saved ------------------------------------------------------------------------------------------------


class _Salvage:
    """One pass from a damaged store to a new one."""

    def __init__(
        self, old: Damaged, new: sqlite3.Connection, report: Recovery, timezone: str, logs: Iterable[str] | None
    ) -> None:
        self.old, self.new, self.report = old, new, report
        self.day_of = day_finder(timezone)
        self.logs = None if logs is None else {stored_path(path) for path in logs}
        #: What is known of each file, by its number.
        self.rows: dict[int, FileRow] = {}
        #: Files that will be read again from their start.
        self.readable: set[int] = set()
        self.pruned_files: set[int] = set()

    def run(self) -> None:
        """Copy what the logs cannot give, then record the lines of logs that are gone."""
        foreign = self._read_files()
        places = self._places()
        self._identify({place.file_id for place in places})
        self._sort_files(places)
        with transaction(self.new):
            rows = [*foreign, *self.rows.values()]
            self._write("file_offsets", _FILE_COLUMNS, map(row_values, rows))
            self._copy_tables()
        needed = [place for place in places if self._is_needed(place)]
        replayed = replay.replay(self.old, self.new, self.rows, needed, self.day_of)
        with transaction(self.new):
            self._copy("counters")
            self._admit_losses(needed, replayed)
        self._count()

    def _is_needed(self, place: Place) -> bool:
        """Lines that no file will give: it is gone, or was rewritten since."""
        row = self.rows.get(place.file_id)
        return place.file_id not in self.readable or (row is not None and place.generation < row.generation)

    def _admit_losses(self, needed: Iterable[Place], replayed: set[int]) -> None:
        """Count what is lost, and keep what it cost; should the file come back, it is read from its start."""
        whole = (row for row in self.rows.values() if self._should_be_whole(row))
        expected = {row.file_id << BLOCK_BITS | number for row in whole for number in range(row.blocks)}
        lost = (expected | {place.block_id for place in needed}) - replayed
        if not lost:
            return
        self.report.blocks_lost = len(lost)
        self.new.executemany(
            "UPDATE file_offsets SET offset = 0, fingerprint = NULL, tail_hash = NULL WHERE file_id = ?",
            {(block >> BLOCK_BITS,) for block in lost},
        )
        self._copy_cost("incomplete", self._sessions_in(lost))

    def _sessions_in(self, blocks: set[int]) -> set[int]:
        """Whose lines these blocks held: by the events, and by what is known of the files."""
        listed = ", ".join(map(str, blocks))
        events = self.old.table("processed_events", columns=["session_id"], where=f"block_id IN ({listed})")
        rows = (self.rows[number] for number in {block >> BLOCK_BITS for block in blocks} & self.rows.keys())
        sources = (TrackedFile(row.filepath, row, 0).source for row in rows)
        named = {session_number(source.agent, source.session_id) for source in sources if source is not None}
        return named | {row[0] for row in events.values}

    def _should_be_whole(self, row: FileRow) -> bool:
        """Retention takes blocks too, and those are not missed."""
        return row.file_id not in self.readable and row.file_id not in self.pruned_files

    def _count(self) -> None:
        query = "SELECT count(*), count(DISTINCT session_id) FROM processed_events WHERE block_id NOT NULL"
        self.report.lines, self.report.sessions = self.new.execute(query).fetchone()
        self.report.files_to_read = len(self.readable)
        self.report.files_gone = len(self.rows.keys() - self.readable)

    # -- files ------------------------------------------------------------------------------------------------

    def _read_files(self) -> list[FileRow]:
        """Fill ``rows``; the rows of other programs, which use the table for themselves, come back."""
        foreign = []
        for values in self._read("file_offsets").rows():
            with suppress(msgspec.ValidationError):
                row = msgspec.convert(values, FileRow)
                if row.file_id:
                    self.rows[row.file_id] = row
                else:
                    foreign.append(row)
        return foreign

    def _places(self) -> list[Place]:
        numbers = (row.file_id << BLOCK_BITS | number for row in self.rows.values() for number in range(row.blocks))
        found = self.old.table("raw_blocks", columns=Place._fields, also=numbers)
        self.report.tables["raw_blocks"] = Kept(len(found.values), found.complete)
        return [Place(*row) for row in found.values]

    def _identify(self, file_ids: set[int]) -> None:
        """Files whose rows are lost: an index may still know their paths, or the listing has them."""
        listed = {file_number(path, attempt): path for path in self.logs or () for attempt in range(3)}
        numbers = self.old.pairs("file_offsets", "file_id", "idx_file_id")
        paths = self.old.pairs("file_offsets", "filepath", "sqlite_autoindex_file_offsets_1")
        indexed = {numbers[row]: path for row, path in paths.items() if numbers.get(row)}
        named = listed | indexed
        for file_id in (file_ids | indexed.keys()) - self.rows.keys():
            path = named.get(file_id, f"(unknown file {file_id})")
            self.rows[file_id] = FileRow(filepath=path, file_id=file_id, last_read_at=time.time())

    def _sort_files(self, places: Iterable[Place]) -> None:
        """Which files will be read again, each after the blocks of its earlier generations."""
        self.readable = {number for number, row in self.rows.items() if self._will_be_read(row)}
        after = dict.fromkeys(self.readable, 0)
        for place in places:
            if place.file_id in after and place.generation < self.rows[place.file_id].generation:
                after[place.file_id] = max(after[place.file_id], place.number + 1)
        self.rows |= {number: _to_be_read(self.rows[number], blocks) for number, blocks in after.items()}

    def _will_be_read(self, row: FileRow) -> bool:
        return (self.logs is None or row.filepath in self.logs) and _is_intact(row)

    # -- tables -----------------------------------------------------------------------------------------------

    def _copy_tables(self) -> None:
        self._copy_exports()
        self._copy("meta", leave=lambda row: row["key"] in _STALE_META)
        self._copy("quarantine", leave=self._will_be_found)
        pruned = self._copy("pruned")
        self.pruned_files = {row["file_id"] for row in pruned.rows()}
        # Of pruned sessions ids and cost are all there is; of what other programs marked, the ids.
        self._copy("processed_events", where="block_id IS NULL", what="pruned")
        self._copy_cost("pruned", {row["session_id"] for row in pruned.rows()})

    def _copy_exports(self) -> None:
        """What was acknowledged must never be sent again; what is lost here, the exporter has in its files."""
        for table, statements in self.old.tables(_EXPORTS).items():
            for statement in statements:
                with suppress(sqlite3.OperationalError):  # this version creates it by itself
                    self.new.execute(statement)
            self._copy(table, leave=_is_no_export)

    def _copy_cost(self, what: str, sessions: set[int]) -> None:
        """The ledger's entries of these sessions, which have seen every line, and rows to list them under."""
        chosen = ", ".join(map(str, sessions))
        named = self._read("sessions", f"id IN ({chosen}) OR agent = ''", what)
        cost = self._read("responses", f"session_id IN ({chosen})", what)
        emptied = (row | dict.fromkeys(_COUNTED, 0) for row in named.rows())
        self._write("sessions", named.columns, (tuple(row.values()) for row in emptied), "IGNORE")
        self._copy_notes({(row["agent"], row["session_id"]) for row in named.rows()})
        self._write("responses", cost.columns, cost.values)
        ledger.rebuild_rollup(self.new, day_of=self.day_of)

    def _copy_notes(self, pruned: set[tuple[str, str]]) -> None:
        """Which traces are part of pruned sessions: where their ids are looked for when they are read again."""
        notes = self._read("sessions", "events = 0 AND started_at IS NULL AND parent IS NOT NULL", "traces")
        chosen = (tuple(row.values()) for row in notes.rows() if (row["agent"], row["parent"]) in pruned)
        self._write("sessions", notes.columns, chosen, "IGNORE")

    def _read(self, table: str, where: str = "1", what: str = "") -> Salvaged:
        found = self.old.table(table, where=where)
        self.report.tables[f"{table} ({what})" if what else table] = Kept(len(found.values), found.complete)
        return found

    def _copy(
        self, table: str, *, where: str = "1", what: str = "", leave: Callable[[dict[str, Any]], bool] | None = None
    ) -> Salvaged:
        found = self._read(table, where, what)
        values: Iterable[tuple[Any, ...]] = found.values
        if leave is not None:
            values = [tuple(row.values()) for row in found.rows() if not leave(row)]
        self._write(table, found.columns, values)
        return found

    def _write(
        self, table: str, names: Sequence[str], rows: Iterable[tuple[Any, ...]], otherwise: str = "REPLACE"
    ) -> None:
        """Rows, as far as this version's table has their columns."""
        known = {found[1] for found in self.new.execute(f'PRAGMA table_info("{table}")')}
        kept = [place for place, name in enumerate(names) if name in known]
        columns, marks = ", ".join(f'"{names[place]}"' for place in kept), ", ".join("?" * len(kept))
        self.new.executemany(
            f'INSERT OR {otherwise} INTO "{table}" ({columns}) VALUES ({marks})',
            ([row[place] for place in kept] for row in rows),
        )

    def _will_be_found(self, entry: dict[str, Any]) -> bool:
        """Whether a quarantined line is still where it was, so that reading its file sets it aside again."""
        if entry["file_id"] not in self.readable or entry["resolved_at"] is not None:
            return False
        row = self.rows[entry["file_id"]]
        path = path_on_disk(row.filepath)
        if path is None or entry["generation"] != row.generation:
            return False
        return bool(_digest_of(path, entry["offset"], entry["length"]) == entry["digest"])


def _is_no_export(row: dict[str, Any]) -> bool:
    """Whether a row that was read as one of the ledger's is something else: under a new first page, tables that came
    with a later version are not always where they seem to be."""
    sizes = {"span_id": 8, "trace_id": 16}
    return any(len(row[name]) != size for name, size in sizes.items() if name in row)


# -- files on disk ------------------------------------------------------------------------------------------------


def _is_intact(row: FileRow) -> bool:
    """Whether the file still holds what was read of it: then reading it again gives everything."""
    try:
        found = path_on_disk(row.filepath)
    except OSError:
        return False
    path = None if found is None else os.fsdecode(found)
    return path is not None and (row.offset == 0 or TrackedFile(path, row, 0).fits(path))


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
