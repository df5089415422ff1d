"""Trials: every kind of event is tried on the past, with what it would have cost, and what cannot be known is said."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenttrace.calendar import day_finder
from agenttrace.config import Settings
from agenttrace.config.rule_tables import RuleTables, parse_tables
from agenttrace.config.rules import EVENT_KINDS, parse_budget
from agenttrace.ids import crossing_key
from agenttrace.masking import Mask
from agenttrace.prices.costing import Cashier
from agenttrace.prices.parsing import parse_prices
from agenttrace.rules import secrets
from agenttrace.rules.actions.chain import Chain
from agenttrace.rules.budgets import crossings_since
from agenttrace.rules.limits import limit_crossings_since
from agenttrace.rules.trial import Trial, try_rule
from agenttrace.store.batch import Batch
from agenttrace.views.rules import trial_of
from rules.rig import START, Rig
from rules.test_chain import Shelf, Starter, tables, text_of
from rules.test_costs import MODEL, call, chain
from rules.test_limits import window
from rules.test_secrets import FIRST, SECOND, say
from spending import DAY, DOLLAR, HOUR, NOON, PRICES, YUAN, Spent, opened, settings_with, spend

HOOK = {"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}}
FOREVER = 2**62
MakeRig = Callable[..., Rig]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Makes rigs with a rule ``r``."""
    made: list[Rig] = []

    def make(**rule: Any) -> Rig:  # noqa: ANN401 - fields of a rule
        made.append(Rig(tmp_path / str(len(made)), rule_tables(**rule)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def rule_tables(**rule: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a rule
    return {"rules": {"r": {"do": ["hook"], "start": "all", **rule}}, "actions": HOOK}


def tried(made: Rig, until: int = FOREVER, since: int = 0) -> Trial:
    """A trial of the rule of a rig."""
    rule = made.tables.rules["r"]
    return try_rule(made.store, made.settings, made.tables, rule, since=since, until=until)


def try_on(settings: Settings, *, since: int, until: int, **rule: Any) -> Trial:  # noqa: ANN401 - fields of a rule
    """A trial on the store of these settings."""
    given: RuleTables = parse_tables(rule_tables(**rule), Path("agenttrace.toml"), {})
    with opened(settings) as store:
        return try_rule(store, settings, given, given.rules["r"], since=since, until=until)


def codes(trial: Trial) -> list[str]:
    return [each.code for each in trial.remarks]


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_every_kind_of_event_can_be_tried(rig: MakeRig, kind: str) -> None:
    """Also on a store where nothing of the kind happened, and each remark is a sentence."""
    made = rig(on=kind)
    assert tried(made).tried == []
    made.turn(1)
    trial = tried(made, round(made.now * 1e6))
    found = trial_of(trial, made.store, made.settings)
    assert (found.tokens, found.cost, found.chains) == (0, None, [])
    assert all(each.text and "{" not in each.text for each in found.remarks)


# -- silence ----------------------------------------------------------------------------------------------------------


def test_a_session_was_stuck(rig: MakeRig) -> None:
    """The first silence in a turn that is long enough; what is said between two calls ends it, and so does the turn."""
    made = rig(on="session.stuck", settle="2m")
    made.write("turn.begin", "s", turn=1, id="t1")
    for call_id, seconds in (("a", 60), ("b", 200), ("c", 400)):
        made.wait(seconds)
        made.tool(call_id)
    made.write("turn.end", "s", turn=1, id="t1")
    made.record()
    made.wait(900)
    made.write("turn.begin", "s", turn=2, id="t2")
    made.wait(60)
    made.write("turn.end", "s", turn=2, id="t2")
    made.record()
    trial = tried(made)
    (stuck,) = trial.fired()
    assert stuck.facts.event.at == round((START + 60) * 1e6)
    assert stuck.at == START + 60 + 120
    assert [each.reason.code for each in trial.tried if each.reason] == ["went_on"], "the second turn"
    assert "span_silence" in codes(trial)


def test_what_was_stuck_live_is_what_is_tried(rig: MakeRig) -> None:
    """Whatever the pauses are: the events of a trial have the keys of those that fired."""
    chance = random.Random(7)
    made = rig(on="session.stuck", settle="2m")
    made.now = time.time()
    made.restart()
    for turn in range(1, 7):
        made.write("turn.begin", "s", turn=turn, id=f"t{turn}")
        made.record()
        for step in range(3):
            for _ in range(chance.choice((1, 10))):
                made.wait(20)
                made.look()
            made.tool(f"c{turn}.{step}", status="ok")
            made.look()
        made.write("turn.end", "s", turn=turn, id=f"t{turn}")
        made.record()
        made.look()
    live = {each.event.key for each in made.firings(["done"])}
    assert live
    assert {each.facts.event.key for each in tried(made, round(made.now * 1e6)).fired()} == live


# -- budgets and limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("period", "limit"), [("day", 10), ("week", 60), ("month", 120)])
def test_budgets_are_crossed_when_a_response_reaches_the_threshold(
    tmp_path: Path, period: str, limit: int, seed: int
) -> None:
    """The moments and thresholds of a naive reference, and of several at a moment the highest; keys as live."""
    chance = random.Random(seed)
    times = sorted(NOON + chance.randrange(12 * DAY // HOUR) * HOUR for _ in range(30))
    spent = [Spent(name=str(n), at=at, model=chance.choice((DOLLAR, YUAN))) for n, at in enumerate(times)]
    usage = {"currency": "CNY", "exchange_rate": 7.0}
    settings = settings_with(tmp_path, {"b": {"period": period, "limit": limit}}, **usage)
    since, until = NOON + 4 * DAY, NOON + 10 * DAY
    with opened(settings) as store:
        spend(store, *spent)
        live = {each.key for each in crossings_since(store, settings, NOON, NOON + 12 * DAY)}
    trial = try_on(settings, since=since, until=until, on="budget.crossed", once="crossing")
    sums: dict[int, float] = {}
    expected = []
    for each in spent:
        day = each.at // DAY
        # The epoch began on a Thursday; all of it is in one November.
        place = {"day": day, "week": (day + 3) // 7, "month": 0}[period]
        before = sums.get(place, 0.0)
        sums[place] = before + (7.0 if each.model == DOLLAR else 1.0)
        expected += [(each.at, share) for share in (0.5, 0.8, 1.0) if before < share * limit <= sums[place]]
    expected = [each for each in expected if since <= each[0] < until]
    found = [(each.facts.event.at, each.facts.event.facts["threshold"]) for each in trial.fired()]
    assert sorted(found) == sorted({at: (at, share) for at, share in sorted(expected)}.values())
    assert len(trial.tried) == len(expected), "each threshold once"
    assert {each.facts.event.key for each in trial.fired()} <= live
    assert "budgets_of_now" in codes(trial)


def test_a_budget_of_a_session_is_crossed_by_its_calls(rig: MakeRig) -> None:
    """What it cost before the time counts as well; sessions that the budget is not about have none."""
    made = rig(on="budget.crossed")
    budgets = {
        "each": parse_budget("each", {"period": "session", "limit": 10}),
        "others": parse_budget("others", {"period": "session", "limit": 10, "where": {"agent": "codex"}}),
    }
    prices = tuple(parse_prices(DOLLAR, PRICES[DOLLAR], source="test"))
    made.settings = msgspec.structs.replace(made.settings, budgets=budgets, prices=prices)
    for number in range(1, 5):
        call_costing_three_dollars(made, number)
        made.wait(3600)
    begin = round((START + 1800) * 1e6)
    found = [(each.at, each.facts.event.facts["threshold"]) for each in tried(made, since=begin).fired()]
    assert found == [(START + 3600, 0.5), (START + 7200, 0.8), (START + 10_800, 1.0)]
    (session,) = made.store.sessions()
    key = crossing_key("budget", "each", "session", f"session {session.id}", "0.5")
    assert tried(made, since=begin).fired()[0].facts.event.key == key


def call_costing_three_dollars(made: Rig, number: int) -> None:
    made.write("turn.begin", "s", turn=number, id=f"t{number}")
    place = {"turn": number, "step": "a", "id": f"c{number}", "model": DOLLAR, "response": f"r{number}"}
    made.write("step.begin", "s", **place)
    made.write("step.end", "s", **place, usage={"input_tokens": 3_000_000, "output_tokens": 0})
    made.write("turn.end", "s", turn=number, id=f"t{number}")
    made.record()


def test_limits_are_tried_on_the_reports_that_are_stored(tmp_path: Path) -> None:
    """Each window by its last report, expired or not; and the answer says that others are not known."""
    settings = settings_with(tmp_path, {})
    windows = [
        window(55, at=NOON - 9 * HOUR, end=NOON - 8 * HOUR),
        window(30, at=NOON - 5 * HOUR, end=NOON - 4 * HOUR),
        window(70, at=NOON - 4 * HOUR - 1, end=NOON - 4 * HOUR),
        window(100, at=NOON, end=NOON + HOUR),
    ]
    with opened(settings) as store:
        for each in windows:
            store.commit(Batch(limits=[each]), day_of=day_finder("UTC"))
        keys = {each.key for each in limit_crossings_since(store, settings, 0)}
    trial = try_on(settings, since=NOON - 6 * HOUR, until=NOON + 1, on="limit.crossed", where={"at_least": 0.8})
    assert [each.facts.event.facts["threshold"] for each in trial.tried] == [0.5, 0.5, 0.8, 1.0]
    assert [each.facts.event.at for each in trial.fired()] == [NOON]
    assert {each.facts.event.key for each in trial.tried} <= keys
    assert codes(trial) == ["last_reports"]


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_secrets_are_found_once_in_their_session(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the line that had them first, under the keys of the engine; and never their values."""
    monkeypatch.setattr(secrets, "_LINES", 2)
    made = rig(on="secret.found")
    for text in (f"Use {FIRST}.", "nothing", f"Again {FIRST} and {SECOND}.", "nothing", f"And {SECOND}."):
        say(made, text)
        made.wait(60)
    source = secrets.SecretSource(made.store, Mask().text)
    made.engine.use(cashier=Cashier.load(made.settings), day_of=lambda _: "2023-11-14", sources=[source])
    for _ in range(4):
        made.look()
    live = {each.event.key for each in made.firings(["done"])}
    trial = tried(made)
    assert {each.facts.event.key for each in trial.fired()} == live
    assert sorted(each.facts.event.facts["kind"] for each in trial.fired()) == ["anthropic-key", "github-token"]
    assert codes(trial) == ["costs_of_now"]
    assert FIRST not in repr([each.facts.event for each in trial.tried])


def test_of_very_many_lines_the_latest_are_searched(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the answer says so."""
    monkeypatch.setattr(secrets, "_LINES", 1)
    monkeypatch.setattr(secrets, "_PAST_BYTES", 100)
    made = rig(on="secret.found")
    for text in (FIRST, "nothing " * 20, SECOND):
        say(made, text)
    trial = tried(made)
    assert [each.facts.event.facts["kind"] for each in trial.fired()] == ["github-token"]
    assert "latest_lines" in codes(trial)


# -- tokens and cost --------------------------------------------------------------------------------------------------


@pytest.fixture
def chained(tmp_path: Path) -> Iterator[Callable[..., tuple[Rig, Starter]]]:
    """Makes rigs whose rule runs applications on every turn."""
    made: list[Rig] = []

    def make(**changes: Any) -> tuple[Rig, Starter]:  # noqa: ANN401 - fields of a rule
        starter, rig = Starter(), Rig(tmp_path / str(len(made)), tables(once="crossing", start="all", **changes))
        rig.actions["chain"] = Chain(starter, text_of, Mask(()).value, Shelf())
        rig.restart()
        made.append(rig)
        return rig, starter

    yield make
    for each in made:
        each.close()


def test_without_earlier_runs_the_size_of_the_input_counts(chained: Callable[..., tuple[Rig, Starter]]) -> None:
    """At four bytes a token for each application, up to ``max_chars``; at the price of the model, or unknown."""
    rig, _ = chained(apps=["session-summary", "session-score"], input="turn")
    for turn in (1, 2):
        rig.turn(turn)
    trial = tried(rig)
    (session,) = rig.store.sessions()
    sizes = {0: 0, 1: 0}
    for line in rig.store.lines(session=session.id):
        sizes[line.turn_index] += len(line.raw)
    assert [each.tokens for each in trial.fired()] == [2 * -(-size // 4) for size in sizes.values()]
    found = trial_of(trial, rig.store, rig.settings)
    assert found.tokens == sum(each.tokens for each in trial.fired())
    assert [each.basis for each in found.chains] == ["input"]
    assert found.cost is not None
    assert (found.cost.cost, found.cost.unpriced_tokens) == (None, found.tokens)
    assert "tokens_of_input" in [each.code for each in found.remarks]
    apps = {name: {"model": MODEL} for name in ("session-summary", "session-score")}
    priced = trial_of(trial, rig.store, msgspec.structs.replace(rig.settings, apps=apps))
    assert priced.cost is not None
    assert priced.cost.cost == pytest.approx(found.tokens * 3e-6)


def test_earlier_runs_are_the_better_estimate(chained: Callable[..., tuple[Rig, Starter]]) -> None:
    """Their mean, also those of another rule with the same applications; the cost as theirs was."""
    rig, starter = chained()
    starter.results = [chain("rule-1", 1000), chain("rule-2", 3000)]
    call(rig, "rule-1", MODEL, 1000)
    call(rig, "rule-2", MODEL, 3000)
    for turn in (1, 2):
        rig.turn(turn)
        rig.look()
    rig.turn(3)
    cashier = Cashier.load(rig.settings)
    numbers = [rig.store.session(name).id for name in ("rule-1", "rule-2")]
    bill = cashier.bill(row for rows in rig.store.usage_by_session(numbers).values() for row in rows)
    assert bill.cost is not None
    for name in ("r", "draft"):
        rule = msgspec.structs.replace(rig.tables.rules["r"], name=name)
        trial = try_rule(rig.store, rig.settings, rig.tables, rule, since=0, until=FOREVER)
        found = trial_of(trial, rig.store, rig.settings)
        assert (found.fired, found.tokens, found.chains[0].basis) == (3, 6000, "firings")
        assert found.cost is not None
        assert found.cost.cost == pytest.approx(bill.cost * 1.5)
        assert "tokens_of_firings" in [each.code for each in found.remarks]


def test_the_cap_of_tokens_counts_with_the_estimate(chained: Callable[..., tuple[Rig, Starter]]) -> None:
    """A day takes chains until its tokens are used up; the next day begins anew."""
    rig, starter = chained(tokens_per_day=2_500)
    starter.results = [chain("rule-1", 1000)]
    rig.turn(1)
    rig.look()
    for turn in range(2, 6):
        rig.turn(turn)
    rig.wait(86_400)
    rig.turn(6)
    trial = tried(rig)
    assert [each.outcome for each in trial.tried] == ["fire", "fire", "fire", "skip", "skip", "fire"]
    (reason, count) = trial.reasons()[0]
    assert (reason.code, reason.facts, count) == ("most_tokens", {"count": 3000, "limit": 2500}, 2)
