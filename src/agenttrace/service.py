"""The recorder as a service of the user's own: systemd unit, launchd agent or Windows scheduled task.

None of them needs an administrator. Each starts the recorder with the login (or the machine) and restarts it when it
fails. The program that it starts is the one that installed it.

Its file is readable by the user only and has no secrets: of the environment it contains the variables that the recorder
needs. Keys of destinations belong into the settings file, or with systemd into ``service.env`` in the data directory.
"""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from agenttrace.config import SETTINGS, Settings
from agenttrace.record.formats import AGENTS

NAME = "agenttrace"
LABEL = "agenttrace.recorder"
TASK = "AgentTrace recorder"

#: The file from which systemd reads keys.
ENVIRONMENT_FILE = "service.env"
#: Settings that recording and sending go by.
_SECTIONS = ("record", "retention", "usage", "export")
#: Variables that hold for the service, too, if they are set now. Whatever else is in the environment may be a secret.
_KEPT = (
    *(each.variable for each in SETTINGS.values() if each.name.split(".")[0] in _SECTIONS and not each.secret),
    *(name for agent in AGENTS for name in agent.traits.variables),
)

_UNIT = """\
[Unit]
Description=AgentTrace: records the session logs of AI agents

[Service]
ExecStart={command}
{environment}EnvironmentFile=-{environment_file}
Restart=on-failure
RestartSec=10
Nice=10
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={writable}
PrivateTmp={private_tmp}
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""

#: Directories that a service with ``PrivateTmp`` cannot see.
_SHARED_TMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - nothing is written there

_VARIABLE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=", re.MULTILINE)

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
    """What installing does: one file, and the commands that activate it."""

    kind: str
    path: Path
    text: str
    install: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]
    uninstall: tuple[tuple[str, ...], ...]
    hint: str = ""
    #: Directories that have to be there before it starts.
    writable: tuple[Path, ...] = ()


def kind_here() -> str:
    """The service manager of this machine."""
    return "windows" if sys.platform == "win32" else "launchd" if sys.platform == "darwin" else "systemd"


def plan(kind: str, settings: Settings, environ: Mapping[str, str] = os.environ) -> Plan:
    """How the recorder of a data directory becomes a service."""
    variables = kept_variables(settings.home, environ)
    user = Path(environ.get("HOME") or Path.home())
    makers = {"systemd": _systemd, "launchd": _launchd, "windows": _windows}
    return makers[kind](user, settings, variables, environ)


def kept_variables(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of this environment that the service gets."""
    variables = {name: value for name in _KEPT if (value := environ.get(name))}
    if environ.get("AGENTTRACE_CONFIG"):
        variables["AGENTTRACE_CONFIG"] = str(Path(environ["AGENTTRACE_CONFIG"]).expanduser().absolute())
    variables["AGENTTRACE_HOME"] = str(home)
    return dict(sorted(variables.items()))


def left_out(environ: Mapping[str, str] = os.environ) -> list[str]:
    """AgentTrace variables that the service does not get."""
    kept = {*_KEPT, "AGENTTRACE_CONFIG", "AGENTTRACE_HOME"}
    return sorted(name for name in environ if name.startswith("AGENTTRACE_") and name not in kept)


def variables_of_file(what: Plan, home: Path) -> set[str]:
    """Names of the variables that the service reads from its file of keys."""
    if what.kind != "systemd":
        return set()
    try:
        return set(_VARIABLE.findall((home / ENVIRONMENT_FILE).read_text("utf-8", "replace")))
    except OSError:
        return set()


def command() -> list[str]:
    """The program that records, as an absolute command."""
    return [sys.executable, "-m", "agenttrace.cli.main", "record"]


def _systemd(user: Path, settings: Settings, variables: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    directory = Path(environ.get("XDG_CONFIG_HOME") or user / ".config")
    unit = f"{NAME}.service"
    environment = "".join(f"Environment={_unit_quoted(f'{name}={value}')}\n" for name, value in variables.items())
    # Files are the one thing that is written elsewhere than into the data directory.
    writable = (settings.home, *(Path(each.path) for each in settings.destinations if each.path))
    watched = [Path(name) for name in (*settings.record.paths, *variables.values()) if name.startswith("/")]
    text = _UNIT.format(
        command=" ".join(_unit_quoted(word).replace("$", "$$") for word in command()),
        environment=environment,
        # Without quotes, which would be taken for a part of the name.
        environment_file=str(settings.home / ENVIRONMENT_FILE).replace("%", "%%"),
        writable=" ".join(_unit_quoted(f"-{path}") for path in writable),
        private_tmp="no" if _are_in_tmp((*writable, *watched)) else "yes",
    )
    control = ("systemctl", "--user")
    return Plan(
        kind="systemd",
        path=directory / "systemd" / "user" / unit,
        text=text,
        install=((*control, "daemon-reload"), (*control, "enable", "--now", unit)),
        status=(*control, "is-active", unit),
        uninstall=((*control, "disable", "--now", unit),),
        hint="It starts with your login. To have it start with the machine: loginctl enable-linger",
        writable=writable,
    )


def _are_in_tmp(paths: Iterable[Path]) -> bool:
    return any(path.is_relative_to(tmp) for path in paths for tmp in _SHARED_TMP)


def _unit_quoted(word: str) -> str:
    """A word in a unit file: quoted, what begins a specifier doubled, and never a second line."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"' if any(char in escaped for char in " \t\"';\\") or not escaped else escaped


def _launchd(user: Path, settings: Settings, variables: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    home = settings.home
    path = user / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    content = {
        "Label": LABEL,
        "ProgramArguments": command(),
        "EnvironmentVariables": dict(variables),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
        "Umask": 0o077,
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


def _windows(user: Path, settings: Settings, variables: Mapping[str, str], environ: Mapping[str, str]) -> Plan:
    path = settings.home / "service.xml"
    program, *arguments = command()
    # pythonw has no console window; a scheduled task cannot set variables, so a shell does it.
    quiet = program.replace("python.exe", "pythonw.exe")
    given = " && ".join(f'set "{name}={value}"' for name, value in variables.items())
    line = f'/c {given} && "{quiet}" {" ".join(arguments)}'
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
    """Write the file and start the service; if that fails, the file is restored."""
    before = what.path.read_bytes() if what.path.exists() else None
    what.path.parent.mkdir(parents=True, exist_ok=True)
    for directory in what.writable:
        # What cannot be made here, the service could not make either, and says so when it is needed.
        with suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_private(what.path, what.text.encode("utf-16" if what.kind == "windows" else "utf-8"))
    try:
        for step in what.install:
            _run(step)
    except ServiceError:
        if before is None:
            what.path.unlink()
        else:
            _write_private(what.path, before)
        raise


def _write_private(path: Path, data: bytes) -> None:
    """Write a file that others cannot read at any moment; an old one is replaced."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    os.replace(fresh, path)


def is_installed(what: Plan) -> bool:
    """Whether the file is there."""
    return what.path.exists()


def is_active(what: Plan) -> bool:
    """Whether the system says that it runs."""
    if shutil.which(what.status[0]) is None:
        return False
    return subprocess.run(what.status, capture_output=True, check=False).returncode == 0


def uninstall(what: Plan) -> bool:
    """Stop it and remove the file; False if it was not installed."""
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
            "Start agenttrace record with the service manager of this machine.",
        )
    done = subprocess.run(step, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise ServiceError(
            f"{' '.join(step)} failed: {reason[-1] if reason else f'exit code {done.returncode}'}",
            "Run that command yourself to see more, or run agenttrace record by other means.",
        )
