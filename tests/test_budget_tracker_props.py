"""Property 8: the token budget adds up what the run log says, by days and months of the business time zone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.compat.run_log import AIRunLogService
from agenttrace.run.guards.budget import BudgetTracker
from agenttrace.run.postgres.pool import Database
from example_counts import COSTLY

ZONE = ZoneInfo("Asia/Shanghai")
STATUSES = ("success", "success", "success", "failed", "timeout", "running", "pending", "rate_limited")

_INSERT = b"""
INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, status, tokens_used, tokens_reserved, created_at,
                             response_text, latency_ms, finished_at, error_message)
VALUES (1, 'app3_clue', 'event', %s, %s, %s, %s, 'x', 1, now(), 'x')
"""


class Log(NamedTuple):
    """A row of the run log, as far as the budget is concerned."""

    status: str
    tokens: int
    reserved: int
    at: datetime


class World:
    """One database and one loop for all examples; the run log is emptied before each."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.database = database
        self.runner = runner

    async def write(self, logs: list[Log]) -> None:
        async with self.database.transaction() as connection:
            await connection.execute("TRUNCATE biz.ai_run_logs")
            async with connection.cursor() as cursor:
                await cursor.executemany(_INSERT, logs)


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with asyncio.Runner() as runner:
        database = Database(module_database_url, size=2)
        runner.run(database.open())
        yield World(database, runner)
        runner.run(database.close())


#: Instants at which something may be asked, among them the first and last of days, months and a year.
nows = st.one_of(
    st.sampled_from(
        [
            datetime(2026, 5, 1, tzinfo=ZONE),
            datetime(2026, 4, 30, 23, 59, 59, 999999, tzinfo=ZONE),
            datetime(2026, 12, 31, 23, 59, 59, tzinfo=ZONE),
            datetime(2027, 1, 1, tzinfo=ZONE),
            datetime(2028, 2, 29, 12, tzinfo=ZONE),
        ]
    ),
    st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)),
)
distances = st.one_of(
    st.integers(-40 * 86400, 40 * 86400), st.integers(-86400, 86400), st.sampled_from([0, 1, -1, 86400, -86400])
)
amounts = st.one_of(st.integers(0, 400_000), st.sampled_from([0, 1, 50_000, 99_999, 100_000, 1_999_999, 2_000_000]))
rows = st.lists(st.tuples(st.sampled_from(STATUSES), amounts, st.integers(0, 60_000), distances), max_size=20)


# Feature: P14-ai-dashscope-migration, Property 8: Token 预算检查正确性
@COSTLY
@given(now=nows, entries=rows)
def test_the_budget_is_the_sum_of_the_run_log(
    world: World, now: datetime, entries: list[tuple[str, int, int, int]]
) -> None:
    """Daily and monthly use are the sums of successful rows; at a limit, counting what is reserved or lost, it ends."""
    logs = [Log(status, used, reserved, now + timedelta(seconds=away)) for status, used, reserved, away in entries]
    today = now.astimezone(ZONE).date()
    of_day = [log for log in logs if log.at.astimezone(ZONE).date() == today]
    of_month = [log for log in logs if log.at.astimezone(ZONE).date().replace(day=1) == today.replace(day=1)]

    async def example() -> None:
        await world.write(logs)
        tracker = BudgetTracker(world.database, clock=lambda: now)
        status = await tracker.check_budget()
        assert (status.daily_used, status.monthly_used) == (_used(of_day), _used(of_month))
        assert await tracker._get_daily_usage() == _used(of_day)
        assert await tracker._get_monthly_usage() == _used(of_month)
        run_logs = AIRunLogService(world.database)
        assert await run_logs.get_daily_token_usage(now) == _used(of_day)
        assert await run_logs.get_monthly_token_usage(now) == _used(of_month)
        if _used(of_day) >= 100_000 or _used(of_month) >= 2_000_000:
            assert not status.allowed
        expected = None
        if _gone(of_day) >= 100_000:
            expected = "daily_exceeded"
        elif _gone(of_month) >= 2_000_000:
            expected = "monthly_exceeded"
        assert (status.reason, status.allowed) == (expected, expected is None)

    world.runner.run(example())


def _used(logs: list[Log]) -> int:
    return sum(log.tokens for log in logs if log.status == "success")


def _gone(logs: list[Log]) -> int:
    return sum(log.reserved if log.status in ("pending", "running") else log.tokens for log in logs)
