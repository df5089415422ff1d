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


@pytest.mark.parametrize(
    ("word", "day"),
    [
        ("today", "2026-11-18"),
        ("yesterday", "2026-11-17"),
        ("week", "2026-11-16"),
        ("last-week", "2026-11-09"),
        ("Month", "2026-11-01"),
        ("last-month", "2026-10-01"),
    ],
)
def test_words_are_first_days(word: str, day: str) -> None:
    """On a Wednesday the week began on Monday; of a month it is the first day, in the zone of days."""
    now = datetime(2026, 11, 17, 18, tzinfo=UTC)  # the 18th in Shanghai
    found = parse_moment(word, "Asia/Shanghai", now=now)
    assert (found.date().isoformat(), found.hour, found.utcoffset()) == (day, 0, timedelta(hours=8))
