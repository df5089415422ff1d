"""``agenttrace up`` and ``agenttrace demo``: the first minutes of a newcomer."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from .conftest import Program, eventually, stop


def test_up_says_what_is_there_and_keeps_recording(
    machine: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """Sessions and bytes of each agent, then everything recorded, then what to try next; Ctrl-C ends it well."""
    process = background("up")
    eventually(lambda: machine.recorder_pid() == process.pid, "up to begin")
    eventually(lambda: _recorded(machine) == 7, "all sessions")
    out, err = stop(process)
    assert process.returncode == 0, err
    assert "Claude Code: 2 sessions, 51.0 kB" in out
    assert "Codex: 1 session, " in out
    assert "Kimi CLI: 3 sessions, " in out
    assert "Kimi Code: 1 session, " in out
    assert "Qwen Code: none" in out
    assert "agenttrace usage" in out


def _recorded(program: Program) -> int:
    if not (program.home / "agenttrace.db").exists():
        return 0
    done = subprocess.run(
        program.command("sessions", "--json", "--limit", "0"), env=program.environment, capture_output=True, check=False
    )
    return len(json.loads(done.stdout)) if done.returncode == 0 else 0


def test_up_offers_the_demo_where_there_is_nothing(
    program: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """No logs: the demo is offered, and logs that appear later are recorded all the same."""
    process = background("up")
    eventually(lambda: program.recorder_pid() == process.pid, "up to begin")
    eventually(lambda: (program.home / "agenttrace.db").exists(), "the store")
    program.log("later", {"type": "turn.begin", "ts": 1.0, "prompt": "x"})
    eventually(lambda: _recorded(program) == 1, "the session")
    out, _ = stop(process)
    assert "Claude Code: none" in out
    assert "agenttrace demo" in out


def test_up_for_programs(machine: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """Two JSON lines: what was found, and at the end the summary."""
    process = background("up", "--json", "--port", "9000")
    eventually(lambda: _recorded(machine) == 7, "all sessions")
    out, _ = stop(process)
    first, last = (json.loads(line) for line in out.splitlines())
    assert first["port"] == 9000
    found = {each["agent"]: (each["sessions"], each["bytes"]) for each in first["found"]}
    assert found["claude-code"][0] == 2
    assert found["qwen-code"] == (0, 0)
    assert "recorded" in last


def test_a_port_that_is_none(program: Program) -> None:
    """A usage error."""
    program.run("up", "--port", "70000", code=2)


def test_the_demo_records_every_agent_away_from_the_users_data(program: Program) -> None:
    """Six agents, exact usage, nothing in the user's own home; the demo's home is removed."""
    found = program.json("demo", "--seconds", "1", "--days", "2", "--speed", "20")
    assert found["home"] is None
    assert {row["agent"] for row in found["rows"]} <= {
        "agenttrace",
        "claude-code",
        "codex",
        "kimi-cli",
        "kimi-code",
        "qwen-code",
    }
    assert len(found["rows"]) >= 5
    assert found["sessions"] > 2
    assert found["total"]["requests"] == sum(row["requests"] for row in found["rows"])
    assert list(program.user.iterdir()) == []


def test_a_demo_that_is_kept_can_be_explored(program: Program) -> None:
    """The commands it prints work."""
    out = program.run("demo", "--seconds", "1", "--days", "1", "--speed", "20", "--keep").stdout
    assert "What they used:" in out
    home = (
        next(line for line in out.splitlines() if "agenttrace sessions" in line).split("AGENTTRACE_HOME=")[1].split()[0]
    )
    try:
        assert program.json("sessions", env={"AGENTTRACE_HOME": home})
        assert program.json("doctor", env={"AGENTTRACE_HOME": home})["ok"]
    finally:
        shutil.rmtree(Path(home).parent)


def test_ctrl_c_ends_the_demo_with_its_closing_words(
    program: Program, background: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """It does not have to be sat through."""
    program.environment["TMPDIR"] = str(tmp_path)
    process = background("demo", "--seconds", "0", "--days", "1")
    eventually(lambda: list(tmp_path.glob("agenttrace-demo-*/.agenttrace/agenttrace.db")), "the demo to begin")
    assert process.stdout is not None
    first = process.stdout.readline()
    out, err = stop(process)
    assert process.returncode == 0, err
    assert "at work in" in first
    assert "What they used:" in out
    assert not list(tmp_path.glob("agenttrace-demo-*"))
