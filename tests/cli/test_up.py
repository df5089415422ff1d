"""``agenttrace up`` and ``agenttrace demo``: the first minutes of a newcomer."""

from __future__ import annotations

import errno
import json
import re
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

import forked
from agenttrace.cli import demo_console
from agenttrace.cli.errors import CommandError
from agenttrace.record import health

from .conftest import Program, eventually, stop


def test_up_says_what_is_there_and_keeps_recording(
    machine: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """Sessions and bytes of each agent, then everything recorded, then what to try next; Ctrl-C ends it well."""
    process = background("up", "--port", "0")
    eventually(lambda: machine.recorder_pid() == process.pid, "up to begin")
    eventually(lambda: _recorded(machine) == 7, "all sessions")
    told = _imported(process)
    out, err = stop(process)
    out = told + out
    assert process.returncode == 0, err
    assert "Claude Code: 2 sessions, 51.0 kB" in out
    assert "Codex: 1 session, " in out
    assert "Kimi CLI: 3 sessions, " in out
    assert "Kimi Code: 1 session, " in out
    assert ": none" not in out
    assert re.search("^  no logs of: AgentTrace JSONL, Aider, .*, Qwen Code, Roo Code$", out, re.MULTILINE), out
    assert "agenttrace usage" in out


def _imported(process: subprocess.Popen[str], also: str = "") -> str:
    """What it says until all that was there is recorded; a signal before that would have cut its work short."""
    assert process.stdout is not None
    told = ""
    while "service install" not in told or also not in told:
        told += (line := process.stdout.readline())
        assert line, told
    return told


def _recorded(program: Program) -> int:
    if not (program.home / "agenttrace.db").exists():
        return 0
    done = forked.run(
        program.command("sessions", "--json", "--limit", "0"), env=program.environment, capture_output=True, check=False
    )
    return len(json.loads(done.stdout)) if done.returncode == 0 else 0


def test_up_offers_the_demo_where_there_is_nothing(
    program: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """No logs: the demo is offered, and logs that appear later are recorded all the same."""
    process = background("up", "--port", "0")
    eventually(lambda: program.recorder_pid() == process.pid, "up to begin")
    assert process.stdout is not None
    out = ""
    while not out.endswith("agenttrace demo load\n"):
        line = process.stdout.readline()
        assert line, out
        out += line
    assert "no logs of: AgentTrace JSONL, Aider, Claude Code, " in out
    program.log("later", {"type": "turn.begin", "ts": 1.0, "prompt": "x"})
    eventually(lambda: _recorded(program) == 1, "the session")
    stop(process)


def test_up_for_programs(machine: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """Three JSON lines: what was found, where it serves, and at the end the summary; what it serves can be asked."""
    process = background("up", "--json", "--port", "0")
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    ready, first = sorted(lines, key=lambda line: "found" in line)
    found = {each["agent"]: (each["sessions"], each["bytes"]) for each in first["found"]}
    assert found["claude-code"][0] == 2
    assert found["qwen-code"] == (0, 0)
    assert ready["worker"] is False
    assert "DASHSCOPE_API_KEY" in ready["missing"]
    assert httpx.get(f"{ready['url']}/readyz", trust_env=False).json()["missing"] == ready["missing"]
    eventually(lambda: _recorded(machine) == 7, "all sessions")
    out, _ = stop(process)
    assert "recorded" in json.loads(out)


def test_up_records_when_it_cannot_serve(machine: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """A port in use is reported, and recording continues. Without a database the console runs, too."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = background("up", "--port", str(taken.getsockname()[1]))
        eventually(lambda: _recorded(machine) == 7, "all sessions")
        _imported(process)
        _, err = stop(process)
    assert process.returncode == 0
    assert "recording continues" in err
    machine.environment["AGENTTRACE_DATABASE_URL"] = "postgresql://nobody:hunter2@127.0.0.1:1/none?connect_timeout=1"
    process = background("up", "--port", "0")
    eventually(lambda: machine.recorder_pid() == process.pid, "up to begin")
    assert process.stderr is not None
    told = ""
    while "applications cannot run; recording continues" not in told:
        told += (line := process.stderr.readline())
        assert line, told
    # Lines that were read ahead are lost to communicate().
    told += _imported(process, "The console is at http://127.0.0.1:")
    out, err = stop(process)
    assert process.returncode == 0
    assert "hunter2" not in out + told + err


def test_a_recorder_that_fails_leaves_the_server_alone(
    program: Program, background: Callable[..., subprocess.Popen[str]]
) -> None:
    """A table that is gone while ``up`` runs: the failure is reported, the server answers, no line is given up as bad,
    and once the table is back what was written meanwhile is recorded."""
    process = background("up", "--json", "--port", "0")
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    url = next(line["url"] for line in lines if "url" in line)
    program.log("before", {"type": "turn.begin", "ts": 1.0, "prompt": "x"})
    eventually(lambda: _recorded(program) == 1, "the first session")
    _rename_table(program, "spans", "spans_away")
    program.log("meanwhile", {"type": "turn.begin", "ts": 2.0, "prompt": "y"})
    trouble = eventually(lambda: health.problem(program.home), "the failure to be reported")
    assert "spans" in trouble.reason
    assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    _rename_table(program, "spans_away", "spans")
    eventually(lambda: _recorded(program) == 2, "the session written meanwhile")
    assert program.json("quarantine", "list") == []
    out, _ = stop(process)
    assert process.returncode == 0
    assert "recorded" in json.loads(out)


def _rename_table(program: Program, old: str, new: str) -> None:
    with closing(sqlite3.connect(program.home / "agenttrace.db", timeout=30)) as connection, connection:
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")


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
    _shows_everything(found["apps"])


def test_the_console_of_the_demo_beside_another_server(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is taken and was asked for ends the demo with what to do; the usual one is left for another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = program.run("demo", "--console", "--port", str(port), "--days", "0", code=1)
        assert f"port {port} is taken" in done.stderr
        assert "--port 0" in done.stderr
        monkeypatch.setattr(demo_console, "_USUAL_PORT", port)
        assert demo_console.free_port(None) == 0
    assert demo_console.free_port(None) == port


def test_a_demo_whose_server_fails_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is to be seen without it: the demo ends and says why."""

    def failing(_: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTTRACE_HOME", str(tmp_path / ".agenttrace"))
    monkeypatch.setattr(demo_console, "stage", failing)
    with pytest.raises(CommandError, match="is taken"):
        demo_console.show(tmp_path, port=0, speed=1.0, seed=0, as_json=True)


def _shows_everything(apps: dict[str, Any]) -> None:
    """Chat, a trigger of each kind, a breaker that opens and closes again, a budget that is used up."""
    assert apps["chat"]
    assert [(job["app_chain"], job["status"]) for job in apps["jobs"]] == [
        ("app3→app8→app7", "completed"),
        ("app3→app8→app7+app4→app5", "completed"),
        ("app6→app8", "completed"),
        ("app4→app5", "completed"),
        ("app2×8", "completed"),
    ]
    assert apps["duplicate"] == "skipped_duplicate"
    assert "tool calls" in json.loads(apps["session"]["session-summary"])["summary"]
    assert 0 <= json.loads(apps["session"]["session-score"])["score"] <= 10
    assert apps["breaker"] == ["AI 服务暂时不可用", "done"]
    assert apps["budget"] == "AI 额度已用完"


def test_a_demo_that_is_kept_can_be_explored(program: Program) -> None:
    """The commands it prints work."""
    out = program.run("demo", "--seconds", "1", "--days", "1", "--speed", "20", "--keep", "--no-apps").stdout
    assert "with limits, a breaker and a budget" not in out
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
