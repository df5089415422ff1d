"""Commands: real programs, without a shell, with an end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttrace.rules.actions import command
from agenttrace.rules.actions.command import Command, is_caused, work_directory
from agenttrace.rules.actions.contract import ActionResult
from rules.sending import MASK, SECRET, event, message

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")

Run = Callable[..., ActionResult]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program of Python, or what ``argv`` says, as the action."""

    def run_it(program: str = "", *, text: str = "", **action: Any) -> ActionResult:  # noqa: ANN401 - any setting
        given = {"type": "command", "argv": [sys.executable, "-c", program], "timeout_seconds": 20, **action}
        handler = Command(tmp_path, MASK, lambda message, facts: text)
        return asyncio.run(handler.run(message(event("Title; rm -rf $(HOME)"), **given)))

    return run_it


def test_a_message_on_standard_input(run: Run) -> None:
    """A program gets what a webhook gets, and variables; what it prints is the answer."""
    result = run(
        "import json, os, sys; found = json.load(sys.stdin); print(found['rule'], found['idempotency_key'] == "
        "os.environ['AGENTTRACE_IDEMPOTENCY_KEY'], os.environ['AGENTTRACE_RULE'], os.environ['AGENTTRACE_EVENT'])"
    )
    assert (result.outcome, result.answer) == ("done", {"text": "r True r tool.failed"})


def test_no_shell(run: Run, tmp_path: Path) -> None:
    """Arguments are arguments, whatever is in them."""
    script = tmp_path / "show"
    script.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    script.chmod(0o700)
    hostile = ["$(id)", "; touch x", "`id`", "-rf", "*", "a b", "\n"]
    result = run(argv=[str(script), *hostile])
    assert json.loads(result.answer["text"]) == hostile


def test_where_it_runs(run: Run, tmp_path: Path) -> None:
    """Below the data directory: agents that are started there are recognised."""
    place = run("import os; print(os.getcwd())").answer["text"]
    assert Path(place) == work_directory(tmp_path, "r").resolve()
    facts = event()
    assert facts.session is not None
    assert not is_caused(tmp_path, facts)
    facts.session.project = str(work_directory(tmp_path, "r") / "deeper")
    assert is_caused(tmp_path, facts)


def test_a_data_directory_that_is_a_link(tmp_path: Path) -> None:
    """An agent logs the directory without links; its session would fire the rule again and again."""
    linked = tmp_path / "linked"
    (tmp_path / "real").mkdir()
    linked.symlink_to(tmp_path / "real", target_is_directory=True)
    action: dict[str, Any] = {"type": "command", "argv": [sys.executable, "-c", "import os; print(os.getcwd())"]}
    result = asyncio.run(Command(linked, MASK, lambda message, facts: "").run(message(**action)))
    facts = event()
    assert facts.session is not None
    facts.session.project = result.answer["text"]
    assert is_caused(linked, facts)
    facts.session.project = str(work_directory(linked, "r"))
    assert is_caused(linked, facts)


@pytest.mark.parametrize("code", [1, 2, 127])
def test_exit_codes(run: Run, code: int) -> None:
    """Any but 0 is tried again, with what the program said."""
    result = run(f"import sys; print('no luck', file=sys.stderr); sys.exit({code})")
    assert result.outcome == "retry"
    assert result.detail == f"exit code {code}: no luck"


def test_a_missing_program(run: Run) -> None:
    result = run(argv=["/no/such/program"])
    assert result.outcome == "failed"
    assert "/no/such/program cannot be started" in result.detail


def test_output_is_bounded_and_masked(run: Run) -> None:
    """A program that prints for ever does not fill the memory; what it prints of secrets is masked."""
    result = run("import sys\nfor _ in range(2000): sys.stdout.write('x' * 10_000)")
    assert result.outcome == "done"
    assert len(result.answer["text"]) <= 2000
    assert SECRET not in run(f"print('{SECRET}')").answer["text"]


@pytest.mark.parametrize("program", ["import os; os.close(0)", "pass", "import sys; sys.stdin.read(1)"])
def test_a_program_that_does_not_read(run: Run, program: str) -> None:
    """Its input is large, and it does not want it."""
    result = run(program, text="x" * 5_000_000, stdin="transcript")
    assert result.outcome == "done"


def test_a_large_input(run: Run) -> None:
    """Written while the output is read: neither side waits for the other."""
    copies = "import sys; data = sys.stdin.read(); sys.stdout.write(data); sys.stderr.write(str(len(data)))"
    result = run(copies, text="é" * 2_000_000, stdin="transcript")
    assert result.outcome == "done"


def test_no_input(run: Run) -> None:
    assert run("import sys; print(len(sys.stdin.read()))", stdin="none").answer == {"text": "0"}


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_time_limit_ends_everything(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what the program has started, and what ignores a polite request."""
    monkeypatch.setattr(command, "_GRACE_SECONDS", 0.2)
    file = tmp_path / "pids"
    program = f"""
import os, signal, time
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open({str(file)!r}, "a") as file:
    file.write(f"{{os.getpid()}}\\n")
time.sleep(60)
"""
    began = time.monotonic()
    result = run(program, timeout_seconds=1.0)
    assert result.outcome == "failed"
    assert "longer than 1 s" in result.detail
    pids = [int(line) for line in file.read_text().split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_running, pids))
    assert time.monotonic() - began < 50


def test_a_program_that_leaves_another_behind(run: Run) -> None:
    """It has ended when it has ended, although its output is still open."""
    left = "import os, time\nprint('started', flush=True)\nif os.fork() == 0:\n    time.sleep(8)\n"
    began = time.monotonic()
    result = run(left, timeout_seconds=60)
    assert (result.outcome, result.answer) == ("done", {"text": "started"})
    assert time.monotonic() - began < 7


def test_a_stop_ends_the_program(tmp_path: Path) -> None:
    """A service that stops leaves no program behind."""
    pid = tmp_path / "pid"

    async def main() -> int:
        program = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
        wanted = message(type="command", argv=[sys.executable, "-c", program])
        task = asyncio.create_task(Command(tmp_path, MASK, lambda message, facts: "").run(wanted))
        while not pid.exists() or not pid.read_text():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int(pid.read_text())

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(main()), 0)
