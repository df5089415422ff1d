"""What an agent waits for at every tool call: the guard as a hook, beside the start of Python."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import sandbox_environ
from benchmarks.table import Result, Row

ROUNDS = 100
_SAID = {"session_id": "s", "hook_event_name": "PreToolUse", "cwd": "/home/dev/shop", "tool_name": "Bash"}
_BUDGETS = "".join(f"[budgets.b{number}]\nperiod = 'day'\ntokens = 1_000_000\n" for number in range(10))


def measure(work: Path) -> Result:
    """Wall and CPU time of one call, the programs by turns; ten budgets, nothing used up."""
    home = work / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / "agenttrace.toml").write_text(_BUDGETS)
    environ = sandbox_environ(work / "user", AGENTTRACE_HOME=str(home))
    log = home / "logs" / "s.jsonl"
    log.parent.mkdir(exist_ok=True)
    used = {"v": 1, "session": "s", "type": "usage", "id": "u", "ts": time.time(), "response": "r", "model": "gpt-5"}
    log.write_text(json.dumps({**used, "usage": {"input_tokens": 10}}) + "\n")
    program = [str(Path(sys.executable).with_name("agenttrace"))]
    subprocess.run([*program, "record", "--once"], env=environ, check=True, capture_output=True)
    guard = [*program, "guard", "--agent", "claude-code"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "agenttrace guard": guard,
        "agenttrace statusline, called by Claude Code": [*program, "statusline"],
    }
    _call(guard, environ)  # writes the state
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            taken[name].append(_call(command, environ))
    base = statistics.median(wall for wall, _ in taken["python -c pass"])
    load = os.getloadavg()[0]
    rows = [_row(name, times, base) for name, times in taken.items()]
    return Result(f"A hook, {ROUNDS} calls of each; load {load:.2f}", rows, base="python")


def _call(command: Sequence[str], environ: dict[str, str]) -> tuple[float, float]:
    began = time.perf_counter()
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(_SAID).encode())
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def _row(name: str, times: list[tuple[float, float]], base: float) -> Row:
    walls, spent = sorted(wall for wall, _ in times), [cpu for _, cpu in times]
    figures = {
        "wall p50 ms": f"{statistics.median(walls) * 1000:.1f}",
        "wall p95 ms": f"{walls[min(int(len(walls) * 0.95), len(walls) - 1)] * 1000:.1f}",
        "CPU ms": f"{statistics.median(spent) * 1000:.1f}",
    }
    return Row(name, figures, statistics.median(walls) / base)
