"""How long it takes from a line in an agent's log until the team's page has it.

A machine records and pushes as it always does: ``agenttrace record`` on real files, a push over HTTP. The page is the
stream of changes that the console of ``agenttrace team serve`` listens to.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from benchmarks.measure import run, sandbox_environ
from benchmarks.peers import AbsentError
from benchmarks.run_load import percentile
from benchmarks.run_processes import Meter, Process
from benchmarks.table import Result, Row
from benchmarks.team_push import COMMAND, checked, team_server

_TURNS = 60
_PATIENCE = 60.0
_SESSION = "live"
#: How many turns the page says that the session has.
_TOLD = re.compile(rb'"turns":(\d+)')


def measure(work: Path, stores: list[str]) -> Result:
    """Each store, with one machine and one page."""
    rows = []
    for store in stores or ["sqlite", "chdb"]:
        with contextlib.suppress(AbsentError):
            rows.append(_measured(work / "live", store))
    load = os.getloadavg()[0]
    return Result(
        f"From a line in a log to the team's page, {_TURNS} turns, load {load:.1f} on {os.cpu_count()} cores", rows
    )


def _measured(work: Path, store: str) -> Row:
    shutil.rmtree(work, ignore_errors=True)
    machine, home, logs = work / "machine", work / "server", work / "logs"
    logs.mkdir(parents=True)
    environ = sandbox_environ(machine, AGENTTRACE_HOME=str(machine / "agenttrace"))
    target = {"sqlite": str(home / "team.db"), "chdb": f"chdb://{home / 'chdb'}"}.get(store, store)
    with team_server(home, target) as (meter, url, code):
        checked(run([*COMMAND, "team", "join", url, "--code", code], environ=environ))
        token = _token(home)
        recording = Process([*COMMAND, "record", str(logs)], environ=environ, talks=False)
        try:
            with _stream(url, token) as page:
                row = _row(store, _Turns(logs, page), Meter(recording.pid), meter)
        finally:
            recording.stop()
    shutil.rmtree(work, ignore_errors=True)
    return row


def _token(home: Path) -> str:
    environ = sandbox_environ(home, AGENTTRACE_HOME=str(home / "agenttrace"))
    create = [*COMMAND, "team", "token", "create", "--role", "admin", "--json"]
    return str(json.loads(checked(run(create, environ=environ, merge=False)).output)["token"])


@contextlib.contextmanager
def _stream(url: str, token: str) -> Iterator[IO[bytes]]:
    """What the console listens to."""
    asked = urllib.request.Request(f"{url}/api/v1/live", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=_PATIENCE) as answer:
        yield answer


def _row(store: str, turns: _Turns, machine: Meter, server: Meter) -> Row:
    turns.write()
    turns.seen(1)
    before, began = (machine.cpu_seconds(), server.cpu_seconds()), time.monotonic()
    delays = []
    for number in range(2, _TURNS + 2):
        time.sleep(0.3 + random.random())
        at = turns.write()
        delays.append((turns.seen(number) - at) * 1000)
    seconds = time.monotonic() - began
    delays.sort()
    figures = {
        "p50 ms": f"{percentile(delays, 0.5):.0f}",
        "p95 ms": f"{percentile(delays, 0.95):.0f}",
        "max ms": f"{delays[-1]:.0f}",
        "CPU %, machine": f"{(machine.cpu_seconds() - before[0]) / seconds * 100:.1f}",
        "CPU %, server": f"{(server.cpu_seconds() - before[1]) / seconds * 100:.1f}",
    }
    return Row(f"team server with {store.partition(':')[0]}", figures)


class _Turns:
    """Turns of one session that are written, and when the page has each."""

    def __init__(self, logs: Path, page: IO[bytes]) -> None:
        self._file, self._page = logs / f"{_SESSION}.jsonl", page
        self._written = 0
        self._seen: dict[int, float] = {}
        self._news = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def write(self) -> float:
        """A turn that begins; when that was on the disk."""
        self._written += 1
        line = {"v": 1, "session": _SESSION, "type": "turn.begin", "turn": self._written, "ts": time.time()}
        with self._file.open("a") as file:
            file.write(json.dumps({**line, "id": f"t{self._written}", "prompt": "go on"}) + "\n")
        return time.monotonic()

    def seen(self, turn: int) -> float:
        """When the page had a turn."""
        with self._news:
            if not self._news.wait_for(lambda: turn in self._seen, _PATIENCE):
                raise RuntimeError(f"turn {turn} did not reach the page")
            return self._seen[turn]

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            for line in self._page:
                at = time.monotonic()
                told = max(map(int, _TOLD.findall(line)), default=0)
                with self._news:
                    for turn in range(len(self._seen) + 1, told + 1):
                        self._seen[turn] = at
                    self._news.notify_all()
