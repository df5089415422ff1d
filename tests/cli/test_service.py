"""``agenttrace service``: what would be written, and what is run."""

from __future__ import annotations

import plistlib
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace import service

from .conftest import Program

#: A service manager that writes down what it is told, and whether it was told to run the unit.
FAKE = """#!/bin/sh
echo "$@" >> "$HOME/calls"
case "$*" in
  *enable*) touch "$HOME/active" ;;
  *disable*) rm -f "$HOME/active" ;;
  *is-active*) test -e "$HOME/active" ;;
esac
"""


@pytest.fixture
def managed(program: Program) -> Program:
    """A machine with a systemctl."""
    tools = program.user / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(FAKE)
    (tools / "systemctl").chmod(0o755)
    program.environment["PATH"] = f"{tools}:{program.environment['PATH']}"
    return program


def test_a_systemd_unit(program: Program) -> None:
    """The unit starts this very Python, for this data directory, and again when it fails; nothing is written."""
    program.environment["CODEX_HOME"] = "/srv/codex logs"
    found = program.json("service", "install", "--dry-run", "--for", "systemd")
    assert found["path"] == str(program.user / ".config/systemd/user/agenttrace.service")
    assert not Path(found["path"]).exists()
    unit = found["file"]
    assert f"ExecStart={sys.executable} -m agenttrace.cli.main record" in unit
    assert f"Environment=AGENTTRACE_HOME={program.home}\n" in unit
    assert 'Environment="CODEX_HOME=/srv/codex logs"\n' in unit
    assert "Restart=on-failure" in unit
    assert "WantedBy=default.target" in unit
    assert found["commands"][-1] == ["systemctl", "--user", "enable", "--now", "agenttrace.service"]
    assert "ExecStart=" in program.run("service", "install", "--dry-run", "--for", "systemd").stdout


def test_a_launchd_agent(program: Program) -> None:
    """A property list that keeps the recorder alive and starts it with the login."""
    found = program.json("service", "install", "--dry-run", "--for", "launchd")
    content = plistlib.loads(found["file"].encode())
    assert content["ProgramArguments"] == [sys.executable, "-m", "agenttrace.cli.main", "record"]
    assert content["EnvironmentVariables"]["AGENTTRACE_HOME"] == str(program.home)
    assert content["RunAtLoad"] is True
    assert content["KeepAlive"] == {"SuccessfulExit": False}
    assert found["path"].endswith(f"Library/LaunchAgents/{content['Label']}.plist")


def test_a_windows_task(program: Program) -> None:
    """A task that runs at logon without more rights than the user has."""
    found = program.json("service", "install", "--dry-run", "--for", "windows")
    root = ElementTree.fromstring(found["file"].split("?>", 1)[1])
    names = {element.tag.rsplit("}", 1)[1]: element.text for element in root.iter()}
    assert names["RunLevel"] == "LeastPrivilege"
    assert "LogonTrigger" in names
    assert str(program.home) in (names["Arguments"] or "")
    assert (names["Arguments"] or "").endswith("-m agenttrace.cli.main record")


def test_install_status_uninstall(managed: Program) -> None:
    """The whole life of the service, with what the service manager was told."""
    assert managed.json("service", "status", code=1)["installed"] is False
    assert "recording runs" in managed.run("service", "install").stdout
    unit = managed.user / ".config/systemd/user/agenttrace.service"
    assert unit.exists()
    status = managed.json("service", "status")
    assert (status["installed"], status["active"], status["recorder_pid"]) == (True, True, None)
    assert managed.json("service", "uninstall")["removed"] is True
    assert not unit.exists()
    assert "was not installed" in managed.run("service", "uninstall").stdout
    calls = (managed.user / "calls").read_text().splitlines()
    told = [call for call in calls if "is-active" not in call]
    assert told == [
        "--user daemon-reload",
        "--user enable --now agenttrace.service",
        "--user disable --now agenttrace.service",
    ]


def test_a_service_manager_that_refuses(managed: Program) -> None:
    """One clear line with the fix, exit code 1, and nothing is left behind."""
    (managed.user / "bin" / "systemctl").write_text("#!/bin/sh\necho 'no bus' >&2\nexit 1\n")
    done = managed.run("service", "install", code=1)
    assert "systemctl --user daemon-reload failed: no bus" in done.stderr
    assert "fix:" in done.stderr
    assert not (managed.user / ".config/systemd/user/agenttrace.service").exists()


def test_a_machine_without_one(program: Program) -> None:
    """Other ways to run the recorder are named."""
    program.environment["PATH"] = "/nowhere"
    done = program.run("service", "install", "--for", "launchd", code=1)
    assert "launchctl is not on this machine" in done.stderr
    assert "agenttrace record" in done.stderr


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n\x00"), max_size=40))
def test_words_in_a_unit_file(word: str) -> None:
    """Quoting survives systemd's own reading: quotes and backslashes as in a shell, % and $ doubled."""
    quoted = service._unit_quoted(word)
    [read] = shlex.split(quoted) if quoted.startswith('"') else [quoted]
    assert read.replace("%%", "%").replace("$$", "$") == word
    assert quoted.count("%") == 2 * word.count("%")
