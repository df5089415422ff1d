"""Databases of agents: new rows of a table to which an agent only appends, each as a line.

The agent is never locked out and its files are never changed. A database with a write-ahead log is read through a
connection that may not write and is closed after each look: an open one would keep the agent from folding its log back.
Without such a log nobody writes, and the file is read as it is; should a writer come meanwhile, what was read is
dropped and read again.

The position is a row number, or two of them where two tables are read. Row numbers are given anew when a database is
vacuumed or made again, so the last row that was read is looked up before reading goes on: where it is another one,
everything is read from the start, and known rows are dropped by their ids.
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from agenttrace.record.files import fingerprint as fp
from agenttrace.record.files.reader import CHUNK_BYTES, LOG_SUFFIX, Chunk, Reader, database_stat
from agenttrace.record.files.unsized import UnsizedFile, UnsizedReader
from agenttrace.record.formats.contract import Table
from agenttrace.store.batch import FileRow

#: A lock is held for moments; the next look comes soon.
_BUSY_SECONDS = 0.2
#: Of a position in two tables, the lower half is that in the second one.
_HALF = 31
_SECOND = (1 << _HALF) - 1


class TableQueries:
    """The statements that read a table, and its rows as lines."""

    def __init__(self, table: Table) -> None:
        selected = [f'"{name}"' for name in table.columns]
        names = ", ".join([*selected, *table.expressions.values()])
        self._columns = (*table.columns, *table.expressions)
        time = f'"{table.time}"' if table.time else "0"
        self._rows = f'SELECT rowid, {time}, {names} FROM "{table.name}" WHERE rowid > ? ORDER BY rowid LIMIT ?'
        self._row = f'SELECT {names} FROM "{table.name}" WHERE rowid = ?'
        self._name = table.name

    def rows(self, connection: sqlite3.Connection, after: int, most: int) -> Iterator[tuple[Any, int, bytes]]:
        """Time, number and line of each row behind a number."""
        for number, time, *values in connection.execute(self._rows, (after, most)):
            yield time, number, self._line(values)

    def row(self, connection: sqlite3.Connection, number: int) -> bytes | None:
        """The line of one row."""
        values = connection.execute(self._row, (number,)).fetchone()
        return None if values is None else self._line(values)

    def exists(self, connection: sqlite3.Connection) -> bool:
        """Whether the database has the table."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return connection.execute(query, (self._name,)).fetchone() is not None

    def _line(self, values: Any) -> bytes:  # noqa: ANN401 - columns of any type
        """A row as one line: an object with its columns; texts that are JSON stand in it as they are."""
        return msgspec.json.encode(dict(zip(self._columns, map(_json, values), strict=True)))


class RowReader(UnsizedReader):
    """Reads the rows of a table in the order of their numbers, or of two tables in the order of their times.

    Of two tables, a position is the number of the last row of each: whatever the times are, none is left out.
    """

    def __init__(self, path: str, table: Table, max_line_bytes: int) -> None:
        self._path, self._max_line_bytes = path, max_line_bytes
        self._table = TableQueries(table)
        self._beside = None if table.beside is None else TableQueries(table.beside)

    def read(self, offset: int, size: int, most: int = -1) -> Chunk | None:
        """The next rows, ``most`` of them; ``None`` if there is none."""
        with self._connected() as connection:
            return self._chunk(connection, offset, most)

    def _chunk(self, connection: sqlite3.Connection, offset: int, most: int) -> Chunk | None:
        lines: list[bytes] = []
        numbers: list[int] = []
        size = 0
        for number, line in self._rows(connection, offset, most):
            if len(line) > self._max_line_bytes:
                if lines:
                    break  # it is read next, alone
                return Chunk([], [], number, (number, len(line), hashlib.sha256(line).digest()[:16]))
            lines.append(line)
            numbers.append(number)
            size += len(line)
            if size >= CHUNK_BYTES:
                break
        return Chunk(lines, numbers, numbers[-1]) if lines else None

    def _rows(self, connection: sqlite3.Connection, offset: int, most: int) -> Iterator[tuple[int, bytes]]:
        """The position behind each row, and its line."""
        if self._beside is None:
            yield from ((number, line) for _, number, line in self._table.rows(connection, offset, most))
            return
        last = [offset >> _HALF, offset & _SECOND]
        tables = [self._table, self._beside] if self._beside.exists(connection) else [self._table]
        found = [_ranked(table.rows(connection, last[rank], most), rank) for rank, table in enumerate(tables)]
        for _, rank, number, line in islice(heapq.merge(*found, key=itemgetter(0, 1)), most if most >= 0 else None):
            last[rank] = number
            yield last[0] << _HALF | last[1], line

    def identity(self, position: int) -> str | None:
        """What tells the row at this position from another one; ``None`` where there is none."""
        with self._connected() as connection:
            if self._beside is None:
                line = self._table.row(connection, position)
                return None if line is None else fp.identity(line)
            first, second = position >> _HALF, position & _SECOND
            lines = [self._table.row(connection, first)] if first else []
            lines += [self._beside.row(connection, second)] if second and self._beside.exists(connection) else []
        whole = [line for line in lines if line is not None]
        return fp.identity(b"\n".join(whole)) if whole and len(whole) == len(lines) else None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        quiet = not os.path.exists(self._path + LOG_SUFFIX)
        before = _stat(self._path)
        options = "immutable=1" if quiet else "mode=ro"
        path = self._path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        try:
            with closing(sqlite3.connect(f"file:{path}?{options}", uri=True, timeout=_BUSY_SECONDS)) as connection:
                connection.text_factory = bytes
                yield connection
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"database cannot be read: {error}", self._path) from error
        if quiet and (os.path.exists(self._path + LOG_SUFFIX) or _stat(self._path) != before):
            raise OSError(errno.EAGAIN, "database was changed while it was read", self._path)


def _ranked(rows: Iterator[tuple[Any, int, bytes]], rank: int) -> Iterator[tuple[float, int, int, bytes]]:
    return ((time if isinstance(time, int | float) else 0, rank, number, line) for time, number, line in rows)


def _stat(path: str) -> tuple[int, int]:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns


def _json(value: object) -> object:
    """A column: text that is a JSON object or array as such, other bytes as text."""
    if not isinstance(value, bytes):
        return value
    if value[:1] in (b"{", b"["):
        # A newline would end the line; between the tokens of JSON a space is as good, inside of a text there is none.
        return msgspec.Raw(value.replace(b"\n", b" ").replace(b"\r", b" "))
    return value.decode("utf-8", "replace")


@dataclass(eq=False, slots=True)
class TrackedDatabase(UnsizedFile):
    """A database of which one table is read."""

    #: What tells the row at the position from another one.
    _last: str | None = field(default=None, init=False)

    def _rows(self) -> RowReader:
        assert self.home is not None
        assert self.home.table is not None
        return RowReader(self.path, self.home.table, self.max_line_bytes)

    def _new_reader(self) -> Reader:
        return self._rows()

    def look(self) -> tuple[int, int]:
        """Size and time of the database with its log."""
        size, mtime_ns = UnsizedFile.look(self)
        return database_stat(self.path, size, mtime_ns)

    def _is_as_it_was(self, descriptor: int) -> bool:
        known = self._last or self.row.tail_hash
        return known is not None and self._rows().identity(self.position) == known

    def fits(self, path: str) -> bool:
        """Whether the database at ``path`` goes on where this one was read."""
        if self.position == 0 or self.home is None or self.home.table is None:
            return self.position == 0
        try:
            found = RowReader(path, self.home.table, self.max_line_bytes).identity(self.position)
        except OSError:
            return False
        return found is not None and found == (self._last or self.row.tail_hash)

    def passed(self, chunk: Chunk) -> None:
        """Reading goes on behind this chunk."""
        self.position = chunk.end
        assert self.home is not None
        assert self.home.table is not None
        known = chunk.lines and self.home.table.beside is None
        self._last = fp.identity(chunk.lines[-1]) if known else self._rows().identity(chunk.end)

    def _sign(self, row: FileRow) -> None:
        row.fingerprint = fp.identity(b"")
        row.tail_hash = self._last or (self.row.tail_hash if self.position == self.row.offset else None)

    def roll_back(self) -> None:
        """The batch was not stored: go back to what is."""
        UnsizedFile.roll_back(self)
        self._ended, self._last = False, None

    @property
    def dirty(self) -> bool:
        """Whether there is something to store; that there is nothing more to read is no news."""
        return self.position != self.row.offset or self.generation != self.row.generation or any(self.counts.values())
