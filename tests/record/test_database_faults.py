"""What becomes of a database while it is followed: written without waiting, killed, locked, restored, destroyed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import test_databases
import test_source_faults
from hypothesis import given, settings
from hypothesis import strategies as st
from test_documents import settle

from agenttrace.config import Settings
from agenttrace.record.files.databases import DAMAGED
from agenttrace.record.files.reader import NOT_A_FILE
from agenttrace.record.recorder import Recorder
from agenttrace.views.checks import store as store_checks

Machine = test_databases.Machine
following, look = test_source_faults.following, test_source_faults.look
database, recorders = test_source_faults.database, test_source_faults.recorders

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are those of POSIX")

#: An agent that waits for no lock: a process of its own, because closing a file ends all locks of a process on it.
AGENT = """
import json, os, sqlite3, sys
path, script = sys.argv[1:]
connection = sqlite3.connect(path, isolation_level=None, timeout=0)
def insert(session, seq, size=0):
    data = json.dumps({"part": {"text": f"{session} {seq}", "more": "x" * size}})
    row = (f"{session}-{seq}", session, seq, "message.part.updated.1", data)
    connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
def say(text):
    print(text, flush=True)
exec(script)
"""
COMMITS = """
locked = 0
say("ready")
for number in range(150):
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for each in range(10):
                insert("b", number * 10 + each, 200)
            connection.execute("COMMIT")
            break
        except sqlite3.OperationalError:
            locked += 1
            if connection.in_transaction:
                connection.execute("ROLLBACK")
say(locked)
"""
SPILLED = """
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN")
for number in range(100):
    insert("z", number, 3000)
os.kill(os.getpid(), 9)
"""
LEFT_LOG = """
connection.execute("PRAGMA wal_autocheckpoint = 0")
for number in range(3):
    insert("b", number)
os.kill(os.getpid(), 9)
"""
HELD = """
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
insert("b", 0)
connection.execute("COMMIT")
say("held")
sys.stdin.read()
"""


def agent(machine: Machine, script: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", AGENT, str(machine.path), script]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0]


def error_of(settings: Settings) -> str:
    return test_source_faults.statuses(settings)["opencode.db"].error or ""


@pytest.mark.parametrize("mode", ["wal", "delete", "persist", "truncate"])
def test_an_agent_that_waits_for_no_lock_is_never_refused(
    database: Machine, recorders: list[Recorder], mode: str
) -> None:
    """While a large table is read, every commit succeeds at once, with a log and with every kind of journal."""
    with closing(database.create(mode)) as connection:
        connection.execute("BEGIN")
        database.write(connection, "a", 5_000)
        connection.execute("COMMIT")
    writer = agent(database, f"connection.execute('PRAGMA journal_mode = {mode}')\n{COMMITS}")
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    recorder = following(database, recorders)
    while writer.poll() is None:
        look(recorder)
    assert finished(writer) == "0\n"
    look(recorder)
    assert (recorder.summary.recorded, recorder.summary.duplicate) == (6_500, 0)


def test_a_journal_that_a_killed_agent_left(database: Machine, recorders: list[Recorder]) -> None:
    """Half of a transaction is in the file: nothing of it is read, that is said, and the next agent rolls it back."""
    with closing(database.create("delete")) as connection:
        database.write(connection, "a", 3)
    recorder = following(database, recorders)
    look(recorder)
    killed = agent(database, SPILLED)
    finished(killed)
    assert killed.returncode == -signal.SIGKILL
    assert database.path.with_name("opencode.db-journal").stat().st_size
    look(recorder)
    assert error_of(database.settings) == "", "it may be committed in a moment"
    assert database.record().pending == 1
    settle(database.path)
    look(recorder)
    assert "transaction" in error_of(database.settings)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as connection:
        database.write(connection, "a", 1)
    recorder.look_at_unterminated()
    recorder.drain()
    assert error_of(database.settings) == ""
    assert sorted(database.recorded()) == database.expected()


@pytest.mark.parametrize("lost", ["", "-shm", "-wal"])
def test_a_log_that_a_killed_agent_left(database: Machine, recorders: list[Recorder], lost: str) -> None:
    """What was committed is read from the log; without it, only what is in the database."""
    with closing(database.create()) as connection:
        database.write(connection, "a", 2)
    finished(agent(database, LEFT_LOG))
    recorder = following(database, recorders)
    if lost:
        database.path.with_name(f"opencode.db{lost}").unlink()
    assert look(recorder).recorded == (2 if lost == "-wal" else 5)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as connection:
        database.write(connection, "a", 1)
    assert look(recorder).recorded == (3 if lost == "-wal" else 6)


@pytest.mark.parametrize(
    ("forbidden", "reads"), [((), True), (("-wal",), False), (("-shm",), False)], ids=["directory", "log", "index"]
)
def test_a_database_among_files_that_may_not_be_changed(forbidden: tuple[str, ...], reads: bool) -> None:
    """Its directory is read-only: it is read. A part of it that may not be read is an error that names it."""
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(Path(root))
        with closing(machine.create()) as connection:
            machine.write(connection, "a", 2)
        assert machine.record().recorded == 2
        finished(agent(machine, LEFT_LOG))
        for ending in forbidden:
            machine.path.with_name(f"opencode.db{ending}").chmod(0)
        with unprivileged(Path(root)):
            machine.path.parent.chmod(0o500)
            assert machine.record().recorded == (3 if reads else 0)
            machine.path.parent.chmod(0o700)
        assert ("opencode.db-wal" in error_of(machine.settings)) is not reads


@contextmanager
def unprivileged(root: Path) -> Iterator[None]:
    """Without the rights of root, who may do everything."""
    if os.geteuid():
        yield
        return
    for path in (root, *root.rglob("*")):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_database_that_its_agent_holds(database: Machine, recorders: list[Recorder]) -> None:
    """That is said, costs the agent nothing, and ends without another search once the agent lets go."""
    with closing(database.create()) as connection:
        database.write(connection, "a", 2)
    recorder = following(database, recorders)
    look(recorder)
    holder = agent(database, HELD)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    look(recorder)
    assert "locked by another program" in error_of(database.settings)
    assert database.record().pending == 1
    finished(holder)
    recorder.look_at_unterminated()
    recorder.drain()
    assert (recorder.summary.recorded, error_of(database.settings)) == (3, "")


def test_a_database_restored_from_an_older_copy(database: Machine, recorders: list[Recorder]) -> None:
    """The agent goes on from there, with the same numbers for other events: those are recorded too."""
    with closing(database.create()) as connection:
        database.write(connection, "a", 3)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        older = database.path.read_bytes()
        database.write(connection, "a", 3)
    recorder = following(database, recorders)
    assert look(recorder).recorded == 6
    database.path.write_bytes(older)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as connection:
        for seq in range(3, 7):
            data = json.dumps({"part": {"type": "text", "text": f"other {seq}"}})
            connection.execute(
                "INSERT INTO event VALUES (?, 'a', ?, 'message.part.updated.1', ?)", (f"o{seq}", seq, data)
            )
    look(recorder)
    assert sorted(database.recorded()) == sorted([*database.expected(), *(f"other {seq}" for seq in range(3, 7))])


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def no_database(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def another_file(path: Path) -> None:
    path.unlink()
    no_database(path)


def an_empty_file(path: Path) -> None:
    os.truncate(path, 0)


def a_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def a_broken_header(path: Path) -> None:
    path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:])


def broken_pages(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


def other_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (id)")
        connection.commit()


DESTRUCTIONS = (
    a_directory,
    a_pipe,
    no_database,
    another_file,
    an_empty_file,
    a_half,
    a_broken_header,
    broken_pages,
    other_tables,
)


@pytest.mark.parametrize("destroy", DESTRUCTIONS, ids=lambda each: each.__name__)
def test_something_else_in_place_of_a_database(
    database: Machine, recorders: list[Recorder], destroy: Callable[[Path], None]
) -> None:
    """It is refused with a reason that status and doctor show, and other logs go on; the good one is read on."""
    with closing(database.create()) as connection:
        database.write(connection, "a", 3)
    pi = database.home / ".pi" / "agent" / "sessions" / "x" / "1_01a1e1cf-c58d-7494-9516-4ee9af3bc229.jsonl"
    pi.parent.mkdir(parents=True)
    recorder = following(database, recorders)
    assert look(recorder).recorded == 3
    good = database.path.with_name("kept")
    shutil.copy2(database.path, good)
    destroy(database.path)
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-16T00:00:00.000Z"}
    pi.write_text(json.dumps(header) + "\n")
    for _ in range(3):
        look(recorder)
    assert recorder.summary.recorded == 4
    reason = error_of(database.settings)
    assert reason == NOT_A_FILE or reason.startswith((DAMAGED, "database cannot be read"))
    (finding,) = [each for each in store_checks(database.settings) if each.name == "reading"]
    assert str(database.path) in finding.found
    assert reason in finding.found
    if database.path.is_dir():
        database.path.rmdir()
    os.replace(good, database.path)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as connection:
        database.write(connection, "a", 2)
    look(recorder)
    assert (recorder.summary.recorded, recorder.summary.quarantined) == (6, 0)
    assert error_of(database.settings) == ""
    assert [each.name for each in store_checks(database.settings) if each.name == "reading"] == []


def test_an_unreadable_database_that_is_deleted(database: Machine, recorders: list[Recorder]) -> None:
    """What is gone is no problem any more."""
    no_database(database.path)
    recorder = following(database, recorders)
    look(recorder)
    assert error_of(database.settings)
    database.path.unlink()
    look(recorder)
    assert not any(file.error for file in test_source_faults.statuses(database.settings).values())


@settings(max_examples=25)
@given(
    mode=st.sampled_from(("wal", "delete")),
    ending=st.sampled_from(("", "-wal", "-shm")),
    places=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=600)), min_size=1, max_size=4),
)
def test_bytes_that_are_overwritten(mode: str, ending: str, places: list[tuple[float, bytes]]) -> None:
    """Anywhere in a database, its log or its index: recording goes on, and recovers with the database."""
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(Path(root))
        with closing(machine.create(mode)) as connection:
            machine.write(connection, "a", 40)
            good = {path: path.read_bytes() for path in machine.path.parent.iterdir()}
        for path, data in good.items():
            path.write_bytes(data)
        path = machine.path.with_name(f"opencode.db{ending}")
        damaged = bytearray(good.get(path, b""))
        for place, data in places:
            start = int(place * len(damaged))
            damaged[start : start + len(data)] = data
        path.write_bytes(damaged)
        with machine.recorder() as recorder:
            for _ in range(2):
                look(recorder)
            for path in machine.path.parent.iterdir():
                path.unlink()
            for path, data in good.items():
                path.write_bytes(data)
            with closing(sqlite3.connect(machine.path, isolation_level=None)) as connection:
                machine.write(connection, "b", 3)
            look(recorder)
            lines = b"\n".join(line.raw for line in recorder.store.lines())
        assert [lines.count(b'"b %d"' % seq) for seq in range(3)] == [1, 1, 1]
        assert error_of(machine.settings) == ""
