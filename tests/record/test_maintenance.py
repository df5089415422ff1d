"""Retention and clean-up run by themselves, a piece at a time, and leave what ``prune`` by hand would leave."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings, load_settings
from agenttrace.record import maintenance
from agenttrace.record.ingest.pipeline import IDLE_SECONDS
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts import search_index
from agenttrace.record.watcher import Watcher
from agenttrace.store import open_store
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.status import collected
from store_on import store_on

DATA = Path(__file__).resolve().parents[1] / "data"
DAY = maintenance.DAY
NOW = time.time()


class World:
    """A data directory with logs in our own format."""

    def __init__(self, place: Path, days: int = 90) -> None:
        self.logs = place / "logs"
        self.logs.mkdir(parents=True)
        environ = {"HOME": str(place), "AGENTTRACE_HOME": str(place / "home"), "AGENTTRACE_RETENTION_DAYS": str(days)}
        self.environ = environ
        self.settings: Settings = load_settings(environ)

    def log(self, name: str, age_days: float, *more: dict[str, Any], word: str = "word") -> Path:
        at = NOW - age_days * DAY
        usage = {"input_tokens": 1000, "output_tokens": 10}
        lines = [
            {"type": "turn.begin", "ts": at, "prompt": f"{word} {name}"},
            {"type": "step.begin", "ts": at + 1, "id": f"s{age_days}", "model": "claude-sonnet-4-5"},
            {"type": "usage", "ts": at + 2, "response": f"r-{name}-{age_days}", "usage": usage},
            {"type": "turn.end", "ts": at + 3},
            *more,
        ]
        path = self.logs / f"{name}.jsonl"
        with path.open("ab") as file:
            for line in lines:
                file.write(msgspec.json.encode({"v": 1, "session": name} | line) + b"\n")
        return path

    def recorder(self) -> Recorder:
        return Recorder(self.settings, paths=[str(self.logs)], environ=self.environ)

    def record(self) -> int:
        recorder = self.recorder()
        try:
            return recorder.run_once().recorded
        finally:
            recorder.close()

    def store(self) -> SqliteStore:
        return SqliteStore.open(self.settings.home / "agenttrace.db", read_only=False)

    def connection(self) -> sqlite3.Connection:
        return connect(self.settings.home / "agenttrace.db")

    def run(self, *, now: float = NOW) -> list[bool]:
        with self.store() as store:
            return list(maintenance.run(store, self.settings, now=now))

    def rows(self, query: str) -> list[Any]:
        connection = self.connection()
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def sessions(self) -> set[str]:
        return {row[0] for row in self.rows("SELECT session_id FROM sessions WHERE events > 0")}


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "home").mkdir()
    return World(tmp_path)


@pytest.fixture
def followed(world: World) -> Iterator[tuple[World, Watcher]]:
    recorder = world.recorder()
    yield world, Watcher(recorder, threading.Event())
    recorder.close()


def test_a_recorder_prunes_by_itself(followed: tuple[World, Watcher]) -> None:
    """Following logs is enough: what is older than ``retention.days`` goes, what it cost stays, ``status`` says so."""
    world, watcher = followed
    world.log("old", 100)
    world.log("young", 1)
    watcher._round(None)
    usage = world.rows("SELECT * FROM usage_rollup")
    for _ in range(50):
        watcher._round(set())
    assert world.sessions() == {"young"}
    assert world.rows("SELECT * FROM usage_rollup") == usage
    assert world.rows("SELECT count(*) FROM raw_blocks") == [(1,)]
    with open_store(world.settings) as store:
        found = collected(store, world.settings)["retention"]
    assert (found["days"], found["removed"]["sessions"], found["removed"]["events"]) == (90, 1, 4)
    assert found["last_run_at"] is not None


def test_a_pruned_session_that_goes_on_while_it_is_followed(followed: tuple[World, Watcher]) -> None:
    """The recorder drops its cache of the session: the new lines alone are shown, as after a restart."""
    world, watcher = followed
    world.log("old", 100)
    for _ in range(20):
        watcher._round(None)
    assert world.sessions() == set()
    world.log("old", 0.1, word="back")
    watcher._round(None)
    assert world.rows("SELECT events, turns FROM sessions WHERE session_id = 'old'") == [(4, 1)]
    assert world.rows("SELECT count(*) FROM spans") == [(2,)]


def test_without_the_setting_everything_stays(tmp_path: Path) -> None:
    """``retention.days = 0`` removes nothing, however old."""
    (tmp_path / "home").mkdir()
    world = World(tmp_path, days=0)
    world.log("old", 5000)
    world.record()
    before = world.rows("SELECT * FROM processed_events")
    world.run()
    assert world.sessions() == {"old"}
    assert world.rows("SELECT * FROM processed_events") == before


def test_ids_and_rows_of_files_that_are_gone(world: World) -> None:
    """The ids go a day after their file, its row after a week; the totals of lines stay as they were."""
    old, young = world.log("old", 100), world.log("young", 1)
    world.record()
    world.run()
    old.unlink()
    world.run(now=NOW + DAY)
    assert world.rows("SELECT count(*) FROM processed_events") == [(8,)], "the file is gone for less than a day"
    world.run(now=NOW + 2.5 * DAY)
    assert world.rows("SELECT count(*) FROM processed_events") == [(4,)]
    assert world.rows("SELECT count(*) FROM file_offsets") == [(2,)]
    world.run(now=NOW + 9 * DAY)
    assert world.rows("SELECT filepath FROM file_offsets") == [(str(young),)]
    with open_store(world.settings) as store:
        status = collected(store, world.settings)
    assert status["lines"] == {"lines": 8, "recorded": 8, "duplicate": 0, "ignored": 0, "quarantined": 0}
    assert (status["retention"]["removed"]["event_ids"], status["retention"]["removed"]["files"]) == (4, 1)


def test_a_file_with_stored_lines_keeps_its_row(world: World) -> None:
    """What was recorded survives the deletion of the log; its row says what the stored lines mean."""
    world.log("young", 1).unlink()
    world.log("other", 1)
    world.record()
    (world.logs / "other.jsonl").unlink()
    for days in (0, 1, 8, 20):
        world.run(now=NOW + days * DAY)
    assert len(world.rows("SELECT * FROM file_offsets")) == 1
    assert world.sessions() == {"other"}


def test_words_of_pruned_sessions_leave_the_search_index(world: World) -> None:
    """They are not found any more at once, and leave the index within a week."""
    world.log("old", 100, word="zebra")
    world.log("young", 1, word="giraffe")
    world.record()
    connection = world.connection()
    search_index.index_all(store_on(connection))
    connection.close()
    words = "SELECT count(*) FROM search WHERE search MATCH 'zebra'"
    world.run()
    assert world.rows(words) == [(1,)]
    world.run(now=NOW + 8 * DAY)
    assert world.rows(words) == [(0,)]
    connection = world.connection()
    assert search_index.index_all(store_on(connection)) == 4
    assert store_on(connection).search_index.stale_since is None
    connection.close()
    assert world.rows("SELECT count(*) FROM search WHERE search MATCH 'giraffe'") == [(1,)]


@settings(max_examples=15)
@given(st.lists(st.sampled_from([1.0, 50.0, 100.0, 400.0]), min_size=1, max_size=6), st.integers(0, 30))
def test_an_interrupted_run_is_finished_by_the_next(
    tmp_path_factory: pytest.TempPathFactory, ages: list[float], pieces: int
) -> None:
    """Wherever a run stops, the next one ends as ``prune`` by hand in one go."""
    place = tmp_path_factory.mktemp("world")
    (place / "home").mkdir()
    world = World(place)
    for number, age in enumerate(ages):
        world.log(f"s{number}", age)
    world.record()
    planned = world.store()
    expected = planned.retention.measure(NOW - 90 * DAY)
    usage = planned.connection.execute("SELECT * FROM usage_rollup").fetchall()
    first = maintenance.run(planned, world.settings, now=NOW)
    for _ in range(pieces):
        next(first, None)
    first.close()
    planned.close()
    world.run()
    assert world.sessions() == {f"s{number}" for number, age in enumerate(ages) if age < 90}
    assert world.rows("SELECT count(*) FROM raw_blocks") == [(len(ages) - expected.sessions,)]
    assert world.rows("SELECT * FROM usage_rollup") == usage
    assert world.record() == 0


def test_memory_of_sessions_that_ended_or_idle_is_freed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids and folding state of such a session are dropped; its later lines are recorded once all the same."""
    world.log("ended", 0.1, {"type": "session.end", "ts": NOW})
    world.log("idle", 0.1)
    world.log("busy", 0.1)
    recorder = world.recorder()
    recorder.scan()
    recorder.drain()
    held = recorder.pipeline._sessions
    assert {name for _, name in held} == {"idle", "busy"}
    assert len(recorder.pipeline.tiers._sessions) == 2
    later = time.monotonic() + IDLE_SECONDS + 1
    monkeypatch.setattr("agenttrace.record.ingest.pipeline.time.monotonic", lambda: later)
    world.log("busy", 0.05)
    recorder.scan()
    recorder.drain()
    assert {name for _, name in held} == {"busy"}
    for name in ("ended", "idle"):
        world.log(name, 0.05)
        (world.logs / f"{name}.copy.jsonl").write_bytes((world.logs / f"{name}.jsonl").read_bytes())
    recorder.scan()
    recorder.drain()
    recorder.close()
    counts = dict(world.rows("SELECT session_id, events FROM sessions"))
    assert counts == {"ended": 9, "idle": 8, "busy": 8}


def test_a_pruned_session_is_not_billed_again_by_its_agents_total(world: World) -> None:
    """Claude Code writes what a session cost so far. Once its calls are pruned, that total must not replace them."""
    log = next(DATA.joinpath("claude-code-2.1.325").rglob("feedbd99-*.jsonl"))
    copy = world.logs / log.name
    copy.write_bytes(log.read_bytes())
    world.record()
    usage = world.rows("SELECT * FROM usage_rollup")
    assert usage
    world.run(now=time.time() + 400 * DAY)
    assert world.sessions() == set()
    lines = [line for line in log.read_bytes().splitlines() if b'"cost-state"' in line]
    prompt = next(line for line in log.read_bytes().splitlines() if b'"type":"user"' in line)
    again = json.loads(prompt) | {"uuid": "00000000-0000-4000-8000-000000000001"}
    with copy.open("ab") as file:
        file.write(json.dumps(again).encode() + b"\n")
        file.write(json.dumps(json.loads(lines[-1]) | {"totalDuration": 999_999}).encode() + b"\n")
    assert world.record() == 2
    assert world.rows("SELECT * FROM usage_rollup") == usage
