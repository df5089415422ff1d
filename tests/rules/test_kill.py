"""Recorder, engine and receiver are killed at any moment: everything that should fire is delivered, nothing else is."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import forked
from agenttrace.config import load_settings
from agenttrace.ids import session_number
from agenttrace.record.lock import owner as recorder_of
from agenttrace.record.recorder import Recorder
from agenttrace.rules.engine import actions_of
from agenttrace.rules.lock import owner
from agenttrace.store.rules import key_of
from agenttrace.store.sqlite.database import connect
from rules import dying
from rules.receiver import Receiver

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")

#: How many processes are killed; more for a longer search.
KILLS = int(os.environ.get("RULES_KILLS", "5"))
CLI = (sys.executable, "-m", "agenttrace.cli.main")
SESSIONS = ("a", "b", "c")
RULES = """
[rules.tool]
on = "tool.failed"
max_per_day = 100000
do = ["hook"]
start = "all"
[rules.held]
on = "tool.failed"
cooldown = "1s"
do = ["hook"]
start = "all"
[rules.ended]
on = "session.ended"
settle = "4s"
do = ["hook", "again"]
start = "all"
[actions.hook]
type = "webhook"
url = "{url}"
allow_private = true
[actions.again]
type = "webhook"
url = "{url}?second"
allow_private = true
"""


class World:
    """Processes that record and fire, logs that grow, and a receiver."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home.parent / "logs"
        self.logs.mkdir()
        self.receiver = Receiver(home.parent)
        self.file = home / "agenttrace.toml"
        self.file.write_text(RULES.format(url=self.receiver.url))
        self.calls: dict[str, list[str]] = {session: [] for session in SESSIONS}
        self.recorder: subprocess.Popen[bytes] | None = None
        self.said = home.parent / "said.txt"

    # -- logs ----------------------------------------------------------------------------------------------------

    def line(self, session: str, kind: str, **fields: object) -> None:
        """A line of a log."""
        line = {"v": 1, "session": session, "type": kind, "ts": time.time(), **fields}
        with (self.logs / f"{session}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def fail(self, session: str) -> None:
        """A tool fails."""
        call = f"{session}{len(self.calls[session])}"
        self.line(session, "tool.begin", id=call, name="shell", arguments={"call": call})
        self.line(session, "tool.end", id=call, status="error", result="x")
        self.calls[session].append(call)

    def end(self) -> None:
        """All sessions end their turns."""
        for session in SESSIONS:
            self.line(session, "turn.end", turn=1, id="t1")

    # -- processes -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Record, and run the rules."""
        with self.said.open("ab") as said:
            command = [*CLI, "record", str(self.logs), "--json"]
            self.recorder = forked.popen(command, stdout=subprocess.DEVNULL, stderr=said)

    def kill_recorder(self) -> None:
        """SIGKILL."""
        assert self.recorder is not None
        self.recorder.kill()
        self.recorder.wait()

    def kill_engine(self) -> None:
        """SIGKILL; the recorder starts another one."""
        engine = owner(self.home)
        if engine:
            with suppress(ProcessLookupError):
                os.kill(engine, signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM for the recorder, which ends the engine, too."""
        if self.recorder is not None and self.recorder.poll() is None:
            self.recorder.send_signal(signal.SIGTERM)
            self.recorder.wait(60)
        wait_until(lambda: owner(self.home) is None)
        self.receiver.kill()

    # -- what is expected ----------------------------------------------------------------------------------------

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """Rows of the store."""
        try:
            store = connect(self.home / "agenttrace.db", read_only=True)
        except sqlite3.Error:
            return []
        try:
            return store.execute(sql).fetchall()
        except sqlite3.Error:
            return []
        finally:
            store.close()

    def expected(self) -> dict[str, set[str]]:
        """The idempotency keys of each rule, from what was written: an undisturbed import names the spans."""
        settings = load_settings({"HOME": str(self.home.parent), "AGENTTRACE_HOME": str(self.home.parent / "other")})
        tables = load_settings({"HOME": str(self.home.parent), "AGENTTRACE_HOME": str(self.home)}).rules
        settings.home.mkdir(mode=0o700)
        recorder = Recorder(settings, paths=[str(self.logs)])
        recorder.run_once()
        spans = recorder.connection.execute("SELECT trace_id, span_id FROM spans WHERE kind = 'tool'").fetchall()
        recorder.close()
        assert len(spans) == sum(map(len, self.calls.values()))
        once = {
            "tool": [key_of("tool.failed", trace.hex(), span.hex()) for trace, span in spans],
            "ended": [key_of("session", session_number("agenttrace", session)) for session in SESSIONS],
        }
        return {
            rule: {key for each in keys for _, key in actions_of(tables[rule], each)} for rule, keys in once.items()
        }

    def await_delivery(self) -> None:
        """Until another message arrives."""
        seen = len(self.receiver.deliveries())
        wait_until(lambda: len(self.receiver.deliveries()) > seen, said=self.said.read_text)

    def delivered(self, rule: str) -> set[str]:
        """The idempotency keys that arrived."""
        return {each.key for each in self.receiver.deliveries() if each.body["rule"] == rule}

    def held(self) -> set[str]:
        """The spans in the messages of the rule with a cooldown."""
        found = [each.body for each in self.receiver.deliveries() if each.body["rule"] == "held"]
        return {event["span_id"] for body in found for event in body["events"]}


def wait_until(holds: Callable[[], bool], seconds: float = 90.0, said: Callable[[], str] = lambda: "") -> None:
    """Until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


@pytest.fixture
def world(home: Path) -> Iterator[World]:
    """A world whose processes end with the test."""
    made = World(home)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def writing(world: World, seed: int) -> Iterator[None]:
    """Logs that grow while the block lasts."""
    over = threading.Event()
    chance = random.Random(seed)

    def write() -> None:
        while not over.wait(chance.random() * 0.05):
            world.fail(chance.choice(SESSIONS))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


@pytest.mark.slow
def test_kills(world: World) -> None:
    """Every failed call is delivered under its one key, every session ends once; no key is made up."""
    chance = random.Random(14)
    world.receiver.start()
    for session in SESSIONS:
        world.line(session, "turn.begin", turn=1, id="t1")
    world.start()
    with writing(world, 14):
        wait_until(lambda: bool(world.delivered("tool")), said=world.said.read_text)
        for kill in range(KILLS):
            world.await_delivery()
            time.sleep(chance.random() * 0.5)
            victims = ("engine", "recorder", "receiver")[kill % 3 :][:1] if kill % 4 else ("recorder", "engine")
            if "receiver" in victims:
                world.receiver.kill()
                time.sleep(chance.random())
                world.receiver.start()
            if "engine" in victims:
                world.kill_engine()
            if "recorder" in victims:
                world.kill_recorder()
                world.start()
    wait_until(lambda: bool(recorder_of(world.home)))
    time.sleep(1.0)
    world.end()
    expected = world.expected()

    def is_complete() -> bool:
        return all(world.delivered(rule) >= keys for rule, keys in expected.items())

    wait_until(is_complete, said=world.said.read_text)
    open_ones = "SELECT count(*) FROM rule_firings WHERE state IN ('settling', 'held', 'queued', 'running')"
    wait_until(lambda: world.query(open_ones) == [(0,)])
    assert {rule: world.delivered(rule) for rule in expected} == expected
    spans = {span for (span,) in world.query("SELECT lower(hex(span_id)) FROM spans WHERE kind = 'tool'")}
    assert world.held() == spans
    # Every event is in one message only.
    messages = {each.key: each.body for each in world.receiver.deliveries() if each.body["rule"] == "held"}
    assert sum(len(body["events"]) for body in messages.values()) == len(spans)


@pytest.mark.parametrize("step", [int(os.environ.get("RULES_STEP", "5"))])
def test_an_engine_dies_before_any_statement(tmp_path: Path, step: int) -> None:
    """Wherever it is killed, the next one goes on: the messages of an undisturbed engine, under the same keys."""
    for name in ("killed", "undisturbed"):
        dying.prepare(tmp_path / name)
    dying.run_and_die(tmp_path / "undisturbed", 0)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, dying.__file__, str(tmp_path / "killed"), str(step)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": tests}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) >= 10
    expected = dying.messages(tmp_path / "undisturbed")
    assert {rule for rule, _, _ in expected} == set(dying.RULES)
    assert dying.messages(tmp_path / "killed") == expected
    # Of three actions one has failed, and one was tried again.
    assert ("broken", "failed", "fails: 410") in dying.states(tmp_path / "killed")
    assert dying.states(tmp_path / "killed") == dying.states(tmp_path / "undisturbed")
    assert len([rule for rule, _, _ in expected if rule == "broken"]) == 3 * len("ab")


@pytest.mark.slow
def test_a_second_engine_waits(world: World) -> None:
    """One engine at a time: a second command says which process it is, a recorder takes over when that dies."""
    with world.said.open("wb") as said:
        first = forked.popen([*CLI, "rules", "run"], stdout=subprocess.DEVNULL, stderr=said)
    wait_until(lambda: owner(world.home) == first.pid, said=world.said.read_text)
    second = forked.run([*CLI, "rules", "run"], capture_output=True, text=True)
    assert second.returncode == 1
    assert f"process {first.pid}" in second.stderr
    world.start()
    wait_until(lambda: bool(recorder_of(world.home)))
    first.kill()
    first.wait()
    wait_until(lambda: owner(world.home) not in (None, 0, first.pid), said=world.said.read_text)
