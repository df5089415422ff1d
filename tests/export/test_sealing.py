"""Sealing: what can no longer change is queued once, whole, for everybody who wants it, and nothing else is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agenttrace.store.sqlite.retention import Retention

from .rig import NOW, Shelf, World, target


def test_a_turn_is_queued_when_it_is_over_and_quiet(tmp_path: Path) -> None:
    """Before its end, and before it was quiet for long enough, nothing of a turn is queued; then all of it, once."""
    world = World(tmp_path, target())
    world.turn("s", 1, end=False, ts=time.time())
    world.record()
    world.passed = 100
    assert world.seal() == 0
    assert world.states()["queued"] == 0
    world.passed = 0
    world.append("s", "turn.end", turn=1, ts=time.time())
    world.record()
    assert world.seal() == 0
    world.passed = 31
    assert world.seal() == 1
    assert world.seal() == 0
    assert world.states()["queued"] == len(world.span_ids()) == 3
    assert world.rows("SELECT * FROM export_touched") == []


def test_demo_data_is_not_queued(tmp_path: Path) -> None:
    """A session of the demo data did not happen, and is sent nowhere."""
    world = World(tmp_path, target())
    world.append("s", "session.begin", id="s", project="/agenttrace-demo/shop", ts=time.time())
    world.turn("s", 1, ts=time.time())
    world.record()
    world.passed = 100
    assert world.seal() == 0
    assert world.states()["queued"] == 0
    assert world.rows("SELECT * FROM export_touched") == []


def test_open_spans_are_queued_when_their_session_is_stale(tmp_path: Path) -> None:
    """A turn whose agent was killed is sent when nothing was heard of it for as long as makes a session stale."""
    world = World(tmp_path, target())
    world.turn("s", 1, end=False, ts=time.time())
    world.record()
    world.passed = 14 * 60
    assert world.seal() == 0
    world.passed = 16 * 60
    assert world.seal() == 1
    assert world.states()["queued"] == 3


def test_parents_are_queued_before_their_children(tmp_path: Path) -> None:
    """In the order of the queue, every span comes after the one above it, also in the logs of real agents."""
    world = World(tmp_path, target())
    world.use_samples()
    world.record()
    world.passed = 31
    assert world.seal() > 5
    places = {row[1]: row[0] for row in world.rows("SELECT queue_no, span_id FROM export_spans")}
    pairs = world.rows("SELECT span_id, parent_id FROM spans WHERE parent_id IS NOT NULL")
    assert pairs
    assert all(places[parent] < places[child] for child, parent in pairs)
    assert set(places) == world.span_ids()


def test_filters_decide_which_traces_are_queued(tmp_path: Path) -> None:
    """Agents, projects and how turns ended: each destination gets what passes its own filters."""
    world = World(
        tmp_path,
        target("agents", agents=("codex",)),
        target("projects", projects=("*/shop",)),
        target("states", states=("error",)),
        target("all"),
    )
    world.append("a", "session.begin", project="/srv/shop")
    world.turn("a", 1)
    world.append("b", "session.begin", project="/srv/other")
    world.append("b", "turn.begin", turn=1)
    world.append("b", "turn.end", turn=1, status="error")
    world.record()
    world.passed = 31
    world.seal()
    assert {name: world.states(name)["queued"] for name in ("agents", "projects", "states", "all")} == {
        "agents": 0,
        "projects": 3,
        "states": 1,
        "all": 4,
    }


def test_the_start_point_and_backfill(tmp_path: Path) -> None:
    """From now: what ended before the destination was added is not sent, however late it is recorded, until somebody
    asks for it, and then once."""
    world = World(tmp_path, target(start="now"))
    world.turn("old", 1)
    world.record()
    world.turn("new", 1, ts=time.time() + 5)
    world.record()
    world.passed = 3600
    world.seal()
    assert world.states()["queued"] == 3
    with world.opened_store() as store:
        store.exports.destinations.backfill("there", int((NOW - 10) * 1_000_000))
    world.seal()
    assert world.states()["queued"] == 6
    with world.opened_store() as store:
        store.exports.destinations.backfill("there", 0)
    world.seal()
    assert world.states()["queued"] == 6


@pytest.mark.parametrize("start", ["all", "2023-11-01"])
def test_a_destination_may_start_in_the_past(tmp_path: Path, start: str) -> None:
    """Traces from before a destination was added are sent where they are after its start."""
    world = World(tmp_path, target("first"))
    world.turn("s", 1)
    world.record()
    world.passed = 31
    world.reconfigured(target("first"), target("second", start=start))
    world.record()
    world.seal()
    assert world.states("second")["queued"] == 3


def test_without_destinations_no_trace_is_marked(tmp_path: Path) -> None:
    """A store that exports nothing pays nothing for it; a destination that was removed costs nothing either."""
    world = World(tmp_path, target())
    world.reconfigured()
    world.turn("s", 1)
    world.record()
    assert world.rows("SELECT * FROM export_touched") == []
    world.reconfigured(target())
    world.turn("s", 2)
    world.record()
    assert len(world.rows("SELECT * FROM export_touched")) == 2
    world.reconfigured()
    world.record()
    world.turn("s", 3)
    world.record()
    assert len(world.rows("SELECT * FROM export_touched")) == 2


def test_late_lines_add_spans_and_count_changes(tmp_path: Path) -> None:
    """After a turn was sent, spans that late lines add to it are queued; spans that they change are marked as late."""
    world = World(tmp_path, target())
    world.append("s", "turn.begin", turn=1)
    world.append("s", "step.begin", turn=1, step=1, model="qwen-max")
    world.append("s", "tool.begin", turn=1, step=1, id="c1", name="Bash")
    world.append("s", "turn.end", turn=1)
    world.record()
    world.passed = 31
    world.seal()
    shelf = Shelf()
    world.deliver(shelf)
    assert world.states()["acknowledged"] == 3
    world.append("s", "tool.end", turn=1, id="c1", status="error", ts=NOW + 60)
    world.record()
    world.passed += 31
    world.seal()
    assert [row[0] for row in world.rows("SELECT span_id FROM export_spans WHERE late")] == [
        row[0] for row in world.rows("SELECT span_id FROM spans WHERE kind = 'tool'")
    ]
    world.deliver(shelf)
    assert set(shelf.ids.values()) == {1}


def test_spans_pruned_before_they_were_sent_are_dropped_and_counted(tmp_path: Path) -> None:
    """Retention also removes queued spans, and the ledger counts them as dropped."""
    world = World(tmp_path, target())
    world.turn("s", 1)
    world.record()
    world.passed = 31
    world.seal()
    with world.opened() as connection:
        Retention(connection).prune(time.time() + 1e9)
    shelf = Shelf()
    world.deliver(shelf)
    assert shelf.spans == []
    assert world.states()["dropped"] == 3
