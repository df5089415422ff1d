"""Databases and documents under what users do with a store: prune, exclude, read again, several recorders at once."""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agenttrace.record.ingest.quarantine import retry
from agenttrace.record.recorder import Recorder
from agenttrace.store import open_store
from faults.source_rig import SOURCES, DatabaseWriter, DocumentWriter
from faults.store_rig import differences, record_once, recorder, rows, settings_of, start

#: What must not change when a source is read again; the counts of a file do.
KEPT = ("processed_events", "spans", "sessions", "responses", "usage_rollup", "quarantine")


@pytest.fixture(params=["database", "documents"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def logs(tmp_path: Path, kind: str) -> Path:
    SOURCES[kind](tmp_path / "logs", turns=3)
    return tmp_path / "logs"


def change(logs: Path) -> None:
    """Write everything anew, with other row numbers and other times: all of it is read from the start."""
    for path in logs.rglob("*.messages.json"):
        path.write_bytes(path.read_bytes() + b"\n")
    for path in logs.rglob("*.db"):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE event SET rowid = -rowid")
            connection.execute("UPDATE event SET rowid = 1000 - rowid")


def test_what_was_pruned_does_not_come_back(tmp_path: Path, logs: Path) -> None:
    """The tokens stay; the content is gone, also after the source was written anew and read from its start."""
    home = tmp_path / "home"
    record_once(home, logs)
    before = rows(home)
    with open_store(settings_of(home), read_only=False) as store:
        removed = store.retention.prune(4e9)
        assert removed.sessions == len(before["sessions"])
    change(logs)
    assert record_once(home, logs).recorded == 0
    after = rows(home)
    assert (after["raw lines"], after["spans"]) == ([], [])
    assert after["usage_rollup"] == before["usage_rollup"]


def test_read_again_from_the_start(tmp_path: Path, logs: Path) -> None:
    """After the source was written anew, and after its position was lost: nothing is recorded twice."""
    home = tmp_path / "home"
    recorded = record_once(home, logs).recorded
    before = rows(home)
    change(logs)
    again = record_once(home, logs)
    assert (again.recorded, again.duplicate) == (0, recorded)
    with open_store(settings_of(home), read_only=False) as store:
        for _, row in list(store.files.rows()):
            assert row is not None
            store.files.read_anew(row.file_id)
    again = record_once(home, logs)
    assert (again.recorded, again.duplicate) == (0, recorded)
    assert {name: found for name, found in differences(rows(home), before).items() if name in KEPT} == {}


def test_excluded_sources(tmp_path: Path, logs: Path) -> None:
    """Neither a search nor a notification reads them."""
    settings = settings_of(tmp_path / "home")
    record = msgspec.structs.replace(settings.record, exclude=["*.db", "*/sessions/*"])
    found = Recorder(msgspec.structs.replace(settings, record=record), paths=[str(logs)])
    try:
        found.scan()
        for path in [*logs.rglob("*.db"), *logs.rglob("*.json")]:
            found.see_path(str(path))
            found.see_path(f"{path}-wal")
        found.drain()
        assert (found.summary.files, found.summary.lines) == (0, 0)
    finally:
        found.close()


def test_workers_of_an_import(tmp_path: Path, logs: Path) -> None:
    """Whichever of them comes first, each source is read by one of them."""
    home = tmp_path / "home"
    record_once(tmp_path / "undisturbed", logs)
    order = random.Random(1).sample(range(3), 3)
    for index in order:
        worker = Recorder(settings_of(home), paths=[str(logs)], share=(index, 3))
        worker.scan()
        worker.drain(fair=False)
        worker.close()
    assert differences(rows(home), rows(tmp_path / "undisturbed")) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="the processes are forked")
def test_several_recorders_at_the_same_time(tmp_path: Path, logs: Path) -> None:
    """One records, the others say that it does; together they record everything once."""
    home = tmp_path / "home"
    started = [start(home, "record", str(logs), "--once", "--json") for _ in range(3)]
    ended = [(process.communicate(timeout=60)[1], process.returncode) for process in started]
    assert any(code == 0 for _, code in ended)
    assert all(code == 0 or b"already recording" in errors for errors, code in ended)
    record_once(tmp_path / "undisturbed", logs)
    found = differences(rows(home), rows(tmp_path / "undisturbed"))
    assert found == {}


def test_rows_and_messages_that_are_no_events(tmp_path: Path) -> None:
    """They are quarantined with a reason, those around them are read; another try without a change changes nothing."""
    logs, home, chance = tmp_path / "logs", tmp_path / "home", random.Random(1)
    writer = DatabaseWriter(logs, "delete")
    writer.write(chance)
    writer.close()
    with closing(sqlite3.connect(logs / "opencode.db")) as connection, connection:
        connection.execute("INSERT INTO event VALUES ('bad', 's', 0, 'message.updated.1', '{\"torn\": ')")
    documents = DocumentWriter(logs, 1)
    documents._messages[0] = [{"id": "m0", "role": "user", "content": "x"}, 7]  # type: ignore[list-item]
    documents.save(0, "in place")
    summary = record_once(home, logs)
    assert summary.quarantined == 2
    assert summary.recorded > 8
    assert record_once(home, logs).lines == 0
    with open_store(settings_of(home), read_only=False) as store:
        waiting = store.quarantine.entries()
        assert all(entry.reason for entry in waiting)
        assert {each.result for each in retry(store, settings_of(home), waiting)} == {"unchanged"}
        assert len(store.quarantine.entries()) == 2


def test_limits_of_memory(tmp_path: Path) -> None:
    """A large table and large documents are read in pieces of the size of a batch."""
    logs, home = tmp_path / "logs", tmp_path / "home"
    SOURCES["database"](logs, turns=4)
    SOURCES["documents"](logs, turns=2)
    with recorder(home, logs, batch_lines=10, batch_bytes=2_000) as found:
        taken: list[int] = []
        commit = found.pipeline.commit

        def count_lines() -> None:
            taken.append(found.pipeline.lines)
            commit()

        found.pipeline.commit = count_lines  # type: ignore[method-assign]
        found.run_once()
    assert max(taken) <= 10
    record_once(tmp_path / "undisturbed", logs)
    assert differences(rows(home), rows(tmp_path / "undisturbed")) == {}
