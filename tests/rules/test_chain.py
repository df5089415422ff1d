"""The chain action: an order for each event, what is kept of the answers, and the tokens of a day."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import load_settings
from agenttrace.config.rules import ActionSettings
from agenttrace.masking import Mask
from agenttrace.rules.actions.chain import Chain, ChainResult, Kept, Order, StepAnswer
from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.facts import Facts
from agenttrace.rules.service import run_once
from agenttrace.run.catalog.catalog import load_catalog
from rules.rig import Rig

GOOD = ChainResult("done", answers=(StepAnswer("session-summary", '{"summary": "Done."}'),), tokens=100, job=1)


class Starter:
    """Answers orders as it is told, or with a summary for 100 tokens."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.results: list[ChainResult] = []
        self.gate: asyncio.Event | None = None

    async def run(self, order: Order) -> ChainResult:
        self.orders.append(order)
        if self.gate is not None:
            await self.gate.wait()
        return self.results.pop(0) if self.results else GOOD


class Shelf:
    """What was kept, each once."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def __call__(self, kept: Kept) -> None:
        if kept.name == "refused":
            raise ValueError("it is full")
        self.kept.setdefault(kept.key, kept)

    def shown(self) -> list[tuple[str, str, float | None, str]]:
        return [(each.kind, each.name, each.value, each.text) for each in self.kept.values()]


def text_of(action: ActionSettings, facts: Facts) -> str:
    return f"{action.input} of {facts.session.session_id if facts.session else 'nothing'}"


def tables(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a rule or an action
    names = ("apps", "keep", "input", "language")
    action = {"type": "chain", "apps": ["session-summary"], **{k: v for k, v in changes.items() if k in names}}
    rule = {"on": "session.waiting", "do": ["summary"], **{k: v for k, v in changes.items() if k not in names}}
    hooked = {"on": "tool.failed", "do": ["hook"]}
    hook = {"type": "webhook", "url": "https://x"}
    return {"rules": {"r": rule, "hooked": hooked}, "actions": {"summary": action, "hook": hook}}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., tuple[Rig, Starter, Shelf]]]:
    rigs = []

    def made(**changes: Any) -> tuple[Rig, Starter, Shelf]:  # noqa: ANN401 - see tables
        starter, shelf = Starter(), Shelf()
        rig = Rig(tmp_path / "rig", tables(**changes))
        rig.actions["chain"] = Chain(starter, text_of, Mask(()).value, shelf)
        rig.restart()
        rigs.append(rig)
        return rig, starter, shelf

    yield made
    for rig in rigs:
        rig.close()


Make = Callable[..., tuple[Rig, Starter, Shelf]]


def test_the_answer_is_kept_and_passed_on(make: Make) -> None:
    """The note is beside the session, later actions see the text, and tokens are counted on the firing."""
    rig, starter, shelf = make(do=["summary", "hook"])
    rig.turn(1)
    (message,) = rig.look()
    (order,) = starter.orders
    assert (order.apps, order.facts["rule"], order.text()) == (("session-summary",), "r", "transcript of s")
    assert (order.facts["session"]["turns"], order.facts["language"]) == (1, "en")
    assert shelf.shown() == [("note", "", None, "Done.")]
    answer = message.answers["summary"]
    assert (answer["text"], answer["tokens"]) == ("Done.", 100)
    assert answer["events"][0]["answers"] == {"session-summary": '{"summary": "Done."}'}
    assert [firing.tokens for firing in rig.firings()] == [100]


def test_an_order_for_each_event_with_a_key_of_its_own(make: Make) -> None:
    """What a cooldown collected is one firing and several chains; a repeat has the same keys, and keeps none twice."""
    rig, starter, shelf = make(cooldown="10m")
    for number, session in enumerate("abcd"):
        rig.turn(1, session)
        rig.look()
        assert len(starter.orders) == 1, number
    rig.wait(601)
    starter.results = [GOOD, GOOD, ChainResult("retry", "the database is away")]
    rig.look()
    rig.wait(5)
    rig.look()
    keys = [order.key for order in starter.orders]
    assert len(keys) == 7
    assert keys[1:4] == keys[4:]
    assert len(set(keys)) == 4
    assert len(shelf.kept) == 4
    assert [firing.tokens for firing in rig.firings(["done"])] == [100, 300], "each chain is counted once"


def test_a_chain_that_fails_does_not_hold_up_the_others(make: Make) -> None:
    """The others are run and kept; the firing fails at the end, with the reason."""
    rig, starter, shelf = make(cooldown="10m")
    rig.turn(1, "first")
    rig.look()
    for session in "abc":
        rig.turn(1, session)
    rig.look()
    rig.wait(601)
    starter.results = [GOOD, ChainResult("failed", "job 7 is failed: no answer", tokens=30, job=7), GOOD]
    rig.look()
    assert len(shelf.kept) == 3
    (failed,) = rig.firings(["failed"])
    assert (failed.reason, failed.tokens) == ("summary: job 7 is failed: no answer", 230)


def test_scores_labels_and_notes(make: Make) -> None:
    """A score with its reason is a score, labels are labels, the text is a note; a second firing adds its own."""
    rig, starter, shelf = make(apps=["session-review", "session-score"], keep=["note", "score", "label"])
    review = json.dumps({"summary": "It went on.", "labels": ["failed-tools", "refused"]})
    score = 'Here you are:\n```json\n{"score": 7, "reason": "Most of it is done."}\n```'
    answers = (StepAnswer("session-review", review), StepAnswer("session-score", score))
    starter.results = [ChainResult("done", answers=answers, tokens=5, job=1)]
    rig.turn(1)
    rig.look()
    assert shelf.shown() == [
        ("note", "", None, "It went on."),
        ("label", "failed-tools", None, ""),
        ("score", "session-score", 7.0, "Most of it is done."),
    ]
    assert {each.author for each in shelf.kept.values()} == {"r"}
    (firing,) = rig.firings()
    (attempt,) = rig.store.rules.attempts(firing.number)
    assert attempt.detail == "label not stored: it is full"


def test_a_score_that_cannot_be_read_is_a_note(make: Make) -> None:
    """Nothing is guessed: the note says that there is no score."""
    rig, starter, shelf = make(apps=["session-score"], keep=["score"])
    starter.results = [ChainResult("done", answers=(StepAnswer("session-score", "I would say eight."),), job=1)]
    rig.turn(1)
    rig.look()
    assert shelf.shown() == [("note", "", None, "No score: no answer of session-score has one number from 0 to 10.")]


def test_tokens_per_day_stops_chains_until_the_next_day(make: Make) -> None:
    """Events of one message beyond the limit wait for the next day; further events are skipped with the reason."""
    rig, starter, shelf = make(cooldown="1m", tokens_per_day=250, once="turn")
    rig.turn(1, "a")
    rig.look()
    for session in "bcd":
        rig.turn(1, session)
    rig.look()
    rig.wait(61)
    rig.look()
    assert len(starter.orders) == 3, "100 tokens, then two more until 250 are used"
    (firing,) = rig.firings(["queued", "running"])
    attempt = rig.store.rules.attempts(firing.number)[-1]
    assert "tokens_per_day is 250" in attempt.detail
    rig.wait(120)
    rig.turn(1, "e")
    rig.look()
    assert any(reason is not None and "tokens_per_day is 250" in reason for reason in rig.reasons())
    rig.wait(86_400)
    rig.look()
    kept = {key.removesuffix(":session-summary:note") for key in shelf.kept}
    assert kept == {order.key for order in starter.orders}
    assert len(shelf.kept) == 4
    assert sum(firing.tokens for firing in rig.firings(["done"])) == 400


def test_chains_that_fired_together_stop_at_the_limit(make: Make) -> None:
    """All events come at once, before any token is counted: those that run may end, the others wait."""
    rig, starter, _ = make(tokens_per_day=100, once="crossing")
    for number in range(12):
        rig.turn(1, f"s{number}")
    rig.look()
    assert len(starter.orders) <= 8
    rig.wait(86_400)
    rig.look()
    assert 8 < len(starter.orders) <= 12


def test_chains_that_take_long_hold_up_nothing_else(make: Make) -> None:
    """More chains than run at a time are waiting, and a webhook of another rule goes out."""
    rig, starter, _ = make(once="crossing")

    async def body() -> None:
        starter.gate = asyncio.Event()
        rig.engine.look()
        await rig.runner.step()
        await asyncio.sleep(0)
        assert len(starter.orders) == 8
        rig.write("tool.begin", "t", id="c", name="shell", arguments={})
        rig.write("tool.end", "t", id="c", status="error", result="x")
        rig.record()
        rig.engine.look()
        await rig.runner.step()
        for _ in range(10):
            await asyncio.sleep(0)
        assert [message.rule.name for message in rig.noting.messages] == ["hooked"]
        starter.gate.set()
        await run_once(rig.engine, rig.runner)

    for number in range(12):
        rig.turn(1, f"s{number}")
    asyncio.run(body())
    assert len(rig.firings(["done"])) == 13


def test_a_removed_session_and_an_event_without_one() -> None:
    """The first is left out, the second is run with the facts of its event; nothing is kept."""
    starter, shelf = Starter(), Shelf()
    action = Chain(starter, text_of, Mask(()).value, shelf)

    def result(**event: object) -> ActionResult:
        from agenttrace.config.rules import parse_action, parse_rule
        from agenttrace.store.rules import RuleEvent

        facts = Facts(RuleEvent(key=b"k" * 16, kind="budget.crossed", at=0, **event))  # type: ignore[arg-type]
        rule = parse_rule("r", {"on": "budget.crossed", "do": ["c"]})
        settings = parse_action("c", {"type": "chain", "apps": ["app3"]}, {})
        return asyncio.run(action.run(Message(1, rule, settings, "key", [facts], {}, 1)))

    assert (result(session=5).outcome, starter.orders) == ("done", [])
    done = result(facts={"budget": "shop"})
    assert (done.outcome, done.tokens, done.detail) == ("done", 100, "job 1")
    assert starter.orders[0].facts["facts"] == {"budget": "shop"}
    assert not shelf.kept


def test_the_examples_of_the_guide_are_valid(tmp_path: Path) -> None:
    """Every TOML block of the guide to rules is accepted, with its applications."""
    guide = (Path(__file__).resolve().parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```", guide, re.M | re.S)
    assert len(blocks) >= 5
    for block in blocks:
        (tmp_path / "agenttrace.toml").write_text(block)
        settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path)})
        catalog = load_catalog(settings, {})
        for action in settings.actions.values():
            catalog.chain_of(action.apps)
