"""The full-screen view of bare ``agenttrace``: navigation, live updates, hostile texts, small terminals."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input

from agenttrace.cli import invocation
from agenttrace.cli.serve import announce
from agenttrace.cli.terminal import launch
from agenttrace.cli.terminal.app import TraceApp
from agenttrace.cli.terminal.line_list import LineList
from agenttrace.cli.terminal.session_tree import SpanScreen
from agenttrace.config import load_settings
from agenttrace.serve.access.link import published
from agenttrace.serve.process import ServerReady

from .conftest import Program
from .test_record import on_terminal

#: What a terminal would act upon, and what turns writing around.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")


class View:
    """The view with a user at its keys."""

    def __init__(self, app: TraceApp, pilot: Pilot[str]) -> None:
        self.app, self._pilot = app, pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until they had their effect."""
        await self._pilot.press(*keys)
        await self._pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        """Use a terminal of another size."""
        await self._pilot.resize_terminal(width, height)
        await self._pilot.pause()

    def lines(self) -> list[str]:
        """What is on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    def text(self) -> str:
        return "\n".join(self.lines())

    async def sees(self, *wanted: str) -> str:
        """Wait until all of these are on the screen."""
        deadline = time.monotonic() + 30
        while not all(each in self.text() for each in wanted):
            assert time.monotonic() < deadline, f"{wanted} is not on the screen:\n{self.text()}"
            await asyncio.sleep(0.05)
        return self.text()

    @property
    def chosen(self) -> str:
        """The line of the cursor."""
        return next((line for line in self.lines() if line.startswith("› ")), "")

    async def move_to(self, text: str) -> None:
        """Move the cursor down to a line with this text."""
        for _ in range(self.list.count):
            if text in self.chosen:
                return
            await self.press("down")
        raise AssertionError(f"no line has {text}:\n{self.text()}")

    @property
    def list(self) -> LineList:
        return self.app.screen.query_one(LineList)


@asynccontextmanager
async def viewing(program: Program, size: tuple[int, int] = (80, 24)) -> AsyncIterator[View]:
    app = TraceApp(load_settings({"HOME": str(program.user), "AGENTTRACE_HOME": str(program.home)}))
    try:
        async with app.run_test(size=size, notifications=True) as pilot:
            yield View(app, pilot)
    finally:
        app.recording.stop()
        app.reader.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_from_the_list_to_a_call_and_back(recorded: Program) -> None:
    """Sessions, the tree of one with commands, tokens and cost, all texts of a call, usage, and out."""

    async def test() -> None:
        async with viewing(recorded) as view:
            await view.sees("7 sessions", "nothing records: s starts it", "SCENARIO parallel please", "claude-code")
            await view.move_to("SCENARIO parallel")
            await view.press("enter")
            shown = await view.sees("Turn 1", "sleep 0.3; echo second", "cached")
            assert '"command"' not in shown
            await view.move_to("echo second")
            await view.press("enter")
            assert isinstance(view.app.screen, SpanScreen)
            await view.sees("call", "sleep 0.3; echo second", "result", "second")
            await view.press("escape", "e")
            assert "✗" in view.chosen, "the next error"
            await view.press("escape", "u")
            await view.sees("Usage by day", "2026-11-15")
            await view.press("m")
            await view.sees("Usage by model", "Sonnet 4.5")
            await view.press("escape", "f")
            await view.sees("Live", "⚙")
            await view.press("escape", "question_mark")
            await view.sees("the command that resumes the session", "still at work")
            await view.press("escape", "q")
            assert view.app.return_value is None
            assert not view.app.is_running

    run(test)


def test_what_is_below_can_be_hidden(recorded: Program) -> None:
    """Left closes a turn, then moves up; right opens it."""

    async def test() -> None:
        async with viewing(recorded) as view:
            await view.sees("SCENARIO parallel please")
            await view.press("enter")
            await view.sees("Turn 1")
            everything = view.list.count
            await view.press("left")
            assert view.list.count < everything
            await view.sees("Turn 1 +")
            await view.press("right")
            assert view.list.count == everything
            await view.press("down", "left", "left")
            assert view.list.cursor == 0

    run(test)


def test_search_leads_to_the_span(recorded: Program) -> None:
    """Words are found while they are typed; Enter opens the session at the call."""

    async def test() -> None:
        async with viewing(recorded) as view:
            await view.sees("7 sessions")
            await view.press("slash", *"echo second")
            await view.sees("matches, newest first", "sleep 0.3; echo second")
            await view.press("enter")
            await view.move_to("sleep 0.3; echo second")
            await view.press("enter")
            await view.sees("Turn 1")
            assert "sleep 0.3; echo second" in view.chosen
            await view.press("escape", "slash")
            assert view.app.screen.query_one(Input).has_focus

    run(test)


def test_the_command_that_resumes_is_the_result(recorded: Program) -> None:
    """It is shown; Enter ends the view with it, Escape does not."""

    async def test() -> None:
        async with viewing(recorded) as view:
            await view.sees("claude-code")
            await view.move_to("claude-code")
            await view.press("r")
            await view.sees("claude --resume", "Enter: quit and print it")
            await view.press("escape")
            assert view.app.is_running
            await view.press("r", "enter")
            assert "claude --resume" in (view.app.return_value or "")

    run(test)


def test_the_console_is_opened_at_the_session(recorded: Program) -> None:
    """Without a browser its link is shown; without a console, how to start one."""

    async def test() -> None:
        async with viewing(recorded) as view:
            await view.sees("7 sessions")
            await view.press("o")
            await view.sees("No console runs")
            with published(recorded.home, "http://127.0.0.1:1", "http://127.0.0.1:1/?token=x"):
                await view.press("o")
                shown = await view.sees("http://127.0.0.1:1/sessions/")
                assert re.search(r"/sessions/[0-9a-z]+\?token=x", shown)

    run(test)


def _turn(number: int, command: str) -> list[dict[str, object]]:
    at = time.time()
    call, place = f"c{number}", {"turn": number, "step": 1}
    return [
        {"type": "turn.begin", "turn": number, "ts": at, "prompt": f"question {number}"},
        {"type": "step.begin", **place, "ts": at, "model": "m"},
        {
            "type": "tool.begin",
            "turn": number,
            "step": 1,
            "id": call,
            "ts": at,
            "name": "Bash",
            "arguments": {"command": command},
        },
        {"type": "tool.end", **place, "id": call, "ts": at, "result": "done"},
    ]


def test_what_is_recorded_appears(program: Program) -> None:
    """Without a store the view offers to record; sessions and spans appear as they are recorded, also when followed."""

    async def record(*lines: dict[str, object]) -> None:
        program.log("live", *lines)
        await asyncio.to_thread(program.run, "record", "--once")

    async def test() -> None:
        async with viewing(program) as view:
            await view.sees("Nothing is recorded yet.")
            assert not program.home.exists(), "a view creates nothing"
            await record(*_turn(1, "echo one"))
            await view.sees("1 session, 1 working", "question 1")
            await view.press("enter", "f")
            await view.sees("(following)", "echo one")
            await record(*_turn(2, "echo two"))
            await view.sees("question 2", "echo two")
            assert view.list.cursor == view.list.count - 1
            assert "echo two" in view.chosen

    run(test)


def test_the_cursor_moves_while_sessions_are_read(recorded: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes late does not move it back."""

    async def test() -> None:
        async with viewing(recorded) as view:
            await view.sees("7 sessions")
            await view.press("down")
            answer, ask = asyncio.Event(), view.app.reader.ask

            async def slow(*arguments: Any) -> Any:  # noqa: ANN401 - as it is asked
                await answer.wait()
                return await ask(*arguments)

            monkeypatch.setattr(view.app.reader, "ask", slow)
            loading = asyncio.create_task(view.app.screen.load())  # type: ignore[attr-defined]
            await asyncio.sleep(0)
            view.list.cursor = 4
            answer.set()
            await loading
            assert view.list.cursor == 4

    run(test)


def test_recording_can_be_started(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """``s`` starts the recorder, with the console; it ends with the view, and nothing is left behind."""
    for name, value in {**program.environment, "AGENTTRACE_SERVE_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    program.log("live", *_turn(1, "echo one"))

    async def test() -> None:
        async with viewing(program) as view:
            await view.sees("nothing records: s starts it")
            await view.press("s")
            await view.sees("recording until you quit", "question 1")
            assert view.app.recording.process == program.recorder_pid()
            await view.press("s")
            assert view.app.recording.process == program.recorder_pid(), "a second one is not started"

    run(test)
    assert not program.recorder_pid() or not Path(f"/proc/{program.recorder_pid()}").exists()


HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]not markup[/] \u202e[link=x] \u200b中文标题\r\n\x9b31m"


def test_texts_are_only_shown(program: Program) -> None:
    """Escape sequences, markup and direction marks of a log do nothing, on any screen."""
    at = time.time()
    turn = _turn(1, HOSTILE)
    turn[0]["prompt"] = HOSTILE
    turn[3]["result"] = HOSTILE * 3
    failed = {"type": "tool.end", "turn": 1, "step": 1, "id": "c2", "ts": at, "error": HOSTILE}
    begin = {"type": "tool.begin", "turn": 1, "step": 1, "id": "c2", "ts": at, "name": HOSTILE, "arguments": HOSTILE}
    program.log(
        "hostile", {"type": "session.begin", "ts": at, "title": HOSTILE, "cwd": "/x\x1b[1m"}, *turn, begin, failed
    )
    program.run("record", "--once", "--index")

    async def test() -> None:
        async with viewing(program) as view:
            await view.sees("[bold red]not markup[/]")
            for keys in (
                ("enter", "down", "down", "enter"),
                ("escape", "down", "enter"),
                ("escape", "escape", "f"),
                ("u", "p"),
            ):
                await view.press(*keys)
                await asyncio.sleep(0.2)
                assert not CONTROLS.search(view.text().replace("\n", "")), keys
            await view.press("escape", "escape", "escape", "slash", *"markup")
            await view.sees("matches, newest first")
            assert not CONTROLS.search(view.text().replace("\n", ""))

    run(test)


SIZES = ((60, 15), (80, 24))
#: Keys to each screen, and what is seen there.
SCREENS = {
    ("enter",): "很",
    ("down", "down", "enter"): "call",
    ("escape", "escape", "u"): "Usage by day",
    ("escape", "f"): "Live",
    ("escape", "slash", *"echo"): "matches",
}


def test_every_screen_fits(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are as wide as the terminal, also with wide characters; at 80 columns all keys are seen."""
    monkeypatch.setenv("NO_COLOR", "1")
    program.log("other", {"type": "turn.begin", "ts": time.time() - 60, "prompt": "请把所有的测试都运行一遍" * 20})
    program.log("wide", *_turn(1, "echo " + "很长的命令" * 40))
    program.run("record", "--once", "--index")

    async def test() -> None:
        async with viewing(program) as view:
            await view.sees("2 sessions")
            for keys, wanted in SCREENS.items():
                await view.press(*keys)
                for size in SIZES:
                    await view.resize(*size)
                    await view.sees(wanted)
                    lines = view.lines()
                    assert {cell_len(line) for line in lines} == {size[0]}, keys
                    if size[0] >= 80 and "slash" not in keys:
                        assert "q Quit" in lines[-1], lines[-1]
                    assert view.chosen or isinstance(view.app.screen, SpanScreen), keys

    run(test)


def test_bare_agenttrace_is_the_view_at_a_terminal(recorded: Program) -> None:
    """With a store it opens at once, and ``q`` ends it well; without a terminal it is the help."""
    pressed: list[str] = []

    def keys(seen: str) -> bytes | None:
        if "sessions" in seen and not pressed:
            pressed.append("q")
            return b"q"
        return None

    text, code = on_terminal(recorded, keys=keys)
    assert code == 0, text
    assert "\x1b[?1049h" in text, "the other screen of the terminal"
    assert text.rstrip().endswith(("\x1b[?1049l", "\x1b[?25h", "\x1b[<u")) or "\x1b[?1049l" in text
    assert "Usage: agenttrace" in recorded.run(code=2).stdout


@pytest.mark.parametrize(
    ("browser", "recorded_before", "expected"),
    [
        (True, False, ["up"]),
        (False, False, ["import", "view, recording"]),
        (True, True, ["view"]),
        (False, True, ["view"]),
    ],
)
def test_the_first_time(
    machine: Program, monkeypatch: pytest.MonkeyPatch, browser: bool, recorded_before: bool, expected: list[str]
) -> None:
    """A new user gets an import and the console, or the view where there is no browser; later the view."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    if recorded_before:
        machine.run("record", "--once")
    done: list[str] = []
    monkeypatch.setattr(launch, "can_open", lambda: browser)
    monkeypatch.setattr("agenttrace.cli.up.up", lambda: done.append("up"))
    monkeypatch.setattr(launch, "_first_import", lambda settings: done.append("import"))
    monkeypatch.setattr(
        launch, "show_view", lambda settings, *, record=False: done.append("view, recording" if record else "view")
    )
    launch.launch()
    assert done == expected


@pytest.mark.parametrize(
    ("prefix", "runner"),
    [
        ("/home/u/.cache/uv/archive-v0/cRfbRCDW66_pSMuM", "uvx"),
        ("/home/u/.cache/uv/environments-v2/agenttrace-0a1b", "uvx"),
        ("/home/u/.local/share/uv/tools/agenttrace", None),
        ("/home/u/.cache/pipx/0123456789abcde", "pipx run"),
        ("/home/u/.local/share/pipx/.cache/0123456789abcde/", "pipx run"),
        ("/home/u/.local/share/pipx/venvs/agenttrace", None),
        ("/home/u/agenttrace/.venv", None),
    ],
)
def test_environments_that_do_not_last(prefix: str, runner: str | None) -> None:
    """A service must not be installed from them, and commands are advised as they can be typed."""
    assert invocation.temporary_environment(prefix) == runner


def test_advice_for_a_program_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner, with the wheel it was started from."""
    monkeypatch.setattr(invocation, "temporary_environment", lambda: "uvx")
    monkeypatch.setattr(invocation, "_source", lambda: "/a b/agenttrace.whl")
    assert invocation.program_line() == "uvx --from '/a b/agenttrace.whl' agenttrace"
    monkeypatch.setattr(invocation, "_source", lambda: None)
    assert invocation.program_line() == "uvx agenttrace"


def test_advice_of_a_server_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where the program is not on PATH, each command that is advised begins with what starts it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [str(tmp_path / "agenttrace"), "serve"])
    ready = ServerReady(url="http://127.0.0.1:1", link="x", worker=False, missing=("A",), locked=True, open_to_all=True)
    announce(ready, as_json=False)
    announce(ready, as_json=False, brief=True)
    told = " ".join("".join(capsys.readouterr()).split())
    advised = re.findall(r"(\S*)agenttrace (?:open|user|apps)", told)
    assert len(advised) == 8
    assert {os.path.normpath(each) for each in advised} == {os.path.relpath(tmp_path)}


def test_advice_for_a_program_that_is_not_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its script, which the page gives as it works in every directory; also of a process that the program started."""
    script = tmp_path / "a b" / "agenttrace"
    script.parent.mkdir()
    script.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(invocation, "temporary_environment", lambda: None)
    for started in (["a b/agenttrace", "up"], ["/x/main.py", "up"]):
        monkeypatch.setattr(sys, "argv", started)
        monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
        assert invocation.program_line() == "'a b/agenttrace'"
        assert invocation.program_line(anywhere=True) == f"'{script}'"
    script.unlink()
    assert invocation.program_line() == "agenttrace"
