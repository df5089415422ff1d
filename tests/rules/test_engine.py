"""What fires, when, and how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.calendar import day_finder
from agenttrace.cli import rules_run
from agenttrace.config import load_settings
from agenttrace.config.rule_tables import parse_tables
from agenttrace.config.rules import RuleMode
from agenttrace.rules.actions.contract import ActionResult
from agenttrace.rules.engine import MOST_FAILURES
from agenttrace.rules.switches import retry, switch
from agenttrace.store.annotations import NewAnnotation
from rules.rig import Rig, sessions_of

HOOK = {"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}}

MakeRig = Callable[..., Rig]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Makes a rig with one rule."""
    made: list[Rig] = []

    def make(**rule: object) -> Rig:
        made.append(Rig(tmp_path / str(len(made)), {"rules": {"r": {"do": ["hook"], **rule}}, "actions": HOOK}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_wait_fires_once(rig: MakeRig) -> None:
    """Each wait is one event, however often the session is recorded and the engine looks or restarts."""
    made = rig(on="session.waiting")
    made.turn(1)
    assert [sessions_of(message) for message in made.look()] == [["s"]]
    assert made.look() == []
    made.restart()
    assert made.look() == []
    made.turn(2)
    assert len(made.look()) == 1


def test_a_wait_of_long_ago_is_history(tmp_path: Path) -> None:
    """What every list calls ended is no news for rules either."""
    rule = {"on": "session.waiting", "do": ["hook"]}
    made = Rig(tmp_path, {"rules": {"r": rule}, "actions": HOOK}, waiting_hours=12)
    try:
        made.turn(1)
        assert made.look() == []
        assert made.reasons() == ["the session ended, or waited for longer than record.waiting_hours"]
        assert [each.state for each in made.store.sessions()] == ["ended"]
    finally:
        made.close()


def test_demo_data_fires_nothing(rig: MakeRig) -> None:
    """A session of the demo data did not happen."""
    made = rig(on="session.waiting")
    made.write("session.begin", id="s", project="/agenttrace-demo/shop")
    made.turn(1)
    assert made.look() == []


def test_a_session_that_goes_on_does_not_fire(rig: MakeRig) -> None:
    """With a settle time, only the last wait counts."""
    made = rig(on="session.waiting", settle="10s")
    made.turn(1)
    assert made.look() == []
    made.wait(5)
    made.turn(2)
    made.wait(9)
    assert made.look() == []
    made.wait(2)
    assert len(made.look()) == 1
    assert made.reasons() == ["the session went on before it was silent long enough"]


def test_a_session_ends_by_silence_once(rig: MakeRig) -> None:
    """The end of a session is silence after a turn; a session that is resumed does not end again."""
    made = rig(on="session.ended", settle="2m")
    made.turn(1)
    made.wait(119)
    assert made.look() == []
    made.wait(2)
    assert len(made.look()) == 1
    made.wait(1000)
    made.turn(2)
    made.wait(1000)
    assert made.look() == []
    assert made.reasons() == ["fired for this session before, in firing 1"]


def test_an_interrupted_session_has_ended(rig: MakeRig) -> None:
    """No agent logs its own death."""
    made = rig(on="session.ended", settle="1m")
    made.now = made.now + 0  # the engine's clock; the store's state depends on the real one
    made.write("turn.begin", turn=1, id="t1")
    made.record()
    made.wait(120)
    # START is long ago, so the store calls the session interrupted.
    assert len(made.look()) == 1


def test_failed_tools(rig: MakeRig) -> None:
    """Each failed call fires once, those that match the filter alone."""
    made = rig(on="tool.failed", where={"tool": "sh*"})
    made.write("turn.begin", turn=1, id="t1")
    made.tool("a")
    made.tool("b", name="edit")
    made.tool("c", status="ok")
    made.tool("d")
    messages = made.look()
    assert [message.events[0].event.facts["tool"] for message in messages] == ["shell", "shell"]
    made.tool("a")
    assert made.look() == []


def test_once_a_session(rig: MakeRig) -> None:
    """``once`` decides what further events of a session do."""
    made = rig(on="tool.failed", once="session")
    made.write("turn.begin", turn=1, id="t1")
    for call in "abc":
        made.tool(call)
    made.write("turn.begin", "other", turn=1, id="t1")
    made.tool("a", "other")
    assert sorted(map(sessions_of, made.look())) == [["other"], ["s"]]


def test_a_cooldown_collects(rig: MakeRig) -> None:
    """What is held back is a part of the next message."""
    made = rig(on="tool.failed", cooldown="10m")
    made.write("turn.begin", turn=1, id="t1")
    made.tool("a")
    assert len(made.look()) == 1
    for call in "bcd":
        made.wait(60)
        made.tool(call)
        assert made.look() == []
    made.restart()
    made.wait(600)
    (message,) = made.look()
    assert len(message.events) == 3
    assert {firing.state for firing in made.firings()} == {"done", "collected"}


def test_a_daily_cap(rig: MakeRig) -> None:
    """Beyond the cap nothing fires that day, and each event says why."""
    made = rig(on="tool.failed", max_per_day=2)
    made.write("turn.begin", turn=1, id="t1")
    for call in "abcd":
        made.tool(call)
    assert len(made.look()) == 2
    assert made.reasons() == ["the rule fired 2 times today, and max_per_day is 2"] * 2
    made.wait(86_400)
    made.tool("e")
    assert len(made.look()) == 1


def test_dry(rig: MakeRig) -> None:
    """A dry rule notes what it would have done."""
    made = rig(on="tool.failed", mode="dry", once="session")
    made.write("turn.begin", turn=1, id="t1")
    made.tool("a")
    made.tool("b")
    assert made.look() == []
    assert [firing.state for firing in made.firings()] == ["dry", "skipped"]


def test_what_happened_before_the_rule_does_not_fire(rig: MakeRig) -> None:
    """A rule starts now, unless it says otherwise."""
    made = rig(on="tool.failed")
    made.now -= 3600
    made.write("turn.begin", turn=1, id="t1")
    made.tool("a")
    made.now += 3600
    assert made.look() == []
    assert made.store.rules.events(10) == []


def test_a_sample_is_the_same_in_every_run(tmp_path: Path) -> None:
    """A share of the sessions, chosen by hash."""
    fired = []
    for run in range(2):
        rule = {"on": "session.waiting", "sample": 0.5, "do": ["hook"]}
        made = Rig(tmp_path / str(run), {"rules": {"r": rule}, "actions": HOOK})
        for number in range(40):
            made.turn(1, f"s{number}")
        fired.append([sessions_of(message)[0] for message in made.look()])
        made.close()
    assert sorted(fired[0]) == sorted(fired[1])
    assert 8 < len(fired[0]) < 32


def test_a_failed_action_is_tried_again_with_the_same_key(rig: MakeRig) -> None:
    """Attempts have one idempotency key, and pauses between them."""
    made = rig(on="session.waiting")
    made.noting.results = [ActionResult("retry", "503"), ActionResult("retry", "503")]
    made.turn(1)
    assert len(made.look()) == 1
    assert made.look() == []
    made.wait(1.5)
    assert len(made.look()) == 1
    made.restart()
    made.wait(3)
    assert len(made.look()) == 1
    assert len({message.idempotency_key for message in made.noting.messages}) == 1
    assert [attempt.outcome for attempt in made.store.rules.attempts(1)] == ["retry", "retry", "done"]
    assert [firing.state for firing in made.firings()] == ["done"]


def test_later_actions_see_earlier_answers(tmp_path: Path) -> None:
    """The actions of a rule run in order."""
    actions = {"first": {"type": "notify"}, "second": {"type": "notify"}}
    made = Rig(tmp_path, {"rules": {"r": {"on": "session.waiting", "do": ["first", "second"]}}, "actions": actions})
    made.turn(1)
    first, second = made.look()
    assert (first.action.name, first.answers) == ("first", {})
    assert (second.action.name, second.answers) == ("second", {"first": {"said": "first"}})
    made.close()


def _with_actions(root: Path, **kinds: str) -> Rig:
    """A rig whose rule has actions of these types, in order."""
    actions = {name: {"type": kind, **_NEEDED[kind]} for name, kind in kinds.items()}
    return Rig(root, {"rules": {"r": {"on": "session.waiting", "do": [*kinds]}}, "actions": actions})


_NEEDED: dict[str, dict[str, object]] = {
    "webhook": {"url": "http://127.0.0.1:1/"},
    "command": {"argv": ["true"]},
    "notify": {},
}


def test_an_action_that_fails_does_not_keep_the_others_from_running(tmp_path: Path) -> None:
    """The firing has failed in the end; a retry runs only what failed, under the same key."""
    made = _with_actions(tmp_path, first="webhook", second="command", third="webhook", last="notify")
    made.noting.results = [ActionResult("failed", "410"), ActionResult("failed", "exit code 1")]
    made.turn(1)
    assert [message.action.name for message in made.look()] == ["first", "second", "third", "last"]
    (firing,) = made.firings()
    assert (firing.state, firing.reason) == ("failed", "first: 410; second: exit code 1")
    assert made.store.rules.states()["r"].failures == 1
    keys = {message.action.name: message.idempotency_key for message in made.noting.messages}
    assert len({*keys.values()}) == 4
    made.restart()
    assert retry(made.store, made.tables, [firing.number], day="2023-11-14") == 1
    again = made.look()
    assert {message.action.name: message.idempotency_key for message in again} == {
        name: keys[name] for name in ("first", "second")
    }
    assert [each.state for each in made.firings()] == ["done"]
    made.close()


def test_an_action_that_is_tried_again_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """Each has its own pauses, also over a restart; the firing is over when all are."""
    made = _with_actions(tmp_path, first="webhook", second="webhook", third="notify")
    made.noting.results = [ActionResult("retry", "503"), ActionResult("retry", "503", retry_after=100.0)]
    made.turn(1)
    assert [message.action.name for message in made.look()] == ["first", "second", "third"]
    made.restart()
    assert made.look() == []
    made.wait(1.5)
    assert [message.action.name for message in made.look()] == ["first"]
    assert [each.state for each in made.firings()] == ["running"]
    made.wait(50.0)
    assert made.look() == []
    made.wait(50.0)
    assert [(message.action.name, message.attempt) for message in made.look()] == [("second", 2)]
    assert [each.state for each in made.firings()] == ["done"]
    keys = {(message.action.name, message.idempotency_key) for message in made.noting.messages}
    assert len(keys) == 3
    made.close()


def test_what_sees_an_answer_waits_for_it(tmp_path: Path) -> None:
    """A command that is tried again may still answer; one that has failed for good holds up nothing."""
    made = _with_actions(tmp_path, hook="webhook", command="command", last="webhook")
    made.noting.results = [ActionResult("done"), ActionResult("retry", "exit code 1")]
    made.turn(1)
    assert [message.action.name for message in made.look()] == ["hook", "command"]
    made.noting.results = [ActionResult("retry", "exit code 1"), ActionResult("failed", "time is up")]
    made.wait(1.5)
    assert [message.action.name for message in made.look()] == ["command"]
    made.wait(2.5)
    command, last = made.look()
    assert (command.action.name, last.action.name, last.answers) == ("command", "last", {})
    assert [(each.state, each.reason) for each in made.firings()] == [("failed", "command: time is up")]
    made.close()


def test_a_rule_that_keeps_failing_is_paused(rig: MakeRig) -> None:
    """What comes meanwhile waits, and fires when the rule is switched on again."""
    made = rig(on="session.waiting")
    made.noting.results = [ActionResult("failed", "410")] * MOST_FAILURES
    for number in range(1, MOST_FAILURES + 1):
        made.turn(number)
        made.look()
    paused = made.store.rules.states()["r"].paused
    assert paused is not None
    assert "410" in paused
    made.turn(MOST_FAILURES + 1)
    assert made.look() == []
    made.store.rules.switch("r", "on", since=0)
    assert len(made.look()) == 1


def test_a_lost_store_fires_nothing_again(tmp_path: Path) -> None:
    """The journal knows what fired, and since when the rule does."""
    tables = {"rules": {"r": {"on": "tool.failed", "do": ["hook"]}}, "actions": HOOK}
    made = Rig(tmp_path, tables)
    made.write("turn.begin", turn=1, id="t1")
    made.tool("a")
    made.wait(10)
    made.look()
    made.tool("b")
    made.close()
    for path in (tmp_path / "home").glob("agenttrace.db*"):
        path.unlink()
    again = Rig(tmp_path, tables)
    again.now = made.now
    again.record()
    (message,) = again.look()
    assert message.events[0].event.at == round(made.now * 1_000_000)
    again.close()


def _after_loss(made: Rig, tables: dict[str, Any]) -> Rig:
    """The same logs, settings and journals, and a new store."""
    made.close()
    for path in made.settings.home.glob("agenttrace.db*"):
        path.unlink()
    again = Rig(made.root, tables)
    again.now = made.now
    again.record()
    return again


@pytest.mark.parametrize(("settings", "switched"), [("on", "off"), ("off", "on"), ("on", "dry"), ("on", None)])
def test_a_lost_store_forgets_no_switch(tmp_path: Path, settings: RuleMode, switched: RuleMode | None) -> None:
    """A rule does what it was switched to; one whose switch was taken back does what its settings say."""
    tables = {"rules": {"r": {"on": "tool.failed", "do": ["hook"], "mode": settings}}, "actions": HOOK}
    made = Rig(tmp_path, tables)
    for mode in dict.fromkeys((switched or "off", switched)):
        switch(made.store, made.tables, made.tables.rules["r"], mode, home=made.settings.home, day_of=day_finder("UTC"))
    again = _after_loss(made, tables)
    (again.settings.home / "agenttrace.toml").write_text(
        f'[rules.r]\non = "tool.failed"\ndo = ["hook"]\nmode = "{settings}"\n'
        '[actions.hook]\ntype = "webhook"\nurl = "http://127.0.0.1:1/"\nallow_private = true\n',
        "utf-8",
    )
    at_home = load_settings({"HOME": str(again.root), "AGENTTRACE_HOME": str(again.settings.home)})
    assert rules_run.any_on(at_home)
    # Switches go by the real clock.
    again.now = time.time() + 60
    again.write("turn.begin", turn=1, id="t1")
    again.tool("a")
    again.look()
    states = [each.state for each in again.firings()]
    assert states == {"on": ["done"], "dry": ["dry"], "off": []}[switched or settings]
    again.close()


def test_a_lost_store_does_not_fire_for_what_happened_while_the_rule_was_off(tmp_path: Path) -> None:
    """Since when a rule fires is known also where it was off in between."""
    tables: dict[str, Any] = {"rules": {"r": {"on": "tool.failed", "do": ["hook"]}}, "actions": HOOK}
    off = parse_tables({**tables, "rules": {"r": {**tables["rules"]["r"], "mode": "off"}}}, Path("agenttrace.toml"), {})
    made = Rig(tmp_path, tables)
    made.write("turn.begin", turn=1, id="t1")
    made.tool("a")
    assert len(made.look()) == 1
    made.engine.keep(off)
    made.wait(10)
    made.tool("b")
    made.wait(10)
    made.engine.keep(made.tables)
    assert made.look() == []
    again = _after_loss(made, tables)
    assert again.look() == []
    again.wait(10)
    again.tool("c")
    assert len(again.look()) == 1
    again.close()


def test_the_clock_is_set(rig: MakeRig) -> None:
    """Neither a clock that is set back nor one that is set forward makes a session end early, late or twice."""
    made = rig(on="session.ended", settle="2m")
    made.turn(1)
    assert made.look() == []
    made.now += 86_400  # forward, or the machine slept
    assert made.look() == []
    made.wait(60)
    assert made.look() == []
    made.now -= 2 * 86_400
    made.wait(61)
    assert len(made.look()) == 1
    made.wait(1000)
    assert made.look() == []


def test_a_label_of_the_session(rig: MakeRig) -> None:
    """Labels are asked for when the rule decides, so one that was added while it settles counts."""
    made = rig(on="session.ended", settle="1m", where={"label": "bug"})
    made.turn(1, "a")
    made.turn(1, "b")
    number = made.store.session("b").id
    made.store.annotation_table.put(
        NewAnnotation(session=number, kind="label", name="bug", source="person", author="me")
    )
    made.wait(61)
    assert [sessions_of(message) for message in made.look()] == [["b"]]
    assert made.reasons() == ["labels are none"]


def test_a_paused_rule_holds_up_no_other(tmp_path: Path) -> None:
    """However much waits for it."""
    rules: dict[str, dict[str, object]] = {
        "a": {"on": "tool.failed", "max_per_day": 10_000},
        "b": {"on": "session.waiting"},
    }
    tables = {"rules": {name: {"do": ["hook"], **rule} for name, rule in rules.items()}, "actions": HOOK}
    made = Rig(tmp_path, tables)
    made.store.rules.pause("a", "ten failures")
    made.write("turn.begin", turn=1, id="t1")
    for call in range(600):
        made.write("tool.begin", id=f"c{call}", name="shell", arguments={})
        made.write("tool.end", id=f"c{call}", status="error", result="x")
    made.record()
    assert made.look() == []
    made.wait(1)
    made.write("turn.end", turn=1, id="t1")
    made.record()
    assert [message.rule.name for message in made.look()] == ["b"]
    made.close()
