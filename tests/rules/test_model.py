"""What fires, against a simple model of what should: any order of events, kills at any moment, clocks that are set."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.calendar import day_finder
from agenttrace.config.rule_tables import parse_tables
from agenttrace.config.rules import RuleMode
from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.switches import switch
from rules.rig import Noting, Rig, sessions_of

WAITING_SETTLE, ENDED_SETTLE, COOLDOWN = 10.0, 60.0, 45.0
RULES: dict[str, dict[str, object]] = {
    "tool": {"on": "tool.failed"},
    "held": {"on": "tool.failed", "cooldown": COOLDOWN},
    "waiting": {"on": "session.waiting", "settle": WAITING_SETTLE},
    "ended": {"on": "session.ended", "settle": ENDED_SETTLE},
    "first": {"on": "tool.failed", "once": "session"},
}
TABLES = {
    "rules": {name: {"do": ["hook"], "start": "all", **rule} for name, rule in RULES.items()},
    "actions": {"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}},
}
#: The engine of a running service looks once a second; here less often, which the model knows.
STEP = 5.0


class Killed(SystemExit):
    """The process dies: of all exceptions, asyncio passes this one on at once."""


class Mortal(Noting):
    """An action whose process may die before or after it was carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.die: str | None = None

    async def run(self, message: Message) -> ActionResult:
        if self.die == "before":
            self.die = None
            raise Killed
        self.messages.append(message)
        if self.die == "after":
            self.die = None
            raise Killed
        return ActionResult("done")


class World:
    """A rig, and a model that is told the same."""

    def __init__(self, root: Path, *, on: bool = True) -> None:
        self.on = set(RULES) if on else set()
        self.rig = Rig(root, TABLES if on else {})
        self.mortal = Mortal()
        self.use_mortal()
        self.turns: Counter[str] = Counter()
        self.calls = 0
        #: By session: its state, when its last line came on the steady clock, and how often it began to wait.
        self.state: dict[str, tuple[str, float]] = {}
        self.waits: Counter[str] = Counter()
        self.expected: set[tuple[str, str, int]] = set()
        self.failed: list[tuple[str, int]] = []

    def use_mortal(self) -> None:
        self.rig.runner._actions = {"webhook": self.mortal}

    # -- what happens ---------------------------------------------------------------------------------------------

    def turn(self, session: str) -> None:
        self.turns[session] += 1
        self.rig.turn(self.turns[session], session)
        self.waits[session] += 1
        self.state[session] = ("waiting", self.rig.steady)

    def tool(self, session: str) -> None:
        """A tool fails in a turn that goes on."""
        self.calls += 1
        self.turns[session] += 1
        self.rig.write("turn.begin", session, turn=self.turns[session], id=f"t{self.turns[session]}")
        self.rig.tool(f"c{self.calls}", session)
        self.state[session] = ("working", self.rig.steady)
        self.failed.append((session, self.calls))

    def add_rules(self) -> None:
        """The rules are written while everything goes on; they start at the beginning of all times."""
        self.on = set(RULES)
        self.rig.tables = parse_tables(TABLES, Path("agenttrace.toml"), {})
        self.rig.engine.keep(self.rig.tables)

    def switch(self, name: str, mode: RuleMode) -> None:
        """A rule is switched off or on, by a user."""
        self.on = self.on | {name} if mode == "on" else self.on - {name}
        rule, home = self.rig.tables.rules[name], self.rig.settings.home
        switch(self.rig.store, self.rig.tables, rule, mode, home=home, day_of=day_finder("UTC"))

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP)):
            self.rig.wait(STEP)
            self.look()

    def sleep(self, seconds: float) -> None:
        """Time passes while no engine runs."""
        self.rig.wait(seconds)
        self.rig.restart()
        self.use_mortal()

    def kill(self, when: str) -> None:
        """The process dies in its next action, and another one starts."""
        self.mortal.die = when
        try:
            self.look()
        except Killed:
            for task in self.rig.runner._running.values():
                # Asked for, or asyncio reports it later, in the middle of another test.
                if task.done() and not task.cancelled():
                    task.exception()
            self.rig.restart()
            self.use_mortal()
        self.mortal.die = None

    # -- what should fire ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        now = self.rig.steady
        should = set[tuple[str, str, int]]()
        for session, call in self.failed:
            should |= {("tool", session, call), ("held", session, call), ("first", session, 0)}
        for session, (state, last) in self.state.items():
            if state == "waiting" and now - last >= WAITING_SETTLE:
                should.add(("waiting", session, self.waits[session]))
            # The store calls a session that works interrupted: the times of the rig are long past.
            if now - last >= ENDED_SETTLE:
                should.add(("ended", session, 0))
        self.expected |= {each for each in should if each[0] in self.on}
        self.rig.look()

    def delivered(self) -> Counter[tuple[str, str, int]]:
        """What was delivered, repeats with one idempotency key once."""
        messages = {message.idempotency_key: message for message in self.mortal.messages}
        found: Counter[tuple[str, str, int]] = Counter()
        for message in messages.values():
            for facts in message.events:
                assert facts.session is not None
                rule, session = message.rule.name, facts.session.session_id
                number = 0
                if rule in ("tool", "held"):
                    number = self._call(facts.event.span)
                elif rule == "waiting":
                    number = facts.event.facts["wait"]
                found[rule, session, number] += 1
        return found

    def _call(self, span: bytes | None) -> int:
        query = "SELECT attributes FROM spans WHERE span_id = ?"
        (attributes,) = self.rig.store.connection.execute(query, (span,)).fetchone()
        return next(call for _, call in self.failed if f'"c{call}"' in attributes)


MODES: st.SearchStrategy[RuleMode] = st.sampled_from(["on", "off"])
SESSIONS = st.sampled_from(["a", "b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), SESSIONS),
        st.tuples(st.just("tool"), SESSIONS),
        st.tuples(st.just("wait"), st.sampled_from([STEP, 2 * STEP, 60.0])),
        st.tuples(st.just("sleep"), st.sampled_from([1.0, 30.0, 120.0])),
        st.tuples(st.just("kill"), st.sampled_from(["before", "after"])),
    ),
    max_size=25,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_everything_that_should_fire_does_once(steps: list[tuple[str, float | str]]) -> None:
    """Whatever happens in which order, and wherever processes die."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        for name, value in steps:
            getattr(world, name)(value)
        world.wait(200.0)
        assert world.delivered() == Counter(world.expected)
        world.rig.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.integers(0, 25), st.lists(st.tuples(st.integers(0, 25), st.sampled_from([*RULES]), MODES), max_size=4))
def test_a_rule_that_starts_in_the_past_fires_for_everything_once(
    steps: list[tuple[str, float | str]], added: int, switched: list[tuple[int, str, RuleMode]]
) -> None:
    """Whenever it is written or switched, among what happens and wherever processes die: nothing is missed."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root), on=False)
        for place, (name, value) in enumerate([*steps, ("wait", STEP)]):
            if place == min(added, len(steps)):
                world.add_rules()
            for at, rule, mode in switched:
                if at == place > added:
                    world.switch(rule, mode)
            getattr(world, name)(value)
        for rule in RULES:
            world.switch(rule, "on")
        world.wait(200.0)
        assert world.delivered() == Counter(world.expected)
        world.rig.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.lists(st.tuples(st.integers(0, 25), st.sampled_from([-86_400.0, -30.0, 30.0, 86_400.0])), max_size=3))
def test_a_clock_that_is_set_fires_nothing_early_or_twice(
    steps: list[tuple[str, float | str]], jumps: list[tuple[int, float]]
) -> None:
    """Sessions end by silence as a clock measures it that cannot be set, each once; none is forgotten."""
    with tempfile.TemporaryDirectory() as root:
        world = World(Path(root))
        for place, (name, value) in enumerate(steps):
            for at, seconds in jumps:
                if at == place:
                    world.rig.now += seconds
            if name != "sleep":
                getattr(world, name)(value)
        world.wait(300.0)
        found = world.delivered()
        assert all(count == 1 for count in found.values())
        quiet = {("ended", session, 0) for session in world.state}
        assert {each for each in found if each[0] == "ended"} == quiet
        assert {each for each in found if each[0] == "waiting"} <= {
            each for each in world.expected if each[0] == "waiting"
        } | {("waiting", session, world.waits[session]) for session in world.state}
        world.rig.close()


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
    world.rig.close()
