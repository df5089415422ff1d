"""Databases and documents under a running watcher: a notification finds what is new, not the slow scan."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
import test_databases
import test_documents
from test_documents import message

from agenttrace.config import Settings
from agenttrace.record.recorder import Recorder
from agenttrace.record.watcher import Watcher
from agenttrace.store import open_store

INSERT = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as connection:
    connection.execute("INSERT INTO event VALUES ('n', 'n', 0, 'message.updated.1', '{}')")
"""


class Watched:
    """A watcher in a thread; what it looked at because it was notified, and how often it searched everything."""

    def __init__(self, settings: Settings, home: Path) -> None:
        record = msgspec.structs.replace(settings.record, poll_seconds=3600.0)
        self.settings = msgspec.structs.replace(settings, record=record)
        self.home = home
        self.notified: set[str] = set()
        self.scans = 0
        self.stop = threading.Event()

    def run(self) -> None:
        recorder = Recorder(self.settings, environ={"HOME": str(self.home)})
        scan, see_path = recorder.scan, recorder.see_path

        def count_scan() -> object:
            self.scans += 1
            return scan()

        def note_path(path: str) -> None:
            self.notified.add(Path(path).name)
            see_path(path)

        recorder.scan, recorder.see_path = count_scan, note_path  # type: ignore[assignment]
        recorder.look_at_open = lambda: None  # type: ignore[method-assign]  # the other way to find what grew
        try:
            Watcher(recorder, self.stop).run()
        finally:
            recorder.close()

    def wait_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def wait_for(self, events: int) -> None:
        """Until so many events are stored."""
        self.wait_until(lambda: self.events() >= events)
        assert self.events() == events

    def wait_for_watch(self, directory: Path) -> None:
        """Until changes in a directory are reported: the first search is over before that."""
        probe = directory / "probe"

        def is_noticed() -> bool:
            probe.write_bytes(b"")
            return probe.name in self.notified

        self.wait_until(is_noticed)

    def events(self) -> int:
        with open_store(self.settings) as store:
            return sum(1 for _ in store.lines())


@contextmanager
def watched(machine: test_databases.Machine | test_documents.Machine) -> Iterator[Watched]:
    found = Watched(machine.settings, machine.home)
    with open_store(machine.settings, read_only=False):
        pass  # so that questions can be asked from the first moment on
    thread = threading.Thread(target=found.run)
    thread.start()
    try:
        found.wait_for_watch(machine.path.parent)
        yield found
    finally:
        found.stop.set()
        thread.join()


@pytest.mark.parametrize(("mode", "written"), [("wal", "opencode.db-wal"), ("delete", "opencode.db")])
def test_a_committed_row_is_noticed(tmp_path: Path, mode: str, written: str) -> None:
    """In the log of a database, and in one that is written in place."""
    machine = test_databases.Machine(tmp_path)
    with closing(machine.create(mode)) as connection:
        machine.write(connection, "a", 2)
        with watched(machine) as follower:
            follower.wait_for(2)
            # By a program of its own: a process that closes a file ends its own locks on it.
            subprocess.run([sys.executable, "-c", INSERT, str(machine.path)], check=True)
            follower.wait_for(3)
            assert written in follower.notified
            assert follower.scans == 1


def in_place(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def renamed(path: Path, data: bytes) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(data)
    os.replace(other, path)


def torn_first(path: Path, data: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(data[: len(data) // 2])
        time.sleep(0.3)
        file.write(data[len(data) // 2 :])


@pytest.mark.parametrize("save", [in_place, renamed, torn_first], ids=lambda save: save.__name__)
def test_a_replaced_document_is_noticed(tmp_path: Path, save: Callable[[Path, bytes], None]) -> None:
    """However it is saved."""
    machine = test_documents.Machine(tmp_path)
    machine.path.write_bytes(machine.document([message(0)]))
    with watched(machine) as follower:
        follower.wait_for(2)
        save(machine.path, machine.document([message(0), message(1)]))
        follower.wait_for(3)
        assert machine.path.name in follower.notified
        assert follower.scans == 1


def test_a_database_that_was_not_there_is_noticed(tmp_path: Path) -> None:
    """In a directory that exists; its first row is in its log."""
    machine = test_databases.Machine(tmp_path)
    with watched(machine) as follower:
        with closing(sqlite3.connect(machine.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = wal")
            connection.executescript(test_databases.SCHEMA)
            machine.write(connection, "a", 2)
            follower.wait_for(2)
        assert follower.scans == 1
