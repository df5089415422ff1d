"""The real Phoenix from PyPI as a destination: what it has is what was recorded, whoever is killed on the way.

It is fetched once into an environment of its own. These tests take minutes: ``make test-peers`` runs them.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from export.rig import World, target

pytestmark = [pytest.mark.peers, pytest.mark.timeout(1800)]

VERSION = "20.26.1"
ROOT = Path(__file__).resolve().parents[2]
CLI = (sys.executable, "-m", "agenttrace.cli.main")
KILLS = 6
TURNS = 120


@pytest.fixture(scope="module")
def phoenix_program() -> Path:
    """The program, fetched if it is not there."""
    venv = ROOT / "benchmarks" / "data" / "peers" / f"phoenix-{VERSION}"
    if not (venv / "bin" / "phoenix").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        install = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", f"arize-phoenix=={VERSION}"]
        subprocess.run(install, check=True)
    return venv / "bin" / "phoenix"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Phoenix:
    """A Phoenix on 127.0.0.1 that can be killed and started again on what it has stored."""

    def __init__(self, program: Path, home: Path) -> None:
        self.home = home
        self._program = program
        self._port, self._grpc_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.home.mkdir(exist_ok=True)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PHOENIX_WORKING_DIR": str(self.home / "data"),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(self._port),
            "PHOENIX_GRPC_PORT": str(self._grpc_port),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        }
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen([self._program, "serve"], env=environ, stdout=log, stderr=log)
        wait_until(self._answers, 180)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.home / "log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(f"file:{self.home / 'data' / 'phoenix.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)


@pytest.fixture
def phoenix(phoenix_program: Path, tmp_path: Path) -> Iterator[Phoenix]:
    made = Phoenix(phoenix_program, tmp_path / "phoenix")
    made.start()
    try:
        yield made
    finally:
        made.kill()
        shutil.rmtree(made.home, ignore_errors=True)


@contextmanager
def exporter() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([*CLI, "export", "run"], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def configured(world: World, phoenix: Phoenix) -> None:
    (world.settings.home / "agenttrace.toml").write_text(
        f"""
        [export]
        quiet_seconds = 0.1
        [destinations.there]
        type = "otlp"
        url = "{phoenix.url}"
        project = "agents"
        start = "all"
        batch_spans = 50
        """
    )


def wait_for_request(world: World) -> None:
    """Until the next request was answered."""
    before = world.rows("SELECT requests FROM export_destinations")
    wait_until(lambda: world.rows("SELECT requests FROM export_destinations") > before, 120)


def agree(world: World, phoenix: Phoenix) -> None:
    """Phoenix has every span once, under its parent, with the tokens that were recorded."""
    stored = Counter(str(row[0]) for row in phoenix.rows("SELECT span_id FROM spans"))
    assert stored == Counter(span_id.hex() for span_id in world.span_ids())
    orphans = """
    SELECT count(*) FROM spans WHERE parent_id IS NOT NULL AND parent_id NOT IN (SELECT span_id FROM spans)
    """
    assert phoenix.rows(orphans) == [(0,)]
    theirs = phoenix.rows(
        "SELECT sum(llm_token_count_prompt), sum(llm_token_count_completion) FROM spans WHERE span_kind = 'LLM'"
    )
    ours = world.rows(
        "SELECT sum(input_tokens + cache_read_tokens + cache_write_tokens), sum(output_tokens) FROM responses"
    )
    assert theirs == ours


def test_real_recordings_arrive_whole(home: Path, tmp_path: Path, phoenix: Phoenix) -> None:
    """The logs of real agents: counts, parents and tokens are equal, and a second run sends nothing."""
    world = World(tmp_path, target(), home=home)
    configured(world, phoenix)
    world.use_samples()
    world.record()
    with exporter():
        wait_until(lambda: world.states()["acknowledged"] == len(world.span_ids()), 300)
    agree(world, phoenix)
    before = world.rows("SELECT requests FROM export_destinations")
    again = subprocess.run([*CLI, "export", "run", "--once", "--json"], capture_output=True, timeout=120)
    assert again.returncode == 0, again.stderr
    assert world.rows("SELECT requests FROM export_destinations") == before


def test_kills_on_either_side_leave_nothing_missing_or_doubled(home: Path, tmp_path: Path, phoenix: Phoenix) -> None:
    """SIGKILL of the exporter, SIGKILL of Phoenix with what it had only in memory, again and again: in the end Phoenix
    has each span once, and nothing was called acknowledged that it had lost."""
    chance = random.Random(7)
    world = World(tmp_path, target(), home=home)
    configured(world, phoenix)
    for kill in range(KILLS):
        for turn in range(TURNS // KILLS):
            world.turn(f"s{kill}", turn, steps=3)
        world.record()
        with exporter() as process:
            wait_for_request(world)
            time.sleep(chance.random() * 2)
            if kill % 2:
                process.kill()
            else:
                phoenix.kill()
                phoenix.start()
                acknowledged = {
                    row[0].hex() for row in world.rows("SELECT span_id FROM export_spans WHERE state = 'acknowledged'")
                }
                assert acknowledged <= {str(row[0]) for row in phoenix.rows("SELECT span_id FROM spans")}
    with exporter():
        wait_until(lambda: world.states()["acknowledged"] == len(world.span_ids()), 900)
    agree(world, phoenix)
