"""GitHub Copilot CLI: what a session is called."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "copilot-1.0.102" / ".copilot" / "session-state"
MULTI = "48dad1fb-aef2-41f8-82f3-87c763a29da3"


def test_a_session_that_is_named_while_it_runs(tmp_path: Path) -> None:
    """The name stands in a file beside the log, and is read when a turn ends."""
    place = tmp_path / ".copilot" / "session-state" / MULTI
    shutil.copytree(SAMPLE / MULTI, place)
    log, facts = place / "events.jsonl", place / "workspace.yaml"
    data = log.read_bytes()
    second = data.index(b'"type":"session.resume"')
    log.write_bytes(data[: data.rindex(b"\n", 0, second) + 1])
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    with closing(Recorder(settings, environ={"HOME": str(tmp_path)})) as recorder:
        query = "SELECT title FROM sessions"
        recorder.run_once()
        assert recorder.connection.execute(query).fetchall() == [(None,)]
        lines = [line for line in facts.read_text().splitlines() if not line.startswith(("name:", "user_named:"))]
        facts.write_text("\n".join([*lines, "name: arithmetic", "user_named: true", ""]))
        log.write_bytes(data)
        recorder.run_once()
        assert recorder.connection.execute(query).fetchall() == [("arithmetic",)]
