"""Opening the store: the specification's tables, private files, upgrades, and transactions that hold."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace.store.errors import CorruptStoreError, NewerStoreError, StoreError
from agenttrace.store.sqlite import database
from agenttrace.store.sqlite.database import connect, is_corruption, transaction
from agenttrace.store.sqlite.schema import MIGRATIONS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agenttrace.db"


@pytest.fixture
def store(path: Path) -> Iterator[sqlite3.Connection]:
    found = connect(path)
    yield found
    found.close()


def columns(store: sqlite3.Connection, table: str) -> dict[str, tuple[str, int, object, int]]:
    """Type, NOT NULL, default and place in the primary key of each column."""
    return {row[1]: row[2:] for row in store.execute(f"PRAGMA table_info({table})")}


def indexes(store: sqlite3.Connection, table: str) -> dict[str, str]:
    """The first column of each index."""
    return {
        row[1]: store.execute(f"PRAGMA index_info({row[1]})").fetchone()[2]
        for row in store.execute(f"PRAGMA index_list({table})")
    }


# -- the specification --------------------------------------------------------------------------------------------


def test_processed_events_has_the_specified_columns(store: sqlite3.Connection) -> None:
    """Every column of the specification is there; more are allowed."""
    found = columns(store, "processed_events")
    expected = ["event_id", "session_id", "turn_index", "step_n", "event_type", "span_id", "processed_at"]
    assert [name for name in found if name in expected] == expected
    assert found["processed_at"][0] == "REAL"


def test_file_offsets_has_the_specified_columns(store: sqlite3.Connection) -> None:
    """Names, types, defaults and key are the specification's, in its order."""
    found = columns(store, "file_offsets")
    assert list(found.items())[:7] == [
        ("filepath", ("TEXT", 0, None, 1)),
        ("offset", ("INTEGER", 1, "0", 0)),
        ("inode", ("INTEGER", 0, None, 0)),
        ("fingerprint", ("TEXT", 0, None, 0)),
        ("file_size", ("INTEGER", 1, "0", 0)),
        ("last_read_at", ("REAL", 1, None, 0)),
        ("read_count", ("INTEGER", 1, "0", 0)),
    ]
    assert all(not needed or default for _, needed, default, _ in list(found.values())[7:])


def test_the_specified_indexes_are_there(store: sqlite3.Connection) -> None:
    """Under their names, over the columns they are named for."""
    assert indexes(store, "processed_events")["idx_session"] == "session_id"
    assert indexes(store, "processed_events")["idx_processed_at"] == "processed_at"
    assert indexes(store, "file_offsets")["idx_last_read"] == "last_read_at"


def test_the_specified_pragmas(store: sqlite3.Connection) -> None:
    """WAL, synchronous NORMAL, and ten seconds of patience."""
    answers = [store.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert answers == ["wal", 1]
    assert store.execute("PRAGMA busy_timeout").fetchone()[0] == 10_000


def test_an_event_is_stored_once(store: sqlite3.Connection) -> None:
    """The store itself refuses the same event twice, whatever the tiers above it may think."""
    insert = (
        "INSERT INTO processed_events (event_id, session_id, turn_index, step_n, event_type, processed_at) "
        "VALUES (x'00', 1, 0, 0, '', 0)"
    )
    store.execute(insert)
    with pytest.raises(sqlite3.IntegrityError):
        store.execute(insert)


# -- files --------------------------------------------------------------------------------------------------------


def test_files_are_private(store: sqlite3.Connection, path: Path) -> None:
    """The store and what SQLite keeps beside it are for their owner alone."""
    store.execute("INSERT INTO meta VALUES ('a', 'b')")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"agenttrace.db": 0o600, "agenttrace.db-wal": 0o600, "agenttrace.db-shm": 0o600}


@pytest.mark.parametrize("name", ["a b", "per%cent", "what?mode=rw", "#fragment", "会话"])
def test_reading_under_an_odd_name(tmp_path: Path, name: str) -> None:
    """The directory's name is never taken for a part of the address that SQLite is given."""
    place = tmp_path / name
    place.mkdir()
    connect(place / "agenttrace.db").close()
    reader = connect(place / "agenttrace.db", read_only=True)
    with pytest.raises(sqlite3.OperationalError):
        reader.execute("INSERT INTO meta VALUES ('a', 'b')")
    reader.close()


def test_reading_what_is_not_there(path: Path) -> None:
    """Looking creates nothing, and says how to begin."""
    with pytest.raises(StoreError, match="nothing recorded yet"):
        connect(path, read_only=True)
    assert not path.exists()


def test_a_file_that_is_no_database(path: Path) -> None:
    """Whoever reads or writes is told that the file is damaged, and the file is left as it is."""
    path.write_bytes(b"no database " * 5_000)
    for read_only in (True, False):
        with pytest.raises(CorruptStoreError, match="is damaged"):
            connect(path, read_only=read_only)
    assert path.read_bytes() == b"no database " * 5_000


def test_tables_without_a_version_are_damage(path: Path) -> None:
    """A header that lost the version must not make the tables be created over themselves."""
    connection = connect(path)
    connection.execute("PRAGMA user_version = 0")
    connection.close()
    with pytest.raises(CorruptStoreError, match="not the number of their version"):
        connect(path)


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """A recorder killed between creating the file and its tables leaves nothing behind that matters."""
    path.touch()
    connection = connect(path)
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
    connection.close()


#: A process that is in the middle of creating a store until its input ends.
CREATOR = """
import sys
from pathlib import Path
from agenttrace.store.sqlite import database

statements = database.statements

def hesitant(script):
    print("begun", flush=True)
    sys.stdin.read()
    return statements(script)

database.statements = hesitant
database.connect(Path(sys.argv[1])).close()
"""


def test_a_reader_waits_for_the_creation(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads a store that another process creates at this moment gets the store, not an error about its age."""
    monkeypatch.setattr(database, "CREATION_SECONDS", 60.0)
    command = [sys.executable, "-c", CREATOR, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as creator:
        assert creator.stdin is not None
        assert creator.stdout is not None
        assert creator.stdout.readline() == "begun\n"
        timer = threading.Timer(0.1, creator.stdin.close)
        timer.start()
        reader = connect(path, read_only=True)
        assert reader.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
        reader.close()
        timer.join()


def test_an_empty_file_holds_nothing(path: Path) -> None:
    """What a creator that was killed leaves is a store in which nothing is recorded, to those who read."""
    path.touch()
    os.utime(path, (0, 0))
    with pytest.raises(StoreError, match=r"nothing recorded yet .* is empty"):
        connect(path, read_only=True)


def test_many_create_the_store_at_once(path: Path) -> None:
    """Whoever comes second waits for the tables instead of failing."""
    errors: list[Exception] = []
    together = threading.Barrier(8)

    def open_it() -> None:
        together.wait()
        try:
            connect(path).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# -- upgrades -----------------------------------------------------------------------------------------------------

NEXT = """
ALTER TABLE sessions ADD COLUMN mood TEXT;
-- A comment; with a semicolon.
CREATE TABLE moods (name TEXT PRIMARY KEY);
INSERT INTO moods VALUES ('fine; really');
"""


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return int(found)


def test_an_older_store_is_upgraded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening runs what is missing, once, and keeps the data."""
    connection = connect(path)
    connection.execute("INSERT INTO meta VALUES ('kept', 'yes')")
    connection.close()
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, NEXT))
    with pytest.raises(StoreError, match="older schema"):
        connect(path, read_only=True)
    for _ in range(2):
        connection = connect(path)
        assert connection.execute("SELECT value FROM meta").fetchone() == ("yes",)
        assert connection.execute("SELECT name FROM moods").fetchall() == [("fine; really",)]
        assert "mood" in columns(connection, "sessions")
        connection.close()
    assert version(path) == len(MIGRATIONS) + 1


def test_an_upgrade_settles_who_owns_what_copies_share(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among sessions with one beginning a response was left to the one recorded first; the others are as they were."""
    place = next(place for place, script in enumerate(MIGRATIONS) if "idx_sessions_born" in script)
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:place])
    connection = connect(path)
    sessions = [(1, 5, 9, 0), (2, 5, 7, 0), (3, 5, 7, 0), (4, 5, 1, 1), (5, 4, 9, 0), (6, None, None, 0)]
    owners = {b"a": (1, [1, 2, 3, 4]), b"b": (1, [1, 4]), b"c": (5, [1, 2, 5]), b"d": (6, [6]), b"e": (1, [])}
    connection.executemany(
        "INSERT INTO sessions (id, born, last_at, copied, agent, session_id) VALUES (?, ?, ?, ?, 'a', ?1)", sessions
    )
    for response, (owner, holders) in owners.items():
        figures = (response, owner, 0, "day", "m", 0, 0, 1, 2, 3, 4, 5, 6)
        connection.execute(f"INSERT INTO responses VALUES ({', '.join('?' * 13)})", figures)
        connection.executemany(
            "INSERT INTO spans (span_id, trace_id, session_id, stream, kind, name, start, status, turn_index, step_n, "
            "response) VALUES (?1, ?1, ?2, 'main', 'step', 'chat', 0, 'ok', 0, 0, ?1)",
            ((response, holder) for holder in holders),
        )
    connection.close()
    monkeypatch.undo()
    connection = connect(path)
    assert dict(connection.execute("SELECT response, session_id FROM responses")) == {
        **{response: owner for response, (owner, _) in owners.items()},
        b"a": 2,
    }
    kept = connection.execute("SELECT session_id, requests, input_tokens, reasoning_tokens FROM usage_rollup")
    assert sorted(kept) == [(1, 2, 2, 12), (2, 1, 1, 6), (5, 1, 1, 6), (6, 1, 1, 6)]
    connection.close()


def test_an_upgrade_leaves_the_rows_of_the_recorder_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other programs kept in the store of an older version goes, with their index; the rest stays."""
    place = next(place for place, script in enumerate(MIGRATIONS) if "idx_event_id" in script)
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS[:place])
    store = connect(path)
    store.execute("CREATE INDEX idx_event_id ON processed_events(event_id)")
    for number, agent in enumerate(("", "claude-code"), start=1):
        store.execute("INSERT INTO sessions (id, agent, session_id) VALUES (?, ?, 's')", (number, agent))
        store.execute(
            "INSERT INTO processed_events VALUES (?, x'00', ?, 0, 0, '', NULL, 0, NULL, NULL)", (number, number)
        )
        store.execute(
            "INSERT INTO file_offsets (filepath, last_read_at, file_id) VALUES (?, 0, ?)", (f"/{number}", number - 1)
        )
    store.close()
    monkeypatch.setattr(database, "MIGRATIONS", MIGRATIONS)
    store = connect(path)
    assert store.execute("SELECT agent FROM sessions").fetchall() == [("claude-code",)]
    assert store.execute("SELECT session_id FROM processed_events").fetchall() == [(2,)]
    assert store.execute("SELECT filepath FROM file_offsets").fetchall() == [("/2",)]
    assert store.execute("SELECT 1 FROM sqlite_schema WHERE name = 'idx_event_id'").fetchall() == []
    store.close()


def test_an_upgrade_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of an upgrade or none of it: the store is as it was, and an older program still opens it."""
    connect(path).close()
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, NEXT, "CREATE TABLE sessions (id);"))
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        connect(path)
    monkeypatch.undo()
    assert version(path) == len(MIGRATIONS)
    connection = connect(path)
    assert "mood" not in columns(connection, "sessions")
    connection.close()


def test_a_newer_store_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of a newer program is neither read nor written, and the message says what to do."""
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, NEXT))
    connect(path).close()
    monkeypatch.undo()
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(NewerStoreError, match=r"newer AgentTrace.*Upgrade with"):
            connect(path, read_only=read_only)
    assert path.read_bytes() == before


# -- transactions -------------------------------------------------------------------------------------------------


def test_all_or_nothing(store: sqlite3.Connection) -> None:
    """An error inside takes everything back, and the next transaction starts as if nothing had been."""
    with pytest.raises(sqlite3.IntegrityError), transaction(store):
        store.executemany("INSERT INTO meta VALUES (?, ?)", [("a", "b"), ("fails", None)])
    with transaction(store):
        store.execute("INSERT INTO meta VALUES ('c', 'd')")
    assert store.execute("SELECT key FROM meta").fetchall() == [("c",)]


def test_a_commit_that_fails_is_rolled_back(store: sqlite3.Connection) -> None:
    """The connection is free for the next attempt; it must not stay inside a transaction that cannot end."""
    store.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    store.execute("CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)")
    store.execute("PRAGMA foreign_keys = 1")
    with pytest.raises(sqlite3.IntegrityError), transaction(store):
        store.execute("INSERT INTO child VALUES (1)")
    assert not store.in_transaction
    with transaction(store):
        store.execute("INSERT INTO parent VALUES (1)")
    assert store.execute("SELECT count(*) FROM child").fetchone() == (0,)


def test_what_is_corruption() -> None:
    """Damage is told apart from everything that passes by itself."""
    kinds = {"malformed": True, "file is not a database": True, "database is locked": False, "disk is full": False}
    for message, damaged in kinds.items():
        assert is_corruption(sqlite3.DatabaseError(message)) is damaged
