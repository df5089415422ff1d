"""Whether a store is worth asking what changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from agenttrace.store.current import ChangeWatch
from agenttrace.store.sqlite.database import connect, transaction


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _commit(connection: sqlite3.Connection, value: str) -> None:
    with transaction(connection):
        connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('test', ?)", (value,))


def _quiet(watch: ChangeWatch, clock: Clock) -> None:
    """Wait until nothing is asked any more."""
    watch.due()
    clock.now += 1.5
    assert watch.due()
    clock.now += 0.04
    assert not watch.due()


def test_every_commit_is_seen(tmp_path: Path) -> None:
    """At the next look, also of a store that appears, and where the log of changes was emptied before."""
    path, clock = tmp_path / "agenttrace.db", Clock()
    watch = ChangeWatch(path, clock)
    assert watch.due()
    _quiet(watch, clock)
    with closing(connect(path)) as connection:
        assert watch.due()
        for number in range(5):
            _quiet(watch, clock)
            _commit(connection, str(number))
            assert watch.due()
            if number == 2:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_a_change_is_followed_closely(tmp_path: Path) -> None:
    """After a commit everything is asked for a while: another one may have left the same time and size."""
    path, clock = tmp_path / "agenttrace.db", Clock()
    with closing(connect(path)) as connection:
        watch = ChangeWatch(path, clock)
        assert watch.due()
        _quiet(watch, clock)
        _commit(connection, "x")
        for _ in range(10):
            assert watch.due()
            clock.now += 0.04


def test_a_silent_store_is_asked_now_and_then(tmp_path: Path) -> None:
    """What no file tells is found within a second or so; a database on another machine is always asked."""
    clock = Clock()
    with closing(connect(tmp_path / "agenttrace.db")):
        watch = ChangeWatch(tmp_path / "agenttrace.db", clock)
        asked = 0
        for _ in range(1000):
            asked += watch.due()
            clock.now += 0.04
        assert 30 <= asked <= 100
    assert all(ChangeWatch("clickhouse://host/db", clock).due() for _ in range(10))
