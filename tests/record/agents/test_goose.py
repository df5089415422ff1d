"""Goose: fixtures that follow its public schema; no real logs."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.files.databases import RowReader
from agenttrace.record.formats.goose import Goose
from agenttrace.record.ingest.quarantine import retry
from agenttrace.record.recorder import Recorder
from agenttrace.store import open_store

START = 1_794_800_000
SCHEMA = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
    session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    extension_data TEXT DEFAULT '{}', accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER,
    provider_name TEXT, model_config_json TEXT
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL,
    timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER, metadata_json TEXT
);
"""
LEDGER = """
CREATE TABLE usage_ledger (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, created_timestamp INTEGER NOT NULL, model TEXT,
    input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER, cache_read_tokens INTEGER,
    cache_write_tokens INTEGER, cost REAL, cost_source TEXT, is_compaction INTEGER DEFAULT 0
);
"""
ASKED = {"type": "text", "text": "Run the tests"}
CALLED = {
    "type": "toolRequest",
    "id": "call_1",
    "toolCall": {"status": "success", "value": {"name": "developer__shell", "arguments": {"command": "pytest -q"}}},
}
FAILED = {"type": "toolResponse", "id": "call_1", "toolResult": {"status": "error", "error": "exit code 1"}}
DONE = {"type": "text", "text": "One test fails."}


class Database:
    """A database that Goose writes to."""

    def __init__(self, path: Path, *, ledger: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA + (LEDGER if ledger else ""))

    def run(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement, values)

    def session(self, name: str, created: str = "2026-11-16 09:00:00") -> None:
        values = "VALUES (?, '/home/dev/goose-work', ?)"
        self.run(f"INSERT INTO sessions (id, working_dir, created_at) {values}", name, created)

    def message(self, session: str, name: str, role: str, part: dict[str, Any], at: int, *, shown: bool = True) -> None:
        self.run(
            "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            *(name, session, role, json.dumps([part]), START + at, json.dumps({"userVisible": shown})),
        )

    def call(self, session: str, at: int, counts: tuple[int, int, int, int], *, compaction: bool = False) -> None:
        self.run(
            "INSERT INTO usage_ledger (session_id, created_timestamp, model, input_tokens, output_tokens, "
            "cache_read_tokens, cache_write_tokens, is_compaction) VALUES (?, ?, 'claude-sonnet-4-5', ?, ?, ?, ?, ?)",
            *(session, START + at, *counts, compaction),
        )

    def turn(self, session: str, at: int = 0) -> None:
        """A prompt, a tool that failed, an answer."""
        self.message(session, f"{session}-1", "user", ASKED, at)
        self.call(session, at + 2, (1000, 50, 600, 100))
        self.message(session, f"{session}-2", "assistant", CALLED, at + 1)
        self.message(session, f"{session}-3", "user", FAILED, at + 3)
        self.message(session, f"{session}-4", "assistant", DONE, at + 4)
        self.call(session, at + 5, (2000, 60, 1500, 0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".local" / "share" / "goose" / "sessions" / "sessions.db"


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    found = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(found)
    recorder = Recorder(found, environ={"HOME": str(tmp_path)})
    yield recorder
    recorder.close()


def rows(recorder: Recorder, query: str) -> list[tuple[Any, ...]]:
    return recorder.connection.execute(query).fetchall()


#: The mark of a session that was created then.
MARK = f"{zlib.crc32(b'2026-11-16 09:00:00'):08x}"
COUNTS = "SELECT session_id, project, turns, steps, tools, errors FROM sessions ORDER BY 1"
TOKENS = """
    SELECT count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(output_tokens)
    FROM responses
"""


def test_a_session(path: Path, recorder: Recorder) -> None:
    """Turns, calls, tools and tokens; the rows of both tables are put in the order of their times."""
    database = Database(path)
    for session, at in (("20261116_1", 0), ("20261116_2", 100)):
        database.session(session)
        database.turn(session, at)
    recorder.run_once()
    names = (f"20261116_1-{MARK}", f"20261116_2-{MARK}")
    expected = [(session, "/home/dev/goose-work", 1, 2, 1, 1) for session in names]
    assert rows(recorder, COUNTS) == expected
    assert rows(recorder, TOKENS) == [(4, 2 * (300 + 500), 2 * 2100, 2 * 100, 2 * 110)]
    steps = "SELECT count(*) FROM spans WHERE kind = 'step' AND response IS NULL"
    assert rows(recorder, steps) == [(0,)], "every step is a call of the ledger"


def test_databases_with_the_same_ids(tmp_path: Path, recorder: Recorder) -> None:
    """Goose counts sessions by day: those of two machines are two, and a copy of a database is no other one."""
    names = []
    for home, created in (("one", "2026-11-16 09:00:00"), ("two", "2026-11-16 09:00:07")):
        database = Database(tmp_path / home / "goose" / "sessions" / "sessions.db")
        database.session("20261116_1", created)
        database.turn("20261116_1")
        copied = tmp_path / f"{home}-copy" / "sessions" / "sessions.db"
        copied.parent.mkdir(parents=True)
        with closing(sqlite3.connect(database.path)) as source, closing(sqlite3.connect(copied)) as copy:
            source.backup(copy)
        for place in (database.path, copied):
            with closing(Recorder(recorder.settings, paths=[str(place)], environ={})) as other:
                other.run_once()
        names.append(f"20261116_1-{zlib.crc32(created.encode()):08x}")
    assert [row[0] for row in rows(recorder, COUNTS)] == sorted(names)
    assert rows(recorder, TOKENS) == [(4, 2 * 800, 2 * 2100, 2 * 100, 2 * 110)]
    assert len(set(rows(recorder, "SELECT DISTINCT trace_id FROM spans"))) == 2


@pytest.mark.parametrize("name", ["20261116_1", "react-migration"])
def test_resume_names_the_id_of_goose(name: str) -> None:
    """Without the mark, which is none of its own."""
    for session in (name, f"{name}-{MARK}"):
        command = Goose().resume_command(session, [])
        assert command is not None
        assert command.arguments[-1] == name


def test_all_in_one_second(path: Path, recorder: Recorder) -> None:
    """Times are whole seconds: of fast calls, messages and results come before all rows of the ledger."""
    database = Database(path)
    database.session("20261116_1")
    for number in range(3):
        database.message("20261116_1", f"{number}-1", "user", ASKED, number)
        for call in range(4):
            database.message(
                "20261116_1", f"{number}-{call}-2", "assistant", CALLED | {"id": f"{number}{call}"}, number
            )
            database.message("20261116_1", f"{number}-{call}-3", "user", FAILED | {"id": f"{number}{call}"}, number)
            database.call("20261116_1", number, (1000, 50 + call, 600, 100))
    recorder.run_once()
    assert recorder.summary.quarantined == 0
    assert rows(recorder, COUNTS) == [(f"20261116_1-{MARK}", "/home/dev/goose-work", 3, 12, 12, 12)]
    steps = "SELECT count(*) FROM spans WHERE kind = 'step' AND response IS NULL"
    assert rows(recorder, steps) == [(0,)], "every step is a call of the ledger"


def test_row_by_row_as_at_once(path: Path, recorder: Recorder) -> None:
    """A recorder that reads after every row comes to the same, also where the ledger is written before its message."""
    database = Database(path)
    database.session("20261116_1")
    write = database.run

    def run(statement: str, *values: object) -> None:
        write(statement, *values)
        recorder.run_once()

    database.run = run  # type: ignore[method-assign]  # the recorder reads after each row
    database.turn("20261116_1")
    assert rows(recorder, COUNTS) == [(f"20261116_1-{MARK}", "/home/dev/goose-work", 1, 2, 1, 1)]
    assert rows(recorder, TOKENS) == [(2, 800, 2100, 100, 110)]


def test_a_later_turn_whose_ledger_is_written_first(path: Path, recorder: Recorder) -> None:
    """Its tokens are those of the answer that comes next."""
    database = Database(path)
    database.session("20261116_1")
    database.turn("20261116_1")
    database.message("20261116_1", "m8", "user", ASKED, 20)
    database.call("20261116_1", 21, (1000, 30, 0, 0))
    database.message("20261116_1", "m9", "assistant", DONE, 22)
    assert recorder.run_once().quarantined == 0
    assert rows(recorder, TOKENS) == [(3, 800 + 1000, 2100, 100, 110 + 30)]
    assert rows(recorder, "SELECT steps FROM sessions") == [(3,)]


def test_compaction_writes_messages_again(path: Path, recorder: Recorder) -> None:
    """All messages are deleted and inserted again with a summary: nothing is counted twice, and it is no prompt."""
    database = Database(path)
    database.session("20261116_1")
    database.turn("20261116_1")
    recorder.run_once()
    database.call("20261116_1", 9, (3000, 200, 0, 0), compaction=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        kept = connection.execute(
            "SELECT message_id, session_id, role, content_json, created_timestamp, metadata_json FROM messages"
        ).fetchall()
        connection.execute("DELETE FROM messages")
        connection.executemany(
            "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            kept,
        )
    database.message("20261116_1", "summary", "user", {"type": "text", "text": "So far: …"}, 10, shown=False)
    recorder.run_once()
    assert rows(recorder, TOKENS) == [(3, 800 + 3000, 2100, 100, 310)]
    assert rows(recorder, "SELECT turns, tools FROM sessions") == [(1, 1)]


def test_versions_without_a_ledger(path: Path, recorder: Recorder) -> None:
    """Turns and tools are there, tokens are not; when the table appears, it is read."""
    database = Database(path, ledger=False)
    database.session("20261116_1")
    database.message("20261116_1", "m1", "user", ASKED, 0)
    database.message("20261116_1", "m2", "assistant", DONE, 1)
    recorder.run_once()
    assert rows(recorder, TOKENS)[0][0] == 0
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(LEDGER)
    database.call("20261116_1", 5, (2000, 60, 1500, 0))
    recorder.run_once()
    assert rows(recorder, TOKENS) == [(1, 500, 1500, 0, 60)]
    assert rows(recorder, "SELECT turns FROM sessions") == [(1,)]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(writes=st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=12), most=st.integers(1, 4))
def test_each_row_of_both_tables_once(tmp_path: Path, writes: list[tuple[bool, int]], most: int) -> None:
    """Whatever the times are, and however many rows are read at once, no row is left out and none comes twice."""
    path = tmp_path / "sessions.db"
    path.unlink(missing_ok=True)
    database = Database(path)
    reader = RowReader(str(path), Goose.table, 1 << 20)
    position = 0
    found: list[bytes] = []
    for number, (is_message, at) in enumerate(writes):
        if is_message:
            database.message("s", f"m{number}", "user", ASKED, at)
        else:
            database.call("s", at, (number, 0, 0, 0))
        if number % 3 == 0:
            continue
        while (chunk := reader.read(position, 0, most)) is not None:
            assert chunk.end > position
            position, found = chunk.end, found + chunk.lines
    while (chunk := reader.read(position, 0, most)) is not None:
        position, found = chunk.end, found + chunk.lines
    assert len(found) == len(set(found)) == len(writes)


@pytest.mark.parametrize("table", ["messages", "usage_ledger"])
def test_a_row_that_is_too_large(path: Path, tmp_path: Path, table: str) -> None:
    """In either table: it is quarantined, the rows behind it in both are read, and it is read once the limit allows."""
    database = Database(path)
    database.session("s")
    database.message("s", "m1", "user", ASKED, 0)
    database.call("s", 1, (1, 1, 1, 1))
    database.message("s", "m2", "user", {"type": "text", "text": "x" if table != "messages" else "x" * 2_500_000}, 2)
    database.call("s", 3, (2, 2, 2, 2))
    if table != "messages":
        database.run("UPDATE usage_ledger SET model = ? WHERE id = 2", "x" * 2_500_000)
    database.message("s", "m3", "assistant", DONE, 4)
    database.call("s", 5, (3, 3, 3, 3))
    whole = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(whole)
    small = msgspec.structs.replace(whole, record=msgspec.structs.replace(whole.record, max_line_bytes=2_000_000))
    for expected in (5, 0):
        recorder = Recorder(small, environ={"HOME": str(tmp_path)})
        summary = recorder.run_once()
        recorder.close()
        assert (summary.recorded, summary.quarantined) == (expected, int(expected > 0))
    with open_store(small, read_only=False) as store:
        assert [each.result for each in retry(store, small, store.quarantine.entries())] == ["unchanged"]
        assert [each.result for each in retry(store, whole, store.quarantine.entries())] == ["reread"]
        assert sum(1 for _ in store.lines()) == 6


def test_a_database_restored_from_an_older_copy(path: Path, recorder: Recorder) -> None:
    """Rows of the same session with the same numbers are other rows: they are recorded too."""
    database = Database(path)
    database.session("s")
    database.message("s", "m1", "user", ASKED, 0)
    older = path.read_bytes()
    for name in ("m2", "m3"):
        database.message("s", name, "user", ASKED, 1)
    database.call("s", 2, (1, 1, 1, 1))
    recorder.run_once()
    path.write_bytes(older)
    for name in ("n2", "n3", "n4"):
        database.message("s", name, "user", ASKED, 9)
    database.call("s", 9, (2, 2, 2, 2))
    recorder.run_once()
    assert (recorder.summary.recorded, recorder.summary.quarantined) == (8, 0)


def test_a_call_that_is_charged_before_its_answer(path: Path, recorder: Recorder) -> None:
    """Also in a later turn: the answer belongs to the step that the charge has opened."""
    database = Database(path)
    database.session("s")
    for turn in range(2):
        database.message("s", f"m{turn}", "user", ASKED, 10 * turn)
        database.call("s", 10 * turn + 1, (10, 1, 0, 0))
        database.message("s", f"a{turn}", "assistant", DONE, 10 * turn + 2)
    summary = recorder.run_once()
    assert (summary.recorded, summary.quarantined) == (6, 0)
    assert [row[2:4] for row in rows(recorder, COUNTS)] == [(2, 2)]
