"""The figures of the overview: each period against the same part of the one before, forecasts, activity, projects."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings
from agenttrace.prices.costing import Cashier
from agenttrace.store.questions import RecentQuery
from agenttrace.store.rules import RuleState
from agenttrace.views.attention import Attention, in_order, of_exports, of_limits, of_recorder, of_rules
from agenttrace.views.limits import limits_fields
from agenttrace.views.overview import ACTIVITY_DAYS, PERIODS, overview_fields
from agenttrace.views.overview_days import DayBook
from agenttrace.views.times import micros_of
from spending import DAY, FREE, HOUR, NOON, YUAN, Spent, opened, settings_with, spend

ZONES = ("UTC", "Asia/Shanghai", "Asia/Kolkata", "America/New_York", "Europe/Berlin")


def book_of(found: Settings) -> DayBook:
    return DayBook(Cashier.load(found))


def micros(text: str) -> int:
    return micros_of(datetime.fromisoformat(text))


def at(home: Path, spent: list[Spent], now: int = NOON, **usage: Any) -> dict[str, Any]:  # noqa: ANN401 - settings
    """The figures at a moment, with the periods by name."""
    found = settings_with(home, {}, **usage)
    with opened(found) as store:
        spend(store, *spent, timezone=found.usage.timezone)
        fields = overview_fields(store, book_of(found), now)
    return fields | {each["period"]: each for each in fields["periods"]}


# -- periods ------------------------------------------------------------------------------------------------------


def test_like_is_compared_with_like(tmp_path: Path) -> None:
    """At noon on Wednesday, yesterday counts until noon, last week until Wednesday noon, and last month until then."""
    found = at(
        tmp_path,
        [
            Spent(name="today", at=NOON - HOUR),
            Spent(name="yesterday morning", at=NOON - DAY - HOUR, tokens=4_000_000),
            Spent(name="yesterday evening", at=NOON - DAY + HOUR, tokens=500_000),
            Spent(name="last Wednesday morning", at=NOON - 7 * DAY - HOUR),
            Spent(name="last Wednesday evening", at=NOON - 7 * DAY + HOUR),
            Spent(name="11 October, morning", at=NOON - 31 * DAY - 1),
            Spent(name="11 October, noon", at=NOON - 31 * DAY),
            Spent(name="September", at=NOON - 60 * DAY),
        ],
    )
    costs = {name: (found[name]["bill"]["cost"], found[name]["before"]["bill"]["cost"]) for name in PERIODS}
    assert costs == {"day": (1, 4), "week": (5.5, 1), "month": (7.5, 1)}
    assert [found[name]["whole_before"]["bill"]["cost"] for name in PERIODS] == [4.5, 2, 2]
    assert [found[name]["cost_change"] for name in PERIODS] == [-0.75, 4.5, 6.5]
    assert found["day"]["before"]["until"] == "2026-11-10T12:00:00.000000Z"
    assert found["month"]["before"]["first_day"] == "2026-10-01"


def test_a_longer_month_is_compared_with_all_of_a_shorter_one(tmp_path: Path) -> None:
    """On 31 October the whole of September is as old; there is no 31 September."""
    found = at(
        tmp_path,
        [
            Spent(name="30 September", at=micros("2026-09-30T23:59:00+00:00")),
            Spent(name="1 October", at=micros("2026-10-01T00:00:00+00:00")),
        ],
        now=micros("2026-10-31T12:00:00+00:00"),
    )
    month = found["month"]
    assert month["before"]["bill"] == month["whole_before"]["bill"]
    assert (month["before"]["until"], month["cost_change"]) == ("2026-10-01T00:00:00.000000Z", 0)


def test_a_day_without_a_predecessor_has_no_change(tmp_path: Path) -> None:
    """Nothing before is no change by any number; nothing at all is zero and no error."""
    found = at(tmp_path, [Spent(name="first")])
    assert [found[name]["cost_change"] for name in PERIODS] == [None] * 3
    empty = overview_fields(None, book_of(settings_with(tmp_path, {})), NOON)
    assert [each["tokens"] for each in empty["periods"]] == [0, 0, 0]
    assert len(empty["activity"]) == ACTIVITY_DAYS


def test_forecasts_are_those_of_budgets(tmp_path: Path) -> None:
    """A budget over everything and the period say the same."""
    periods: dict[str, Any] = {period: {"period": period, "limit": 100.0} for period in PERIODS}
    found = settings_with(tmp_path, periods)
    with opened(found) as store:
        spend(store, *(Spent(name=str(number), at=NOON - number * DAY - HOUR) for number in range(9)))
        fields = overview_fields(store, book_of(found), NOON)
        budgets = {each["name"]: each for each in limits_fields(store, found, now=NOON)["budgets"]}
    for each in fields["periods"]:
        assert each["forecast_costs"] == {"USD": pytest.approx(budgets[each["period"]]["forecast"])}
        assert (each["start"], each["end"]) == (budgets[each["period"]]["start"], budgets[each["period"]]["end"])


def test_one_currency_where_there_is_a_rate(tmp_path: Path) -> None:
    """With a rate there is one sum, and the original ones beside it; without one the setting is named."""
    spent = [Spent(name="a"), Spent(name="b", model=YUAN), Spent(name="c", model=FREE)]
    apart = at(tmp_path / "apart", spent)
    assert apart["day"]["bill"]["costs"] == {"CNY": 1, "USD": 1}
    assert "usage.exchange_rate" in apart["currency_problem"]
    assert apart["day"]["cost_change"] is None
    one = at(tmp_path / "one", spent, currency="CNY", exchange_rate=7.0)
    assert (one["day"]["bill"]["costs"], one["day"]["amounts"]) == ({"CNY": 8}, {"CNY": 1, "USD": 1})
    assert (one["currency_problem"], one["day"]["bill"]["unpriced_tokens"]) == (None, 1_000_000)


moments = st.integers(micros("2026-01-20T00:00:00+00:00"), micros("2026-12-31T00:00:00+00:00"))
backs = st.lists(st.integers(0, 70 * 24 * 60), max_size=12)


@settings(max_examples=25, deadline=None)
@given(now=moments, minutes=backs, later=backs, timezone=st.sampled_from(ZONES))
@example(now=micros("2026-03-29T12:00:00+02:00"), minutes=[60, 1440, 2000], later=[30], timezone="Europe/Berlin")
@example(now=micros("2026-11-01T12:00:00-05:00"), minutes=[60, 1440, 2000], later=[30], timezone="America/New_York")
def test_the_figures_are_those_of_the_responses(now: int, minutes: list[int], later: list[int], timezone: str) -> None:
    """Whatever the time zone, a period is the sum of the responses in it; and so it is for a book that is used on."""
    with TemporaryDirectory() as directory:
        found = settings_with(Path(directory), {}, timezone=timezone)
        book, cashier = book_of(found), Cashier.load(found)
        with opened(found) as store:
            for name, spans in (("a", minutes), ("b", later)):
                spent = [
                    Spent(name=f"{name}{number}", at=now - back * 60_000_000, tokens=number + 1)
                    for number, back in enumerate(spans)
                ]
                spend(store, *spent, timezone=timezone)
                fields = overview_fields(store, book, now)
                assert fields == overview_fields(store, DayBook(cashier), now)
                _agree(fields, [(each.at, each.row.usage.total) for each in store.recent_usage(RecentQuery(since=0))])


def _agree(fields: dict[str, Any], responses: list[tuple[int, int]]) -> None:
    for each in fields["periods"]:
        start, before = micros(each["start"]), each["before"]
        until, began = micros(before["until"]), _midnight(before["first_day"], fields["timezone"])
        assert each["tokens"] == sum(tokens for at, tokens in responses if at >= start)
        assert before["tokens"] == sum(tokens for at, tokens in responses if began <= at < until)
        assert each["whole_before"]["tokens"] == sum(tokens for at, tokens in responses if began <= at < start)
        assert sum(part["requests"] for part in each["parts"]) == each["bill"]["requests"]
    zone, counts = ZoneInfo(fields["timezone"]), dict[tuple[str, int], int]()
    for at, _ in responses:
        local = datetime.fromtimestamp(at // 1_000_000, UTC).astimezone(zone)
        place = (local.date().isoformat(), local.hour)
        counts[place] = counts.get(place, 0) + 1
    days = {each["day"]: each["hours"] for each in fields["activity"]}
    assert len(days) == ACTIVITY_DAYS
    for day, hours in days.items():
        assert hours == [counts.get((day, hour), 0) for hour in range(24)]


def _midnight(day: str, timezone: str) -> int:
    then = datetime.combine(date.fromisoformat(day), datetime.min.time(), ZoneInfo(timezone))
    return micros_of(then)


def test_projects_are_those_of_thirty_days(tmp_path: Path) -> None:
    """The most expensive first; older usage does not count, and sessions without a project are one of them."""
    shop, blog = "/home/dev/shop", "/home/dev/blog"
    spent = [
        Spent(name="a", project=shop, session="1"),
        Spent(name="b", project=blog, session="2", at=NOON - 29 * DAY, tokens=2_000_000),
        Spent(name="c", project=shop, session="1", at=NOON - 30 * DAY, tokens=9_000_000),
        Spent(name="d", project=None, session="3", tokens=10),
    ]
    found = at(tmp_path, spent)["projects"]
    assert [(each["project"], each["tokens"]) for each in found] == [(blog, 2_000_000), (shop, 1_000_000), (None, 10)]


# -- what needs the user ------------------------------------------------------------------------------------------


def test_what_needs_the_user() -> None:
    """What fails is there once with its reason, the worst first; what works is not."""
    good = {"state": "idle", "reason": None, "refused": 0, "rejected": 0, "refused_annotations": 0}
    exports = of_exports(
        [good | {"name": "fine"}, good | {"name": "sick", "state": "waiting", "reason": "503", "refused": 2}]
    )
    states = {
        name: RuleState(name, 0, 0.0, ("a",), None, paused, failures)
        for name, paused, failures in (
            ("ok", None, 0),
            ("ill", None, 3),
            ("stopped", "no luck", 10),
            ("old", "x", 1),
        )
    }
    found = in_order([*of_recorder(True, None, 4), *exports, *of_rules(states, ["ok", "ill", "stopped", "unknown"])])
    assert [(each.kind, each.name, each.count, each.detail) for each in found] == [
        ("export_failing", "sick", None, "503"),
        ("rule_paused", "stopped", None, "no luck"),
        ("lines_quarantined", None, 4, None),
        ("export_refused", "sick", 2, None),
        ("rule_failing", "ill", 3, None),
    ]
    assert [each.kind for each in of_recorder(False, None, 0)] == ["recorder_stopped"]
    assert list(of_recorder(False, "disk full", 0)) == [
        Attention(kind="recorder_failing", level="failed", detail="disk full")
    ]


def test_budgets_that_cross_a_threshold_need_the_user(tmp_path: Path) -> None:
    """Below the first threshold nothing is said; from the limit on it is the worst."""
    limits = {"low": 100.0, "near": 1.2, "over": 0.5}
    found = settings_with(tmp_path, {name: {"period": "day", "limit": limit} for name, limit in limits.items()})
    with opened(found) as store:
        spend(store, Spent(name="a"))
        listed = list(of_limits(limits_fields(store, found, now=NOON)))
    assert [(each.name, each.level) for each in listed] == [("near", "waiting"), ("over", "failed")]
