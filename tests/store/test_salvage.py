"""Salvage: around the damage every row is read, nothing is invented, and not a byte of the store is changed."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest

from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.salvage import opened
from agenttrace.store.sqlite.schema import MIGRATIONS, PAGE_SIZE

ROWS = 3_000
#: Tables of the ledger that every store has.
OWN = ("export_destinations", "export_touched", "export_spans", "export_annotations", "export_team_sessions")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a table of each kind, large enough for many pages."""
    path = tmp_path / "agenttrace.db"
    connection = connect(path)
    connection.execute("BEGIN")
    connection.execute(
        "CREATE TABLE export_rows (number INTEGER PRIMARY KEY, name TEXT NOT NULL, weight REAL, data BLOB)"
    )
    connection.execute("CREATE INDEX export_rows_name ON export_rows (name)")
    connection.execute("CREATE TABLE export_keys (name TEXT PRIMARY KEY, data BLOB) WITHOUT ROWID")
    chance = random.Random(3)
    for number in range(ROWS):
        data = chance.randbytes(100)
        connection.execute("INSERT INTO export_rows VALUES (?, ?, ?, ?)", (number, f"name {number}", 0.5, data))
        connection.execute("INSERT INTO export_keys VALUES (?, ?)", (f"{number:05d}", data))
    connection.execute("COMMIT")
    connection.close()
    return path


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    place = tmp_path / "scratch"
    place.mkdir()
    return place


def pages_of(store: Path, table: str, kind: str = "leaf") -> list[int]:
    """The pages of a table or index, counted from 0, in their order in the tree."""
    connection = sqlite3.connect(store)
    query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ? ORDER BY path"
    try:
        return [row[0] - 1 for row in connection.execute(query, (table, kind))]
    except sqlite3.OperationalError:
        pytest.skip("this SQLite does not tell which page is whose")
    finally:
        connection.close()


def destroy(store: Path, page: int) -> None:
    with store.open("r+b") as file:
        file.seek(page * PAGE_SIZE)
        file.write(bytes(PAGE_SIZE))


def numbers(store: Path, scratch: Path, table: str = "export_rows") -> tuple[list[int], bool]:
    """The numbers of the rows that can be read, and whether they are said to be all."""
    before = store.read_bytes()
    with opened(store, scratch) as damaged:
        assert damaged is not None
        found = damaged.table(table)
    assert store.read_bytes() == before
    return [int(row[0]) for row in found.values], found.complete


def test_a_sound_store_is_read_whole(store: Path, scratch: Path) -> None:
    """Without damage every row of every kind of table comes back, with its values."""
    assert numbers(store, scratch) == (list(range(ROWS)), True)
    assert numbers(store, scratch, "export_keys") == (list(range(ROWS)), True)
    with opened(store, scratch) as damaged:
        assert damaged is not None
        assert damaged.how == "as it is"
        first = next(damaged.table("export_rows", columns=["weight", "name"]).rows())
    assert first == {"weight": 0.5, "name": "name 0"}


def test_only_the_rows_of_damaged_pages_are_lost(store: Path, scratch: Path) -> None:
    """Three pages of a table, far apart: all rows between them are found by their numbers in an index."""
    pages = pages_of(store, "export_rows")
    assert len(pages) > 12
    for page in (pages[2], pages[6], pages[9]):
        destroy(store, page)
    found, complete = numbers(store, scratch)
    assert not complete
    assert len(found) == len(set(found))
    assert ROWS - len(found) <= 3 * -(-ROWS // (len(pages) - 2))


def test_rows_known_from_elsewhere(store: Path, scratch: Path) -> None:
    """A table without an index is read around the damage too, when the numbers of its rows are known."""
    pages = pages_of(store, "export_rows")
    connection = connect(store)
    connection.execute("DROP INDEX export_rows_name")
    connection.close()
    for page in (pages[2], pages[9]):
        destroy(store, page)
    with opened(store, scratch) as damaged:
        assert damaged is not None
        blind = damaged.table("export_rows").values
        knowing = damaged.table("export_rows", also=range(ROWS)).values
    assert len(blind) < len(knowing)
    assert ROWS - len(knowing) <= 2 * -(-ROWS // (len(pages) - 2))


def test_a_table_without_numbers_is_read_from_both_ends(store: Path, scratch: Path) -> None:
    """What lies before and behind a damaged page is read, and nothing twice."""
    pages = pages_of(store, "export_keys")
    destroy(store, pages[len(pages) // 2])
    found, complete = numbers(store, scratch, "export_keys")
    assert not complete
    assert len(found) == len(set(found))
    assert {0, ROWS - 1} <= set(found)
    assert ROWS - len(found) < 3 * ROWS / len(pages)


def test_one_row(store: Path, scratch: Path) -> None:
    """A row by its number, or nothing: where it does not exist, and where it cannot be read."""
    pages = pages_of(store, "export_rows")
    destroy(store, pages[0])
    with opened(store, scratch) as damaged:
        assert damaged is not None
        assert damaged.row("export_rows", 0) is None
        assert damaged.row("export_rows", ROWS) is None
        row = damaged.row("export_rows", ROWS - 1)
    assert row is not None
    assert row["name"] == f"name {ROWS - 1}"


def test_values_of_the_wrong_kind_are_not_taken(store: Path, scratch: Path) -> None:
    """A row that the table could not hold is damage, too."""
    connection = connect(store)
    connection.execute("UPDATE export_rows SET weight = x'00' WHERE number = 7")
    connection.close()
    found, complete = numbers(store, scratch)
    assert (len(found), 7 in found, complete) == (ROWS - 1, False, False)


@pytest.mark.parametrize(("size", "how"), [(100, "with a new header"), (PAGE_SIZE, "with a new first page")])
def test_a_damaged_beginning(store: Path, scratch: Path, size: int, how: str) -> None:
    """The tables of the first schema are found under a new beginning; later ones only if their names survived."""
    connection = connect(store)
    connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    connection.close()
    with store.open("r+b") as file:
        file.write(os.urandom(size))
    before = store.read_bytes()
    with opened(store, scratch) as damaged:
        assert damaged is not None
        assert damaged.how == how
        assert list(damaged.table("meta").rows()) == [{"key": "a", "value": "b"}]
        of_others = damaged.tables("export_").keys() - set(OWN)
        # The names of the latest tables are on other pages than the first.
        assert of_others <= {"export_keys", "export_rows"}
        assert size == PAGE_SIZE or len(of_others) == 2
    assert store.read_bytes() == before


def test_a_damaged_first_page_of_an_earlier_version(
    store: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that was created with fewer tables has the names of the others elsewhere than a new one."""
    path = store.with_name("earlier.db")
    monkeypatch.setattr("agenttrace.store.sqlite.database.MIGRATIONS", MIGRATIONS[:-2])
    connection = connect(path)
    connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    connection.execute("CREATE TABLE filler (data BLOB)")
    connection.executemany("INSERT INTO filler VALUES (?)", [(os.urandom(20_000),) for _ in range(20)])
    connection.close()
    monkeypatch.undo()
    connect(path).close()
    with path.open("r+b") as file:
        file.write(os.urandom(PAGE_SIZE))
    with opened(path, scratch) as damaged:
        assert damaged is not None
        assert list(damaged.table("meta").rows()) == [{"key": "a", "value": "b"}]


def test_a_table_that_is_not_there(store: Path, scratch: Path) -> None:
    """An older store lacks later tables: that is an empty answer, not an error."""
    with opened(store, scratch) as damaged:
        assert damaged is not None
        assert damaged.table("no such table") == ((), [], False)
        assert damaged.row("no such table", 1) is None
        assert damaged.pairs("no such table", "a", "b") == {}


def test_no_store_at_all(tmp_path: Path, scratch: Path) -> None:
    """Of garbage nothing is read."""
    path = tmp_path / "garbage.db"
    path.write_bytes(os.urandom(200_000))
    with opened(path, scratch) as damaged:
        assert damaged is None
