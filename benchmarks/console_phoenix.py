"""The peer Phoenix from PyPI, in a separate environment, on 127.0.0.1, with the spans that AgentTrace recorded.

Phoenix takes five milliseconds of CPU per span, so its database is stored beside the logs and copied for a run.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.store.sqlite.store import SqliteStore
from benchmarks import ours
from benchmarks.console_data import Logs
from benchmarks.console_spans import BY_SESSION, BY_TURN, Json, exported
from benchmarks.measure import sandbox_environ
from benchmarks.peers import AbsentError
from benchmarks.run_processes import Process

VERSION = "20.26.1"
_START_SECONDS, _STORE_SECONDS = 180.0, 3600.0
_SENDER = Path(__file__).with_name("console_otlp.py")


def installed(peers: Path) -> Path:
    """The directory of its programs, installed if missing."""
    venv = peers / f"phoenix-{VERSION}"
    if not (venv / "bin" / "phoenix").exists():
        for command in (
            [sys.executable, "-m", "venv", str(venv)],
            [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", f"arize-phoenix=={VERSION}"],
        ):
            done = subprocess.run(command, capture_output=True)
            if done.returncode:
                raise AbsentError(f"phoenix: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    return venv / "bin"


@contextlib.contextmanager
def serving(programs: Path, home: Path, ports: tuple[int, int]) -> Iterator[tuple[Process, str]]:
    """Run Phoenix while the block runs; yields its address. Its database is under ``home``."""
    environ = sandbox_environ(
        home,
        PHOENIX_WORKING_DIR=str(home / "data"),
        PHOENIX_HOST="127.0.0.1",
        PHOENIX_PORT=str(ports[0]),
        PHOENIX_GRPC_PORT=str(ports[1]),
        PHOENIX_TELEMETRY_ENABLED="false",
        PHOENIX_ALLOW_EXTERNAL_RESOURCES="false",
        DO_NOT_TRACK="1",
    )
    url = f"http://127.0.0.1:{ports[0]}"
    process = Process([programs / "phoenix", "serve"], environ=environ, cwd=home, talks=False)
    try:
        _await_ready(url, process)
        yield process, url
    finally:
        process.stop()


def store(programs: Path, logs: Logs, work: Path, ports: tuple[int, int]) -> Path:
    """A home with all spans stored, created once and kept beside the logs."""
    kept = Path(logs.folder) / "phoenix" / VERSION
    if not (kept / "complete").exists():
        shutil.rmtree(kept, ignore_errors=True)
        ours.record_once(None, work, CLAUDE_CONFIG_DIR=str(logs.tree))
        connection = ours.store(work)
        with contextlib.closing(connection), serving(programs, kept, ports) as (_, url):
            _await_stored(kept, send(programs, url, exported(SqliteStore(connection, work), logs.large.values())))
        shutil.rmtree(work)
        (kept / "complete").touch()
    return kept


def send(programs: Path, url: str, spans: Iterable[Json]) -> int:
    """Send all spans at once; returns their number."""
    with sender(programs, url) as process:
        count = 0
        for span in spans:
            process.say(msgspec.json.encode(span).decode())
            count += 1
        process.say("")
        taken = 0
        while taken < count:
            taken += process.line(_STORE_SECONDS)
    return count


@contextlib.contextmanager
def sender(programs: Path, url: str) -> Iterator[Process]:
    """A process that sends spans, one batch per empty line."""
    process = Process([programs / "python", _SENDER, url], environ=sandbox_environ(_SENDER.parent / "data"))
    try:
        yield process
    finally:
        process.stop()


def addresses(url: str, session_id: str) -> tuple[str, str]:
    """The pages of the project's sessions and of one of them, where each turn is a trace."""
    project = _project(url, BY_TURN)
    asked = 'query { getProjectSessionById(sessionId: "%s") { id } }' % session_id  # noqa: UP031 - braces everywhere
    found = _graphql(url, asked)["getProjectSessionById"]["id"]
    return f"{url}/projects/{project}/sessions", f"{url}/projects/{project}/sessions/{found}"


def trace_address(url: str, trace_id: str) -> str:
    """The page of a whole session as one trace."""
    return f"{url}/projects/{_project(url, BY_SESSION)}/traces/{trace_id}"


def _project(url: str, name: str) -> str:
    with urllib.request.urlopen(f"{url}/v1/projects", timeout=30) as answer:
        projects = msgspec.json.decode(answer.read())["data"]
    return str(next(each["id"] for each in projects if each["name"] == name))


def _graphql(url: str, query: str) -> Any:  # noqa: ANN401 - whatever was asked for
    body = msgspec.json.encode({"query": query})
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return msgspec.json.decode(answer.read())["data"]


def _await_stored(home: Path, spans: int) -> None:
    """Wait until the server has moved all spans from its queue to its database."""
    until = time.monotonic() + _STORE_SECONDS
    while time.monotonic() < until:
        with contextlib.closing(sqlite3.connect(f"file:{home}/data/phoenix.db?mode=ro", uri=True)) as database:
            if database.execute("SELECT count(*) FROM spans").fetchone()[0] >= spans:
                return
        time.sleep(1)
    raise AbsentError(f"phoenix did not store {spans} spans in {_STORE_SECONDS:.0f} s")


def _await_ready(url: str, process: Process) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise AbsentError(f"phoenix did not start: {process.complaints()}")
