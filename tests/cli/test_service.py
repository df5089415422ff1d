"""``agenttrace service``: what would be written, and what is run."""

from __future__ import annotations

import plistlib
import shlex
import shutil
import stat
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace import service
from agenttrace.config import SETTINGS

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


def configure(program: Program, text: str) -> None:
    """Write the settings file."""
    program.home.mkdir(mode=0o700, exist_ok=True)
    (program.home / "agenttrace.toml").write_text(text)


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
    """The whole life of the service, with the commands for the service manager."""
    assert managed.json("service", "status", code=1)["installed"] is False
    assert "the recorder runs" in managed.run("service", "install").stdout
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


KINDS = ("systemd", "launchd", "windows")


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_of_the_environment_is_written(program: Program, kind: str) -> None:
    """The service gets the variables that recording needs, and no others."""
    secrets = {"AGENTTRACE_JWT_SECRET": "x" * 40, "AGENTTRACE_DATABASE_URL": "postgresql://u:hunter22@h/d"}
    secrets |= {"AGENTTRACE_INTERNAL_TOKEN": "hunter23", "AGENTTRACE_TOMORROW": "hunter24", "LANGFUSE_KEY": "hunter25"}
    program.environment |= secrets | {"AGENTTRACE_RECORD_POLL_SECONDS": "3", "CODEX_HOME": "/srv/codex"}
    text = program.json("service", "install", "--dry-run", "--for", kind)["file"]
    assert not [name for name, value in secrets.items() if name in text or value in text]
    assert "AGENTTRACE_RECORD_POLL_SECONDS" in text
    assert "/srv/codex" in text


def test_variables_that_are_kept_are_no_secrets() -> None:
    """None of those that are never shown is among them; the settings of recording are."""
    names = {name for name, setting in SETTINGS.items() if setting.variable in service._KEPT}
    assert not any(SETTINGS[name].secret for name in names)
    assert {"record.paths", "export.mask", "retention.days"} <= names
    assert not [name for name in names if name.startswith(("serve.", "run.", "database.", "jwt."))]


def test_the_unit_is_for_its_owner_alone(managed: Program) -> None:
    """From the beginning, with any umask, and also where the old file was readable by others."""
    unit = managed.user / ".config/systemd/user/agenttrace.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nEnvironment=AGENTTRACE_JWT_SECRET=old\n")
    unit.chmod(0o644)
    managed.run("service", "install")
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    assert "JWT" not in unit.read_text()
    assert [path.name for path in unit.parent.iterdir()] == [unit.name]


def test_the_unit_may_do_little(managed: Program) -> None:
    """It writes into the data directory and where files are exported to, reads the rest, and gets no more rights."""
    archive = managed.user / "an archive"
    configure(managed, f'[destinations.files]\ntype = "jsonl"\npath = "{archive}"\n')
    managed.run("service", "install")
    unit = (managed.user / ".config/systemd/user/agenttrace.service").read_text().splitlines()
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=read-only", "UMask=0077"):
        assert line in unit
    (writable,) = [line.partition("=")[2] for line in unit if line.startswith("ReadWritePaths=")]
    assert shlex.split(writable) == [f"-{managed.home}", f"-{archive}"]
    assert archive.is_dir()
    # Another /tmp than everybody's would hide the data directory of this test.
    assert ("PrivateTmp=no" in unit) == str(managed.home).startswith("/tmp/")


def test_a_unit_that_systemd_understands(managed: Program) -> None:
    """Also with paths and values of all kinds; several lines of one value stay one line of the unit."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    managed.environment["AGENTTRACE_EXPORT_MASK"] = 'corp-[0-9]{8}\nRestart=always "$HOME" 100%'
    unit = managed.user / "agenttrace.service"
    unit.write_text(managed.json("service", "install", "--dry-run", "--for", "systemd")["file"])
    assert "\nRestart=always" not in unit.read_text()
    environment = {"XDG_RUNTIME_DIR": str(managed.user), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], capture_output=True, text=True, check=False, env=environment
    )
    assert str(unit) not in done.stderr, done.stderr


def test_keys_for_the_service(managed: Program) -> None:
    """Missing keys are printed with where to put them; keys in service.env are not missing."""
    table = '[destinations.there]\ntype = "otlp"\nurl = "http://127.0.0.1:1"\nheaders = { key = "${THERE_KEY}" }\n'
    configure(managed, table)
    managed.environment |= {"THERE_KEY": "hunter22", "AGENTTRACE_JWT_SECRET": "x" * 40}
    told = managed.run("service", "install").stderr
    assert "does not have THERE_KEY" in told
    assert str(managed.home / "service.env") in told
    assert "recording does not need them: AGENTTRACE_JWT_SECRET" in told
    (managed.home / "service.env").write_text("THERE_KEY=hunter22\n")
    assert "THERE_KEY" not in managed.run("service", "install").stderr
    assert "hunter22" not in (managed.user / ".config/systemd/user/agenttrace.service").read_text()


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
    """Quoting survives systemd's own reading: quotes and backslashes as in a shell, % doubled, one line."""
    quoted = service._unit_quoted(word)
    [read] = shlex.split(quoted) if quoted.startswith('"') else [quoted]
    assert read.replace("%%", "%") == word
    assert quoted.count("%") == 2 * word.count("%")
