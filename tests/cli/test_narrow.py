"""Output at a terminal of 80 columns: no line is broken inside a word, and calls are shown as commands."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agenttrace.cli.output import print_wrapped

from .conftest import CLAUDE, KIMI_CLI, Program

#: Rich takes the output for a terminal.
TERMINAL = {"TTY_COMPATIBLE": "1", "COLUMNS": "80", "TERM": "dumb"}

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("sessions",),
    ("show", CLAUDE),
    ("requests", KIMI_CLI),
    ("outcomes", CLAUDE),
    ("outcomes",),
    ("usage",),
    ("usage", "--by", "project", "--commits"),
    ("usage", "--by", "session"),
    ("usage", "--check"),
    ("limits",),
    ("prices", "list"),
    ("prices", "show", "claude-sonnet-4-5"),
    ("tail", "--no-follow", "-n", "50"),
    ("search", "parallel"),
    ("apps",),
    ("status",),
    ("doctor",),
    ("quarantine", "list"),
    ("export", "status"),
    ("rules",),
    ("hooks", "status"),
    ("token", "list"),
    ("user", "list"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_broken_in_a_word(recorded: Program, command: tuple[str, ...]) -> None:
    """Every line fits, unless it is a single word, such as a path."""
    done = recorded.run(*command, env=TERMINAL)
    for line in (done.stdout + done.stderr).splitlines():
        assert cell_len(line) <= 80 or len(line.split()) == 1, line


@pytest.mark.parametrize(
    "command",
    [("show", KIMI_CLI), ("show", KIMI_CLI, "--full"), ("tail", "--no-follow", "-n", "500"), ("search", "echo")],
    ids=" ".join,
)
def test_calls_are_shown_as_commands(recorded: Program, command: tuple[str, ...]) -> None:
    """No JSON: also where an agent wrote the arguments in pieces."""
    shown = recorded.run(*command).stdout
    assert "sleep 0.3; echo second" in shown
    assert '"command"' not in shown
    assert "arguments_part" not in shown


def _printed(text: str, *, width: int, indent: int | None = None) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=width, markup=False, highlight=False)
    print_wrapped(console, Text(text), indent)
    return stream.getvalue().split("\n")[:-1]


@given(
    st.text(st.sampled_from("ab中文 -/\n"), max_size=200),
    st.integers(min_value=10, max_value=40),
    st.none() | st.integers(min_value=0, max_value=60),
)
def test_wrapping_loses_nothing(text: str, width: int, indent: int | None) -> None:
    """All characters, in order, and all words whole; every line that is longer than the terminal is one word."""
    lines = _printed(text, width=width, indent=indent)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert re.findall("[ab/-]+", " ".join(lines)) == re.findall("[ab/-]+", text)
    for line in lines:
        assert cell_len(line) <= width or re.fullmatch(r"\s*[ab/-]+\s*", line), line


def test_chinese_is_broken_between_characters() -> None:
    """It has no spaces; no line begins with punctuation."""
    lines = _printed("  AI: " + "好的，我看了。" * 10, width=20)
    assert all(14 <= cell_len(line) <= 20 for line in lines[:-1])
    assert not any(line.lstrip().startswith(("，", "。")) for line in lines)


def test_a_link_stays_whole() -> None:
    """A word that is too long for a line is not broken: it may be copied."""
    link = "http://127.0.0.1:8317/?token=" + "x" * 60
    assert _printed(f"The console is at {link} (open it)", width=80) == ["The console is at", link, "(open it)"]


def test_up_names_no_variables_of_applications(machine: Program, background: Any) -> None:  # noqa: ANN401 - a fixture
    """What a user of agents needs: logs, link, next steps; variables are in ``apps``."""
    machine.environment["DASHSCOPE_APP_ID_3_CLUE"] = "clue-id"
    machine.environment["AGENTTRACE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    process = background("up", "--port", "0")
    told = ""
    while "service install" not in told:
        told += (line := process.stdout.readline())
        assert line, told
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert "DASHSCOPE" not in told + out + err
    assert "DASHSCOPE_API_KEY" in machine.run("apps").stdout
