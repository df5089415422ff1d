"""A moment belongs to the day that a clock on the wall of the chosen zone shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.calendar import day_finder, zone
from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite.usage import usage_rows

DATA = Path(__file__).resolve().parents[1] / "data"
ZONES = ("UTC", "Asia/Shanghai", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe")


@given(
    moment=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    name=st.sampled_from(ZONES),
)
def test_days_are_those_of_the_zone(moment: datetime, name: str) -> None:
    """Every moment, also around midnight and clock changes, is on its zone's calendar day."""
    microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert day_finder(name)(microseconds) == moment.astimezone(ZoneInfo(name)).strftime("%Y-%m-%d")


@given(at=st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_no_time_is_too_odd(at: int) -> None:
    """A nonsense timestamp gets some day and never an error."""
    assert len(day_finder("UTC")(at)) >= 10


def test_unknown_zone_is_refused() -> None:
    """The message says what would be right."""
    with pytest.raises(ValueError, match="Asia/Shanghai"):
        zone("Mars/Olympus")


def test_another_zone_counts_all_days_anew(tmp_path: Path) -> None:
    """After a change of the setting, the stored days are those of the new zone, and the sums stay."""
    log = tmp_path / "late.jsonl"
    line = '{"v":1,"session":"s","type":"usage","id":"u1","ts":"2026-11-14T20:00:00Z","model":"m",'
    log.write_text(line + '"usage":{"input_tokens":10,"output_tokens":3}}\n')
    days = {}
    for name in ("UTC", "Asia/Shanghai", "UTC"):
        environ = {"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "home"), "AGENTTRACE_USAGE_TIMEZONE": name}
        settings = load_settings(environ)
        ensure_home(settings)
        recorder = Recorder(settings, paths=[str(log)])
        recorder.run_once()
        rows = usage_rows(recorder.connection, UsageQuery(by="day"))
        days[name] = [(row.group, row.usage.input_tokens) for row in rows]
        recorder.close()
    assert days == {"UTC": [("2026-11-14", 10)], "Asia/Shanghai": [("2026-11-15", 10)]}
