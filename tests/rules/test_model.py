"""What fires, against a simple model of what should: any order of events, kills at any moment, clocks that are set."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.config.rules import RuleMode
from rules.rig import sessions_of
from rules.world import BY_CALL, CAP, RULES, STEP, World, in_sample, without_caps

Step = tuple[str, float | str]

MODES: st.SearchStrategy[RuleMode] = st.sampled_from(["on", "off"])
SESSIONS = st.sampled_from(["a", "b"])
HAPPENS = (
    st.tuples(st.just("turn"), SESSIONS),
    st.tuples(st.sampled_from(["tool", "deploy"]), SESSIONS),
    st.tuples(st.just("wait"), st.sampled_from([STEP, 2 * STEP, 60.0])),
    st.tuples(st.just("sleep"), st.sampled_from([1.0, 30.0, 120.0])),
    st.tuples(st.just("kill"), st.sampled_from(["before", "after"])),
)
AGAIN = (st.tuples(st.just("again"), SESSIONS), st.tuples(st.just("recorder"), st.just("")))
MIDNIGHT = st.tuples(st.just("midnight"), st.just(""))
STEPS = st.lists(st.one_of(*HAPPENS), max_size=25)
few = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])


def play(world: World, steps: list[Step]) -> None:
    for name, value in steps:
        getattr(world, name)(value)


@few
@given(st.lists(st.one_of(*HAPPENS, *AGAIN, MIDNIGHT), max_size=25))
def test_everything_that_should_fire_does_once(steps: list[Step]) -> None:
    """Whatever happens in which order and is imported again, wherever processes die, up to the cap of each day."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        play(world, steps)
        world.wait(200.0)
        assert world.delivered() == Counter(world.expected)
        assert world.repeats() <= world.kills
        world.check_caps()
        world.close()


@few
@given(STEPS, st.integers(0, 25), st.lists(st.tuples(st.integers(0, 25), st.sampled_from([*RULES]), MODES), max_size=4))
def test_a_rule_that_starts_in_the_past_fires_for_everything_once(
    steps: list[Step], added: int, switched: list[tuple[int, str, RuleMode]]
) -> None:
    """Whenever it is written or switched, among what happens and wherever processes die: nothing is missed."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root), on=False)
        for place, step in enumerate([*steps, ("wait", STEP)]):
            if place == min(added, len(steps)):
                world.add_rules()
            for at, rule, mode in switched:
                if at == place > added:
                    world.switch(rule, mode)
            play(world, [step])
        for rule in RULES:
            world.switch(rule, "on")
        world.wait(200.0)
        assert without_caps(world.delivered()) == without_caps(Counter(world.expected))
        world.check_caps()
        world.close()


@few
@given(st.lists(st.one_of(*HAPPENS, *AGAIN, st.tuples(st.just("rebuild"), st.sampled_from(["logs", "rules"])))))
def test_a_store_that_is_rebuilt_fires_nothing_twice(steps: list[Step]) -> None:
    """Whenever it is lost, and whatever was on its way: what fired is known, and what did not fire does."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        play(world, steps)
        world.wait(200.0)
        world.check_at_least_once()
        assert world.repeats() <= world.kills
        world.check_caps()
        world.close()


@few
@given(st.lists(st.one_of(*HAPPENS, st.tuples(st.just("look_elsewhere"), st.just(""))), max_size=25))
def test_two_recorders_fire_under_the_same_keys(steps: list[Step]) -> None:
    """Two data directories that record the same logs: a receiver that remembers the keys handles everything once."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        play(world, steps)
        world.wait(200.0)
        for _ in range(4):
            world.look_elsewhere("")
            world.rig.wait(60.0)
        world.check_at_least_once()
        keys = Counter(rule for rule, _ in {(each.rule.name, each.idempotency_key) for each in world.mortal.messages})
        things = Counter(rule for rule, _, _ in world.expected)
        assert all(keys[rule] == things[rule] for rule in RULES if rule != "held")
        world.close()


@few
@given(STEPS, st.lists(st.tuples(st.integers(0, 25), st.sampled_from([-86_400.0, -30.0, 30.0, 86_400.0])), max_size=3))
def test_a_clock_that_is_set_fires_nothing_early_or_twice(steps: list[Step], jumps: list[tuple[int, float]]) -> None:
    """Sessions end by silence as a clock measures it that cannot be set; nothing that failed or waits is forgotten."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        # Something to fire for, whatever else happens.
        for place, (name, value) in enumerate([("turn", "a"), ("tool", "b"), *steps]):
            for at, seconds in jumps:
                if at == place:
                    world.rig.now += seconds
            if name != "sleep":
                play(world, [(name, value)])
        world.wait(300.0)
        found, expected = without_caps(world.delivered()), without_caps(Counter(world.expected))
        assert all(count == 1 for count in found.values())
        waits = {each for each in expected if each[0] == "waiting"}
        assert {each for each in found if each[0] != "waiting"} == expected.keys() - waits
        last = {(name, world.waits[name]) for name, (state, _) in world.state.items() if state == "waiting"}
        still = {("waiting", session, number) for session, number in last}
        ever = {("waiting", session, world.waits[session]) for session in world.state}
        assert still <= {each for each in found if each[0] == "waiting"} <= waits | ever
        assert {("ended", "a", 0), ("ended", "b", 0), ("tool", "b", 1), ("first", "b", 0)} <= found.keys()
        world.check_caps()
        world.close()


def test_the_model_has_something_of_everything(tmp_path: Path) -> None:
    """Each rule fires in it, but for the one whose filter matches nothing; one session is in the sample."""
    world = World(tmp_path)
    for session in "ab":
        for _ in range(CAP):
            world.deploy(session)
        world.turn(session)
    world.wait(200.0)
    fired = world.delivered()
    assert {rule for rule, _, _ in fired} == {*RULES, "capped"} - {"elsewhere"}
    assert (in_sample("sampled", "a"), in_sample("sampled", "b")) == (True, False)
    assert len([each for each in fired if each[0] == "capped"]) == CAP
    assert len([each for each in fired if each[0] in BY_CALL and each[1] == "b"]) == 3 * CAP
    world.close()


def test_the_model_can_fail(tmp_path: Path) -> None:
    """A delivery that is lost is noticed."""
    world = World(tmp_path)
    world.tool("a")
    world.wait(200.0)
    assert world.delivered() == Counter(world.expected)
    world.mortal.messages.pop()
    with pytest.raises(AssertionError):
        assert world.delivered() == Counter(world.expected)
    assert sessions_of(world.mortal.messages[0]) == ["a"]
    world.close()
