"""Runs other programs on the same logs and measures them: agentsview and rsyslog.

Each is installed from a package registry into ``benchmarks/data/peers``, never into the system or the project's
environment, and runs with its own home directory.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import msgspec

from benchmarks.measure import Cost, run, sandbox_environ, tree_bytes
from benchmarks.truth import Truth

AGENTSVIEW_VERSION = "0.46.1"
_RSYSLOG_PACKAGES = ("rsyslog", "libestr0", "libfastjson4", "liblognorm5")

#: Figures from other machines, for programs that no registry has. CPU seconds per gigabyte.
QUOTED = {
    "Fluent Bit tail (quoted)": "13-19",
    "OpenTelemetry filelog (quoted)": "14-34",
    "rsyslog imfile (quoted)": "24-26",
}


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of importing a tree of sessions, and the totals that the program reports."""

    cost: Cost
    stored_bytes: int
    sessions: int
    #: Input, output, cache read and cache write tokens, as the program reports them.
    tokens: tuple[int, int, int, int]

    def agrees(self, truth: Truth) -> bool:
        """Whether every token total is exact."""
        return self.tokens == truth.tokens()


class AbsentError(Exception):
    """The peer is not available on this machine."""


def agentsview(peers: Path, tree: Path, work: Path) -> Imported:
    """Import the tree with ``agentsview sync`` into an empty data directory."""
    program = install_agentsview(peers)
    shutil.rmtree(work, ignore_errors=True)
    environ = sandbox_environ(
        work,
        AGENTSVIEW_NO_DAEMON="1",
        AGENTSVIEW_TELEMETRY_ENABLED="0",
        DO_NOT_TRACK="1",
        AGENTSVIEW_DATA_DIR=str(work / "data"),
        CLAUDE_PROJECTS_DIR=str(tree / "projects"),
    )
    cost = run([program, "sync"], environ=environ)
    if cost.exit_code:
        raise AbsentError(f"agentsview sync failed: {cost.output[-500:]}")
    stored = tree_bytes(work / "data")
    report = run([program, "usage", "daily", "--all", "--json", "--offline", "--no-sync"], environ=environ, merge=False)
    if report.exit_code:
        raise AbsentError(f"agentsview usage failed with {report.exit_code}")
    totals = msgspec.json.decode(report.output)["totals"]
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
    tokens = (totals[names[0]], totals[names[1]], totals[names[2]], totals[names[3]])
    return Imported(cost=cost, stored_bytes=stored, sessions=_sessions(cost.output), tokens=tokens)


def rsyslog(peers: Path, lines: Path, expected: int, work: Path, *, parse: bool) -> Cost:
    """Tail a file of JSON lines into another file until all lines are there; then stop."""
    program, libraries = _install_rsyslog(peers)
    shutil.rmtree(work, ignore_errors=True)
    environ = sandbox_environ(work, LD_LIBRARY_PATH=str(libraries))
    out, conf = work / "out.jsonl", work / "rsyslog.conf"
    conf.write_text(_rsyslog_conf(lines, out, work, parse=parse))
    command = [program, "-n", "-f", conf, "-i", work / "pid", "-M", libraries / "rsyslog"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    finished = _await_lines(out, expected)
    wall = time.perf_counter() - began
    process.send_signal(signal.SIGTERM)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if not finished:
        raise AbsentError("rsyslog did not deliver all lines")
    out.unlink()
    cpu = used.ru_utime + used.ru_stime
    return Cost(cpu_seconds=cpu, wall_seconds=wall, peak_mb=used.ru_maxrss / 1024, exit_code=0)


def install_agentsview(peers: Path) -> Path:
    """The program, installed if missing."""
    venv = peers / f"agentsview-{AGENTSVIEW_VERSION}"
    program = venv / "bin" / "agentsview"
    if not program.exists():
        _do(sys.executable, "-m", "venv", venv)
        _do(venv / "bin" / "python", "-m", "pip", "install", "--quiet", f"agentsview=={AGENTSVIEW_VERSION}")
    return program


def _install_rsyslog(peers: Path) -> tuple[Path, Path]:
    """Unpack the Debian packages into a local directory: no daemon is started, nothing is registered."""
    root = peers / "rsyslog"
    if not (root / "usr/sbin/rsyslogd").exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise AbsentError("rsyslog is taken from Debian packages, which this machine does not have")
        packages = peers / "debs"
        packages.mkdir(parents=True, exist_ok=True)
        _do("apt-get", "download", *_RSYSLOG_PACKAGES, cwd=packages)
        for package in packages.glob("*.deb"):
            _do("dpkg", "-x", package, root)
    libraries = next((root / "usr/lib").glob("*/rsyslog")).parent
    return root / "usr/sbin/rsyslogd", libraries


def _rsyslog_conf(lines: Path, out: Path, work: Path, *, parse: bool) -> str:
    template = "%$!all-json%" if parse else "%msg%"
    parser = 'action(type="mmjsonparse" cookie="")' if parse else ""
    return f"""
global(workDirectory="{work}" maxMessageSize="1m" parser.escapeControlCharactersOnReceive="off")
main_queue(queue.type="FixedArray" queue.size="100000" queue.dequeueBatchSize="1024")
module(load="imfile" mode="inotify")
module(load="mmjsonparse")
template(name="line" type="string" string="{template}\\n")
input(type="imfile" File="{lines}" Tag="agent:" ruleset="store")
ruleset(name="store") {{
  {parser}
  action(type="omfile" file="{out}" template="line" ioBufferSize="256k" flushOnTXEnd="on")
}}
"""


def _await_lines(out: Path, expected: int, patience: float = 300) -> bool:
    """Wait until the file has this many lines, counting only what is new."""
    deadline, seen, position = time.monotonic() + patience, 0, 0
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if not out.exists():
            continue
        with out.open("rb") as file:
            file.seek(position)
            while chunk := file.read(1 << 22):
                seen += chunk.count(b"\n")
                position += len(chunk)
        if seen >= expected:
            return True
    return False


def _sessions(output: str) -> int:
    """The number in ``Sync complete: 648 sessions synced``."""
    words = output.split()
    return next((int(a) for a, b in pairwise(words) if b == "sessions" and a.isdigit()), 0)


def _do(*command: str | Path, cwd: Path | None = None) -> None:
    try:
        subprocess.run([str(part) for part in command], check=True, capture_output=True, cwd=cwd)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        raise AbsentError(f"{command[0]}: {error} {detail.decode('utf-8', 'replace')[-300:]}") from error
