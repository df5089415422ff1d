"""Sessions that are over: what their logs left open, and those whose lines have no times."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.store.sqlite import sessions, span_rows

DATA = Path(__file__).resolve().parents[1] / "data"
KILLED = "e64b9e82-085c-40b9-9c28-b48873ec85f9"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def recorder(tmp_path: Path, logs: Path) -> Iterator[Recorder]:
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "home")})
    ensure_home(settings)
    found = Recorder(settings, paths=[str(logs)], environ={})
    yield found
    found.close()


def test_an_interrupted_turn_ends_with_its_last_event(
    recorder: Recorder, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed agent's turn is open while it may still be at work, and over with its last line after that."""
    (sample,) = (DATA / "claude-code-2.1.325").rglob(f"{KILLED}.jsonl")
    # The process was killed after 29 lines; the rest was written when it was resumed.
    (logs / sample.name).write_bytes(b"".join(sample.read_bytes().splitlines(keepends=True)[:29]))
    recorder.run_once()
    connection = recorder.connection
    (last,) = connection.execute("SELECT last_at FROM sessions WHERE session_id = ?", (KILLED,)).fetchone()

    monkeypatch.setattr(time, "time", lambda: last / 1e6 + 60)
    (session,) = sessions.find_sessions(connection, KILLED)
    (turn,) = (span for span in span_rows.session_spans(connection, session) if span.kind == "turn")
    assert (session.state, turn.status, turn.end) == ("working", "open", None)

    monkeypatch.setattr(time, "time", lambda: last / 1e6 + 3600)
    (session,) = sessions.find_sessions(connection, KILLED)
    spans = span_rows.session_spans(connection, session)
    (turn,) = (span for span in spans if span.kind == "turn")
    assert (session.state, turn.status, turn.end) == ("interrupted", "unclosed", last)
    assert turn.attributes["closed_by"] == "end of the log"
    assert all(span.end is not None and span.status != "open" for span in spans)


def test_a_resumed_sessions_earlier_turn_ended_when_it_was_killed(recorder: Recorder, logs: Path) -> None:
    """What the resumed process writes before its first prompt does not make the killed turn longer."""
    (sample,) = (DATA / "claude-code-2.1.325").rglob(f"{KILLED}.jsonl")
    (logs / sample.name).write_bytes(sample.read_bytes())
    recorder.run_once()
    rows = recorder.connection.execute(
        "SELECT \"end\" - start, status FROM spans WHERE kind = 'turn' ORDER BY start"
    ).fetchall()
    assert [status for _, status in rows] == ["unclosed", "ok"]
    assert rows[0][0] < 1_000_000, "the process was killed within a second, and resumed ten seconds later"


def test_a_session_without_times_does_not_stay_working(
    recorder: Recorder, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is heard of when its lines are recorded."""
    lines = [
        {"v": 1, "session": "s", "type": "turn.begin", "prompt": "go"},
        {"v": 1, "session": "s", "type": "step.begin"},
    ]
    (logs / "untimed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorder.run_once()
    now = time.time()
    (session,) = sessions.list_sessions(recorder.connection)
    assert (session.last_at, session.state) == (None, "working")
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    for found in (sessions.list_sessions(recorder.connection), sessions.find_sessions(recorder.connection, "s")):
        assert [session.state for session in found] == ["interrupted"]
    spans = span_rows.session_spans(recorder.connection, found[0])
    assert [(span.start, span.end, span.status) for span in spans] == [(0, 0, "unclosed")] * 2
