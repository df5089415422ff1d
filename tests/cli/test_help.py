"""Help, version, and documentation that is true."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.text import Text
from typer.testing import CliRunner

import forked
from agenttrace.cli.program import app

from .conftest import Program

DOCS = Path(__file__).resolve().parents[2] / "docs" / "cli.md"

COMMANDS = (
    "up",
    "open",
    "outcomes",
    "compare",
    "record",
    "demo",
    "service",
    "sessions",
    "share",
    "show",
    "requests",
    "note",
    "label",
    "star",
    "score",
    "overview",
    "usage",
    "limits",
    "prices",
    "tail",
    "search",
    "mcp",
    "statusline",
    "apps",
    "trigger",
    "insights",
    "jobs",
    "resume",
    "runs",
    "budget",
    "breakers",
    "cache",
    "team",
    "token",
    "serve",
    "worker",
    "simulate-dashscope",
    "status",
    "doctor",
    "quarantine",
    "export",
    "guard",
    "hooks",
    "rules",
    "prune",
    "user",
)

#: Commands that consist of commands.
GROUPS = {
    "service": ("install", "status", "uninstall"),
    "hooks": ("install", "status", "uninstall"),
    "quarantine": ("list", "show", "retry"),
    "export": ("status", "check", "run", "retry", "accept", "pause", "resume", "backfill", "forget"),
    "rules": ("list", "log", "show", "test", "new", "enable", "disable", "retry", "run"),
    "jobs": ("list", "show", "cancel", "rerun"),
    "runs": ("list", "show"),
    "breakers": ("list", "open", "close"),
    "cache": ("list", "show", "invalidate"),
    "token": ("create", "list", "revoke", "chat"),
    "team": ("status", "serve", "invite", "join", "leave", "users"),
    "prices": ("list", "show", "check", "update", "reset"),
    "user": ("add", "list", "remove", "password", "role", "audit"),
}


def documented_lines() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_the_list_of_commands_is_complete(program: Program) -> None:
    """What ``--help`` lists is what these tests and the documentation cover."""
    text = program.run("--help").stdout
    listed = re.findall(r"^│ ([a-z][a-z-]*)  ", text, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    assert "First steps" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches(program: Program, command: str) -> None:
    """A description and examples, on a terminal of 80 columns without wrapped command lines."""
    text = program.run(command, "--help", env={"COLUMNS": "80"}).stdout
    assert "Examples" in text
    examples = text.split("Examples")[1]
    assert re.search(r"^ +(agenttrace |PS1)", examples, re.MULTILINE)
    assert all(len(line.rstrip()) <= 80 for line in examples.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    """With a section of its own and at least one command line."""
    text = DOCS.read_text(encoding="utf-8")
    section = re.search(rf"^## {command}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert f"$ agenttrace {command}" in section[1]


def test_every_command_has_json() -> None:
    """All of them, and the commands of the groups, too."""
    runner = CliRunner()
    for command in COMMANDS:
        for part in GROUPS.get(command, ("",)):
            told = runner.invoke(app, [*filter(None, (command, part)), "--help"], terminal_width=120)
            assert told.exit_code == 0, told.output
            assert "--json" in told.output, (command, part)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Somebody who tries everything the documentation shows."""
    user = tmp_path_factory.mktemp("reader") / "user"
    user.mkdir()
    program = Program(user)
    program.use_fixtures()
    program.run("record", "--once")
    return program


@pytest.mark.parametrize("line", documented_lines())
def test_documented_command_lines_work(reader: Program, line: str) -> None:
    """Every line that the documentation shows in a console block runs and ends with 0."""
    program, *arguments = shlex.split(line)
    assert program == "agenttrace"
    assert reader.run(*arguments).stdout


@pytest.mark.parametrize("line", ["--version", "sessions", "show abc", "export status", "status", "quarantine list"])
def test_started_and_forked_programs_say_the_same(reader: Program, line: str) -> None:
    """These tests fork their programs; what users start says the same, with the same exit code."""
    command = reader.command(*shlex.split(line))
    assert forked.can_fork(command, reader.environment)
    found, expected = (
        run(command, env=reader.environment, capture_output=True, check=False) for run in (forked.run, subprocess.run)
    )
    assert (found.returncode, found.stdout, found.stderr) == (expected.returncode, expected.stdout, expected.stderr)


def test_version(program: Program) -> None:
    """The version of the package."""
    assert program.run("--version").stdout == f"agenttrace {version('agenttrace')}\n"


def test_without_arguments_the_help_is_shown(program: Program) -> None:
    """And nothing is recorded by accident."""
    done = program.run(code=2)
    assert "Usage: agenttrace" in done.stdout + done.stderr
    assert not program.home.exists()


def test_an_unknown_command(program: Program) -> None:
    """A usage error."""
    assert "No such command" in program.run("recrod", code=2).stderr


def test_a_closed_pipe_is_no_error(recorded: Program) -> None:
    """``agenttrace tail | head -1`` ends quietly."""
    process = recorded.start("tail", "--no-follow", "--lines", "1000", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert "Traceback" not in error
    assert "error" not in error.lower()


def test_help_loses_nothing_to_markup() -> None:
    """Brackets in the help of an option are shown, or escaped: ``[default: 20]`` would be taken for a style."""
    for group in (app, *(each.typer_instance for each in app.registered_groups)):
        assert group is not None
        for command in group.registered_commands:
            for parameter in inspect.signature(command.callback or app, eval_str=True).parameters.values():
                for option in getattr(parameter.annotation, "__metadata__", ()):
                    text = option.help or ""
                    assert Text.from_markup(text).plain == text.replace("\\[", "["), (command.name, parameter.name)
                    assert not (option.metavar or "").startswith("["), (command.name, parameter.name)


def test_commands_are_loaded_without_what_only_some_of_them_need() -> None:
    """No command waits for the formats of all agents, the server or the database."""
    program = (
        "import sys, agenttrace.cli.program\n"
        "heavy = ('agenttrace.record.formats.', 'fastapi', 'psycopg', 'aiohttp', 'httpx', 'mcp.', 'zstandard')\n"
        "heavy += ('textual',)\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "[]"
