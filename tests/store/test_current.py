"""The store at a path, while it appears, changes, is rebuilt and vanishes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agenttrace.store.current import NO_STORE, CurrentStore
from agenttrace.store.sqlite.database import connect, transaction


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agenttrace.db"


@pytest.fixture
def current(path: Path) -> Iterator[CurrentStore]:
    found = CurrentStore(path, cache_kib=64)
    yield found
    found.close()


def write(path: Path, value: str) -> None:
    with closing(connect(path)) as connection, transaction(connection):
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('key', ?)", (value,))


def read(current: CurrentStore) -> str:
    store = current.get()
    assert store is not None
    return str(store.connection.execute("SELECT value FROM meta WHERE key = 'key'").fetchone()[0])


def test_a_version_is_another_one_after_each_commit(current: CurrentStore, path: Path) -> None:
    """And the same where nothing was committed, so that a poll costs next to nothing."""
    assert (current.get(), current.version()) == (None, NO_STORE)
    write(path, "a")
    seen = [current.version()]
    for value in "bcd":
        assert current.version() == seen[-1]
        write(path, value)
        assert current.version() not in seen
        assert read(current) == value
        seen.append(current.version())
    assert {version.file for version in seen} == {1}


def test_a_rebuilt_store_is_another_file(current: CurrentStore, path: Path, tmp_path: Path) -> None:
    """A connection to the old file would never see what is committed to the new one."""
    write(path, "old")
    before = current.version()
    write(tmp_path / "new.db", "new")
    (tmp_path / "new.db").replace(path)
    assert current.version().file == before.file + 1
    assert read(current) == "new"
    path.unlink()
    assert current.version() == NO_STORE
    assert current.opened is None
    write(path, "again")
    assert current.version().file == before.file + 2
    assert read(current) == "again"


def test_a_store_that_cannot_be_read_is_none(current: CurrentStore, path: Path) -> None:
    """One that is being created, that is damaged or newer: nothing to show, until it can be read."""
    path.touch()
    assert (current.get(), current.version()) == (None, NO_STORE)
    path.write_bytes(b"no database" * 1000)
    assert (current.get(), current.version()) == (None, NO_STORE)
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 10000")
    assert (current.get(), current.version()) == (None, NO_STORE)
    path.unlink()
    write(path, "well")
    assert read(current) == "well"


def test_interrupting_what_is_closed_or_not_open(current: CurrentStore, path: Path) -> None:
    """A server that stops interrupts every thread's store, whatever state it is in."""
    current.interrupt()
    write(path, "a")
    assert read(current) == "a"
    assert current.opened is not None
    current.opened.close()
    current.interrupt()
