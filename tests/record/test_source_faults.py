"""What goes wrong with databases and documents while a recorder follows them, and with the store of their lines."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import test_databases
import test_documents

from agenttrace.config import Settings
from agenttrace.record.files.documents import NOT_WHOLE
from agenttrace.record.files.reader import database_stat
from agenttrace.record.ingest.quarantine import retry
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.record.recovery import recover
from agenttrace.store import open_store
from agenttrace.store.questions import FileStatus
from faults.store_rig import differences, rows

Database, Document = test_databases.Machine, test_documents.Machine
message, settle = test_documents.message, test_documents.settle
Machine = test_databases.Machine | test_documents.Machine


@pytest.fixture
def database(tmp_path: Path) -> test_databases.Machine:
    return Database(tmp_path)


@pytest.fixture
def document(tmp_path: Path) -> test_documents.Machine:
    return Document(tmp_path)


@pytest.fixture
def recorders() -> Iterator[list[Recorder]]:
    found: list[Recorder] = []
    yield found
    for recorder in found:
        recorder.close()


def following(machine: Machine, recorders: list[Recorder]) -> Recorder:
    """A recorder that stays, as ``agenttrace record`` does."""
    recorder = Recorder(machine.settings, environ={"HOME": str(machine.home)})
    recorders.append(recorder)
    return recorder


def look(recorder: Recorder) -> Summary:
    recorder.scan()
    recorder.look_at_open()
    recorder.look_at_unterminated()
    recorder.drain()
    return recorder.summary


def statuses(settings: Settings) -> dict[str, FileStatus]:
    with open_store(settings) as store:
        return {Path(file.path).name: file for file in store.status.files()}


def limited(settings: Settings, size: int) -> Settings:
    return msgspec.structs.replace(settings, record=msgspec.structs.replace(settings.record, max_line_bytes=size))


# -- databases -----------------------------------------------------------------------------------------------------


def test_a_database_that_is_replaced_while_it_is_followed(
    database: test_databases.Machine, recorders: list[Recorder]
) -> None:
    """By a copy of itself, then by another one: every row once, and no byte of a database is taken for a line."""
    connection = database.create()
    database.write(connection, "a", 5)
    recorder = following(database, recorders)
    assert look(recorder).recorded == 5
    other = database.path.with_name("copy")
    connection.execute("VACUUM INTO ?", (str(other),))
    connection.close()
    os.replace(other, database.path)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as connection:
        database.write(connection, "a", 2)
    look(recorder)
    assert (recorder.summary.recorded, recorder.summary.quarantined) == (7, 0)
    database.path.unlink()
    fresh = Database.__new__(Database)
    fresh.path, fresh._sequence = database.path, {}
    with closing(fresh.create()) as connection:
        fresh.write(connection, "b", 3)
    look(recorder)
    assert (recorder.summary.recorded, recorder.summary.quarantined) == (10, 0)


def test_a_database_with_a_damaged_page(database: test_databases.Machine, recorders: list[Recorder]) -> None:
    """The rows before it are recorded, the error is shown, other files go on; when it is healed, the rest is read."""
    with closing(database.create("delete")) as connection:
        connection.execute("INSERT INTO session VALUES ('a', NULL)")
        for seq in range(200):
            data = json.dumps({"part": {"type": "text", "text": f"{seq}{'x' * 3000}"}})
            connection.execute(
                "INSERT INTO event VALUES (?, 'a', ?, 'message.part.updated.1', ?)", (f"{seq}", seq, data)
            )
    whole = database.path.read_bytes()
    database.path.write_bytes(whole[: 4096 * 100] + b"\xff" * 4096 * 10 + whole[4096 * 110 :])
    pi = database.home / ".pi" / "agent" / "sessions" / "x" / "1_01a1e1cf-c58d-7494-9516-4ee9af3bc229.jsonl"
    pi.parent.mkdir(parents=True)
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-16T00:00:00.000Z"}
    pi.write_text(json.dumps(header) + "\n")
    recorder = following(database, recorders)
    look(recorder)
    before = recorder.summary.recorded
    assert 20 < before < 200
    assert "malformed" in (statuses(database.settings)["opencode.db"].error or "")
    database.path.write_bytes(whole)
    look(recorder)
    assert recorder.summary.recorded == 201
    assert statuses(database.settings)["opencode.db"].error is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_database_that_may_not_be_read(database: test_databases.Machine, recorders: list[Recorder]) -> None:
    """The error is shown as long as it lasts."""
    with closing(database.create()) as connection:
        database.write(connection, "a", 2)
    database.path.chmod(0)
    recorder = following(database, recorders)
    look(recorder)
    assert statuses(database.settings)["opencode.db"].error
    database.path.chmod(0o600)
    look(recorder)
    assert recorder.summary.recorded == 2


def test_an_error_is_gone_when_the_database_is_free(
    database: test_databases.Machine, recorders: list[Recorder]
) -> None:
    """A database that its agent holds for itself alone is an error as long as that lasts."""
    with closing(database.create()) as connection:
        database.write(connection, "a", 2)
    recorder = following(database, recorders)
    assert look(recorder).recorded == 2
    with closing(sqlite3.connect(database.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.write(connection, "a", 1)
        look(recorder)
        assert "locked" in (statuses(database.settings)["opencode.db"].error or "")
    look(recorder)
    assert statuses(database.settings)["opencode.db"].error is None
    assert recorder.summary.recorded == 3


def test_rows_of_an_open_transaction_without_a_log(database: test_databases.Machine) -> None:
    """A database that is written in place shows pages that may be rolled back: they are not read."""
    connection = database.create("delete")
    database.write(connection, "a", 2)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN")
    for number in range(200):
        row = (f"n{number}", "b", number, "message.updated.1", json.dumps({"x": "y" * 4000}))
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
    database.record()
    connection.execute("ROLLBACK")
    connection.close()
    database.record()
    assert sorted(database.recorded()) == database.expected()


def test_rows_with_nothing_in_their_key(database: test_databases.Machine) -> None:
    """Rows without a number are told apart by their ids, or by what is in them."""
    connection = sqlite3.connect(database.path)
    connection.execute("CREATE TABLE session (id, parent_id)")
    connection.execute("CREATE TABLE event (id, aggregate_id, seq, type, data)")
    for number in range(4):
        data = json.dumps({"part": {"text": f"{number}"}})
        row = (f"e{number}" if number % 2 else None, "a", None, "message.part.updated.1", data)
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    assert database.record().recorded == 4


def test_a_long_row_is_tried_again(database: test_databases.Machine) -> None:
    """A row that was too long is read from its database once the limit allows it; its place is no place in bytes."""
    with closing(database.create()) as connection:
        database.write(connection, "a")
        data = json.dumps({"part": {"type": "text", "text": "x" * 2_500_000}})
        connection.execute("INSERT INTO event VALUES ('x', 'a', 99, 'message.part.updated.1', ?)", (data,))
    whole = database.settings
    database.settings = limited(whole, 2_000_000)
    assert database.record().quarantined == 1
    with open_store(whole, read_only=False) as store:
        (outcome,) = retry(store, whole, store.quarantine.entries())
    assert outcome.result == "recorded", outcome
    database.settings = whole
    assert database.record().recorded == 0
    assert len(database.recorded()) == 2


def test_status_of_a_database(database: test_databases.Machine) -> None:
    """Its position is a row; what is shown are bytes, and none of them is behind."""
    with closing(database.create()) as connection:
        database.write(connection, "a", 3)
        database.record()
        size, _ = database_stat(str(database.path), database.path.stat().st_size, 0)
        assert statuses(database.settings)["opencode.db"].offset == size


# -- documents -----------------------------------------------------------------------------------------------------


def test_a_document_that_stays_torn_while_it_is_followed(
    document: test_documents.Machine, recorders: list[Recorder]
) -> None:
    """It is pending first, then quarantined once; when it is whole, it is read and the entry is resolved."""
    document.path.write_bytes(document.document([message(0)]))
    recorder = following(document, recorders)
    assert look(recorder).recorded == 2
    whole = document.document([message(0), message(1)])
    document.path.write_bytes(whole[:-40])
    look(recorder)
    assert recorder.summary.quarantined == 0
    assert sum(file.pending() for file in recorder.files.values()) == 1
    settle(document.path, 3)
    look(recorder)
    look(recorder)
    assert recorder.summary.quarantined == 1
    document.path.write_bytes(whole)
    look(recorder)
    assert (recorder.summary.recorded, recorder.summary.quarantined) == (3, 1)
    with open_store(document.settings) as store:
        assert [entry.reason for entry in store.quarantine.entries(resolved=True)] == [NOT_WHOLE]


@pytest.mark.parametrize("messages", ['"x"', "{}", "null", "7"])
def test_a_document_of_another_shape(document: test_documents.Machine, messages: str) -> None:
    """Whole JSON whose messages are no list is no session: it is quarantined."""
    document.path.write_text(f'{{"sessionId": "s", "messages": {messages}}}')
    settle(document.path)
    summary = document.record()
    assert (summary.recorded, summary.quarantined) == (0, 1)


def test_a_document_that_takes_a_freed_inode(document: test_documents.Machine, recorders: list[Recorder]) -> None:
    """Another session in a file with the number of a deleted one is another session."""
    document.path.write_bytes(document.document([message(0)]))
    recorder = following(document, recorders)
    look(recorder)
    recorder._close_idle()
    for file in recorder.files.values():
        file.close()
    other = document.path.parent.with_name("other") / "other.messages.json"
    other.parent.mkdir()
    os.rename(document.path, other)  # the same inode at another path, with another content
    other.write_bytes(document.document([message(7)]).replace(test_documents.NAME.encode(), b"other"))
    look(recorder)
    assert {session.session_id for session in recorder.store.sessions()} == {test_documents.NAME, "other"}


def test_a_document_changed_within_a_tick_of_the_clock(
    document: test_documents.Machine, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size, same time, other content: one more look after the tick finds it."""
    first, second = document.document([message(0, "one")]), document.document([message(0, "two")])
    document.path.write_bytes(first)
    times = document.path.stat().st_mtime_ns
    recorder = following(document, recorders)
    assert look(recorder).recorded == 2
    document.path.write_bytes(second)
    os.utime(document.path, ns=(times, times))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 5)
    assert look(recorder).recorded == 3


def test_what_is_written_beside_a_document_after_it_is_found(
    document: test_documents.Machine, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cline notes the sum of a session when its messages are written; the look after the tick finds it, once."""
    document.path.write_bytes(document.document([message(0), message(1)]))
    recorder = following(document, recorders)
    assert look(recorder).recorded == 3
    facts = {"status": "completed", "ended_at": "2026-11-16T00:45:12Z", "metadata": {"usage": {"inputTokens": 7}}}
    document.path.with_name(f"{test_documents.NAME}.json").write_text(json.dumps(facts))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 5)
    assert look(recorder).recorded == 4
    assert look(recorder).recorded == 4
    (told,) = recorder.connection.execute("SELECT input_tokens FROM totals").fetchall()
    assert told == (7,)


def test_a_long_document_is_tried_again(document: test_documents.Machine) -> None:
    """One that was too large is read once the limit allows it."""
    document.path.write_bytes(document.document([message(0, "x" * 20_000)]))
    settle(document.path)
    whole = document.settings
    document.settings = limited(whole, 10_000)
    assert document.record().quarantined == 1
    document.settings = whole
    with open_store(whole, read_only=False) as store:
        (outcome,) = retry(store, whole, store.quarantine.entries())
    assert outcome.result == "reread", outcome
    assert [each["id"] for each in document.recorded()] == ["m0"]


def test_a_large_document_needs_no_memory_when_it_was_read(
    document: test_documents.Machine, recorders: list[Recorder]
) -> None:
    """Many messages, many with the same id; all are read, and their lines are let go."""
    document.path.write_bytes(document.document([message(number % 500, f"{number}") for number in range(5_000)]))
    recorder = following(document, recorders)
    assert look(recorder).recorded == 5_001
    look(recorder)
    (file,) = recorder.files.values()
    assert file._reader._lines is None  # type: ignore[union-attr]


# -- both ----------------------------------------------------------------------------------------------------------


def test_recovery_keeps_what_the_agents_deleted(tmp_path: Path) -> None:
    """After a damaged store: rows and messages that are still there, and those that are not."""
    (tmp_path / "one").mkdir()
    database, document = Database(tmp_path / "one"), Document(tmp_path / "two")
    document.settings, document.home = database.settings, database.home
    document.path = database.home / ".cline" / "data" / "sessions" / "s" / "s.messages.json"
    document.path.parent.mkdir(parents=True)
    connection = database.create()
    database.write(connection, "a", 3)
    database.write(connection, "b", 3)
    document.path.write_bytes(document.document([message(0), message(1)]))
    database.record()
    connection.execute("DELETE FROM event WHERE aggregate_id = 'a'")
    document.path.write_bytes(document.document([message(1)]))
    database.record()
    expected = rows(database.settings.home)
    home = database.settings.home
    store = home / "agenttrace.db"
    data = bytearray(store.read_bytes())
    data[:100] = b"\0" * 100
    store.write_bytes(data)
    recover(home, logs=[str(database.path), str(document.path)])
    database.record()
    found = differences(rows(home), expected)
    assert found.keys() <= {"file_offsets"}, found
    connection.close()


def _write(machine: test_databases.Machine, path: Path) -> None:
    """An agent of each kind at work."""
    writer = Document.__new__(Document)
    connection = machine.create()
    for number in range(60):
        machine.write(connection, "a", 5)
        if number % 10 == 5:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        path.write_bytes(writer.document([message(each) for each in range(number + 1)]))
        time.sleep(0.02)
    connection.close()


def _record(machine: test_databases.Machine) -> None:
    """One recorder after the other, until it is killed."""
    while True:
        machine.record()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_recorder_that_is_killed_while_both_grow(database: test_databases.Machine) -> None:
    """At any moment, again and again: each row and each message is recorded once."""
    folder = database.home / ".cline" / "data" / "sessions" / test_documents.NAME
    folder.mkdir(parents=True)
    forks = multiprocessing.get_context("fork")
    agents = forks.Process(target=_write, args=(database, folder / f"{test_documents.NAME}.messages.json"))
    agents.start()
    chance = random.Random(1)
    while agents.is_alive():
        recorder = forks.Process(target=_record, args=(database,))
        recorder.start()
        time.sleep(chance.uniform(0.02, 0.2))
        recorder.kill()
        recorder.join()
    agents.join()
    database.record()
    with database.recorder() as last:
        lines = [json.loads(line.raw) for line in last.store.lines()]
    assert sorted(line["seq"] for line in lines if "seq" in line) == list(range(300))
    messages = [line["id"] for line in lines if str(line.get("id")).startswith("m")]
    assert sorted(messages) == sorted(f"m{number}" for number in range(60))
