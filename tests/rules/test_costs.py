"""What rules cost: the recorded calls of their chains, priced like all usage; what is unknown stays unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agenttrace.cli.program import app
from agenttrace.config.rule_tables import RuleTables
from agenttrace.masking import Mask
from agenttrace.prices.costing import Cashier
from agenttrace.rules.actions.chain import Chain, ChainResult
from agenttrace.views.rule_costs import RuleCost, cost_remarks, cost_text
from agenttrace.views.rules import firing_detail, firings_of, rules_of
from rules.rig import Rig
from rules.test_chain import Shelf, Starter, tables, text_of

MODEL = "claude-sonnet-4-5"
Make = Callable[..., tuple[Rig, Starter]]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    rigs = []

    def made(**changes: Any) -> tuple[Rig, Starter]:  # noqa: ANN401 - fields of a rule
        starter, rig = Starter(), Rig(tmp_path / "rig", tables(**changes))
        rig.actions["chain"] = Chain(starter, text_of, Mask(()).value, Shelf())
        rig.restart()
        rigs.append(rig)
        return rig, starter

    yield made
    for rig in rigs:
        rig.close()


def call(rig: Rig, session: str, model: str, tokens: int) -> None:
    """A call of a chain, as its trace has it."""
    rig.write("turn.begin", session, turn=1, id="1")
    usage = {"input_tokens": tokens // 2, "output_tokens": tokens - tokens // 2}
    end = {"turn": 1, "step": "a", "id": f"{session} {model}", "model": model, "response": f"{session} {model}"}
    rig.write("step.begin", session, **end)
    rig.write("step.end", session, **end, usage=usage)
    rig.record()


def chain(session: str, tokens: int = 1000, outcome: Any = "done") -> ChainResult:  # noqa: ANN401 - a literal
    return ChainResult(outcome, "no answer", tokens=tokens, job=1, session=session)


def cost_of(rig: Rig) -> RuleCost | None:
    (row,) = firings_of(rig.store, rig.firings(), Cashier.load(rig.settings))
    return row.cost


def test_a_firing_costs_what_its_recorded_calls_cost(make: Make) -> None:
    """The amount of ``agenttrace usage`` for the session of the chain, on the firing, its action and its rule."""
    rig, starter = make(do=["summary", "hook"])
    starter.results = [chain("rule-1")]
    call(rig, "rule-1", MODEL, 1000)
    rig.turn(1)
    rig.look()
    cashier = Cashier.load(rig.settings)
    bill = cashier.bill(rig.store.usage_by_session([rig.store.session("rule-1").id]).popitem()[1])
    assert bill.cost is not None
    found = cost_of(rig)
    assert found is not None
    assert (found.cost, found.currency, found.unpriced_tokens) == (bill.cost, bill.currency, 0)
    detail = firing_detail(rig.store, rig.firings()[0].number, cashier)
    assert detail is not None
    assert [each.cost for each in detail.actions] == [found, None], "a webhook costs nothing"
    (rule,) = (each for each in rules_of(rig.store, rig.tables, day="2023-11-14", cashier=cashier) if each.name == "r")
    assert (rule.tokens_today, rule.cost_today) == (1000, found)


def test_what_is_unknown_stays_unknown_with_the_reason(make: Make) -> None:
    """A model without a price, and calls whose trace was not recorded: never 0, and never left out."""
    rig, starter = make()
    starter.results = [chain("rule-1", 300)]
    rig.turn(1)
    rig.look()
    found = cost_of(rig)
    assert found is not None
    assert (found.cost, found.unpriced_tokens, found.unrecorded_tokens, cost_text(found)) == (None, 300, 300, "?")
    assert cost_remarks(found) == ["300 tokens are of calls that are not recorded (yet)."]
    call(rig, "rule-1", "our-own-model", 100)
    call(rig, "rule-1", MODEL, 100)
    found = cost_of(rig)
    assert found is not None
    assert found.cost is not None
    assert (found.unpriced_tokens, found.unrecorded_tokens, found.unpriced_models) == (200, 100, ["our-own-model"])
    assert (cost_text(found) or "").endswith(" +?")
    assert len(cost_remarks(found)) == 2


@pytest.mark.parametrize("outcome", ["failed", "retry"])
def test_calls_that_brought_nothing_cost_as_well(make: Make, outcome: str) -> None:
    """Of an action that failed, or is tried again: also where the next attempt finds no database."""
    rig, starter = make()
    starter.results = [chain("rule-1", 100, outcome), ChainResult("retry", "the database is away")]
    call(rig, "rule-1", MODEL, 100)
    rig.turn(1)
    rig.look()
    first = cost_of(rig)
    rig.wait(2)
    rig.look()
    assert first is not None
    assert first.cost is not None
    assert cost_of(rig) == first
    detail = firing_detail(rig.store, rig.firings()[0].number, Cashier.load(rig.settings))
    assert detail is not None
    assert detail.actions[0].answer is None, "there is no answer for later actions"


def test_commands_show_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """In lists, on a firing, and in JSON."""
    rig, starter = make()
    starter.results = [chain("rule-1", 100_000)]
    call(rig, "rule-1", MODEL, 100_000)
    rig.turn(1)
    rig.look()
    written = RuleTables({"r": rig.tables.rules["r"]}, rig.tables.actions, {})
    monkeypatch.setattr("agenttrace.config.rule_tables.all_rules", lambda _: written)
    monkeypatch.setattr("agenttrace.cli.rules._today", lambda _: "2023-11-14")
    environ = {"AGENTTRACE_HOME": str(rig.settings.home), "HOME": str(rig.root), "COLUMNS": "200"}

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["rules", *arguments], env=environ)
        assert done.exit_code == 0, done.output
        return done.stdout

    (row,) = json.loads(said("log", "--json"))
    assert row["cost"]["costs"] == {"USD": 0.9}
    assert json.loads(said("list", "--json"))[0]["cost_today"] == row["cost"]
    for arguments in (("log",), ("list",), ("show", str(row["id"]))):
        assert "$0.90" in said(*arguments)
        assert "100,000" in said(*arguments)
