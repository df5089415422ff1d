"""Runs a program and measures it with its children: CPU, time, peak memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a program."""

    #: User and system time, children that it waited for included.
    cpu_seconds: float
    wall_seconds: float
    #: The largest process, in megabytes.
    peak_mb: float
    exit_code: int
    output: str = ""


def run(command: Sequence[str | Path], *, environ: Mapping[str, str], merge: bool = True) -> Cost:
    """Run to the end and measure; ``merge`` merges stderr into stdout."""
    began = time.perf_counter()
    errors = subprocess.STDOUT if merge else subprocess.DEVNULL
    with subprocess.Popen(
        [str(part) for part in command], env=dict(environ), stdout=subprocess.PIPE, stderr=errors
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read().decode("utf-8", "replace")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(
        cpu_seconds=used.ru_utime + used.ru_stime,
        wall_seconds=time.perf_counter() - began,
        peak_mb=used.ru_maxrss / 1024,
        exit_code=process.returncode,
        output=output,
    )


def sandbox_environ(home: Path, **more: str) -> dict[str, str]:
    """An environment with this home directory only."""
    home.mkdir(parents=True, exist_ok=True)
    places = {"HOME": home, "XDG_CONFIG_HOME": home / ".config", "XDG_DATA_HOME": home / ".local/share"}
    kept = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TMPDIR": str(home)}
    return kept | {name: str(place) for name, place in places.items()} | more


def tree_bytes(folder: Path) -> int:
    """The size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
