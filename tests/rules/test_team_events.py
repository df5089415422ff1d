"""Rules over a team's store: machines record and send, and each event fires once, in every engine."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clickhouse_on
from agenttrace.calendar import day_finder
from agenttrace.cli import rules_run
from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.config.rule_tables import parse_tables
from agenttrace.masking import Mask
from agenttrace.prices.costing import Cashier
from agenttrace.rules.actions.contract import Message
from agenttrace.rules.engine import RuleEngine
from agenttrace.rules.runner import ActionRunner
from agenttrace.rules.service import run_once
from agenttrace.rules.team_events import TeamEvents, is_copy
from agenttrace.store.current import StoreSource
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.sqlite.team import SqliteTeamStore
from agenttrace.store.team import Page
from rules.rig import Noting, Rig, sessions_of

from .test_chain import Starter
from .test_events import LOGS

DAY = day_finder("UTC")
HOOK = {"hook": {"type": "webhook", "url": "https://example.com"}}
ENGINES = ("sqlite", pytest.param("clickhouse", marks=[pytest.mark.team, pytest.mark.xdist_group("clickhouse")]))


class TeamRig:
    """Machines that record, a team's store that takes what they send, and an engine over it."""

    def __init__(self, root: Path, target: Path | str) -> None:
        self.root, self.source = root, StoreSource(target, is_team=True, rules=root / "server" / "team-rules.db")
        self.settings = Settings(home=root / "server")
        ensure_home(self.settings)
        self.store = self.source.team_store()
        self.machines: dict[str, Rig] = {}
        self._sent: dict[str, ChangesCursor] = {}
        self.noting = Noting()

    def machine(self, name: str) -> Rig:
        """One of the machines."""
        if name not in self.machines:
            self.machines[name] = Rig(self.root / name, {})
            # The engine of the server has the real clock.
            self.machines[name].now = time.time() - 60
        return self.machines[name]

    def push(self, name: str, *, again: bool = False) -> None:
        """What a machine recorded comes into the team's store; ``again``: all of it."""
        cursor = ChangesCursor() if again else self._sent.get(name, ChangesCursor())
        while (found := self.machines[name].store.changes_since(cursor, 50)).rows:
            page = Page(machine=name, person=f"{name}s", store=name, after=cursor, until=found.cursor)
            self.store.take(found.rows, page, day_of=DAY)
            cursor = found.cursor
        self._sent[name] = cursor

    def start(self, **rules: dict[str, Any]) -> None:
        """A new engine with these rules, as after a restart."""
        each = {name: {"do": ["hook"], "max_per_day": 100_000, "settle": 0, **rule} for name, rule in rules.items()}
        tables = parse_tables({"rules": each, "actions": HOOK}, Path("agenttrace.toml"), {})
        cashier = Cashier.load(self.settings)
        self.engine = RuleEngine(
            self.store,
            tables,
            home=self.settings.home,
            cashier=cashier,
            day_of=DAY,
            sources=[TeamEvents(self.store, Mask().text)],
            is_copy=lambda event: is_copy(self.store, event),
            looks_back=False,
        )
        self.runner = ActionRunner(
            self.store, self.engine, home=self.settings.home, cashier=cashier, actions={"webhook": self.noting}
        )

    def look(self) -> list[Message]:
        """Decide and run what can be now; the new messages."""
        known = len(self.noting.messages)
        asyncio.run(run_once(self.engine, self.runner))
        return self.noting.messages[known:]

    def close(self) -> None:
        """Release everything."""
        self.store.close()
        for machine in self.machines.values():
            machine.close()


@pytest.fixture(params=ENGINES)
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TeamRig]:
    """A team's store of each engine."""
    if request.param == "clickhouse" and not clickhouse_on.has_clickhouse():
        pytest.skip("needs chdb (make test-team) or a server at TEST_CLICKHOUSE_URL")
    name = f"rules_{time.time_ns()}"
    made = TeamRig(
        tmp_path, tmp_path / "team.db" if request.param == "sqlite" else clickhouse_on.clickhouse_address(name)
    )
    yield made
    made.close()


def fired(team: TeamRig) -> Counter[tuple[str, str]]:
    """How often each rule fires now, for which session."""
    return Counter((message.rule.name, each) for message in team.look() for each in sessions_of(message))


def test_rules_that_begin_now(team: TeamRig) -> None:
    """What was before fires nothing; of what comes each event once, also from an engine that starts later."""
    machine = team.machine("desk")
    machine.turn(1, "old", status="error")
    team.push("desk")
    kinds = {"waits": {"on": "session.waiting"}, "tools": {"on": "tool.failed"}, "turns": {"on": "turn.failed"}}
    team.start(**kinds)
    assert fired(team) == Counter()
    machine.now = time.time() + 1
    machine.write("turn.begin", turn=1, id="t1")
    machine.tool("c1")
    machine.write("note", kind="waiting")
    machine.record()
    team.push("desk")
    assert fired(team) == Counter({("waits", "s"): 1, ("tools", "s"): 1})
    machine.tool("c2", status="ok")
    machine.write("turn.end", turn=1, id="t1", status="error")
    machine.record()
    team.push("desk")
    team.start(**kinds)
    assert fired(team) == Counter({("waits", "s"): 1, ("turns", "s"): 1})
    team.push("desk", again=True)
    team.start(**kinds)
    assert fired(team) == Counter()


def test_a_rule_that_starts_in_the_past(team: TeamRig) -> None:
    """It reads what is stored, also where other rules have read it before; machine and person are filters."""
    for name in ("desk", "laptop"):
        team.machine(name).turn(1, f"{name}-1", status="error")
        team.push(name)
    first = {"first": {"on": "turn.failed", "start": "all", "where": {"machine": ["lap*"]}}}
    team.start(**first)
    assert fired(team) == Counter({("first", "laptop-1"): 1})
    second = {"second": {"on": "session.ended", "start": "all", "where": {"person": "desks"}}}
    team.start(**first, **second)
    assert fired(team) == Counter({("second", "desk-1"): 1})
    team.start(**first, **second, third={"on": "turn.failed", "start": "all"})
    assert fired(team) == Counter({("third", "desk-1"): 1, ("third", "laptop-1"): 1})


def test_copies_of_a_session(team: TeamRig) -> None:
    """Two machines have one session, and a fork of it has copies of its calls: what failed fires once."""
    kinds = {"tools": {"on": "tool.failed", "start": "all"}, "turns": {"on": "turn.failed", "start": "all"}}
    source = LOGS["claude"] / "-home-dev-claude-work"
    team.start(**kinds)
    for name in ("desk", "laptop"):
        machine = team.machine(name)
        for path in source.glob("*.jsonl"):
            shutil.copy(path, machine.logs / path.name)
        machine.record()
    team.push("desk")
    before = fired(team)
    assert sum(count for (rule, _), count in before.items() if rule == "tools") > 0
    team.push("laptop")
    assert fired(team) == Counter()
    for path in source.glob("*.jsonl"):
        copy = "f" + path.stem[1:]
        found = [json.loads(each.replace(path.stem, copy)) for each in path.read_text().splitlines()]
        marked = [each | {"forkedFrom": {"sessionId": path.stem}} if "uuid" in each else each for each in found]
        (team.machine("laptop").logs / f"{copy}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in marked))
    team.machine("laptop").record()
    team.push("laptop")
    assert not [rule for rule, _ in fired(team) if rule == "tools"]


def test_secrets(team: TeamRig) -> None:
    """Each once for a session, whichever line has it."""
    machine = team.machine("desk")
    team.start(leak={"on": "secret.found", "start": "all"})
    secret = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    for turn in (1, 2):
        machine.write("turn.begin", turn=turn, id=f"t{turn}", prompt=f"use {secret}")
        machine.record()
        team.push("desk")
        assert fired(team) == (Counter({("leak", "s"): 1}) if turn == 1 else Counter())


def test_a_session_that_falls_silent(team: TeamRig) -> None:
    """It works and says nothing: it is stuck, which is no row that changes."""
    machine = team.machine("desk")
    machine.write("turn.begin", turn=1, id="t1")
    machine.record()
    team.push("desk")
    team.start(stuck={"on": "session.stuck", "start": "all", "settle": 30})
    found: Counter[tuple[str, str]] = Counter()
    deadline = time.monotonic() + 30
    while not found and time.monotonic() < deadline:
        found = fired(team)
    assert found == Counter({("stuck", "s"): 1})
    assert fired(team) == Counter()


def test_a_rule_that_was_off(team: TeamRig) -> None:
    """With a start in the past it is on again as if it had always been, while others read on."""
    other = {"on": "turn.failed", "start": "all"}
    rule = {"on": "session.ended", "start": "all"}
    machine = team.machine("desk")
    machine.turn(1, "s1")
    team.push("desk")
    team.start(late=rule, other=other)
    assert fired(team) == Counter({("late", "s1"): 1})
    team.start(late=rule | {"mode": "off"}, other=other)
    machine.turn(1, "s2")
    team.push("desk")
    assert fired(team) == Counter()
    team.start(late=rule, other=other)
    assert fired(team) == Counter({("late", "s2"): 1})


def test_a_person_who_is_removed(team: TeamRig) -> None:
    """Nothing of what their sessions said is left in the log of rules, in messages neither; what fired stays known."""
    tools = {"tools": {"on": "tool.failed", "start": "all", "cooldown": 3600}}
    machine = team.machine("desk")
    machine.turn(1)
    machine.tool("c1", name="planted")
    machine.tool("c2", name="planted")
    team.push("desk")
    team.start(**tools)
    assert fired(team) == Counter({("tools", "s"): 1})
    numbers = [each.number for each in team.store.rules.firings()]
    assert "planted" in str([each.event.facts for each in team.store.rules.firings()])
    assert team.store.remove_texts("desks") == 1
    assert {str(each.event.facts) for each in team.store.rules.firings()} == {"{}"}
    assert [each.answer for some in team.store.rules.actions(numbers).values() for each in some] == [None]
    assert [each.detail for number in numbers for each in team.store.rules.attempts(number)] == [""]
    team.push("desk", again=True)
    team.start(**tools)
    assert fired(team) == Counter()


def test_the_log_of_rules_is_cleaned_up(tmp_path: Path) -> None:
    """On a machine the recorder does it; what fired stays known."""
    team = TeamRig(tmp_path, tmp_path / "team.db")
    team.machine("desk").turn(1, status="error")
    team.push("desk")
    team.start(turns={"on": "turn.failed", "start": "all"})
    assert fired(team) == Counter({("turns", "s"): 1})
    team.start(turns={"on": "turn.failed", "start": "all"}, other={"on": "session.ended", "start": "all"})
    assert fired(team) == Counter({("other", "s"): 1})
    assert isinstance(team.store, SqliteTeamStore)
    team.store.connection.execute(
        "UPDATE rule_firings SET created_at = 1, fired_at = 1 - (rule = 'turns'), ended_at = 1, day = NULL"
    )
    source = StoreSource(tmp_path / "team.db", is_team=True)
    settings = load_settings({"AGENTTRACE_HOME": str(team.settings.home), "HOME": str(tmp_path)})

    async def main() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(rules_run.keep_running(settings, stop, source))
        for _ in range(600):
            if len(team.store.rules.firings()) < 2:
                break
            await asyncio.sleep(0.05)
        stop.set()
        await running

    asyncio.run(main())
    assert [each.rule for each in team.store.rules.firings()] == ["other"]
    team.start(turns={"on": "turn.failed", "start": "all"}, again={"on": "turn.failed", "start": "all"})
    assert fired(team) == Counter({("again", "s"): 1})
    team.close()


def test_a_chain(team: TeamRig) -> None:
    """It gets the text of a session that a machine sent; its answer stands beside the session in the team's store."""
    team.machine("desk").turn(1)
    team.push("desk")
    rules = {"sum": {"on": "session.ended", "start": "all", "settle": 0, "do": ["chain"]}}
    tables = parse_tables(
        {"rules": rules, "actions": {"chain": {"type": "chain", "apps": ["session-summary"]}}},
        Path("agenttrace.toml"),
        {},
    )
    starter = Starter()
    engine, runner = rules_run.make_engine(team.settings, team.store, starter, team.source)
    engine.keep(tables)
    asyncio.run(run_once(engine, runner))
    (order,) = starter.orders
    assert "Go on." in order.text()
    (session,) = team.store.sessions()
    (note,) = team.store.annotations([session.id])[session.id]
    assert (note.text, note.source, note.author) == ("Done.", "rule", "sum")
