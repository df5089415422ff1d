"""How far each log file was read: the rows that a restart goes on from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from agenttrace.store.batch import BLOCK_BITS, FileRow
from agenttrace.store.rows import FileOfLines
from agenttrace.store.sqlite.database import transaction

#: What became of the lines of a file.
LINE_COUNTS = ("lines", "recorded", "duplicate", "ignored", "quarantined")
_LARGEST = 2**62
#: ``ids.file_number`` gives no larger ones.
_FILE_BITS = 40

_COLUMNS = tuple(field.name for field in msgspec.structs.fields(FileRow))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM file_offsets"
_UPSERT = f"INSERT OR REPLACE INTO file_offsets ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_DROP_OLD_PATH = "DELETE FROM file_offsets WHERE file_id = ? AND filepath <> ?"
_MAKE_ROOM = """
UPDATE OR REPLACE file_offsets SET filepath = filepath || ' (gone, file ' || file_id || ')'
WHERE filepath = ? AND file_id <> ?
"""
_RENAME = "UPDATE OR REPLACE file_offsets SET filepath = ?, gone_at = NULL WHERE file_id = ?"
_READ_ANEW = """
UPDATE file_offsets SET offset = 0, lines = 0, quarantined = 0, counted_only = 0, counted_end = 0,
    fingerprint = NULL, tail_hash = NULL, source = NULL
WHERE file_id = ?
"""
_READ_ON = """
UPDATE file_offsets SET tail_hash = NULL, lines = lines - 1, quarantined = quarantined - 1 WHERE file_id = ?
"""
#: A file of which lines are stored or in quarantine keeps its row: the row says what those lines mean.
_UNUSED = f"""
SELECT file_id FROM file_offsets WHERE gone_at < ?
    AND NOT EXISTS (SELECT 1 FROM raw_blocks
        WHERE block_id BETWEEN file_offsets.file_id << {BLOCK_BITS}
            AND (file_offsets.file_id << {BLOCK_BITS}) + {(1 << BLOCK_BITS) - 1})
    AND file_id NOT IN (SELECT file_id FROM quarantine WHERE resolved_at IS NULL)
"""
_READ_AT = "SELECT cast(round(last_read_at * 1000) AS INTEGER) FROM file_offsets WHERE file_id = ?"
_OTHER_AT_PATH = """
SELECT cast(round(last_read_at * 1000) AS INTEGER), file_id FROM file_offsets WHERE filepath = ?
"""
_MERGE = "INSERT OR REPLACE INTO file_offsets (file_id, filepath, source, last_read_at) VALUES (?, ?, ?, ?)"
_ADD_COUNTER = """
INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value
"""


def write_files(connection: sqlite3.Connection, rows: Sequence[FileRow]) -> None:
    """The rows of files, inside a transaction of the caller's; a file has one row, under its latest path."""
    connection.executemany(_DROP_OLD_PATH, ((row.file_id, row.filepath) for row in rows))
    connection.executemany(_UPSERT, map(msgspec.structs.astuple, rows))


def merge_files(connection: sqlite3.Connection, rows: Iterable[FileOfLines]) -> None:
    """Files of another store; of two files at one path the one that was read last has it."""
    for row in rows:
        known = connection.execute(_READ_AT, (row.file_id,)).fetchone()
        if known is not None and known[0] >= row.revision:
            continue
        connection.execute("DELETE FROM file_offsets WHERE file_id = ?", (row.file_id,))
        other = connection.execute(_OTHER_AT_PATH, (row.path,)).fetchone()
        path = row.path
        if other is not None and other > (row.revision, row.file_id):
            path = f"{row.path} (gone, file {row.file_id})"
        else:
            connection.execute(_MAKE_ROOM, (row.path, row.file_id))
        connection.execute(_MERGE, (row.file_id, path, row.source, row.revision / 1000))


class Files:
    """The log files that the store knows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self) -> Iterator[tuple[str, FileRow | None]]:
        """Path and row of each file; ``None`` where the row makes no sense."""
        for values in self._connection.execute(_SELECT):
            yield values[0], _valid_row(values)

    def get(self, number: int) -> FileRow | None:
        """One row, by the file's number."""
        values = self._connection.execute(f"{_SELECT} WHERE file_id = ?", (number,)).fetchone()
        return None if values is None else _valid_row(values)

    def read_up_to(self, path: str) -> int | None:
        """How far the file at a path was read; ``None`` where it is unknown."""
        row = self._connection.execute("SELECT offset FROM file_offsets WHERE filepath = ?", (path,)).fetchone()
        return None if row is None else int(row[0])

    def next_block(self, number: int) -> int:
        """The first place for a block that no stored block of the file has, whatever became of the file's row."""
        first = number << BLOCK_BITS
        query = "SELECT max(block_id) FROM raw_blocks WHERE block_id BETWEEN ? AND ?"
        (last,) = self._connection.execute(query, (first, first + (1 << BLOCK_BITS) - 1)).fetchone()
        return 0 if last is None else int(last) - first + 1

    # -- changing ---------------------------------------------------------------------------------------------

    def save(self, row: FileRow) -> None:
        """Write one row at once, outside of a batch."""
        with transaction(self._connection):
            self._connection.execute(_UPSERT, msgspec.structs.astuple(row))

    def rename(self, number: int, path: str) -> None:
        """A file stands at another path; whichever row had that path stays, under another name."""
        with transaction(self._connection):
            self._connection.execute(_MAKE_ROOM, (path, number))
            self._connection.execute(_RENAME, (path, number))

    def set_gone(self, number: int, at: float | None) -> None:
        """A file is gone since then."""
        with transaction(self._connection):
            self._connection.execute("UPDATE file_offsets SET gone_at = ? WHERE file_id = ?", (at, number))

    def read_anew(self, number: int) -> None:
        """Have a file read from its start that was refused as a whole."""
        with transaction(self._connection):
            self._connection.execute(_READ_ANEW, (number,))

    def read_on(self, number: int) -> None:
        """Have the rest of a compressed file read that was refused at a line."""
        with transaction(self._connection):
            self._connection.execute(_READ_ON, (number,))

    # -- files that are gone ----------------------------------------------------------------------------------

    def present(self) -> list[tuple[int, str]]:
        """Number and path of the files that are not known to be gone."""
        return self._connection.execute("SELECT file_id, filepath FROM file_offsets WHERE gone_at IS NULL").fetchall()

    def mark_gone(self, numbers: Iterable[int], at: float) -> None:
        """These files were found to be gone; an earlier time stays."""
        with transaction(self._connection):
            self._connection.executemany(
                "UPDATE file_offsets SET gone_at = ? WHERE file_id = ? AND gone_at IS NULL",
                [(at, number) for number in numbers],
            )

    def unused(self, gone_before: float) -> list[int]:
        """Files that are gone for longer and of which nothing is stored."""
        return [row[0] for row in self._connection.execute(_UNUSED, (gone_before,))]

    def forget(self, numbers: Sequence[int]) -> int:
        """Remove rows; how many. Should a file return, its lines are known by their ids. Their counts are kept."""
        chosen = f"FROM file_offsets WHERE file_id IN ({','.join('?' * len(numbers))})"
        with transaction(self._connection):
            sums = ", ".join(f"coalesce(sum({name}), 0)" for name in LINE_COUNTS)
            counts = self._connection.execute(f"SELECT {sums} {chosen}", numbers).fetchone()
            named = zip((f"forgotten_{name}" for name in LINE_COUNTS), counts, strict=True)
            self._connection.executemany(_ADD_COUNTER, [(name, count) for name, count in named if count])
            return self._connection.execute(f"DELETE {chosen}", numbers).rowcount


def _valid_row(values: tuple[object, ...]) -> FileRow | None:
    try:
        row = msgspec.convert(dict(zip(_COLUMNS, values, strict=True)), FileRow)
    except msgspec.ValidationError:
        return None
    sane = (
        0 <= row.offset < _LARGEST,
        0 <= row.file_size < _LARGEST,
        0 <= row.generation < _LARGEST,
        0 <= row.file_id < 1 << _FILE_BITS,
        0 <= row.blocks < 1 << BLOCK_BITS,
    )
    return row if all(sane) else None
