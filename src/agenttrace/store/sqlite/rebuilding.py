"""From a damaged store to a new one: which tables are copied, and which rows of them.

What can be had from the log files again is not copied. The rest is: ids and usage of pruned sessions, quarantined
lines, counters, notes, and the ledgers of exports.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from agenttrace.store.batch import BLOCK_BITS, FileRow
from agenttrace.store.sqlite import annotations as annotation_rows
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.files import write_files
from agenttrace.store.sqlite.salvage import Damaged, Salvaged
from agenttrace.store.sqlite.store import SqliteStore

#: Tables that logs cannot give again, and whose rows are copied whole: of exports, of rules, of what people wrote.
_COPIED = ("export_", "rule_", "annotations", "provider_limits")
#: What a session's row counts, and counts anew when its lines come back.
_COUNTED = ("turns", "steps", "tools", "errors", "events")
#: Written by what has to be done anew.
_STALE_META = ("search_event_no",)


class SavedTable(msgspec.Struct, frozen=True):
    """What was saved of a table."""

    rows: int
    #: False: some rows could not be read.
    complete: bool


class BlockPlace(NamedTuple):
    """Where a block of lines stood."""

    block_id: int
    file_id: int
    generation: int
    stored_at: float

    @property
    def number(self) -> int:
        """Its place among the blocks of its file."""
        return self.block_id & ((1 << BLOCK_BITS) - 1)


class StoredLines(NamedTuple):
    """A block of lines as it was stored; a damaged page may hold anything."""

    data: Any
    raw_bytes: Any
    lines: Any
    offsets: Any


class QuarantinedLine(NamedTuple):
    """A line that was set aside, as far as it says whether reading its file finds it again."""

    file_id: int
    generation: int
    offset: int
    length: int
    digest: bytes
    resolved_at: float | None


class Rebuilding:
    """A damaged store, and the new one that is filled from it."""

    def __init__(self, old: Damaged, new: SqliteStore, day_of: Callable[[int], str]) -> None:
        self._old, self.new, self._day_of = old, new, day_of
        self._connection = new.connection
        #: What was saved of each table.
        self.tables: dict[str, SavedTable] = {}

    # -- what the old store knows -----------------------------------------------------------------------------

    def file_rows(self) -> list[FileRow]:
        """The log files whose rows can be read."""
        rows = []
        for values in self._read("file_offsets").rows():
            with suppress(msgspec.ValidationError):
                row = msgspec.convert(values, FileRow)
                if row.file_id:
                    rows.append(row)
        return rows

    def indexed_paths(self) -> dict[int, str]:
        """Paths of files by number, from the indexes: readable where the rows themselves are not."""
        numbers = self._old.pairs("file_offsets", "file_id", "idx_file_id")
        paths = self._old.pairs("file_offsets", "filepath", "sqlite_autoindex_file_offsets_1")
        return {numbers[row]: path for row, path in paths.items() if numbers.get(row)}

    def places(self, expected: Iterable[int]) -> list[BlockPlace]:
        """Where blocks of lines stand; ``expected`` are numbers that are known from elsewhere."""
        found = self._old.table("raw_blocks", columns=BlockPlace._fields, also=expected)
        self.tables["raw_blocks"] = SavedTable(len(found.values), found.complete)
        return [BlockPlace(*row) for row in found.values]

    def lines_of(self, block: int) -> StoredLines | None:
        """The lines of a block, if its row can be read."""
        row = self._old.row("raw_blocks", block)
        return None if row is None else StoredLines(row["data"], row["raw_bytes"], row["lines"], row["offsets"])

    def sessions_in(self, blocks: Iterable[int]) -> set[int]:
        """The sessions whose lines these blocks held, by the events that can be read."""
        listed = ", ".join(map(str, blocks))
        events = self._old.table("processed_events", columns=["session_id"], where=f"block_id IN ({listed})")
        return {row[0] for row in events.values}

    # -- what goes into the new one ---------------------------------------------------------------------------

    def copy(self, files: Sequence[FileRow], will_be_found: Callable[[QuarantinedLine], bool]) -> set[int]:
        """Copy what the logs cannot give, and where reading stands; the files of pruned sessions come back.

        Quarantined lines are not copied that reading their file will set aside again.
        """
        with transaction(self._connection):
            write_files(self._connection, files)
            self._copy_whole()
            self._copy("meta", leave=lambda row: row["key"] in _STALE_META)
            self._copy("quarantine", leave=lambda row: will_be_found(_quarantined(row)))
            pruned = self._copy("pruned")
            # Of pruned sessions ids and cost are all there is.
            self._copy("processed_events", where="block_id IS NULL", what="pruned")
            self._copy_cost("pruned", {row["session_id"] for row in pruned.rows()})
        return {row["file_id"] for row in pruned.rows()}

    def copy_counters(self, lost: Iterable[int], sessions: set[int]) -> None:
        """Copy the counters, after the lines were recorded anew; ``lost`` are the blocks that could not be.

        Their files are read from the start, should they come back, and ``sessions``, whose lines they held, keep
        their cost.
        """
        with transaction(self._connection):
            self._copy("counters")
            if not lost:
                return
            self._connection.executemany(
                "UPDATE file_offsets SET offset = 0, fingerprint = NULL, tail_hash = NULL WHERE file_id = ?",
                {(block >> BLOCK_BITS,) for block in lost},
            )
            self._copy_cost("incomplete", sessions)

    def _copy_whole(self) -> None:
        """What was acknowledged or fired must never be so again; what is lost here, the journals have too."""
        for prefix in _COPIED:
            for table, statements in self._old.tables(prefix).items():
                for statement in statements:
                    with suppress(sqlite3.OperationalError):  # this version creates it by itself
                        self._connection.execute(statement)
                self._copy(table, leave=_is_another_row)
        annotation_rows.reindex(self._connection)

    def _copy_cost(self, what: str, sessions: set[int]) -> None:
        """The ledger's entries of these sessions, which have seen every line, and rows to list them under."""
        chosen = ", ".join(map(str, sessions))
        named = self._read("sessions", f"id IN ({chosen})", what)
        cost = self._read("responses", f"session_id IN ({chosen})", what)
        emptied = (row | dict.fromkeys(_COUNTED, 0) for row in named.rows())
        self._write("sessions", named.columns, (tuple(row.values()) for row in emptied), "IGNORE")
        self._copy_notes({(row["agent"], row["session_id"]) for row in named.rows()})
        self._write("responses", cost.columns, cost.values)
        ledger.rebuild_rollup(self._connection, day_of=self._day_of)

    def _copy_notes(self, pruned: set[tuple[str, str]]) -> None:
        """Which traces are part of pruned sessions: where their ids are looked for when they are read again."""
        notes = self._read("sessions", "events = 0 AND started_at IS NULL AND parent IS NOT NULL", "traces")
        chosen = (tuple(row.values()) for row in notes.rows() if (row["agent"], row["parent"]) in pruned)
        self._write("sessions", notes.columns, chosen, "IGNORE")

    def _read(self, table: str, where: str = "1", what: str = "") -> Salvaged:
        found = self._old.table(table, where=where)
        self.tables[f"{table} ({what})" if what else table] = SavedTable(len(found.values), found.complete)
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
        known = {found[1] for found in self._connection.execute(f'PRAGMA table_info("{table}")')}
        kept = [place for place, name in enumerate(names) if name in known]
        columns, marks = ", ".join(f'"{names[place]}"' for place in kept), ", ".join("?" * len(kept))
        self._connection.executemany(
            f'INSERT OR {otherwise} INTO "{table}" ({columns}) VALUES ({marks})',
            ([row[place] for place in kept] for row in rows),
        )


def count_lines(new: SqliteStore) -> tuple[int, int]:
    """How many lines the new store holds, and of how many sessions."""
    query = "SELECT count(*), count(DISTINCT session_id) FROM processed_events WHERE block_id NOT NULL"
    lines, sessions = new.connection.execute(query).fetchone()
    return int(lines), int(sessions)


def note_recovery(new: SqliteStore, report: str) -> None:
    """Keep in the store why something may be missing."""
    statement = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
    with transaction(new.connection):
        new.connection.execute(statement, (f"recovery {time.time():.0f}", report))


def _quarantined(row: dict[str, Any]) -> QuarantinedLine:
    return QuarantinedLine(*(row[name] for name in QuarantinedLine._fields))


def _is_another_row(row: dict[str, Any]) -> bool:
    """Whether a row that was read as one of this table is something else: under a new first page, tables that came
    with a later version are not always where they seem to be."""
    sizes = {"span_id": 8, "trace_id": 16, "annotation_id": 16, "event_key": 16, "once_key": 16}
    return any(len(row[name]) != size for name, size in sizes.items() if row.get(name) is not None)
