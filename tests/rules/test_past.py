"""The past: what a rule that starts there looks back for, and that a trial tells of the same events."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from agenttrace.config.rule_tables import parse_tables
from agenttrace.config.rules import EventKind
from agenttrace.rules.past import past_events, portion_of
from rules.rig import Rig
from rules.test_events import DATA, HOOK

DAY = 86_400.0
FOREVER = 2**62


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path, {})
    yield rig
    rig.close()


def write_rule(rig: Rig, **rule: Any) -> None:  # noqa: ANN401 - fields of a rule
    tables = {"rules": {"r": {"on": "tool.failed", "do": ["hook"], "start": "all", **rule}}, "actions": HOOK}
    rig.tables = parse_tables(tables, Path("agenttrace.toml"), {})
    rig.engine.keep(rig.tables)


def happen(rig: Rig, days: int) -> None:
    """A failed call a day, each in a session of its own."""
    for number in range(days):
        rig.write("turn.begin", f"s{number}", turn=1, id="t1")
        rig.tool(f"c{number}", f"s{number}")
        rig.wait(DAY)


def sent(rig: Rig) -> list[str]:
    """The sessions of all messages."""
    return [each.session.session_id for message in rig.look() for each in message.events if each.session]


def test_the_start(made: Rig) -> None:
    """All, a day, or now; a rule whose start is changed looks back further, and fires for nothing twice."""
    happen(made, 4)
    write_rule(made, start="now")
    assert sent(made) == []
    write_rule(made, start="2023-11-17")
    assert sent(made) == ["s3"], "at 22:13 of the 14th it began"
    write_rule(made, start="all")
    assert sorted(sent(made)) == ["s0", "s1", "s2"]
    write_rule(made, start="2023-11-15")
    assert sent(made) == []


def test_a_cap_leaves_the_rest_for_other_days(made: Rig) -> None:
    """What is old takes half of the day's messages at most, so that what happens now fires; in the end all does."""
    happen(made, 10)
    made.wait(DAY)
    write_rule(made, max_per_day=4)
    days = [sorted(sent(made))]
    assert len(days[0]) == 2
    (waits,) = {each.reason for each in made.firings(["settling"])}
    assert waits == "it waits for another day: the rule fired 2 times today, and max_per_day is 4"
    made.write("turn.begin", "new", turn=1, id="t1")
    made.tool("now", "new")
    assert sent(made) == ["new"]
    for _ in range(5):
        made.wait(DAY)
        days.append(sent(made))
        made.restart()
    assert sorted(each for day in days for each in day) == sorted(f"s{number}" for number in range(10))
    assert [len(day) for day in days] == [2] * 5 + [0]


def test_a_wait_of_yesterday_is_over(made: Rig) -> None:
    """Of waits only those count that someone may still answer, and each under the key that it has when it is new."""
    made.turn(1, "old")
    made.wait(2 * DAY)
    made.turn(1, "fresh")
    made.turn(2, "fresh")
    write_rule(made, on="session.waiting")
    assert sent(made) == ["fresh"]
    made.write("turn.begin", "fresh", turn=3, id="t3")
    made.record()
    made.write("turn.end", "fresh", turn=3, id="t3")
    made.record()
    assert sent(made) == ["fresh"]


def test_sessions_that_work_are_watched(made: Rig) -> None:
    """A session that worked before the rule was written ends, or is stuck, by silence."""
    made.now = time.time()
    made.restart()
    made.write("turn.begin", "s", turn=1, id="t1")
    made.record()
    write_rule(made, on="session.stuck", settle="2m")
    assert sent(made) == []
    made.wait(121)
    assert sent(made) == ["s"]


@pytest.mark.parametrize("kind", get_args(EventKind))
def test_every_kind_can_be_looked_back_for(made: Rig, kind: EventKind) -> None:
    """Also where there is nothing, and in a store with all kinds of things."""
    assert portion_of(made.store, kind, 0, 0, FOREVER).following is None
    shutil.copytree(DATA / "claude-code-2.1.325" / "projects", made.logs, dirs_exist_ok=True)
    (made.logs / "bad.jsonl").write_text(json.dumps({"v": 1, "session": "b", "type": "turn.begin", "ts": 1}) + "\n{\n")
    made.record()
    write_rule(made, on=kind, settle="0s", max_per_day=10_000)
    made.look()
    found = portion_of(made.store, kind, 0, 0, round(made.now * 1e6))
    events = {each.key for each in found.events}
    if kind.startswith("session."):
        assert {each.event.key for each in made.firings(["done"])} <= events
    if kind in ("tool.failed", "turn.failed", "quarantine.grew"):
        assert events == {each.event.key for each in past_events(made.store, kind, 0, FOREVER)}
        assert {each.event.key for each in made.firings()} == events - _copies(made, found.events)
        assert events


def _copies(rig: Rig, events: list[Any]) -> set[bytes]:
    return {each.key for each in events if rig.store.rules.is_copy(each)}
