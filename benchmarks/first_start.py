"""The first start of a user who has logs: when the page is there, when sessions are, and when all of them are."""

from __future__ import annotations

import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.generate import cached_claude
from benchmarks.measure import sandbox_environ
from benchmarks.run_processes import Meter, running
from benchmarks.table import Result, Row
from benchmarks.truth import Truth

_PROGRAM = Path(sys.executable).with_name("agenttrace")
#: Between two looks at the list. Each costs the server a little, which counts.
_LOOK_S, _PATIENCE_S = 0.25, 1800.0


class _Look(NamedTuple):
    """The list of sessions at a moment."""

    seconds: float
    sessions: int
    #: The key of the newest one.
    newest: str


def measure(data: Path, work: Path, megabytes: float) -> Result:
    """Start ``agenttrace up`` with logs of Claude Code and an empty data directory."""
    tree, truth = cached_claude(data, megabytes)
    # No login: it is not what is measured.
    environ = sandbox_environ(
        work, CLAUDE_CONFIG_DIR=str(tree), AGENTTRACE_HOME=str(work / "agenttrace"), AGENTTRACE_SERVE_LOGIN="none"
    )
    began = time.perf_counter()
    with running([_PROGRAM, "up", "--json", "--no-browser", "--port", "0"], environ=environ) as program:
        told: dict[str, Any] = {}
        while "url" not in told:
            told = program.line()
        _answer(told["url"], "text/html")
        page = time.perf_counter() - began
        looks = _until_all(told["url"], truth, began)
        spent = Meter(program.pid).cpu_seconds()
    last = looks[-1]
    figures = {
        "page s": page,
        "first session s": next(each.seconds for each in looks if each.sessions),
        "newest session s": next(each.seconds for each in looks if each.newest == last.newest),
        "all sessions s": next(each.seconds for each in looks if each.sessions == last.sessions),
        "all lines s": last.seconds,
        "CPU s": spent,
    }
    title = f"First start with {truth.bytes / 1e6:.0f} MB of logs, {truth.sessions} sessions"
    return Result(title, [Row("agenttrace up", {name: f"{seconds:.1f}" for name, seconds in figures.items()})])


def _answer(url: str, kind: str) -> bytes:
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    browser.addheaders = [("Accept", kind)]
    found: bytes = browser.open(url, timeout=60).read()
    return found


def _until_all(url: str, truth: Truth, began: float) -> list[_Look]:
    """Look at the list until everything is recorded."""
    looks: list[_Look] = []
    while True:
        listed = msgspec.json.decode(_answer(f"{url}/api/v1/sessions?limit=1", "application/json"))
        at = time.perf_counter() - began
        looks.append(_Look(at, listed["total"], listed["items"][0]["key"] if listed["items"] else ""))
        if listed["total"] >= truth.sessions and _read_bytes(url) >= truth.bytes:
            return looks
        if at > _PATIENCE_S:
            raise RuntimeError(f"{listed['total']} of {truth.sessions} sessions after {at:.0f} s")
        time.sleep(_LOOK_S)


def _read_bytes(url: str) -> int:
    files = msgspec.json.decode(_answer(f"{url}/api/v1/files?limit=1", "application/json"))
    return int(files["recording"]["read_bytes"])
