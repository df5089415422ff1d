"""Cline: a run that failed says why, and the calls of the hub's events are those of the messages."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder

DATA = Path(__file__).resolve().parents[2] / "data" / "cline-3.0.65"
SESSIONS = DATA / ".cline" / "data" / "sessions"
FAILED = "1794789979997_s9wmg"
REASON = "mock: this request is not acceptable"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory of Cline with the session that failed."""
    shutil.copytree(SESSIONS / FAILED, tmp_path / ".cline" / "data" / "sessions" / FAILED)
    return tmp_path


@pytest.fixture
def recorder(home: Path) -> Iterator[Recorder]:
    settings = load_settings({"HOME": str(home), "AGENTTRACE_HOME": str(home / "data")})
    ensure_home(settings)
    recorder = Recorder(settings, environ={"HOME": str(home)})
    yield recorder
    recorder.close()


def turns(recorder: Recorder) -> list[tuple[str, str | None]]:
    """Status and error of each turn."""
    query = "SELECT status, json_extract(attributes, '$.error') FROM spans WHERE kind = 'turn' ORDER BY turn_index"
    return recorder.connection.execute(query).fetchall()


def test_a_failed_run_has_its_reason(home: Path, recorder: Recorder) -> None:
    """It is the turn's, no answer of the model; the next prompt is another turn."""
    recorder.run_once()
    assert turns(recorder) == [("error", REASON)]
    assert recorder.connection.execute("SELECT count(*) FROM spans WHERE kind = 'step'").fetchone() == (0,)
    path = home / ".cline" / "data" / "sessions" / FAILED / f"{FAILED}.messages.json"
    document = json.loads(path.read_text())
    document["messages"] += [
        {"id": "again", "role": "user", "content": [{"type": "text", "text": "Again"}], "ts": 1794789990000},
        {"id": "answer", "role": "assistant", "content": [{"type": "text", "text": "Yes"}], "ts": 1794789991000},
    ]
    path.write_text(json.dumps(document))
    recorder.run_once()
    assert turns(recorder) == [("error", REASON), ("ok", None)]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A copy of the hub's events."""
    name = "hub-events-hub-production.db"
    shutil.copy(DATA / ".cline" / "data" / "db" / name, tmp_path / name)
    with closing(sqlite3.connect(tmp_path / name)) as connection:
        yield connection


def told_by(hub: sqlite3.Connection, event: str) -> list[tuple[str, dict[str, Any]]]:
    """Session and payload of each event of a type."""
    query = "SELECT session_id, envelope_json FROM hub_events WHERE event = ? ORDER BY sequence"
    rows = hub.execute(query, (event,)).fetchall()
    return [(session, json.loads(envelope)["payload"]) for session, envelope in rows]


def test_the_hub_has_no_call_and_no_error_that_messages_do_not_have(hub: sqlite3.Connection, tmp_path: Path) -> None:
    """Why its events are not read: sessions that were recorded without them have all of their tokens and errors."""
    home = tmp_path / "home"
    shutil.copytree(SESSIONS, home / ".cline" / "data" / "sessions")
    settings = load_settings({"HOME": str(home), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    with closing(Recorder(settings, environ={"HOME": str(home)})) as recorder:
        recorder.run_once()
        columns = "input_tokens + cache_read_tokens + cache_write_tokens, output_tokens, cache_read_tokens"
        of_session = "JOIN sessions s ON s.id = told.session_id"
        query = f"SELECT s.session_id, {columns} FROM responses told {of_session}"
        recorded = Counter(recorder.connection.execute(query).fetchall())
        query = f"SELECT s.session_id, json_extract(told.attributes, '$.error') FROM spans told {of_session}"
        failed = set(recorder.connection.execute(query).fetchall())
    names = ("inputTokens", "outputTokens", "cacheReadTokens")
    deltas = [(session, payload["delta"]) for session, payload in told_by(hub, "usage.updated")]
    told = Counter((session, *(delta[name] for name in names)) for session, delta in deltas)
    assert told.total() == 23
    assert not told - recorded
    reasons = {(session, payload["error"]) for session, payload in told_by(hub, "run.failed")}
    assert reasons == {(FAILED, REASON)}
    assert reasons <= failed
