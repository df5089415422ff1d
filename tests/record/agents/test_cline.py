"""Cline: a run that failed says why, and the calls of the hub's events are those of the messages."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

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


def test_the_hub_has_no_call_that_messages_do_not_have() -> None:
    """Why its events are not read: every ``usage.updated`` is the usage of a message, with nothing that names it."""
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    said: Counter[tuple[int, ...]] = Counter()
    for path in SESSIONS.rglob("*.messages.json"):
        for message in json.loads(path.read_text())["messages"]:
            if "metrics" in message:
                said[tuple(message["metrics"][name] for name in names)] += 1
    hub = DATA / ".cline" / "data" / "db" / "hub-events-hub-production.db"
    with closing(sqlite3.connect(f"file:{hub}?immutable=1", uri=True)) as connection:
        rows = connection.execute("SELECT envelope_json FROM hub_events WHERE event = 'usage.updated'").fetchall()
    told = [json.loads(envelope)["payload"]["delta"] for (envelope,) in rows]
    assert len(told) == 23
    assert not Counter(tuple(delta[name] for name in names) for delta in told) - said
