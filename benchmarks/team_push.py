"""A machine pushes its history to its team: to ``agenttrace team serve``, and agentsview to PostgreSQL.

Both programs import the same logs first, which is not counted. What is sent goes through a relay that counts bytes in
the direction of the server. A larger team is planned with CPU a span, bytes a span and the memory of the server.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import psycopg

from agenttrace.run.postgres import EmbeddedPostgres
from benchmarks import ours, peers, team
from benchmarks.generate import cached_claude
from benchmarks.measure import Cost, run, sandbox_environ, tree_bytes
from benchmarks.peers import AbsentError
from benchmarks.run_processes import Meter, Process
from benchmarks.table import Result, Row
from benchmarks.truth import Truth

#: ``agenttrace``.
COMMAND = (sys.executable, "-m", "agenttrace.cli.main")
_CHUNK = 1 << 18
#: CPU of what sends, and of what receives.
_MACHINE, _SERVER = "CPU s sent", "CPU s taken"


class Relay:
    """Passes connections on to a server, and counts what is sent to it."""

    def __init__(self, kind: socket.AddressFamily, address: tuple[str, int] | str) -> None:
        self._kind, self._address = kind, address
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.sent = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nothing more."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(self._kind, socket.SOCK_STREAM)
            server.connect(self._address)
            for source, target, counts in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=(source, target, counts), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self.sent += len(data) if counts else 0
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def measure(data: Path, peers_folder: Path, work: Path, megabytes: float, stores: list[str]) -> Result:
    """The same history, pushed by each program."""
    tree, truth = cached_claude(data, megabytes)
    rows: list[Row] = []
    for store in stores or ["sqlite", "chdb"]:
        with contextlib.suppress(AbsentError):
            rows.append(_agenttrace(work / "agenttrace", tree, truth, store))
    try:
        rows.append(_agentsview(peers_folder, work / "agentsview", tree, truth))
    except AbsentError as error:
        rows.append(Row("agentsview pg push", {}, note=str(error)))
    base = _total(rows[0])
    rows = [row if row.note else Row(row.who, row.figures, _total(row) / base) for row in rows]
    return Result(f"A history of {truth.bytes / 1e6:.0f} MB, {truth.files} files, is pushed to a team", rows)


def _total(row: Row) -> float:
    return sum(float(row.figures.get(name, 0)) for name in (_MACHINE, _SERVER))


def _row(who: str, cost: Cost, server: float, sent: int, stored: int, truth: Truth) -> Row:
    figures = {
        _MACHINE: f"{cost.cpu_seconds:.1f}",
        _SERVER: f"{server:.1f}",
        "wall s": f"{cost.wall_seconds:.1f}",
        "sent/logs": f"{sent / truth.bytes:.2f}",
        "stored/logs": f"{stored / truth.bytes:.2f}",
    }
    return Row(who, figures)


# -- ours ----------------------------------------------------------------------------------------------------------


def _agenttrace(work: Path, tree: Path, truth: Truth, store: str) -> Row:
    machine, home = work / "machine", work / "server"
    shutil.rmtree(work, ignore_errors=True)
    ours.record_once(None, machine, index=False, CLAUDE_CONFIG_DIR=str(tree))
    environ = sandbox_environ(machine, AGENTTRACE_HOME=str(machine / "agenttrace"), CLAUDE_CONFIG_DIR=str(tree))
    target = {"sqlite": str(home / "team.db"), "chdb": f"chdb://{home / 'chdb'}"}.get(store, store)
    with contextlib.closing(ours.store(machine)) as recorded:
        spans = int(recorded.execute("SELECT count(*) FROM spans").fetchone()[0])
    with team_server(home, target) as (meter, url, code):
        parts = urlsplit(url)
        relay = Relay(socket.AF_INET, (str(parts.hostname), int(parts.port or 0)))
        join = [*COMMAND, "team", "join", f"http://127.0.0.1:{relay.port}", "--code", code, "--backfill"]
        checked(run(join, environ=environ))
        before, sent = meter.cpu_seconds(), relay.sent
        cost = checked(run([*COMMAND, "export", "run", "--once"], environ=environ))
        spent, sent = meter.cpu_seconds() - before, relay.sent - sent
        relay.close()
        checked(run([*COMMAND, "team", "status"], environ=environ))
        resident = meter.resident_mb()
    stored = tree_bytes(home) if store == "sqlite" else team.stored_bytes(target)
    row = _row(f"agenttrace, {team.NAMES[store.partition(':')[0]]}", cost, spent, sent, stored, truth)
    row.figures.update(
        {
            "server MB": f"{resident:.0f}",
            "sent B/span": f"{sent / spans:.0f}",
            "stored B/span": f"{stored / spans:.0f}",
        }
    )
    shutil.rmtree(work, ignore_errors=True)
    return row


@contextlib.contextmanager
def team_server(home: Path, target: str) -> Iterator[tuple[Meter, str, str]]:
    """A team's server, its address, and a code for one machine."""
    environ = sandbox_environ(home, AGENTTRACE_HOME=str(home / "agenttrace"))
    process = Process([*COMMAND, "team", "serve", "--port", "0", "--store", target, "--json"], environ=environ)
    try:
        url = next(said["url"] for said in iter(process.line, None) if "url" in said)
        invited = checked(run([*COMMAND, "team", "invite", "--json"], environ=environ, merge=False))
        yield Meter(process.pid), url, msgspec.json.decode(invited.output)["code"]
    except RuntimeError as error:
        raise AbsentError(str(error)) from error
    finally:
        process.stop()


def checked(cost: Cost) -> Cost:
    """The cost of a command that succeeded."""
    if cost.exit_code:
        raise RuntimeError(f"exit code {cost.exit_code}: {cost.output[-1000:]}")
    return cost


# -- agentsview ----------------------------------------------------------------------------------------------------


def _agentsview(peers_folder: Path, work: Path, tree: Path, truth: Truth) -> Row:
    program = peers.install_agentsview(peers_folder)
    shutil.rmtree(work, ignore_errors=True)
    postgres = EmbeddedPostgres(work / "home")
    url = postgres.start()
    try:
        pid = int((postgres.cluster / "postmaster.pid").read_text().split()[0])
        directory = parse_qs(urlsplit(url).query)["host"][0]
        relay = Relay(socket.AF_UNIX, f"{directory}/.s.PGSQL.5432")
        user = urlsplit(url).username or "postgres"
        database = urlsplit(url).path.strip("/") or "postgres"
        environ = sandbox_environ(
            work,
            AGENTSVIEW_NO_DAEMON="1",
            AGENTSVIEW_TELEMETRY_ENABLED="0",
            DO_NOT_TRACK="1",
            AGENTSVIEW_DATA_DIR=str(work / "data"),
            CLAUDE_PROJECTS_DIR=str(tree / "projects"),
            AGENTSVIEW_PG_URL=f"postgres://{user}@127.0.0.1:{relay.port}/{database}?sslmode=disable",
            AGENTSVIEW_PG_ALLOW_INSECURE="true",
            AGENTSVIEW_PG_MACHINE="laptop",
        )
        _peer(run([program, "sync"], environ=environ))
        before, meter = _size(url), Meter(pid)
        spent = meter.cpu_seconds()
        cost = _peer(run([program, "pg", "push", "--no-vectors"], environ=environ))
        spent = meter.cpu_seconds() - spent
        relay.close()
        name = f"agentsview {peers.AGENTSVIEW_VERSION} pg push"
        return _row(name, cost, spent, relay.sent, _size(url) - before, truth)
    finally:
        postgres.stop()
        shutil.rmtree(work, ignore_errors=True)


def _peer(cost: Cost) -> Cost:
    if cost.exit_code:
        raise AbsentError(f"agentsview failed with {cost.exit_code}: {cost.output[-500:]}")
    return cost


def _size(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])
