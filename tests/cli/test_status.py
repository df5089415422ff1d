"""``agenttrace status`` and ``agenttrace statusline``."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from .conftest import DATA, Program, eventually, stop


def test_everything_is_read(recorded: Program) -> None:
    """Files, offsets and lines agree with the logs; nothing is behind."""
    status = recorded.json("status")
    assert status["recorder"] == {"running": False, "pid": None, "problem": None, "restarts": 0}
    assert status["file_count"] == len(status["files"]) == 14
    assert status["read_bytes"] == sum(file["size"] for file in status["files"])
    assert status["behind_bytes"] == status["lost_bytes"] == 0
    assert status["unreadable"] == []
    assert status["sessions"] == {"claude-code": 2, "codex": 1, "kimi-cli": 3, "kimi-code": 1}
    lines = status["lines"]
    assert lines["lines"] == lines["recorded"] + lines["duplicate"] + lines["ignored"] + lines["quarantined"]
    assert lines["recorded"] == 560
    assert status["quarantine"] == {"open": 0, "resolved": 0, "salvaged_events": 0, "counted_only": 0}
    assert status["search_backlog"] == 0
    assert status["database_bytes"] > 0


def test_tiers_are_named_as_the_specification_names_them(machine: Program) -> None:
    """Hits, misses and rates of L0, L1 and L2, since the store was begun."""
    machine.run("record", "--once")
    dedup = machine.json("status")["dedup"]
    assert dedup["db_total_events"] == 560
    assert dedup["db_path"] == str(machine.home / "agenttrace.db")
    assert dedup["misses"] >= 560
    rates = [dedup[f"{tier}_hit_rate"] for tier in ("l0", "l1", "l2")]
    assert all(0 <= rate < 1 for rate in rates)
    asked = sum(dedup[f"{tier}_hits"] for tier in ("l0", "l1", "l2")) + dedup["misses"]
    assert dedup["l0_hit_rate"] == pytest.approx(dedup["l0_hits"] / asked)


def test_lag(own_recorded: Program) -> None:
    """Bytes that were written and not read yet, file by file, new files included."""
    grown = next((own_recorded.user / ".codex").rglob("*.jsonl"))
    with grown.open("ab") as stream:
        stream.write(b'{"timestamp":"2026-11-15T10:00:00Z","type":"event_msg","payload":{"type":"x"}}\n')
    path = own_recorded.log("fresh", {"type": "turn.begin", "ts": 1.0, "prompt": "x"})
    status = own_recorded.json("status")
    behind = {file["path"]: file["behind"] for file in status["files"] if file["behind"]}
    assert behind == {str(grown): 79, str(path): path.stat().st_size}
    assert status["behind_bytes"] == sum(behind.values())
    assert status["behind_files"] == 2
    text = own_recorded.run("status").stdout
    assert "in 2 files" in text
    own_recorded.run("record", "--once")
    assert own_recorded.json("status")["behind_bytes"] == 0


def test_quarantine_and_files_for_people(program: Program) -> None:
    """What was set aside is pointed at, and every file can be listed with its offset."""
    program.run("record", str(DATA / "claude-code-log-testdata"), "--once")
    text = program.run("status", "--files").stdout
    assert "agenttrace quarantine list" in text
    assert "edge_cases.jsonl" in text
    assert "L0" in text
    assert "not running" in text


def test_a_running_recorder_is_named(program: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """With its process."""
    recorder = background("record")
    eventually(lambda: program.recorder_pid() == recorder.pid, "the recorder")
    eventually(lambda: (program.home / "agenttrace.db").exists(), "the store")
    found = program.json("status")["recorder"]
    assert found == {"running": True, "pid": recorder.pid, "problem": None, "restarts": 0}
    stop(recorder)
    assert program.json("status")["recorder"]["running"] is False


def test_a_file_that_is_gone_stays_recorded(own_recorded: Program) -> None:
    """Deleted logs are shown as gone and are not behind."""
    gone = next((own_recorded.user / ".codex").rglob("*.jsonl"))
    gone.unlink()
    file = next(file for file in own_recorded.json("status")["files"] if file["path"] == str(gone))
    assert file["gone"] is True
    assert file["behind"] == 0
    assert own_recorded.json("sessions", "--agent", "codex")


# -- statusline -----------------------------------------------------------------------------------------------


def test_one_short_line(program: Program) -> None:
    """Who works, who waits, what today cost."""
    now = time.time()
    program.log("busy", {"type": "turn.begin", "ts": now, "prompt": "a"})
    program.log(
        "done",
        {"type": "turn.begin", "ts": now, "prompt": "b"},
        {"type": "step.begin", "ts": now, "id": "s", "model": "claude-sonnet-4-5"},
        {"type": "usage", "ts": now, "response": "r", "usage": {"input_tokens": 100_000, "output_tokens": 0}},
        {"type": "turn.end", "ts": now},
    )
    program.run("record", "--once")
    line = program.run("statusline").stdout
    assert line == "1 working, 1 waiting, $0.30 today\n"
    found = program.json("statusline")
    assert (found["working"], found["waiting"], found["cost"]) == (1, 1, 0.3)


def test_a_prompt_is_never_broken(program: Program) -> None:
    """No store, a damaged store, wrong settings: an empty line and exit code 0."""
    assert program.run("statusline").stdout == "\n"
    assert not program.home.exists()
    program.home.mkdir()
    (program.home / "agenttrace.db").write_bytes(b"this is no database" * 100)
    assert program.run("statusline").stdout == "\n"
    assert program.json("statusline")["working"] is None
    (program.home / "agenttrace.toml").write_text("nonsense = [")
    assert program.run("statusline").stdout == "\n"
