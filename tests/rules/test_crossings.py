"""Thresholds of budgets and limits: each fires once in its period, from when a rule began."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config.rules import parse_rule
from agenttrace.rules.crossings import CrossingSource
from rules.rig import START, Rig

DAY = 86_400
HOOK = {"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}}


class Reached(NamedTuple):
    """A threshold, as budgets and limits tell it."""

    key: bytes
    threshold: float
    state: Any


class Spending:
    """What is spent by day, and the providers' windows."""

    def __init__(self) -> None:
        self.days: dict[int, float] = {}
        self.used = 0.0
        self.told = 0.0
        self.asked = 0

    def budgets(self, since: int, now: int) -> Iterator[Reached]:
        self.asked += 1
        first, last = (int(each / 1e6 // DAY) for each in (since, now))
        for day in range(first, last + 1):
            yield from self._of_day(day)

    def _of_day(self, day: int) -> Iterator[Reached]:
        share = self.days.get(day, 0.0)
        times = {"start": day * DAY * 10**6, "end": (day + 1) * DAY * 10**6}
        state = SimpleNamespace(
            name="shop", period="day", share=share, spent=share * 30, limit=30.0, currency="USD", unit="money", **times
        )
        state.session, state.forecast = None, share * 60
        for each in (0.5, 0.8, 1.0):
            if share >= each:
                yield Reached(_key("budget", day, each), each, state)

    def limits(self, now: int) -> Iterator[Reached]:
        resets = round((START + 18_000) * 1e6)
        state = SimpleNamespace(
            agent="codex", name="primary", share=self.used, resets_at=resets, at=round(self.told * 1e6)
        )
        state.window_minutes, state.exhausted_at = 300, resets - 600 * 10**6
        for each in (0.5, 0.8, 1.0):
            if self.used >= each:
                yield Reached(_key("limit", resets, each), each, state)


def _key(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()[:16]


class World:
    """A rig with rules for both kinds."""

    def __init__(self, root: Path, **rules: dict[str, Any]) -> None:
        self.spending = Spending()
        tables = {"rules": {name: {"do": ["hook"], **rule} for name, rule in rules.items()}, "actions": HOOK}
        self.rig = Rig(root, tables, sources=[self._source])

    def _source(self, rig: Rig) -> CrossingSource:
        budgets, limits = self.spending.budgets, self.spending.limits
        return CrossingSource(rig.store, budgets, limits, clock=lambda: rig.now, steady=lambda: rig.steady)

    def spend(self, share: float) -> None:
        self.spending.days[int(self.rig.now // DAY)] = share

    def fired(self, seconds: float = 40) -> list[tuple[str, float]]:
        """The rules and thresholds that fired since the last look."""
        self.rig.wait(seconds)
        found = [(message.rule.name, event) for message in self.rig.look() for event in message.events]
        return sorted((name, facts.event.facts["threshold"]) for name, facts in found)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def test_a_budget(root: Path) -> None:
    """Each threshold once in its period, also after a restart; the next period begins anew."""
    world = World(root, all={"on": "budget.crossed"}, high={"on": "budget.crossed", "where": {"at_least": 0.8}})
    assert world.fired() == []
    world.spend(0.6)
    assert world.fired() == [("all", 0.5)]
    world.rig.restart()
    assert world.fired() == []
    world.spend(1.1)
    assert world.fired() == [("all", 1.0), ("high", 1.0)]
    facts = world.rig.noting.messages[0].events[0].event.facts
    assert (facts["budget"], facts["period"], facts["limit"], facts["currency"]) == ("shop", "day", 30.0, "USD")
    assert (facts["ends_at"], facts["forecast"]) == ("2023-11-15T00:00:00Z", 36.0)
    world.rig.wait(DAY)
    assert world.fired() == []
    world.spend(0.5)
    assert world.fired() == [("all", 0.5)]
    world.rig.close()


def test_what_was_crossed_before_the_rule(root: Path) -> None:
    """A rule starts now: what is crossed already does not fire it, what is crossed later does."""
    world = World(root, now={"on": "budget.crossed"})
    world.spend(0.6)
    assert world.fired() == []
    world.rig.restart()
    world.spend(0.9)
    assert world.fired() == [("now", 0.8)]
    world.rig.close()


def test_a_rule_for_all(root: Path) -> None:
    """Also one that comes after others."""
    world = World(root, all={"on": "budget.crossed", "start": "all"})
    world.spend(0.6)
    assert world.fired() == [("all", 0.5)]
    world.rig.close()


def test_a_night_without_an_engine(root: Path) -> None:
    """What was spent before midnight fires although it is noticed, or recorded, after it."""
    world = World(root, all={"on": "budget.crossed"})
    assert world.fired() == []
    yesterday = int(world.rig.now // DAY)
    world.rig.wait(DAY)
    world.rig.restart()
    world.spending.days[yesterday] = 0.9
    assert world.fired() == [("all", 0.8)]
    assert "forecast" not in world.rig.noting.messages[0].events[0].event.facts
    assert world.fired() == []
    world.rig.close()


@given(st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.6, 0.8, 0.9, 1.0, 1.3]), min_size=1, max_size=6))
def test_one_message_for_each_jump(shares: list[float]) -> None:
    """It names the highest threshold that is newly reached; the others have that as the reason in the log."""
    with tempfile.TemporaryDirectory() as made:
        high = {"on": "budget.crossed", "where": {"at_least": 0.8}}
        world = World(Path(made), all={"on": "budget.crossed"}, high=high)
        assert world.fired() == []
        reached, above = 0.0, []
        for share in shares:
            world.spend(share)
            fresh = [each for each in (0.5, 0.8, 1.0) if reached < each <= share]
            expected = [("all", fresh[-1])] if fresh else []
            expected += [("high", fresh[-1])] if fresh and fresh[-1] >= 0.8 else []
            assert world.fired() == expected
            above += [f"{fresh[-1]:.0%} was crossed at the same time: its message is for both" for _ in fresh[:-1]]
            reached = max(reached, share)
        assert [each.reason for each in world.rig.firings(states=["skipped"]) if each.rule == "all"] == above
        world.rig.close()


def test_a_jump_while_no_engine_ran(root: Path) -> None:
    """Whenever it is noticed, and by a rule that asks for the past: one message."""
    world = World(root, all={"on": "budget.crossed"})
    assert world.fired() == []
    world.spend(0.6)
    assert world.fired() == [("all", 0.5)]
    world.rig.restart()
    world.spend(1.3)
    tables = {"on": "budget.crossed", "start": "all", "do": ["hook"]}
    world.rig.tables.rules["past"] = parse_rule("past", tables)
    world.rig.engine.keep(world.rig.tables)
    assert world.fired() == [("all", 1.0), ("past", 1.0)]
    world.rig.close()


def test_a_limit(root: Path) -> None:
    """The windows of providers, from when they were told."""
    world = World(root, limit={"on": "limit.crossed", "where": {"agent": "codex"}})
    world.spending.used, world.spending.told = 0.6, START - 100
    assert world.fired() == []
    world.spending.used, world.spending.told = 0.85, START + 60
    assert world.fired() == [("limit", 0.8)]
    facts = world.rig.noting.messages[0].events[0].event.facts
    assert (facts["agent"], facts["window"]) == ("codex", "primary")
    assert facts["resets_at"].endswith("Z")
    assert (facts["minutes"], "exhausted_at" in facts) == (300, True)
    world.rig.close()


def test_not_more_often_than_needed(root: Path) -> None:
    """Once a second where something is recorded, and seldom where nothing is."""
    world = World(root, all={"on": "budget.crossed"})
    for _ in range(20):
        world.rig.wait(0.1)
        world.rig.look()
    assert world.spending.asked == 1
    world.rig.turn(1)
    for _ in range(20):
        world.rig.wait(0.1)
        world.rig.look()
    assert world.spending.asked == 2
    world.rig.close()
