"""The plugin for Claude Code and the install script: they name what exists, and do what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from typer.main import get_command

from agenttrace.cli.program import app
from agenttrace.hooks.targets import TARGETS

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ROOT / "plugins" / "claude-code"
SCRIPT = ROOT / "docs" / "install.sh"
COMMAND = get_command(app)

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")


def _json(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    return json.loads(path.read_text(encoding="utf-8"))


def _check(line: str) -> None:
    """Whether a command line of agenttrace names a command and options that exist."""
    words = shlex.split(line)
    assert words.pop(0) == "agenttrace"
    command: Any = COMMAND
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known, line


# -- the plugin -------------------------------------------------------------------------------------------------------


def test_the_manifest_and_the_marketplace_agree() -> None:
    """A name as Claude Code wants it, the version of the package, and a source that is the plugin."""
    manifest, market = _json(PLUGIN / ".claude-plugin/plugin.json"), _json(ROOT / ".claude-plugin/marketplace.json")
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", manifest["name"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert manifest["version"] == project["version"]
    assert manifest["license"] == project["license"]
    (entry,) = market["plugins"]
    assert (entry["name"], entry["description"]) == (manifest["name"], manifest["description"])
    assert ROOT / entry["source"] == PLUGIN
    assert market["owner"]["name"]


def test_the_server_is_the_one_of_the_program() -> None:
    """The MCP server is started by a command that exists."""
    (server,) = _json(PLUGIN / ".mcp.json")["mcpServers"].values()
    _check(shlex.join([server["command"], *server["args"]]))


def test_the_hooks_are_those_that_the_program_installs() -> None:
    """The guard is asked at the same events, with the same limit of time; every script is there."""
    hooks = _json(PLUGIN / "hooks/hooks.json")["hooks"]
    claude = next(target for target in TARGETS if target.agent == "claude-code")
    assert set(hooks) == {*claude.events, "SessionStart"}
    for group in (group for groups in hooks.values() for group in groups):
        for hook in group["hooks"]:
            assert hook["timeout"] == claude.fields["timeout"]
            script = re.fullmatch(r'sh "\$\{CLAUDE_PLUGIN_ROOT\}/(\S+)"', hook["command"])
            assert script is not None
            assert (PLUGIN / script[1]).is_file()


def _commands() -> list[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(PLUGIN.rglob("*.md")))
    return sorted(
        set(re.findall(r"`(agenttrace [a-z][^`]*)`", text)) | set(re.findall(r"^(agenttrace .+)$", text, re.M))
    )


@pytest.mark.parametrize("line", _commands())
def test_its_texts_name_commands_that_exist(line: str) -> None:
    """In slash commands and in the README."""
    _check(line.partition("#")[0])


@pytest.mark.parametrize("path", sorted((PLUGIN / "commands").glob("*.md")), ids=lambda path: path.name)
def test_slash_commands_may_run_what_they_ask_for(path: Path) -> None:
    """Each has a description; the tools that it is allowed cover the commands that it names."""
    _, head, body = path.read_text(encoding="utf-8").split("---", 2)
    facts = yaml.safe_load(head)
    assert facts["description"]
    allowed = re.findall(r"Bash\(([^)]*)\)", facts["allowed-tools"])
    for line in re.findall(r"`(agenttrace [^`]*)`", body):
        assert any(line == rule or (rule.endswith(":*") and line.startswith(rule[:-2])) for rule in allowed), line


def test_the_links_of_its_readme_lead_somewhere() -> None:
    """They are files of the project."""
    links = re.findall(r"\]\(([^)#:]+)\)", (PLUGIN / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (PLUGIN / link).exists()] == []


#: What the scripts need of a machine.
_PROGRAMS = ("cp", "dirname", "env", "grep", "ln", "mkdir", "rm", "sed", "sh")


def _scratch(tmp_path: Path, **variables: str) -> dict[str, str]:
    """The environment of a user with nothing but a shell and a few programs on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in _PROGRAMS:
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    return {"HOME": str(tmp_path), "PATH": str(tools), "LC_ALL": "C.UTF-8", **variables}


def _tool(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _agenttrace() -> str:
    return f'exec "{sys.executable}" -m agenttrace.cli.main "$@"'


def test_hooks_let_the_agent_go_on_without_the_program(tmp_path: Path) -> None:
    """The guard says nothing, and the start of a session says how to install it; with it, the other way round."""
    environment = _scratch(tmp_path)

    def run(name: str) -> str:
        command = ["sh", str(PLUGIN / "hooks" / name)]
        done = subprocess.run(command, env=environment, input="{}", capture_output=True, text=True, check=True)
        return done.stdout

    assert run("guard.sh") == ""
    assert "uv tool install agenttrace" in json.loads(run("installed.sh"))["systemMessage"]
    _tool(tmp_path, "agenttrace", 'echo "$@"')
    assert run("guard.sh") == "guard --agent claude-code\n"
    assert run("installed.sh") == ""


def test_the_status_line_can_be_installed_without_the_guard(tmp_path: Path) -> None:
    """As the plugin's command does it; settings of the user stay, and uninstalling takes it out again."""
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    environment = _scratch(tmp_path, AGENTTRACE_HOME=str(tmp_path / "data"))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agenttrace.cli.main", "hooks", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert run("install", "claude-code", "--no-guard").returncode == 2
    assert run("install", "claude-code", "--statusline", "--no-guard", "--yes").returncode == 0
    found = json.loads(settings.read_text())
    assert "statusline" in found["statusLine"]["command"]
    assert found.keys() == {"model", "statusLine"}
    assert "status line only" in run("status").stdout
    assert run("uninstall", "claude-code", "--yes").returncode == 0
    assert json.loads(settings.read_text()) == {"model": "opus"}


# -- the install script -----------------------------------------------------------------------------------------------

#: A service manager that writes down what it is told.
_SYSTEMCTL = 'echo "$@" >> "$HOME/calls"'


def _install(environment: Mapping[str, str], *words: str, code: int = 0) -> str:
    command = ["sh", str(SCRIPT), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def linux(tmp_path: Path) -> dict[str, str]:
    """A Linux machine with systemd for the user."""
    environment = _scratch(tmp_path)
    _tool(tmp_path, "uname", "echo Linux")
    _tool(tmp_path, "id", "echo 1000")
    _tool(tmp_path, "systemctl", _SYSTEMCTL)
    return environment


def test_the_script_installs_with_uv_and_starts_the_service(tmp_path: Path, linux: dict[str, str]) -> None:
    """The program, the unit, and the calls of systemctl; again: it uses what is there. Uninstalling removes both."""
    local = tmp_path / ".local" / "bin"
    installed = f"mkdir -p {local}; cp {tmp_path}/agenttrace {local}/agenttrace"
    _tool(tmp_path, "uv", f'case "$*" in\n  "tool install"*) {installed};;\n  "tool list") echo "agenttrace v0.1.0";;\n'
          f'  "tool uninstall agenttrace") rm {local}/agenttrace;;\nesac')  # fmt: skip
    (tmp_path / "agenttrace").write_text(f"#!/bin/sh\n{_agenttrace()}\n")
    (tmp_path / "agenttrace").chmod(0o755)
    dry = _install(linux, "--dry-run")
    assert "would run: uv tool install --force agenttrace" in dry
    assert not local.exists()
    shown = _install(linux)
    assert f"Add {local} to PATH" in shown
    unit = tmp_path / ".config/systemd/user/agenttrace.service"
    assert "ExecStart=" in unit.read_text()
    assert "--user enable --now agenttrace.service" in (tmp_path / "calls").read_text()
    assert "Using " in _install(linux)
    shown = _install(linux, "--uninstall")
    assert not unit.exists()
    assert not (local / "agenttrace").exists()
    assert "Recorded data stays" in shown
    assert (tmp_path / ".agenttrace").is_dir()


def test_the_script_checks_before_it_changes(tmp_path: Path, linux: dict[str, str]) -> None:
    """No session of systemd, no installer, a wrong option: an error with its fix, and nothing was written."""
    assert "unknown option --frm" in _install(linux, "--frm", code=1)
    _tool(tmp_path, "systemctl", "exit 1")
    assert "systemctl --user fails" in _install(linux, code=1)
    _tool(tmp_path, "systemctl", _SYSTEMCTL)
    assert "Install uv" in _install(linux, code=1)
    _tool(tmp_path, "uname", "echo Plan9")
    assert "for Linux and macOS" in _install(linux, code=1)
    _tool(tmp_path, "id", "echo 0")
    assert "do not run this as root" in _install(linux, code=1)
    assert {path.name for path in tmp_path.iterdir()} <= {"bin", "calls"}


def test_the_script_explains_itself(linux: dict[str, str]) -> None:
    """Its help has every option."""
    shown = _install(linux, "--help")
    options = set(re.findall(r"^    (--[a-z-]+)", SCRIPT.read_text(), re.MULTILINE)) - {"--as-root"}
    assert options <= set(re.findall(r"--[a-z-]+", shown))
