"""A store with rules, and a naive model of what should fire: both are told the same."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from agenttrace.calendar import day_finder
from agenttrace.config.rule_tables import parse_tables
from agenttrace.config.rules import RuleMode
from agenttrace.ids import session_number
from agenttrace.record.recorder import Recorder
from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.switches import switch
from rules.rig import Noting, Rig

WAITING_SETTLE, ENDED_SETTLE, COOLDOWN, CAP, SHARE = 10.0, 60.0, 45.0, 3, 0.5
#: Rules of which the model knows exactly what fires, whatever happens.
RULES: dict[str, dict[str, object]] = {
    "tool": {"on": "tool.failed"},
    "held": {"on": "tool.failed", "cooldown": COOLDOWN},
    "waiting": {"on": "session.waiting", "settle": WAITING_SETTLE},
    "ended": {"on": "session.ended", "settle": ENDED_SETTLE},
    "first": {"on": "tool.failed", "once": "session"},
    # Of the sessions, "a" is in the sample and "b" is not.
    "sampled": {"on": "tool.failed", "sample": SHARE},
    "deploys": {"on": "tool.failed", "where": {"tool": "dep*"}},
    "bad": {"on": "session.ended", "settle": ENDED_SETTLE, "where": {"errors": True}},
    "elsewhere": {"on": "tool.failed", "where": {"agent": "codex"}},
}
#: A rule that drops what is too much for a day, and one that only notes.
OTHERS: dict[str, dict[str, object]] = {
    "capped": {"on": "tool.failed", "max_per_day": CAP},
    "dry": {"on": "tool.failed", "mode": "dry"},
}
TABLES = {
    "rules": {name: {"do": ["hook"], "start": "all", **rule} for name, rule in (RULES | OTHERS).items()},
    "actions": {"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}},
}
BY_CALL = ("tool", "held", "sampled", "deploys", "capped")
#: The engine of a running service looks once a second; here less often, which the model knows.
STEP = 5.0
DAY = 86_400.0
#: A rule, a session, and which call or wait of it.
Fired = tuple[str, str, int]


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
    """A rig, and the model."""

    def __init__(self, root: Path, *, on: bool = True) -> None:
        self.root = root
        self.on = set(RULES) if on else set()
        self.rig = Rig(root, TABLES if on else {})
        self.mortal = Mortal()
        self.use_mortal()
        #: Another data directory for the same logs, whose messages go to the same receiver.
        self.other: Rig | None = None
        self.turns: Counter[str] = Counter()
        self.calls = 0
        #: By session: its state, when its last line came on the steady clock, and how often it began to wait.
        self.state: dict[str, tuple[str, float]] = {}
        self.waits: Counter[str] = Counter()
        #: Failed calls in order: session, number, tool.
        self.failed: list[tuple[str, int, str]] = []
        self.expected: set[Fired] = set()
        #: Of the rule with a cap: how many calls it was asked about, and its messages of each day.
        self.asked = 0
        self.of_day: Counter[str] = Counter()
        self.copies = self.kills = 0

    def use_mortal(self) -> None:
        self.rig.runner._actions = {"webhook": self.mortal}

    def close(self) -> None:
        """Release everything."""
        self.rig.close()
        if self.other is not None:
            self.other.close()

    # -- what happens ---------------------------------------------------------------------------------------------

    def turn(self, session: str) -> None:
        self.turns[session] += 1
        self.rig.turn(self.turns[session], session)
        self.waits[session] += 1
        self.state[session] = ("waiting", self.rig.steady)

    def tool(self, session: str, name: str = "shell") -> None:
        """A tool fails in a turn that goes on."""
        self.calls += 1
        self.turns[session] += 1
        self.rig.write("turn.begin", session, turn=self.turns[session], id=f"t{self.turns[session]}")
        self.rig.tool(f"c{self.calls}", session, name=name)
        self.state[session] = ("working", self.rig.steady)
        self.failed.append((session, self.calls, name))

    def deploy(self, session: str) -> None:
        """The same of another tool."""
        self.tool(session, "deploy")

    def again(self, session: str) -> None:
        """What is in the log of a session is imported again, from a copy."""
        log = self.rig.logs / f"{session}.jsonl"
        if log.exists():
            self.copies += 1
            (self.rig.logs / f"copy{self.copies}").mkdir()
            shutil.copy(log, self.rig.logs / f"copy{self.copies}")
            self.rig.record()

    def recorder(self, _: object) -> None:
        """Another recorder goes on where the one before was stopped."""
        self.rig.recorder.close()
        self.rig.recorder = Recorder(self.rig.settings, paths=[str(self.rig.logs)])
        self.rig.record()

    def rebuild(self, first: str) -> None:
        """The store is lost, and made anew from the logs, before the rules are there or after that."""
        found = {each for each in self.delivered() if each[0] == "waiting"}
        current = {("waiting", name, self.waits[name]) for name, (state, _) in self.state.items() if state == "waiting"}
        # A wait that is over and was not told of before cannot be known any more.
        self.expected = {each for each in self.expected if each[0] != "waiting" or each in found | current}
        self.rig.close()
        for path in self.rig.settings.home.glob("agenttrace.db*"):
            path.unlink()
        self.rig.recorder = Recorder(self.rig.settings, paths=[str(self.rig.logs)])
        if first == "logs":
            self.rig.record()
        self.rig.open()
        self.rig.record()
        self.use_mortal()

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

    def midnight(self, _: object) -> None:
        """Another day begins, with nothing left to be decided of the one before."""
        self.look()
        self.sleep(DAY - self.rig.now % DAY + 60.0)

    def kill(self, when: str) -> None:
        """The process dies in its next action, and another one starts."""
        self.mortal.die = when
        self.kills += 1
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

    def look_elsewhere(self, _: object) -> None:
        """A second recorder, with its own store and rules, reads the same logs."""
        if self.other is None:
            self.other = Rig(self.root, TABLES, home=self.root / "other")
            self.other.actions = {"webhook": self.mortal}
            self.other.restart()
        self.other.now, self.other.steady = self.rig.now, self.rig.steady
        self.expect()
        self.other.record()
        self.other.look()

    # -- what should fire ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        self.expect()
        for session, call, _ in self.failed[self.asked :]:
            day = day_finder("UTC")(round(self.rig.now * 1_000_000))
            if self.of_day[day] < CAP:
                self.of_day[day] += 1
                self.expected.add(("capped", session, call))
        self.asked = len(self.failed)
        self.rig.look()

    def expect(self) -> None:
        """What should have fired by now, but for caps."""
        now = self.rig.steady
        should = set[Fired]()
        for session, call, tool in self.failed:
            should |= {("tool", session, call), ("held", session, call), ("first", session, 0)}
            if tool == "deploy":
                should.add(("deploys", session, call))
            if in_sample("sampled", session):
                should.add(("sampled", session, call))
        with_errors = {session for session, _, _ in self.failed}
        for session, (state, last) in self.state.items():
            if state == "waiting" and now - last >= WAITING_SETTLE:
                should.add(("waiting", session, self.waits[session]))
            # The store calls a session that works interrupted: the times of the rig are long past.
            if now - last >= ENDED_SETTLE:
                should |= {("ended", session, 0)} | ({("bad", session, 0)} if session in with_errors else set())
        self.expected |= {each for each in should if each[0] in self.on}

    def delivered(self) -> Counter[Fired]:
        """What was delivered, repeats with one idempotency key once."""
        return self.events_of({message.idempotency_key: message for message in self.mortal.messages}.values())

    def events_of(self, messages: Iterable[Message]) -> Counter[Fired]:
        """What these messages are about."""
        calls = self._calls()
        found: Counter[Fired] = Counter()
        for message in messages:
            for facts in message.events:
                assert facts.session is not None
                rule, session = message.rule.name, facts.session.session_id
                number = 0
                if rule in BY_CALL:
                    number = calls[facts.event.span]
                elif rule == "waiting":
                    number = facts.event.facts["wait"]
                found[rule, session, number] += 1
        return found

    def check_at_least_once(self) -> None:
        """Everything that should have fired was delivered, and nothing else; nothing twice but what was cut off.

        What a message has collected may be collected otherwise where the store was lost, or is another one.
        """
        expected = without_caps(Counter(self.expected))
        assert without_caps(self.events_of(self.mortal.messages)).keys() == expected.keys()
        assert {each: count for each, count in self.delivered().items() if each[0] in RULES and each[0] != "held"} == {
            each: count for each, count in expected.items() if each[0] != "held"
        }

    def repeats(self) -> int:
        """Messages whose idempotency key had come before."""
        return len(self.mortal.messages) - len({message.idempotency_key for message in self.mortal.messages})

    def _calls(self) -> dict[bytes | None, int]:
        """The numbers of failed calls, by span."""
        rows = self.rig.store.connection.execute("SELECT span_id, attributes FROM spans WHERE kind = 'tool'")
        named = {f'"c{call}"': call for _, call, _ in self.failed}
        return {span: call for span, attributes in rows for name, call in named.items() if name in attributes}

    def check_caps(self) -> None:
        """No day has more messages than its cap; what is dry has noted every call, and sent nothing."""
        messages = "SELECT day FROM rule_firings WHERE rule = 'capped' AND message IS NULL AND day NOTNULL"
        assert all(count <= CAP for count in Counter(self.rig.store.connection.execute(messages)).values())
        assert not any(rule in ("dry", "elsewhere") for rule, _, _ in self.delivered())
        if "dry" in self.rig.tables.rules:
            calls = self._calls()
            noted = [calls[each.event.span] for each in self.rig.firings(states=["dry"])]
            assert sorted(noted) == sorted(call for _, call, _ in self.failed)


def in_sample(rule: str, session: str) -> bool:
    """By the hash of the session, as the guide promises: a replay decides the same."""
    named = "\x1f".join(("rule", "sample", rule, str(session_number("agenttrace", session))))
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:8], "big") < SHARE * 2**64


def without_caps(found: Counter[Fired]) -> Counter[Fired]:
    """What does not depend on the order in which things are decided."""
    return Counter({each: count for each, count in found.items() if each[0] != "capped"})
