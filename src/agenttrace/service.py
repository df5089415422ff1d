"""The recorder as a service of the user's own: systemd unit, launchd agent or Windows scheduled task.

None of them needs an administrator. Each begins recording with the login (or the machine), starts it again when it
fails, and can be looked at and taken away. The program that is started is the one that installed it.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

NAME = "agenttrace"
LABEL = "agenttrace.recorder"
TASK = "AgentTrace recorder"
KINDS = ("systemd", "launchd", "windows")

#: Variables that decide where logs and settings are; those set now hold for the service, too.
_KEPT = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "KIMI_CODE_HOME",
    "KIMI_SHARE_DIR",
    "QWEN_HOME",
    "QWEN_RUNTIME_DIR",
)

_UNIT = """\
[Unit]
Description=AgentTrace: records the session logs of AI agents

[Service]
ExecStart={command}
{environment}Restart=on-failure
RestartSec=10
Nice=10

[Install]
WantedBy=default.target
"""

_TASK = """\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <Triggers><LogonTrigger><Enabled>true</Enabled></LogonTrigger></Triggers>
  <Principals><Principal id="Author"><LogonType>InteractiveToken</LogonType>
    <RunLevel>LeastPrivilege</RunLevel></Principal></Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>999</Count></RestartOnFailure>
  </Settings>
  <Actions Context="Author"><Exec>
    <Command>{command}</Command>
    <Arguments>{arguments}</Arguments>
  </Exec></Actions>
</Task>
"""


class ServiceError(Exception):
    """The system's service manager refused or is not there."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


class Plan(NamedTuple):
    """What installing means: one file, and the commands that make the system see it."""

    kind: str
    path: Path
    text: str
    install: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]
    uninstall: tuple[tuple[str, ...], ...]
    hint: str = ""


def kind_here() -> str:
    """The service manager of this machine."""
    return "windows" if sys.platform == "win32" else "launchd" if sys.platform == "darwin" else "systemd"


def plan(kind: str, home: Path, environ: Mapping[str, str] = os.environ) -> Plan:
    """How the recorder of the data directory ``home`` becomes a service."""
    variables = kept_variables(home, environ)
    user = Path(environ.get("HOME") or Path.home())
    makers = {"systemd": _systemd, "launchd": _launchd, "windows": _windows}
    return makers[kind](user, home, variables, environ)


def kept_variables(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the service will have of the environment of today."""
    variables = {name: value for name in _KEPT if (value := environ.get(name))}
    variables |= {name: value for name, value in environ.items() if name.startswith("AGENTTRACE_")}
    variables["AGENTTRACE_HOME"] = str(home)
    return dict(sorted(variables.items()))


def command() -> list[str]:
    """The program that records, as an absolute command."""
    return [sys.executable, "-m", "agenttrace.cli.main", "record"]


def _systemd(user: Path, home: Path, variables: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    settings = Path(environ.get("XDG_CONFIG_HOME") or user / ".config")
    unit = f"{NAME}.service"
    environment = "".join(f"Environment={_unit_quoted(f'{name}={value}')}\n" for name, value in variables.items())
    text = _UNIT.format(command=" ".join(map(_unit_quoted, command())), environment=environment)
    control = ("systemctl", "--user")
    return Plan(
        kind="systemd",
        path=settings / "systemd" / "user" / unit,
        text=text,
        install=((*control, "daemon-reload"), (*control, "enable", "--now", unit)),
        status=(*control, "is-active", unit),
        uninstall=((*control, "disable", "--now", unit),),
        hint="It starts with your login. To have it start with the machine: loginctl enable-linger",
    )


def _unit_quoted(word: str) -> str:
    """A word in a unit file: quoted, with systemd's own specials doubled."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(char in escaped for char in " \t\"';\\") or not escaped else escaped


def _launchd(user: Path, home: Path, variables: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    path = user / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    content = {
        "Label": LABEL,
        "ProgramArguments": command(),
        "EnvironmentVariables": dict(variables),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
        "StandardErrorPath": str(home / "service.log"),
        "StandardOutPath": str(home / "service.log"),
    }
    domain = f"gui/{os.getuid() if hasattr(os, 'getuid') else 501}"
    return Plan(
        kind="launchd",
        path=path,
        text=plistlib.dumps(content).decode(),
        install=(("launchctl", "bootstrap", domain, str(path)),),
        status=("launchctl", "print", f"{domain}/{LABEL}"),
        uninstall=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
        hint="It starts with your login.",
    )


def _windows(user: Path, home: Path, variables: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    path = home / "service.xml"
    program, *arguments = command()
    # pythonw has no console window; a scheduled task cannot set variables, so a shell does it.
    quiet = program.replace("python.exe", "pythonw.exe")
    settings = " && ".join(f'set "{name}={value}"' for name, value in variables.items())
    line = f'/c {settings} && "{quiet}" {" ".join(arguments)}'
    return Plan(
        kind="windows",
        path=path,
        text=_TASK.format(command="cmd.exe", arguments=escape(line)),
        install=(
            ("schtasks", "/Create", "/TN", TASK, "/XML", str(path), "/F"),
            ("schtasks", "/Run", "/TN", TASK),
        ),
        status=("schtasks", "/Query", "/TN", TASK),
        uninstall=(("schtasks", "/End", "/TN", TASK), ("schtasks", "/Delete", "/TN", TASK, "/F")),
        hint="It starts when you log in.",
    )


def install(what: Plan) -> None:
    """Write the file and have it started; what cannot be started is not left behind."""
    before = what.path.read_bytes() if what.path.exists() else None
    what.path.parent.mkdir(parents=True, exist_ok=True)
    encoding = "utf-16" if what.kind == "windows" else "utf-8"
    what.path.write_text(what.text, encoding=encoding)
    try:
        for step in what.install:
            _run(step)
    except ServiceError:
        if before is None:
            what.path.unlink()
        else:
            what.path.write_bytes(before)
        raise


def is_installed(what: Plan) -> bool:
    """Whether the file is there."""
    return what.path.exists()


def is_active(what: Plan) -> bool:
    """Whether the system says that it runs."""
    if shutil.which(what.status[0]) is None:
        return False
    return subprocess.run(what.status, capture_output=True, check=False).returncode == 0


def uninstall(what: Plan) -> bool:
    """Stop it and take the file away; False if it was not installed."""
    if not is_installed(what):
        return False
    try:
        for step in what.uninstall:
            _run(step)
    finally:
        what.path.unlink(missing_ok=True)
    return True


def _run(step: tuple[str, ...]) -> None:
    if shutil.which(step[0]) is None:
        raise ServiceError(
            f"{step[0]} is not on this machine",
            "Let whatever starts programs here run: agenttrace record",
        )
    done = subprocess.run(step, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise ServiceError(
            f"{' '.join(step)} failed: {reason[-1] if reason else f'exit code {done.returncode}'}",
            "Run that command yourself to see more, or run agenttrace record by other means.",
        )
