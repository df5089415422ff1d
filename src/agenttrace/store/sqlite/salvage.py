"""Reading what is left of a damaged store, row by row, without changing a byte of it.

SQLite reads a damaged table up to the damage and then gives up. What lies behind is reached from the other end, and
row by row through the numbers that the table's indexes hold; only rows on the damaged pages themselves are lost. A
store whose first page is damaged is opened as a copy under the first page of a new store: the tables of the first
schema have their roots where every store has them.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.schema import MIGRATIONS, PAGE_SIZE

_HEADER = 100
#: The type of a page that holds rows itself.
_LEAF = 0x0D
_NEEDED = {"raw_blocks", "file_offsets"}


#: What a column's declared type lets through; a damaged page may hold anything. Ids are bytes or text.
_TYPES: dict[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "REAL": (float, int),
    "TEXT": (str,),
    "BLOB": (bytes, str),
}


class Salvaged(NamedTuple):
    """The rows of a table that could be read, and whether those are all."""

    columns: tuple[str, ...]
    values: list[tuple[Any, ...]]
    complete: bool

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each row by the names of its columns."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.values)


class _Column(NamedTuple):
    name: str
    type: str
    needed: bool

    def admits(self, value: object) -> bool:
        """Whether the table could hold this value if nothing were wrong with it."""
        if value is None:
            return not self.needed
        return isinstance(value, _TYPES.get(self.type, (object,)))


class Damaged:
    """A damaged store, opened as far as it can be."""

    def __init__(self, connection: sqlite3.Connection, how: str) -> None:
        self._connection = connection
        #: ``as it is``, or what had to be put in its place: ``with a new header``, ``with a new first page``.
        self.how = how

    def tables(self, prefix: str = "") -> dict[str, list[str]]:
        """The statements that create each table of this prefix and its indexes."""
        found: dict[str, list[str]] = {}
        query = "SELECT tbl_name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY type DESC, name"
        for table, sql in self._until_damage(query)[0]:
            if table.startswith(prefix):
                found.setdefault(table, []).append(sql)
        return found

    def table(self, name: str, *, columns: Sequence[str] = (), where: str = "1", also: Iterable[int] = ()) -> Salvaged:
        """What can be read of a table; ``also``: numbers of rows that are known from elsewhere."""
        known = {column.name: column for column in self._columns(name)}
        wanted = [known[column] for column in columns or known if column in known]
        if not wanted:
            return Salvaged((), [], complete=False)
        listed = ", ".join(f'"{column.name}"' for column in wanted)
        rows, complete = self._until_damage(f'SELECT {listed} FROM "{name}" NOT INDEXED WHERE {where}')
        if not complete:
            rest = self._row_by_row if self._has_numbers(name) else self._both_ends
            rows = rest(name, listed, where, also)
        sound = [row for row in rows if all(map(_Column.admits, wanted, row))]
        return Salvaged(tuple(column.name for column in wanted), sound, complete and len(sound) == len(rows))

    def row(self, name: str, number: int) -> dict[str, Any] | None:
        """One row by its number; ``None`` if it is not there or cannot be read."""
        cursor = self._connection.cursor()
        try:
            found = cursor.execute(f'SELECT * FROM "{name}" WHERE rowid = ?', (number,)).fetchone()
        except sqlite3.DatabaseError:
            return None
        if found is None:
            return None
        return dict(zip((column[0] for column in cursor.description), found, strict=True))

    def pairs(self, table: str, column: str, index: str) -> dict[int, Any]:
        """Numbers of rows and a column of theirs, from an index alone: readable where the rows themselves are not."""
        query = f'SELECT rowid, "{column}" FROM "{table}" INDEXED BY "{index}"'
        return dict(self._until_damage(query)[0])

    # -- around the damage ------------------------------------------------------------------------------------

    def _until_damage(self, query: str, values: Sequence[Any] = ()) -> tuple[list[tuple[Any, ...]], bool]:
        rows: list[tuple[Any, ...]] = []
        try:
            for row in self._connection.execute(query, values):
                rows.append(row)
        except sqlite3.DatabaseError:
            return rows, False
        return rows, True

    def _columns(self, table: str) -> list[_Column]:
        rows = self._until_damage(f'PRAGMA table_info("{table}")')[0]
        return [_Column(name, kind, bool(needed)) for _, name, kind, needed, *_ in rows]

    def _has_numbers(self, table: str) -> bool:
        try:
            self._connection.execute(f'SELECT rowid FROM "{table}" LIMIT 0')
        except sqlite3.DatabaseError:
            return False
        return True

    def _row_by_row(self, table: str, columns: str, where: str, also: Iterable[int]) -> list[tuple[Any, ...]]:
        """Every row whose number can be found out, each by a look-up of its own."""
        ways = [f"NOT INDEXED ORDER BY rowid {order}" for order in ("ASC", "DESC")]
        ways += [f'INDEXED BY "{index[1]}"' for index in self._until_damage(f'PRAGMA index_list("{table}")')[0]]
        numbers = set(also)
        for way in ways:
            numbers.update(row[0] for row in self._until_damage(f'SELECT rowid FROM "{table}" {way}')[0])
        rows = []
        for number in sorted(numbers):
            query = f'SELECT {columns} FROM "{table}" WHERE rowid = ? AND {where}'
            rows += self._until_damage(query, (number,))[0]
        return rows

    def _both_ends(self, table: str, columns: str, where: str, also: Iterable[int]) -> list[tuple[Any, ...]]:
        """The rows before the first damage and those after the last, of a table whose rows have no numbers."""
        info = self._until_damage(f'PRAGMA table_info("{table}")')[0]
        key = [f'"{row[1]}"' for row in sorted((row for row in info if row[5]), key=lambda row: row[5])]
        found: dict[tuple[Any, ...], None] = {}
        for direction in ("ASC", "DESC"):
            order = ", ".join(f"{column} {direction}" for column in key)
            query = f'SELECT {columns} FROM "{table}" WHERE {where} ORDER BY {order}'
            found |= dict.fromkeys(self._until_damage(query)[0])
        return list(found)


# -- opening ------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, scratch: Path) -> Iterator[Damaged | None]:
    """The damaged store at ``path``; copies go to ``scratch``. ``None``: nothing of it can be read."""
    connection, how = _open_somehow(path, scratch)
    try:
        yield None if connection is None else Damaged(connection, how)
    finally:
        if connection is not None:
            connection.close()


def _open_somehow(path: Path, scratch: Path) -> tuple[sqlite3.Connection | None, str]:
    connection = _try(path)
    if connection is not None:
        return connection, "as it is"
    pages = (_first_page(scratch), _smaller_first_page(scratch))
    beginnings = [("with a new header", pages[0][:_HEADER]), *(("with a new first page", page) for page in pages)]
    for how, beginning in beginnings:
        connection = _try(_grafted(path, scratch / "copy.db", beginning))
        if connection is not None:
            return connection, how
    return None, "not at all"


def _try(path: Path) -> sqlite3.Connection | None:
    # Read-only: whoever may write folds the write-ahead log into the store and removes it.
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        # What SQLite's own recovery does: a store that was cut off is read as far as it goes.
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("PRAGMA cell_size_check = 1")
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    except sqlite3.DatabaseError:
        names = set()
    if names >= _NEEDED and any(_is_readable(connection, name) for name in _NEEDED):
        return connection
    connection.close()
    return None


def _is_readable(connection: sqlite3.Connection, table: str) -> bool:
    try:
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
    except sqlite3.DatabaseError:
        return False
    return True


def _first_page(scratch: Path) -> bytes:
    path = scratch / "fresh.db"
    connect(path).close()
    with path.open("rb") as file:
        return file.read(PAGE_SIZE)


def _smaller_first_page(scratch: Path) -> bytes:
    """The first page of a store with as many tables as it names by itself.

    With more tables it names the pages that do, and a store that an earlier version created has these elsewhere.
    """
    path = scratch / "smaller.db"
    page = b""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode = WAL")
        for script in MIGRATIONS:
            connection.executescript(script)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with path.open("rb") as file:
                found = file.read(PAGE_SIZE)
            if found[_HEADER] != _LEAF:
                break
            page = found
    return page


def _grafted(path: Path, copy: Path, beginning: bytes) -> Path:
    """A copy of the store that begins like a new one and is as long as it is."""
    shutil.copyfile(path, copy)
    for suffix in ("-wal", "-shm"):
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    log = path.with_name(path.name + "-wal")
    if log.exists():
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
    with copy.open("r+b") as file:
        file.write(beginning)
        _patch(file, 24, b"\0\0\0\1")  # change counter: agrees with the one at 92, so the size below counts
        _patch(file, 28, (path.stat().st_size // PAGE_SIZE).to_bytes(4, "big"))
        _patch(file, 32, bytes(8))  # free pages: none that we know of
        _patch(file, 92, b"\0\0\0\1")
    return copy


def _patch(file: BinaryIO, place: int, data: bytes) -> None:
    file.seek(place)
    file.write(data)
