"""Budgets: what is spent of them in their period, how fast, and which thresholds are crossed, each once."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scratch
from agenttrace.calendar import zone
from agenttrace.config.rules import BadRuleError, Period, parse_budget, parse_rule
from agenttrace.rules.actions.sentences import crossing_sentence
from agenttrace.rules.budgets import BudgetState, budget_states, crossings, crossings_since, day_after, first_day_of
from agenttrace.rules.crossings import budget_event, limit_event
from agenttrace.rules.limits import _state, limit_crossings
from agenttrace.store.questions import ProviderWindow
from spending import DAY, DOLLAR, FREE, HOUR, NOON, YUAN, Spent, opened, settings_with, spend

few = settings(max_examples=25)


def states(home: Path, budget: dict[str, Any], *spent: Spent, now: int = NOON, **usage: Any) -> list[BudgetState]:  # noqa: ANN401
    """The states of one budget."""
    found = settings_with(home, {"b": budget}, **usage)
    with opened(found) as store:
        spend(store, *spent, timezone=found.usage.timezone)
        return budget_states(store, found, now)


def test_a_day_counts_from_midnight(tmp_path: Path) -> None:
    """Spending of yesterday is no part of it; rate, forecast and time of exhaustion are linear."""
    old, new = Spent(name="old", at=NOON - DAY), Spent(name="new", at=NOON - HOUR, tokens=3_000_000)
    (state,) = states(tmp_path, {"period": "day", "limit": 5}, old, new)
    assert (state.spent, state.share, state.currency, state.crossed) == (3.0, 0.6, "USD", (0.5,))
    assert (state.start, state.end, state.first_day) == (NOON - DAY // 2, NOON + DAY // 2, "2026-11-11")
    assert (state.rate, state.recent_rate, state.forecast) == (0.25, 1.0, 6.0)
    assert state.reached_at == NOON + 8 * HOUR
    assert state.amounts == {"USD": 3.0}


@pytest.mark.parametrize(
    ("period", "first", "after"),
    [("day", "2026-11-11", "2026-11-12"), ("week", "2026-11-09", "2026-11-16"), ("month", "2026-11-01", "2026-12-01")],
)
def test_periods_begin_in_the_time_zone_of_usage(tmp_path: Path, period: Period, first: str, after: str) -> None:
    """Weeks begin on Monday; in Shanghai all begin eight hours before UTC."""
    (state,) = states(tmp_path, {"period": period, "tokens": 10}, timezone="Asia/Shanghai")
    day = date.fromisoformat(first)
    assert state.first_day == first
    assert state.start == (day - date(1970, 1, 1)).days * DAY - 8 * HOUR
    assert state.end == (date.fromisoformat(after) - date(1970, 1, 1)).days * DAY - 8 * HOUR


@given(st.dates(date(1990, 1, 1), date(2100, 1, 1)), st.sampled_from(["day", "week", "month"]))
def test_periods_follow_each_other(day: date, period: Period) -> None:
    """Every day is in one period, and the next one begins where it ends."""
    first = first_day_of(period, day)
    after = day_after(period, first)
    assert first <= day < after
    assert first_day_of(period, after) == after


def test_where_chooses_agents_projects_and_models(tmp_path: Path) -> None:
    """By name, by path, by glob; where nothing matches, nothing is spent."""
    spent = (
        Spent(name="1", agent="codex", session="1", project="/home/dev/shop"),
        Spent(name="2", agent="claude-code", session="2", project="/home/dev/till", tokens=2_000_000),
        Spent(name="3", agent="codex", session="3", project=None, model=FREE, tokens=4_000_000),
    )
    wanted = {
        "agent": ({"agent": "codex"}, 5_000_000),
        "name": ({"project": "shop"}, 1_000_000),
        "glob": ({"project": "/home/dev/*"}, 3_000_000),
        "model": ({"model": "gpt-*"}, 3_000_000),
        "both": ({"model": "gpt-*", "agent": ["codex", "kimi-cli"]}, 1_000_000),
        "none": ({"project": "elsewhere"}, 0),
        "no-model": ({"model": "opus*"}, 0),
        "all": ({}, 7_000_000),
    }
    budgets = {name: {"period": "month", "tokens": 10**9, "where": where} for name, (where, _) in wanted.items()}
    found = settings_with(tmp_path, budgets)
    with opened(found) as store:
        spend(store, *spent)
        tokens = {state.name: state.spent for state in budget_states(store, found, NOON)}
    assert tokens == {name: expected for name, (_, expected) in wanted.items()}


def test_what_has_no_price_is_said(tmp_path: Path) -> None:
    """It is no part of the sum, and a budget of it alone is not zero but unknown."""
    known, unknown = Spent(name="1"), Spent(name="2", model=FREE)
    (state,) = states(tmp_path / "some", {"period": "day", "limit": 2}, known, unknown)
    assert (state.spent, state.unpriced_tokens, state.unpriced_models) == (1.0, 1_000_000, (FREE,))
    (state,) = states(tmp_path / "all", {"period": "day", "limit": 2}, unknown)
    assert (state.spent, state.share, state.crossed) == (None, None, ())
    assert FREE in (state.problem or "")


@pytest.mark.parametrize(
    ("usage", "missing"),
    [
        ({}, "set usage.currency and usage.exchange_rate"),
        ({"currency": "USD"}, "set usage.exchange_rate"),
        ({"exchange_rate": 8.0}, "set usage.currency in"),
        ({"currency": "EUR"}, "set usage.rates.CNY and usage.rates.USD in"),
        ({"currency": "EUR", "rates": {"CNY": Decimal("0.1")}}, "set usage.rates.USD in"),
    ],
)
def test_currencies_are_not_added_without_a_rate(tmp_path: Path, usage: dict[str, Any], missing: str) -> None:
    """The budget says which setting is missing."""
    mixed = (Spent(name="1"), Spent(name="2", model=YUAN))
    (state,) = states(tmp_path, {"period": "day", "limit": 2}, *mixed, **usage)
    assert (state.spent, state.crossed, state.forecast) == (None, (), None)
    assert missing in (state.problem or "")
    assert state.amounts == {"USD": 1.0, "CNY": 1.0}


def test_currencies_are_converted(tmp_path: Path) -> None:
    """To one currency, with the original amounts beside."""
    mixed = (Spent(name="1"), Spent(name="2", model=YUAN, tokens=8_000_000))
    (state,) = states(tmp_path, {"period": "day", "limit": 4}, *mixed, currency="USD", exchange_rate=8.0)
    assert (state.spent, state.currency, state.problem) == (2.0, "USD", None)
    assert state.amounts == {"USD": 1.0, "CNY": 8.0}


def test_any_currency_is_converted_by_its_rate(tmp_path: Path) -> None:
    """Into one that no price is in, with the original amounts beside."""
    mixed = (Spent(name="1"), Spent(name="2", model=YUAN, tokens=8_000_000))
    usage: dict[str, Any] = {"currency": "EUR", "rates": {"USD": Decimal("0.5"), "CNY": Decimal("0.125")}}
    (state,) = states(tmp_path, {"period": "day", "limit": 3}, *mixed, **usage)
    assert (state.spent, state.currency, state.crossed, state.problem) == (1.5, "EUR", (0.5,), None)
    assert state.amounts == {"USD": 1.0, "CNY": 8.0}


def test_a_session_s_budget_is_one_for_each_session(tmp_path: Path) -> None:
    """The most used first; sessions that were silent for a day have none any more."""
    spent = (
        Spent(name="1", session="small"),
        Spent(name="2", session="large", tokens=3_000_000),
        Spent(name="3", session="old", at=NOON - 3 * DAY),
    )
    found = states(tmp_path, {"period": "session", "limit": 2}, *spent)
    assert [(state.session and state.session.session_id, state.share) for state in found] == [
        ("large", 1.5),
        ("small", 0.5),
    ]
    assert len({crossing.key for crossing in crossings(found)}) == 4


def test_what_was_spent_before_midnight_counts_when_it_is_recorded_after(tmp_path: Path) -> None:
    """A period that ended since the last look is looked at once more, with the key that it had."""
    found = settings_with(tmp_path, {"day": {"period": "day", "limit": 4}, "month": {"period": "month", "limit": 100}})
    midnight = NOON + DAY // 2
    with opened(found) as store:
        spend(store, Spent(name="1", at=NOON, tokens=3_000_000))
        before = crossings(budget_states(store, found, NOON))
        spend(store, Spent(name="2", at=midnight - 1, tokens=1_000_000))
        now = midnight + HOUR
        assert crossings(budget_states(store, found, now)) == []
        late = crossings_since(store, found, NOON, now)
        assert [crossing.threshold for crossing in late] == [0.5, 0.8, 1.0]
        assert {crossing.key for crossing in before} < {crossing.key for crossing in late}
        assert {crossing.state.first_day for crossing in late} == {"2026-11-11"}
        assert crossings_since(store, found, midnight, now) == []
        assert len(crossings_since(store, found, 0, now)) == 3


@pytest.mark.parametrize("period", ["fortnight", "", 3])
def test_a_wrong_period_is_answered_with_those_that_exist(period: object) -> None:
    """And with the guide to budgets, not to rules."""
    with pytest.raises(BadRuleError) as refused:
        parse_budget("shop", {"period": period, "limit": 3})
    assert refused.value.key == "period"
    assert refused.value.fix == "Give one of day, week, month, session. docs/limits.md has examples."


def test_a_wrong_mode_of_a_rule_is_answered_with_those_that_exist() -> None:
    """The same for every setting that has certain values."""
    with pytest.raises(BadRuleError) as refused:
        parse_rule("r", {"on": "tool.failed", "do": ["desktop"], "mode": "maybe"})
    assert refused.value.fix == "Give one of on, dry, off. docs/rules.md has examples."


def test_no_budgets_ask_nothing(tmp_path: Path) -> None:
    """The store is not even looked at."""
    found = settings_with(tmp_path, {})
    assert budget_states(None, found, NOON) == []  # type: ignore[arg-type]


spendings = st.lists(
    st.builds(
        Spent,
        name=st.integers(0, 10**6).map(str),
        at=st.integers(0, 47).map(lambda hour: NOON - hour * HOUR),
        tokens=st.integers(1, 3_000_000),
        model=st.sampled_from([DOLLAR, FREE]),
        session=st.sampled_from("ab"),
    ),
    max_size=8,
    unique_by=lambda spent: spent.name,
)
_BUDGETS = {
    "day": {"period": "day", "tokens": 4_000_000, "warn": [0.25, 0.5, 0.8, 1.0]},
    "week": {"period": "week", "limit": 6},
    "each": {"period": "session", "tokens": 3_000_000},
}


@few
@given(spendings, st.randoms(use_true_random=False), st.data())
def test_thresholds_are_crossed_once_in_any_order(
    spent: list[Spent], shuffle: random.Random, data: st.DataObject
) -> None:
    """Noticed after every batch, in whatever order usage comes: keys only become more, and in the end are the same."""
    orders = [spent, shuffle.sample(spent, len(spent))]
    ends = []
    for order in orders:
        with scratch.quick() as home:
            found = settings_with(home, _BUDGETS)
            seen: set[bytes] = set()
            with opened(found) as store:
                while order:
                    size = data.draw(st.integers(1, len(order)))
                    spend(store, *order[:size])
                    order = order[size:]
                    keys = [crossing.key for crossing in crossings(budget_states(store, found, NOON))]
                    assert len(keys) == len(set(keys))
                    assert seen <= set(keys)
                    seen = set(keys)
            ends.append(seen)
    assert ends[0] == ends[1]


@few
@given(spendings)
def test_a_state_is_the_naive_sum(spent: list[Spent]) -> None:
    """Of the day: all tokens since midnight; and its crossed thresholds are those below the share."""
    with scratch.quick() as home:
        (state,) = states(home, {"period": "day", "tokens": 4_000_000}, *spent)
    assert state.spent == sum(each.tokens for each in spent if each.at >= NOON - DAY // 2)
    assert state.crossed == tuple(each for each in state.warn if each <= (state.share or 0))
    assert (state.forecast or 0) >= (state.spent or 0)


def test_a_crossing_as_it_is_told(tmp_path: Path) -> None:
    """The fields of a real budget and a real window, in the time zone of usage."""
    spent = Spent(name="1", at=NOON - 6 * HOUR, tokens=12_000_000)
    (state,) = states(tmp_path, {"period": "day", "limit": 10}, spent, timezone="Asia/Shanghai")
    event = budget_event(crossings([state])[-1], NOON, zone("Asia/Shanghai"))
    told = (
        "Budget b: $12.00 of $10.00 is spent today, 120%. The day ends at 2026-11-12 00:00. At this rate it comes to "
    )
    assert crossing_sentence(event, "en") == f"{told}$14.40 by then."
    reached = ProviderWindow(
        agent="codex",
        name="secondary",
        resets_at=NOON + DAY,
        window_minutes=10_080,
        used_percent=85.0,
        at=NOON,
        source="log",
    )
    (*_, last) = limit_crossings([_state(reached, NOON)])
    event = limit_event(last, NOON, zone("Asia/Shanghai"))
    # An hour has 85/144 percent, so 15 are used in 25.4 hours: after the reset.
    assert crossing_sentence(event, "en") == ("codex: 85% of the weekly limit is used. It resets at 2026-11-12 20:00.")
