"""GitHub Copilot CLI: what a session is called, and its own totals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "copilot-1.0.102" / ".copilot" / "session-state"
MULTI = "48dad1fb-aef2-41f8-82f3-87c763a29da3"
#: It went on from a copy of that one, and compacted its conversation.
FORK = "16a59602-57e2-4551-8825-ae86cfacbaad"


@contextmanager
def recorded(home: Path) -> Iterator[Recorder]:
    settings = load_settings({"HOME": str(home), "AGENTTRACE_HOME": str(home / "data")})
    ensure_home(settings)
    with closing(Recorder(settings, environ={"HOME": str(home)})) as recorder:
        yield recorder


def test_a_session_that_is_named_while_it_runs(tmp_path: Path) -> None:
    """The name stands in a file beside the log, and is read when a turn ends."""
    place = tmp_path / ".copilot" / "session-state" / MULTI
    shutil.copytree(SAMPLE / MULTI, place)
    log, facts = place / "events.jsonl", place / "workspace.yaml"
    data = log.read_bytes()
    second = data.index(b'"type":"session.resume"')
    log.write_bytes(data[: data.rindex(b"\n", 0, second) + 1])
    with recorded(tmp_path) as recorder:
        query = "SELECT title FROM sessions"
        recorder.run_once()
        assert recorder.connection.execute(query).fetchall() == [(None,)]
        lines = [line for line in facts.read_text().splitlines() if not line.startswith(("name:", "user_named:"))]
        facts.write_text("\n".join([*lines, "name: arithmetic", "user_named: true", ""]))
        log.write_bytes(data)
        recorder.run_once()
        assert recorder.connection.execute(query).fetchall() == [("arithmetic",)]


def test_every_session_agrees_with_its_own_totals(tmp_path: Path) -> None:
    """Resumed, killed and forked sessions, those with subagents, and one with a compaction, which totals leave out."""
    shutil.copytree(SAMPLE, tmp_path / ".copilot" / "session-state")
    with recorded(tmp_path) as recorder:
        recorder.run_once()
        found = {
            name: recorder.store.agreement(number)
            for name, number, calls in recorder.connection.execute(
                "SELECT session_id, id, (SELECT count(*) FROM responses WHERE session_id = sessions.id) FROM sessions"
            )
            if calls
        }
    assert len(found) == 11
    assert {each.status for each in found.values()} == {"agree"}
    assert not any(each.unlogged for each in found.values())
    # Its call and its compaction; the calls before them are those of the original.
    assert found[FORK].checked == 2
    assert sum(each.checked for each in found.values()) == 23


def test_a_total_that_differs_is_shown(tmp_path: Path) -> None:
    """A session whose own total is less than its calls, and one whose total is more: calls that no line has."""
    found = []
    for wrong in (-3, 3):
        place = tmp_path / str(wrong) / ".copilot" / "session-state" / MULTI
        shutil.copytree(SAMPLE / MULTI, place)
        lines = [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]
        for line in lines:
            if line["type"] == "session.shutdown":
                for model in line["data"]["modelMetrics"].values():
                    model["usage"]["inputTokens"] += wrong
        (place / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with recorded(tmp_path / str(wrong)) as recorder:
            recorder.run_once()
            (number,) = recorder.connection.execute("SELECT id FROM sessions").fetchone()
            check = recorder.store.agreement(number)
            found.append((check.status, check.difference.get("input_tokens"), check.unlogged.get("input_tokens")))
    assert found == [("differ", -3, None), ("agree", None, 3)]
