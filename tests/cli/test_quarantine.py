"""``agenttrace quarantine``: what was set aside, and the second try."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from .conftest import DATA, Program, eventually

BROKEN = DATA / "claude-code-log-testdata"


def test_list_and_show(program: Program) -> None:
    """Each entry has place, size and reason, and the line itself."""
    program.run("record", str(BROKEN), "--once")
    entries = program.json("quarantine", "list")
    assert len(entries) == 3
    assert [entry["id"] for entry in entries] == sorted((entry["id"] for entry in entries), reverse=True)
    data = (BROKEN / "edge_cases.jsonl").read_bytes()
    for entry in entries:
        assert entry["file"] == str(BROKEN / "edge_cases.jsonl")
        line = data[entry["offset"] : entry["offset"] + entry["length"]].decode()
        assert program.json("quarantine", "show", str(entry["id"]))["line"] == line
        assert line in program.run("quarantine", "show", str(entry["id"])).stdout
    assert "not a JSON object" in program.run("quarantine", "list").stdout


def test_nothing_in_quarantine(recorded: Program) -> None:
    """It says so."""
    assert "every line was parsed" in recorded.run("quarantine", "list").stdout
    assert recorded.json("quarantine", "list") == []


def test_an_entry_that_does_not_exist(recorded: Program) -> None:
    """A clear error, exit code 1."""
    assert "there is no entry 99" in recorded.run("quarantine", "show", "99", code=1).stderr


def test_retry_of_what_is_still_broken(program: Program) -> None:
    """It stays in quarantine, and the reason is printed; nothing is counted twice."""
    program.run("record", str(BROKEN), "--once")
    before = program.json("status")["lines"]
    outcomes = program.json("quarantine", "retry")
    assert {outcome["result"] for outcome in outcomes} == {"unchanged"}
    assert len(program.json("quarantine", "list")) == 3
    assert program.json("status")["lines"] == before


def _rows(program: Program, query: str) -> list[Any]:
    with sqlite3.connect(program.home / "agenttrace.db") as connection:
        rows = connection.execute(query).fetchall()
    connection.close()
    return rows


#: Lines above this are set aside; the lines written below are longer.
LIMIT = {"AGENTTRACE_RECORD_MAX_LINE_BYTES": str(1_200_000)}
LONG = "so much to say " * 100_000


def write_long_lines(program: Program) -> None:
    """Two sessions whose longest lines carry a prompt, an answer and its usage."""
    for name in ("one", "two"):
        program.log(
            name,
            {"type": "turn.begin", "ts": 1.0, "prompt": "short"},
            {"type": "step.begin", "ts": 2.0, "id": "s1", "model": "claude-sonnet-4-5"},
            {"type": "message", "ts": 3.0, "id": "m1", "role": "assistant", "text": f"{name} {LONG}"},
            {"type": "usage", "ts": 4.0, "response": f"r-{name}", "usage": {"input_tokens": 7, "output_tokens": 5}},
            {"type": "note", "ts": 5.0, "id": "n1", "text": f"{name} {LONG}"},
            {"type": "turn.end", "ts": 6.0},
        )


def test_lines_that_were_too_long_are_recorded_when_the_limit_is_raised(program: Program, tmp_path: Path) -> None:
    """After a retry everything is recorded once: events, usage and counts equal an undisturbed import."""
    write_long_lines(program)
    program.run("record", "--once", env=LIMIT)
    held = program.json("quarantine", "list")
    assert len(held) == 4
    assert all(entry["reason"].startswith("line too long") for entry in held)
    assert program.json("quarantine", "show", str(held[0]["id"]))["line"] is None
    outcomes = program.json("quarantine", "retry")
    assert [outcome["result"] for outcome in outcomes] == ["recorded"] * 4
    assert program.json("quarantine", "list") == []
    assert len(program.json("quarantine", "list", "--all")) == 4
    undisturbed = Program(tmp_path / "other")
    write_long_lines(undisturbed)
    undisturbed.run("record", "--once")
    query = "SELECT session_id, event_id, event_type FROM processed_events ORDER BY 1, 2"
    assert _rows(program, query) == _rows(undisturbed, query)
    assert program.json("usage", "--by", "session") == undisturbed.json("usage", "--by", "session")
    assert program.json("status")["lines"] == undisturbed.json("status")["lines"]
    assert program.json("record", "--once")["lines"] == 0


def test_a_retry_is_done_once(program: Program) -> None:
    """What is resolved is not tried again, and reading the files anew finds duplicates only."""
    write_long_lines(program)
    program.run("record", "--once", env=LIMIT)
    program.run("quarantine", "retry")
    assert program.json("quarantine", "retry") == []
    events = _rows(program, "SELECT count(*) FROM processed_events")
    _rows(program, "DELETE FROM file_offsets")
    assert program.json("record", "--once")["recorded"] == 0
    assert _rows(program, "SELECT count(*) FROM processed_events") == events


def test_one_entry_by_its_number(program: Program) -> None:
    """The others stay."""
    write_long_lines(program)
    program.run("record", "--once", env=LIMIT)
    held = program.json("quarantine", "list")
    outcomes = program.json("quarantine", "retry", str(held[0]["id"]))
    assert [outcome["id"] for outcome in outcomes] == [held[0]["id"]]
    assert len(program.json("quarantine", "list")) == 3


def test_a_line_that_is_nowhere_any_more(program: Program) -> None:
    """Neither stored nor in its file: it stays in quarantine, and the reason is printed."""
    write_long_lines(program)
    program.run("record", "--once", env=LIMIT)
    (program.home / "logs" / "one.jsonl").unlink()
    results = [outcome["result"] for outcome in program.json("quarantine", "retry")]
    assert sorted(results) == ["recorded", "recorded", "unchanged", "unchanged"]
    assert "not in its file any more" in program.run("quarantine", "retry").stdout


#: The program as it was before it knew Claude Code.
OLDER = """
import sys
import agenttrace.record.formats as agents
agents.AGENTS = tuple(agent for agent in agents.AGENTS if agent.name != "claude-code")
from agenttrace.cli.main import main
main()
"""


def test_a_file_that_was_not_recognised(program: Program) -> None:
    """Once a format claims it, the whole file is recorded."""
    place = str(DATA / "claude-code-2.1.197")
    older = [sys.executable, "-c", OLDER, "record", place, "--once"]
    subprocess.run(older, env=program.environment, check=True, capture_output=True)
    held = program.json("quarantine", "list")
    assert {entry["reason"] for entry in held} == {"format not recognised"}
    outcomes = program.json("quarantine", "retry")
    assert {outcome["result"] for outcome in outcomes} == {"reread"}
    assert program.json("usage")["total"]["output_tokens"] == 442
    assert program.json("quarantine", "list") == []
    assert program.json("record", place, "--once")["lines"] == 0


def test_retry_waits_for_no_recorder(program: Program) -> None:
    """While a recorder runs, the retry is refused with an error."""
    program.run("record", str(BROKEN), "--once")
    recorder = program.start("record")
    try:
        eventually(lambda: program.recorder_pid() == recorder.pid, "the recorder")
        assert "already recording" in program.run("quarantine", "retry", code=1).stderr
    finally:
        recorder.terminate()
        recorder.communicate(timeout=60)
