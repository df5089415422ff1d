"""Databases of agents as sources: every row once, whatever becomes of the file, and the agent is never in the way."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings, ensure_home
from agenttrace.record.files.reader import NOT_A_LOG
from agenttrace.record.recorder import Recorder, Summary

SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT);
CREATE TABLE event (id TEXT PRIMARY KEY, aggregate_id TEXT NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL,
    data TEXT NOT NULL);
"""


class Machine:
    """A home directory with the database of an agent, and the store of what was recorded from it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.path = self.home / ".local" / "share" / "opencode" / "opencode.db"
        self.path.parent.mkdir(parents=True)
        self.settings = Settings(home=root / "data")
        ensure_home(self.settings)
        self._sequence: dict[str, int] = {}

    def create(self, mode: str = "wal") -> sqlite3.Connection:
        """The database, as its agent holds it open."""
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.executescript(SCHEMA)
        return connection

    def write(self, connection: sqlite3.Connection, session: str, count: int = 1) -> None:
        """More events of a session."""
        connection.execute("INSERT OR IGNORE INTO session VALUES (?, NULL)", (session,))
        for _ in range(count):
            seq = self._sequence[session] = self._sequence.get(session, -1) + 1
            part = {"id": f"p{seq}", "messageID": "m", "type": "text", "text": f"{session} {seq}"}
            data = json.dumps({"sessionID": session, "part": part, "time": 1_790_000_000_000 + seq})
            row = (f"{session}-{seq}", session, seq, "message.part.updated.1", data)
            connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)

    @contextmanager
    def recorder(self) -> Iterator[Recorder]:
        """A recorder of this machine."""
        found = Recorder(self.settings, environ={"HOME": str(self.home)})
        try:
            yield found
        finally:
            found.close()

    def record(self) -> Summary:
        """Record what is there."""
        with self.recorder() as recorder:
            return recorder.run_once()

    def recorded(self) -> list[str]:
        """The texts that were recorded, in order."""
        with self.recorder() as recorder:
            found = [json.loads(line.raw) for line in recorder.store.lines()]
        return [line["data"]["part"]["text"] for line in found]

    def expected(self) -> list[str]:
        """What was written, by session."""
        return sorted(f"{session} {seq}" for session, last in self._sequence.items() for seq in range(last + 1))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from("abc"), st.integers(1, 5)),
        st.tuples(st.just("record"), st.just(""), st.just(0)),
        st.tuples(st.just("checkpoint"), st.just(""), st.just(0)),
        st.tuples(st.just("vacuum"), st.just(""), st.just(0)),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("reopen"), st.just(""), st.just(0)),
        st.tuples(st.just("copy"), st.just(""), st.just(0)),
        st.tuples(st.just("renumber"), st.just(""), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=40)
@example(
    [
        ("write", "a", 3),
        ("write", "b", 2),
        ("record", "", 0),
        ("delete", "a", 0),
        ("renumber", "", 0),
        ("write", "c", 5),
    ],
    "wal",
)
@given(steps=steps, mode=st.sampled_from(("wal", "delete")))
def test_every_row_once(steps: list[tuple[str, str, int]], mode: str) -> None:
    """Written, checkpointed, vacuumed, closed and opened again, put in place of itself: each row is recorded once.

    A session that the agent deletes stays as far as it was recorded; deleted rows are what vacuuming renumbers.
    """
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(Path(root))
        connection = machine.create(mode)
        unrecorded: set[str] = set()
        lost: set[str] = set()
        for step, session, count in steps:
            if step == "write":
                before = set(machine.expected())
                machine.write(connection, session, count)
                unrecorded |= set(machine.expected()) - before
            elif step == "record":
                machine.record()
                unrecorded.clear()
            elif step == "checkpoint":
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            elif step == "vacuum":
                connection.execute("VACUUM")
            elif step == "delete":
                connection.execute("DELETE FROM event WHERE aggregate_id = ?", (session,))
                gone = {text for text in unrecorded if text.startswith(f"{session} ")}
                lost |= gone
                unrecorded -= gone
            elif step == "reopen":
                connection.close()
                connection = sqlite3.connect(machine.path, isolation_level=None, timeout=0)
            elif step == "renumber":
                renumber(connection)
            elif step == "copy":
                other = machine.path.with_name("new.sqlite")
                connection.execute("VACUUM INTO ?", (str(other),))
                connection.close()
                for ending in ("-wal", "-shm"):
                    machine.path.with_name(machine.path.name + ending).unlink(missing_ok=True)
                os.replace(other, machine.path)
                connection = sqlite3.connect(machine.path, isolation_level=None, timeout=0)
        connection.close()
        machine.record()
        assert sorted(machine.recorded()) == sorted(set(machine.expected()) - lost)


def renumber(connection: sqlite3.Connection) -> None:
    """Give the rows numbers without gaps, as vacuuming may."""
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE kept AS SELECT * FROM event ORDER BY rowid")
    connection.execute("DELETE FROM event")
    connection.execute("INSERT INTO event SELECT * FROM kept ORDER BY rowid")
    connection.execute("DROP TABLE kept")
    connection.execute("COMMIT")


def test_nothing_is_written_beside_a_database(machine: Machine) -> None:
    """A database that nobody has open is read as it is: no file appears, none changes."""
    with closing(machine.create()) as connection:
        machine.write(connection, "a", 3)
    before = {path.name: path.stat().st_mtime_ns for path in machine.path.parent.iterdir()}
    assert "opencode.db-wal" not in before
    assert machine.record().recorded == 3
    assert {path.name: path.stat().st_mtime_ns for path in machine.path.parent.iterdir()} == before


def test_the_agent_is_never_locked_out(machine: Machine) -> None:
    """While a recorder reads again and again, an agent that waits for nothing can always write."""
    connection = machine.create()
    machine.write(connection, "a")
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            machine.record()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(300):
            machine.write(connection, "a")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        done.set()
        reader.join()
        connection.close()
    machine.record()
    assert sorted(machine.recorded()) == machine.expected()


def test_a_locked_database_is_read_later(machine: Machine) -> None:
    """A database that is locked as a whole is said to be unreadable, and read when it is free."""
    connection = machine.create("delete")
    machine.write(connection, "a", 2)
    assert machine.record().recorded == 2
    machine.write(connection, "a", 2)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    machine.record()
    connection.execute("COMMIT")
    connection.close()
    machine.record()
    assert sorted(machine.recorded()) == machine.expected()


def test_rows_of_a_killed_agent(machine: Machine, tmp_path: Path) -> None:
    """Killed in the middle of a transaction: what was committed is recorded, what was not never is."""
    program = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = wal")
connection.executescript(sys.argv[2])
row = "INSERT INTO event VALUES (?, 's', ?, 'message.part.updated.1', '{\\"part\\": {\\"text\\": \\"x\\"}}')"
connection.execute(row, ("one", 0))
connection.execute("BEGIN")
connection.execute(row, ("two", 1))
print("ready", flush=True)
time.sleep(60)
"""
    agent = subprocess.Popen([sys.executable, "-c", program, str(machine.path), SCHEMA], stdout=subprocess.PIPE)
    assert agent.stdout is not None
    agent.stdout.readline()
    assert machine.record().recorded == 1
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    assert machine.record().recorded == 0
    assert machine.path.with_name("opencode.db-wal").exists()
    assert len(machine.recorded()) == 1


def test_what_is_no_database(machine: Machine) -> None:
    """Garbage at the path is an error of that file, and no end of recording; a database in its place is read."""
    machine.path.write_bytes(b"no database" * 1000)
    assert machine.record().recorded == 0
    machine.path.unlink()
    with closing(machine.create()) as connection:
        machine.write(connection, "a", 2)
    assert machine.record().recorded == 2


def test_a_row_that_is_too_large(machine: Machine) -> None:
    """It is quarantined with its size, and the rows behind it are read."""
    with closing(machine.create()) as connection:
        machine.write(connection, "a")
        connection.execute("INSERT INTO event VALUES ('x', 'a', 99, 'message.updated.1', ?)", ("x" * (65 << 20),))
        machine.write(connection, "b")
    summary = machine.record()
    assert (summary.recorded, summary.quarantined) == (2, 1)
    assert machine.record().quarantined == 0


def test_a_subagent_is_a_stream_of_the_topmost_session(machine: Machine) -> None:
    """Its events belong to the session that started it, however deep it is."""
    with closing(machine.create()) as connection:
        connection.execute("INSERT INTO session VALUES ('top', NULL), ('child', 'top'), ('grandchild', 'child')")
        for session in ("top", "child", "grandchild"):
            machine.write(connection, session)
    machine.record()
    with machine.recorder() as recorder:
        assert [session.session_id for session in recorder.store.sessions()] == ["top"]


@pytest.mark.parametrize("name", ["opencode.db", "opencode-beta.db", "of-any-name"])
def test_a_change_of_a_new_database_is_noticed(machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is called; files beside it, which its agent writes all the time, are not looked at any closer."""
    machine.path = machine.path.with_name(name)
    environ = {"HOME": str(machine.home)}
    recorder = Recorder(machine.settings, environ=environ | ({} if "." in name else {"OPENCODE_DB": str(machine.path)}))
    try:
        recorder.scan()
        with closing(machine.create()) as agent:
            machine.write(agent, "a")
            for path in (f"{machine.path}-wal", f"{machine.path}"):
                recorder.dirty.clear()
                recorder.see_path(path)
                assert [file.path for file in recorder.dirty.values()] == [str(machine.path)]
        monkeypatch.setattr("agenttrace.record.recorder.Bounds", None)
        recorder.see_path(str(machine.path.parent / "log" / "dev.log"))
    finally:
        recorder.close()


def test_a_database_under_another_name_is_no_text(tmp_path: Path) -> None:
    """It is refused with the reason, not quarantined line by line."""
    path = tmp_path / "copy-of-opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE event (id TEXT, data TEXT)")
        database.executemany("INSERT INTO event VALUES (?, ?)", ((str(n), "a line\n" * 50) for n in range(100)))
        database.commit()
    place = Settings(home=tmp_path / "home")
    ensure_home(place)
    with closing(Recorder(place, paths=[str(path)])) as recorder:
        summary = recorder.run_once()
        ((_, row),) = recorder.store.files.rows()
    assert (summary.recorded, summary.quarantined) == (0, 0)
    assert row is not None
    assert row.error == NOT_A_LOG
