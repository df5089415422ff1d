"""Databases of agents: new rows of a table to which an agent only appends, each as a line.

The agent is never locked out and its files are never changed. A database with a write-ahead log is read through a
connection that may not write and is closed after each look: an open one would keep the agent from folding its log back.
Without such a log every reader's lock would make a commit of the agent fail. So the file is read as it is, without a
lock, and only while no transaction is in its journal; where it was changed meanwhile, it is read again.

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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from agenttrace.record.files import fingerprint as fp
from agenttrace.record.files.reader import (
    CHUNK_BYTES,
    INDEX_SUFFIX,
    JOURNAL_SUFFIX,
    LOG_SUFFIX,
    Chunk,
    OpenFile,
    Reader,
    database_stat,
)
from agenttrace.record.files.unsized import UnsizedFile, UnsizedReader
from agenttrace.record.formats.contract import Table
from agenttrace.store.batch import UNSIZED, FileRow

T = TypeVar("T")

#: A lock is held for moments; the next look comes soon.
_BUSY_SECONDS = 0.05
#: How often a database is read that is changed meanwhile, and the pause between: the next look does the rest.
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.005
#: The header of a database: which kind of journal it has, and a number that every transaction changes.
_HEADER_BYTES = 100
_READ_VERSION, _WITH_LOG = 19, 2
#: Codes of SQLite: another program holds the database for itself.
#: How an error begins that does not pass by itself.
DAMAGED = "database is damaged"
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
#: Of a position in two tables, the lower half is that in the second one.
_HALF = 31
_SECOND = (1 << _HALF) - 1


class RowsRenumberedError(Exception):
    """The row at a position is another one than was read there."""


class TableQueries:
    """The statements that read a table, and its rows as lines."""

    def __init__(self, table: Table) -> None:
        self.table = table
        selected = ", ".join(f'"{name}"' for name in table.columns)
        names = ", ".join([selected, *table.expressions.values()])
        self._columns = (*table.columns, *table.expressions)
        time = f'"{table.time}"' if table.time else "0"
        self._rows = f'SELECT rowid, {time}, {names} FROM "{table.name}" WHERE rowid > ? ORDER BY rowid LIMIT ?'
        self._keys = table.key or table.columns[:1]
        key = ", ".join(f'"{name}"' for name in self._keys)
        self._row = f'SELECT {key} FROM "{table.name}" WHERE rowid = ?'
        self._next = f'SELECT min(rowid) FROM "{table.name}" WHERE rowid > ?'

    def rows(self, connection: sqlite3.Connection, after: int, most: int) -> Iterator[tuple[Any, int, bytes]]:
        """Time, number and line of each row behind a number; the first is not read before it is asked for."""
        for number, at, *values in connection.execute(self._rows, (after, most)):
            yield at, number, _line(self._columns, values)

    def key(self, connection: sqlite3.Connection, number: int) -> bytes | None:
        """What tells the row of this number from another one."""
        row = connection.execute(self._row, (number,)).fetchone()
        return None if row is None else _line(self._keys, row)

    def next(self, connection: sqlite3.Connection, after: int) -> int:
        """The number of the next row."""
        return int(connection.execute(self._next, (after,)).fetchone()[0] or after)

    def is_oversized(self, connection: sqlite3.Connection, after: int) -> bool:
        """Whether the next row has a column that is too long to be loaded."""
        try:
            next(self.rows(connection, after, 1), None)
        except sqlite3.DataError:
            return True
        return False

    def exists(self, connection: sqlite3.Connection) -> bool:
        """Whether the database has the table."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return connection.execute(query, (self.table.name,)).fetchone() is not None


class RowReader(UnsizedReader):
    """Reads the rows of a table in the order of their numbers, or of two tables in the order of their times.

    Of two tables, a position is the number of the last row of each: whatever the times are, none is left out.
    """

    def __init__(self, path: str, table: Table, max_line_bytes: int) -> None:
        self._path, self._max_line_bytes = path, max_line_bytes
        self._table = TableQueries(table)
        self._beside = None if table.beside is None else TableQueries(table.beside)
        #: What tells the last row that was read from another one.
        self.last: str | None = None

    def read(self, offset: int, size: int, most: int = -1) -> Chunk | None:
        """The next rows, ``most`` of them; ``None`` if there is none."""
        return self._looking(lambda connection: self._chunk(connection, offset, most))

    def read_after(self, offset: int, known: str | None, most: int = -1) -> Chunk | None:
        """The same, if the row at ``offset`` is the one that was read; both are one look at the database."""

        def look(connection: sqlite3.Connection) -> Chunk | None:
            if offset and (known is None or self._identity(connection, offset) != known):
                raise RowsRenumberedError
            return self._chunk(connection, offset, most)

        return self._looking(look)

    def _chunk(self, connection: sqlite3.Connection, offset: int, most: int) -> Chunk | None:
        lines: list[bytes] = []
        numbers: list[int] = []
        size = 0
        rows = self._rows(connection, offset, most)
        while size < CHUNK_BYTES:
            try:
                row = next(rows, None)
            except sqlite3.Error as error:
                if lines:
                    break  # what was read so far counts; the next look begins with the error
                if most != 1:
                    return self._chunk(connection, offset, 1)  # the error may be that of the row behind
                if not isinstance(error, sqlite3.DataError):
                    raise
                return self._oversized(connection, offset)
            if row is None:
                break
            number, line = row
            if len(line) > self._max_line_bytes:
                if lines:
                    break  # it is read next, alone
                self.last = self._identity(connection, number)
                return Chunk([], [], number, (number, len(line), hashlib.sha256(line).digest()[:16]))
            lines.append(line)
            numbers.append(number)
            size += len(line)
        if not lines:
            return None
        self.last = self._identity(connection, numbers[-1])
        return Chunk(lines, numbers, numbers[-1])

    def _rows(self, connection: sqlite3.Connection, offset: int, most: int) -> Iterator[tuple[int, bytes]]:
        """The position behind each row, and its line."""
        if self._beside is None:
            yield from ((number, line) for _, number, line in self._table.rows(connection, offset, most))
            return
        last = self._numbers(offset)
        tables = self._tables(connection)
        found = [_ranked(table.rows(connection, last[rank], most), rank) for rank, table in enumerate(tables)]
        for _, rank, number, line in islice(heapq.merge(*found, key=itemgetter(0, 1)), most if most >= 0 else None):
            last[rank] = number
            yield self._position(last), line

    def _tables(self, connection: sqlite3.Connection) -> list[TableQueries]:
        """Those of them that the database has."""
        beside = self._beside
        return [self._table] if beside is None or not beside.exists(connection) else [self._table, beside]

    def _numbers(self, position: int) -> list[int]:
        """The number of the last row of each table."""
        return [position] if self._beside is None else [position >> _HALF, position & _SECOND]

    def _position(self, numbers: list[int]) -> int:
        return numbers[0] if self._beside is None else numbers[0] << _HALF | numbers[1]

    def _oversized(self, connection: sqlite3.Connection, offset: int) -> Chunk:
        """The next row of which a column is too long to be loaded; of two tables, of the one that has it next."""
        numbers = self._numbers(offset)
        for rank, table in enumerate(self._tables(connection)):
            if not table.is_oversized(connection, numbers[rank]):
                continue
            numbers[rank] = table.next(connection, numbers[rank])
            length, digest = self._measured(connection, table.table, numbers[rank])
            end = self._position(numbers)
            self.last = self._identity(connection, end)
            return Chunk([], [], end, (end, length, digest))
        raise sqlite3.DatabaseError("a row vanished while it was read")

    def _measured(self, connection: sqlite3.Connection, table: Table, number: int) -> tuple[int, bytes]:
        """Length and digest of a row, which is never loaded as a whole."""
        length, digest = 0, hashlib.sha256()
        for name in table.columns:
            try:
                value = connection.blobopen(table.name, name, number, readonly=True)
            except sqlite3.OperationalError:
                continue  # a number, or nothing
            with value:
                length += len(value)
                while data := value.read(CHUNK_BYTES):
                    digest.update(data)
        return length, digest.digest()[:16]

    def identity(self, number: int) -> str | None:
        """What tells the row of this number from another one; ``None`` where there is none."""
        return self._looking(lambda connection: self._identity(connection, number))

    def _identity(self, connection: sqlite3.Connection, position: int) -> str | None:
        if self._beside is None:
            key = self._table.key(connection, position)
            return None if key is None else fp.identity(key)
        first, second = self._numbers(position)
        keys = [self._table.key(connection, first)] if first else []
        keys += [self._beside.key(connection, second)] if second and self._beside.exists(connection) else []
        whole = [key for key in keys if key is not None]
        return fp.identity(b"\n".join(whole)) if whole and len(whole) == len(keys) else None

    def _looking(self, look: Callable[[sqlite3.Connection], T]) -> T:
        """The answer of one look at the database."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            before = _state(self._path)
            if before.in_transaction:
                continue
            try:
                with closing(self._connection(before.has_log)) as connection:
                    connection.execute("BEGIN")
                    found = look(connection)
            except sqlite3.Error as error:
                if before.has_log or _state(self._path) == before:
                    raise _failure(error, self._path, before) from error
            else:
                if before.has_log or _state(self._path) == before:
                    return found
        raise OSError(errno.EAGAIN, "a transaction of the agent is not complete; it is read after that", self._path)

    def _connection(self, has_log: bool) -> sqlite3.Connection:
        options = "mode=ro" if has_log else "immutable=1"
        path = quote(os.fsencode(self._path))
        connection = sqlite3.connect(f"file:{path}?{options}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        connection.text_factory = bytes
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(self._max_line_bytes, CHUNK_BYTES))
        return connection


class _State(NamedTuple):
    """What a change of a database changes, and how it may be read."""

    header: bytes
    size: int
    mtime_ns: int
    #: Whether there is a write-ahead log: then readers and writers are not in each other's way.
    has_log: bool
    #: Whether pages in the file may be those of a transaction that is not complete, and may never be.
    in_transaction: bool


def _state(path: str) -> _State:
    file = OpenFile(path, follow=False)
    try:
        stat, header = file.stat(), fp.pread(file.descriptor, _HEADER_BYTES, 0)
    finally:
        file.close()
    has_log = header[_READ_VERSION : _READ_VERSION + 1] == bytes((_WITH_LOG,)) and os.path.exists(path + LOG_SUFFIX)
    return _State(header, stat.st_size, stat.st_mtime_ns, has_log, not has_log and _is_in_use(path + JOURNAL_SUFFIX))


def _is_in_use(journal: str) -> bool:
    """Whether a journal has pages to be put back; one without is empty, or begins with zeros."""
    try:
        with open(journal, "rb") as file:
            return file.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return False


def _failure(error: sqlite3.Error, path: str, state: _State) -> OSError:
    """An error of SQLite as one of the file, with what can be done about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _LOCKED:
        return OSError(errno.EBUSY, "database is locked by another program; it is read when it is free", path)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return OSError(errno.EIO, f"{DAMAGED}: {error}", path)
    reason = f"database cannot be read: {error}"
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) and state.has_log:
        name = os.path.basename(path)
        reason += f"; {name}{LOG_SUFFIX} and {name}{INDEX_SUFFIX} must be readable, and the latter exist or be created"
    return OSError(errno.EIO, reason, path)


def _ranked(rows: Iterator[tuple[Any, int, bytes]], rank: int) -> Iterator[tuple[float, int, int, bytes]]:
    return ((time if isinstance(time, int | float) else 0, rank, number, line) for time, number, line in rows)


def _line(columns: tuple[str, ...], values: Sequence[Any]) -> bytes:
    """A row as one line: an object with its columns; texts that are JSON stand in it as they are."""
    return msgspec.json.encode(dict(zip(columns, map(_json, values), strict=True)))


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

    LEAVES_REST: ClassVar[bool] = False

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

    def _verify(self) -> bool:
        """Every look at the rows checks that they go on where they were read."""
        return True

    def fits(self, path: str) -> bool:
        """Whether the database at ``path`` goes on where this one was read."""
        if self.position == 0 or self.home is None or self.home.table is None:
            return self.position == 0
        try:
            found = RowReader(path, self.home.table, self.max_line_bytes).identity(self.position)
        except OSError:
            return False
        return found is not None and found == self._known

    @property
    def _known(self) -> str | None:
        return self._last or self.row.tail_hash

    def read(self, most: int = -1) -> Chunk | None:
        """The next rows, ``most`` of them; ``None`` if there is none, or if all are to be read again."""
        self.open()
        assert isinstance(self._reader, RowReader)
        try:
            chunk = None if self._ended else self._reader.read_after(self.position, self._known, most)
        except RowsRenumberedError:
            self.restart("replaced")
            return None
        self._ended = chunk is None
        return chunk

    def is_recorded(self, size: int, mtime_ns: int) -> bool:
        """Whether there is no row behind the last one that was read: size and time change with other tables, too."""
        try:
            return self.position > 0 and self._rows().read_after(self.position, self._known, 1) is None
        except (OSError, RowsRenumberedError):
            return False

    def bytes_in(self, chunk: Chunk) -> int:
        """Of its lines."""
        return sum(map(len, chunk.lines))

    def passed(self, chunk: Chunk) -> None:
        """Reading goes on behind this chunk."""
        self.position = chunk.end
        assert isinstance(self._reader, RowReader)
        self._last = self._reader.last

    def start_over(self) -> None:
        """Read all of it again."""
        UnsizedFile.start_over(self)
        self._last = None

    def _sign(self, row: FileRow) -> None:
        row.fingerprint = UNSIZED
        row.tail_hash = self._last or (self.row.tail_hash if self.position == self.row.offset else None)

    def roll_back(self) -> None:
        """The batch was not stored: go back to what is."""
        UnsizedFile.roll_back(self)
        self._ended, self._last = False, None

    @property
    def dirty(self) -> bool:
        """Whether there is something to store; that there is nothing more to read is no news."""
        return self.position != self.row.offset or self.generation != self.row.generation or any(self.counts.values())
