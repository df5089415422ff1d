"""Schedules: times of the business zone, each acted upon exactly once, by whichever process looks."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.catalog.catalog import AppCatalog, CatalogError
from agenttrace.run.jobs.schedules import GRACE, Schedule, Scheduler
from agenttrace.run.simulator import Simulator
from run.crew import Crew, open_crew

ZONE = "Asia/Shanghai"
NIGHTLY = {"event": "dws_completed", "at": "02:30", "sites": [1, 2]}
#: 02:30 in Shanghai.
DUE = datetime(2026, 5, 14, 18, 30, tzinfo=UTC)


def schedule(**changes: Any) -> Schedule:  # noqa: ANN401 - any field of a schedule
    return AppCatalog.load(None, {"schedules": {"nightly": NIGHTLY | changes}}).schedules["nightly"]


class Clock:
    """A clock that the test sets."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def scheduler(crew: Crew, clock: Clock, *schedules: Schedule) -> Scheduler:
    return Scheduler(crew.database, schedules, crew.dispatcher, zone=ZONE, clock=clock)


async def jobs(crew: Crew) -> list[tuple[Any, ...]]:
    return await crew.database.all("SELECT site_id, status, schedule FROM biz.ai_trigger_jobs ORDER BY id")


def test_a_time_comes_exactly_once_in_several_processes(database_url: str) -> None:
    """Three processes that look at the same moment, again and again, write one job a store; the next day one more."""

    async def run() -> None:
        clock = Clock(DUE - timedelta(minutes=1))
        async with Simulator() as simulator, AsyncExitStack() as stack:
            crews = [await stack.enter_async_context(open_crew(database_url, simulator)) for _ in range(3)]
            looking = [scheduler(crew, clock, schedule(forced=True)) for crew in crews]
            assert sum(await asyncio.gather(*(each.fire_due() for each in looking))) == 0
            for days in (0, 1):
                clock.now = DUE + timedelta(days=days, seconds=3)
                fired = await asyncio.gather(*(each.fire_due() for each in looking for _ in range(4)))
                assert sum(fired) == 1
            assert await jobs(crews[0]) == [(site, "pending", "nightly") for site in (1, 2, 1, 2)]

    asyncio.run(run())


def test_a_new_schedule_begins_with_its_next_time(database_url: str) -> None:
    """What was due before a schedule was first seen is not run; a time that was missed for a while is made up for."""

    async def run() -> None:
        async with Simulator() as simulator, open_crew(database_url, simulator) as crew:
            clock = Clock(DUE + timedelta(minutes=5))
            assert await scheduler(crew, clock, schedule()).fire_due() == 0
            clock.now = DUE + timedelta(days=1) + GRACE
            assert await scheduler(crew, clock, schedule()).fire_due() == 0, "too late to be made up for"
            clock.now -= timedelta(seconds=1)
            assert await scheduler(crew, clock, schedule()).fire_due() == 1

    asyncio.run(run())


def test_its_calls_are_scheduled_ones(database_url: str) -> None:
    """A job of a schedule runs like any other; the run log says what its calls were for, and duplicates are skipped."""

    async def run() -> None:
        async with Simulator() as simulator, open_crew(database_url, simulator) as crew:
            clock = Clock(DUE - timedelta(minutes=1))
            mine = scheduler(crew, clock, schedule(event="consumption", member=7, sites=[5], payload={"coach_id": 8}))
            await mine.fire_due()
            clock.now = DUE
            await mine.fire_due()
            ((job_id,),) = await crew.database.all("SELECT id FROM biz.ai_trigger_jobs")
            assert await crew.dispatcher.execute(job_id) == "completed"
            assert await crew.database.all("SELECT DISTINCT trigger_type FROM biz.ai_run_logs") == [("scheduled",)]
            assert len(simulator.calls) == 5

    asyncio.run(run())


@given(
    now=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    times=st.lists(st.times().map(lambda at: time(at.hour, at.minute)), min_size=1, max_size=3),
    weekdays=st.sets(st.integers(0, 6), min_size=1),
    zone=st.sampled_from([ZONE, "America/New_York", "America/Santiago", "Etc/GMT+12"]),
)
def test_due_times_are_those_of_the_zone(now: datetime, times: list[time], weekdays: set[int], zone: str) -> None:
    """The last time is not after now, the next one is; both on a weekday that is named; nothing lies between them."""
    found = Schedule(name="s", event_type="e", times=tuple(times), sites=(1,), weekdays=frozenset(weekdays))
    last, following = found.last_due(now, zone), found.next_due(now, zone)
    assert last is not None
    assert following is not None
    assert last <= now < following <= last + timedelta(days=8)
    for due in (last, following):
        assert due.astimezone(ZoneInfo(zone)).weekday() in weekdays
    between = last + timedelta(minutes=1)
    assert found.next_due(last, zone) == following or found.next_due(between, zone) == following


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"event": "nothing"}, "'nothing' is no event"),
        ({"at": "25:00"}, "at"),
        ({"at": []}, "no time"),
        ({"days": []}, "no time"),
        ({"days": ["someday"]}, "days"),
        ({"sites": []}, "sites"),
        ({"sites": [0]}, "sites"),
        ({"cron": "* * * * *"}, "cron"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(changes: dict[str, Any], told: str) -> None:
    """What would only be noticed at night is refused at the start, with its place."""
    with pytest.raises(CatalogError, match=r"schedules\.nightly") as error:
        schedule(**changes)
    assert told in str(error.value)
