"""Goose: fixtures that follow its public schema; no real logs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.files.databases import RowReader
from agenttrace.record.formats.goose import Goose
from agenttrace.record.recorder import Recorder

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

    def session(self, name: str) -> None:
        self.run("INSERT INTO sessions (id, working_dir) VALUES (?, '/home/dev/goose-work')", name)

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
    expected = [(session, "/home/dev/goose-work", 1, 2, 1, 1) for session in ("20261116_1", "20261116_2")]
    assert rows(recorder, COUNTS) == expected
    assert rows(recorder, TOKENS) == [(4, 2 * (300 + 500), 2 * 2100, 2 * 100, 2 * 110)]
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
    assert rows(recorder, COUNTS) == [("20261116_1", "/home/dev/goose-work", 1, 2, 1, 1)]
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
