"""Failures of the store: what SQLite raises is told apart by kind, and each kind has its advice."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agenttrace.store.errors import (
    CorruptStoreError,
    Failure,
    StoreError,
    failure_kind,
    is_corruption,
    is_refused_value,
)
from agenttrace.store.sqlite.database import connect
from agenttrace.views.trouble import store_trouble


def damaged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(100000));")
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM t").fetchall()


def no_database(path: Path) -> None:
    path.write_bytes(b"something else" * 1000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM t")


def locked(path: Path) -> None:
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(path, timeout=0)) as second:
        first.execute("BEGIN EXCLUSIVE")
        second.execute("CREATE TABLE t (a)")


def full(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("PRAGMA max_page_count = 2")
        connection.execute("INSERT INTO t VALUES (zeroblob(1000000))")


def read_only(path: Path) -> None:
    connect(path).close()
    with closing(connect(path, read_only=True)) as connection:
        connection.execute("DELETE FROM meta")


def nowhere(path: Path) -> None:
    sqlite3.connect(path / "missing" / "store.db")


def constraint(path: Path) -> None:
    with closing(connect(path)) as connection:
        connection.execute("INSERT INTO meta VALUES ('a', NULL)")


def unbindable(path: Path) -> None:
    with closing(connect(path)) as connection:
        connection.execute("SELECT ?", (object(),))


def mistake(path: Path) -> None:
    with closing(connect(path)) as connection:
        connection.execute('SELECT a FROM "locked, busy, readonly, malformed"')


@pytest.mark.parametrize(
    ("fail", "kind", "advice"),
    [
        (damaged, Failure.CORRUPT, "Rebuild it"),
        (no_database, Failure.CORRUPT, "Rebuild it"),
        (locked, Failure.BUSY, "Another program has locked it"),
        (full, Failure.FULL, "Free some disk space"),
        (read_only, Failure.NOT_WRITABLE, "Check the permissions"),
        (nowhere, Failure.NOT_WRITABLE, "Check the permissions"),
        (constraint, Failure.VALUE, None),
        (unbindable, Failure.VALUE, None),
        (mistake, None, None),
    ],
)
def test_each_failure_has_its_kind(
    tmp_path: Path, fail: Callable[[Path], None], kind: Failure | None, advice: str | None
) -> None:
    """By SQLite's code, not by words that may stand in a statement; a bug has no kind and no advice."""
    with pytest.raises(sqlite3.Error) as caught:
        fail(tmp_path / "store.db")
    assert failure_kind(caught.value) is kind
    assert is_corruption(caught.value) is (kind is Failure.CORRUPT)
    assert is_refused_value(caught.value) is (kind is Failure.VALUE)
    trouble = store_trouble(caught.value)
    assert (trouble is None) is (advice is None)
    assert trouble is None or trouble.fix.startswith(str(advice))


def test_errors_without_a_code() -> None:
    """The driver raises some itself."""
    assert failure_kind(sqlite3.OperationalError("database is locked")) is Failure.BUSY
    assert failure_kind(sqlite3.OperationalError("database or disk is full")) is Failure.FULL
    assert failure_kind(sqlite3.OperationalError("disk I/O error")) is Failure.DISK
    assert failure_kind(CorruptStoreError("x")) is Failure.CORRUPT
    assert failure_kind(StoreError("x")) is failure_kind(ValueError("malformed")) is None
