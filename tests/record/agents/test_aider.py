"""Aider writes in the directories of projects: those where sessions of any agent ran are looked at."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agenttrace.config import RecordSettings, Settings, ensure_home
from agenttrace.record.formats.aider import LOG_NAME
from agenttrace.record.recorder import Recorder
from agenttrace.record.watcher import Watcher
from agenttrace.store import open_store

CHAT = (
    "\n# aider chat started at 2026-11-16 09:00:00\n\n> Aider v0.86.2\n> Main model: gpt-4o with diff edit format\n\n"
    "#### {prompt}\n\nAn answer.\n\n> Tokens: 2.4k sent, 8 received. Cost: $0.01 message, $0.01 session.\n"
)


class Machine:
    """A user whose projects are far away from the home directory."""

    def __init__(self, root: Path) -> None:
        self.home, self.projects = root / "user", root / "far" / "away"
        self.settings = Settings(home=root / "data", record=RecordSettings(poll_seconds=0.2))
        ensure_home(self.settings)
        self.home.mkdir()

    def work_in(self, directory: Path, session: str = "s1") -> None:
        """Another agent has a session there."""
        directory.mkdir(parents=True, exist_ok=True)
        log = self.home / ".claude" / "projects" / "p" / f"{session}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        line = {
            "type": "user",
            "uuid": f"u-{session}",
            "parentUuid": None,
            "sessionId": session,
            "cwd": str(directory),
            "timestamp": "2026-11-16T09:00:00.000Z",
            "isSidechain": False,
            "message": {"role": "user", "content": "Hello"},
        }
        log.write_text(json.dumps(line) + "\n")

    def chat_in(self, directory: Path, prompt: str) -> None:
        with (directory / LOG_NAME).open("a") as log:
            log.write(CHAT.format(prompt=prompt))

    def recorder(self, **more: str) -> Recorder:
        return Recorder(self.settings, environ={"HOME": str(self.home), **more})

    def record(self, **more: str) -> None:
        with closing(self.recorder(**more)) as recorder:
            recorder.run_once()

    def prompts(self) -> list[str]:
        with open_store(self.settings) as store:
            return sorted(each.first_prompt or "" for each in store.sessions() if each.agent == "aider")

    @contextmanager
    def watched(self) -> Iterator[Watcher]:
        stop = threading.Event()
        recorder = self.recorder()
        watcher = Watcher(recorder, stop)
        thread = threading.Thread(target=watcher.run)
        thread.start()
        try:
            yield watcher
        finally:
            stop.set()
            thread.join()
            recorder.close()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_found_where_another_session_ran(machine: Machine) -> None:
    """One run records both, although only the first log tells where the second one is."""
    machine.work_in(machine.projects / "shop")
    machine.chat_in(machine.projects / "shop", "Fix the shop")
    machine.record()
    assert machine.prompts() == ["Fix the shop"]


def test_found_at_the_top_of_the_repository(machine: Machine) -> None:
    """Aider writes there, wherever in the repository another agent was started."""
    top = machine.projects / "shop"
    machine.work_in(top / "src" / "deep")
    (top / ".git").mkdir()
    machine.chat_in(top, "Fix the top")
    machine.record()
    assert machine.prompts() == ["Fix the top"]


def test_the_variable_names_a_file(machine: Machine) -> None:
    """Under any name; a relative one is a name inside of projects, which nothing tells."""
    machine.chat_in(machine.home, "All chats")
    (machine.home / LOG_NAME).rename(machine.home / "chats.md")
    machine.record(AIDER_CHAT_HISTORY_FILE="chats.md")
    assert machine.prompts() == []
    machine.record(AIDER_CHAT_HISTORY_FILE="~/chats.md")
    assert machine.prompts() == ["All chats"]


def test_links_are_not_followed(machine: Machine, tmp_path: Path) -> None:
    """A repository may have a link to any file of the user under this name."""
    machine.chat_in(tmp_path, "Private")
    machine.work_in(machine.projects / "shop")
    os.symlink(tmp_path / LOG_NAME, machine.projects / "shop" / LOG_NAME)
    machine.record()
    assert machine.prompts() == []


def test_paths_of_the_user_are_all(machine: Machine) -> None:
    """``agenttrace record PATH`` reads nothing else."""
    machine.work_in(machine.projects / "shop")
    machine.chat_in(machine.projects / "shop", "Fix the shop")
    with closing(Recorder(machine.settings, paths=[str(machine.home / ".claude")], environ={})) as recorder:
        recorder.run_once()
    assert machine.prompts() == []


def test_followed_without_watching_the_project(machine: Machine) -> None:
    """New chats are recorded soon, and no directory of a project is watched."""
    machine.work_in(machine.projects / "shop")
    machine.chat_in(machine.projects / "shop", "First")
    with machine.watched() as watcher:
        until(lambda: machine.prompts() == ["First"])
        # The slow scan never comes again.
        watcher._next_scan = time.monotonic() + 3600
        machine.chat_in(machine.projects / "shop", "Second")
        until(lambda: machine.prompts() == ["First", "Second"])
        assert watcher._watched
        assert not [path for path in watcher._watched if path.is_relative_to(machine.projects)]
