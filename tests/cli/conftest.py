"""The program as users run it: a process (forked, see ``forked.py``) with a home of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import forked

DATA = Path(__file__).resolve().parents[1] / "data"

#: Where each agent keeps its logs, and the fixture that stands for it.
HOMES = {
    ".claude": "claude-code-2.1.197",
    ".codex": "codex-0.166.0",
    ".kimi": "kimi-cli-1.49.0",
    ".kimi-code": "kimi-code-2.1.0",
}

CLAUDE = "bb1bce27-aee4-45f3-aff7-ef5e31cd4b65"
CLAUDE_FORK = "5bc45ad6-a603-48ba-a47a-d3713edbd2f0"
KIMI_CODE = "session_23a8c988-f8e6-415e-8d14-214153980f20"
KIMI_CLI = "ffd361ad-fca8-46f8-982d-6f30e2f55fb4"


class Program:
    """``agenttrace`` for one user."""

    def __init__(self, user: Path) -> None:
        self.user = user
        self.home = user / ".agenttrace"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(user),
            "AGENTTRACE_HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONUTF8": "1",
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "agenttrace.cli.main", *arguments]

    def run(
        self, *arguments: str, code: int = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command and check its exit code."""
        done = forked.run(
            self.command(*arguments),
            env={**self.environment, **(env or {})},
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, code: int = 0, env: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - whatever it prints
        """Run a command with ``--json`` and read what it prints."""
        return json.loads(self.run(*arguments, "--json", code=code, env=env).stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Run a command in the background."""
        return forked.popen(
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def use_fixtures(self) -> None:
        """Give the user the logs of four agents."""
        for place, fixture in HOMES.items():
            shutil.copytree(DATA / fixture, self.user / place)

    def log(self, name: str, *lines: dict[str, object]) -> Path:
        """Append lines in our own format to a log of that name."""
        path = self.home / "logs" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o700)
        with path.open("a", encoding="utf-8") as stream:
            for line in lines:
                stream.write(json.dumps({"v": 1, "session": name, **line}, ensure_ascii=False) + "\n")
        return path

    def recorder_pid(self) -> int | None:
        """Who holds the recorder's lock file, by what is written in it."""
        try:
            return int((self.home / "recorder.lock").read_text() or 0) or None
        except (OSError, ValueError):
            return None


def stop(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[str, str]:
    """Send a signal and collect what the process said."""
    process.send_signal(number)
    return process.communicate(timeout=60)


def eventually(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:  # noqa: ANN401 - what it found
    """Wait until something holds; what it found comes back."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)
    return found


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A user without any logs."""
    user = tmp_path / "user"
    user.mkdir()
    return Program(user)


@pytest.fixture
def machine(program: Program) -> Program:
    """A user with the logs of four agents, nothing recorded yet."""
    program.use_fixtures()
    return program


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Program:
    user = tmp_path_factory.mktemp("recorded") / "user"
    user.mkdir()
    program = Program(user)
    program.use_fixtures()
    program.run("record", "--once", "--index")
    return program


@pytest.fixture
def recorded(shared_store: Program) -> Program:
    """The same user with everything recorded; for commands that only look."""
    return shared_store


@pytest.fixture
def own_recorded(shared_store: Program, tmp_path: Path) -> Program:
    """A recorded user of one's own, to change."""
    user = tmp_path / "user"
    shutil.copytree(shared_store.user, user)
    program = Program(user)
    shutil.rmtree(program.home)
    program.run("record", "--once", "--index")
    return program


@pytest.fixture
def background(program: Program) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start commands that are ended with the test, whatever happens in it."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        started.append(program.start(*arguments))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
