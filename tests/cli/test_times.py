"""``--since`` and ``--older-than``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.cli.errors import USAGE, explained
from agenttrace.views.times import NotATimeError, parse_moment, parse_since, parse_span

NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@given(st.integers(0, 5000), st.sampled_from("mhdwMHDW"), st.sampled_from(["", " "]))
def test_spans_count_back_from_now(number: int, unit: str, gap: str) -> None:
    """``7d`` is seven days ago, whatever the letter's case."""
    expected = NOW - timedelta(**{UNITS[unit.lower()]: number})
    assert parse_moment(f"{number}{gap}{unit}", now=NOW) == expected
    assert parse_span(f"{number}{gap}{unit}") == NOW - expected


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)),
    st.timedeltas(timedelta(hours=-14), timedelta(hours=14)).map(
        lambda d: timedelta(minutes=d // timedelta(minutes=1))
    ),
)
def test_iso_times_are_taken_as_they_are(moment: datetime, offset: timedelta) -> None:
    """A time with a zone means that instant, to the microsecond."""
    aware = moment.replace(tzinfo=timezone(offset))
    assert parse_moment(aware.isoformat()) == aware
    micros = parse_since(aware.isoformat())
    assert micros == (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(st.dates(datetime(1971, 1, 1).date(), datetime(2100, 1, 1).date()))
def test_a_day_begins_at_local_midnight(day: object) -> None:
    """A day without a time is local, not UTC."""
    then = parse_moment(str(day))
    assert str(then.date()) == str(day)
    assert (then.hour, then.minute) == (0, 0)
    assert then.tzinfo is not None


@given(st.text(max_size=30))
def test_anything_else_is_a_usage_error(text: str) -> None:
    """No text makes it fail in any other way than by saying how to write a time."""
    try:
        found: object = parse_moment(text, now=NOW).tzinfo
    except NotATimeError as error:
        told = explained(error)
        found = told is not None and told.code == USAGE and "7d" in told.fix
    assert found


@pytest.mark.parametrize("text", ["", "7", "d7", "-3d", "7days", "tomorrow", "2026-13-01", "9999999w"])
def test_what_is_not_a_time(text: str) -> None:
    """These are refused."""
    with pytest.raises(NotATimeError):
        parse_moment(text, now=NOW)


def test_words() -> None:
    """Today and yesterday begin at midnight."""
    now = datetime.now().astimezone()
    assert parse_moment("today").date() == now.date()
    assert parse_moment("Yesterday").date() == now.date() - timedelta(days=1)


@given(
    st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["Asia/Shanghai", "America/Los_Angeles", "Pacific/Kiritimati", "UTC"]),
)
def test_today_is_a_day_of_the_setting(now: datetime, zone: str) -> None:
    """It begins at midnight there, whatever the machine's own zone is, and what is called by its date is the same."""
    begin = parse_moment("today", zone, now=now)
    there = begin.astimezone(ZoneInfo(zone))
    assert there.date() == now.astimezone(ZoneInfo(zone)).date()
    assert (there.hour, there.minute) == (0, 0)
    assert parse_moment(there.date().isoformat(), zone, now=now) == begin


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC)))
def test_weeks_and_months_begin_and_follow_each_other(now: datetime) -> None:
    """A week begins on Monday, a month on its first day; the last one ends where this one begins."""

    def day(word: str) -> datetime:
        return parse_moment(word, "UTC", now=now)

    assert day("yesterday") + timedelta(days=1) == day("today") <= now
    assert day("this-week").weekday() == 0
    assert day("last-week") + timedelta(days=7) == day("this-week") <= now < day("this-week") + timedelta(days=7)
    assert day("this-month").day == day("last-month").day == 1
    assert day("this-month").month == now.month
    assert (day("this-month") - timedelta(days=1)).replace(day=1) == day("last-month")
