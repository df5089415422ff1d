"""Property 7: the rate limiter's sliding windows, on PostgreSQL, by a clock of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.compat.rate_limit import RateLimiter
from agenttrace.run.errors import RateLimitExceededError
from agenttrace.run.guards.admission import Admissions
from agenttrace.run.postgres.pool import Database
from agenttrace.run.upstream.calls import CallRequest, RateRule
from example_counts import COSTLY

TICK = timedelta(microseconds=1)


class World:
    """One database, one loop and one clock for all examples; each has users and stores of its own."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.database = database
        self.runner = runner
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)
        self.limiter = RateLimiter(database, clock=lambda: self.now)

    async def hits(self, key: str) -> int:
        row = await self.database.one("SELECT cardinality(hits) FROM biz.ai_rate_windows WHERE key = %s", [key])
        return row[0] if row else 0


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with asyncio.Runner() as runner:
        database = Database(module_database_url, size=4)
        runner.run(database.open())
        yield World(database, runner)
        runner.run(database.close())


def _fits(allowed: list[datetime], now: datetime, limit: int, window: float) -> bool:
    return sum(at > now - timedelta(seconds=window) for at in allowed) < limit


#: Pauses before each call, in microseconds: none, short ones, and ones about as long as the window of a minute.
pauses = st.lists(
    st.one_of(st.just(0), st.integers(0, 10_000_000), st.integers(59_999_999, 60_000_001)), min_size=1, max_size=50
)


# Feature: P14-ai-dashscope-migration, Property 7: 限流器窗口控制
@given(waits=pauses)
def test_a_user_is_let_through_ten_times_in_any_minute(world: World, waits: list[int]) -> None:
    """A user's call is allowed exactly when fewer than ten allowed ones lie in the sixty seconds before it."""

    async def example() -> None:
        user, allowed = uuid.uuid4().hex, list[datetime]()
        for wait in waits:
            world.now += timedelta(microseconds=wait)
            fits = _fits(allowed, world.now, 10, 60)
            assert await world.limiter.check_user_rate(user) is fits
            allowed += [world.now] * fits
            assert await world.hits(user) <= 10

    world.runner.run(example())


# Feature: P14-ai-dashscope-migration, Property 7: 限流器窗口控制
@COSTLY
@given(bursts=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 4000)), min_size=2, max_size=5))
def test_a_store_is_let_through_a_hundred_times_in_any_hour(world: World, bursts: list[tuple[int, int]]) -> None:
    """Of a store's calls, at once or over hours, exactly those fit that find fewer than a hundred in their hour."""

    async def example() -> None:
        store, allowed = uuid.uuid4().int % 2**62, list[datetime]()
        for calls, pause in bursts:
            fitting = 0
            while fitting < calls and _fits(allowed, world.now, 100, 3600):
                allowed.append(world.now)
                fitting += 1
            verdicts = await asyncio.gather(*(world.limiter.check_store_rate(store) for _ in range(calls)))
            assert sum(verdicts) == fitting
            world.now += timedelta(seconds=pause)

    world.runner.run(example())


@given(limit=st.integers(1, 5), window=st.floats(0.01, 4000), gaps=st.lists(st.floats(0, 500), max_size=12))
def test_retry_after_is_exact(world: World, limit: int, window: float, gaps: list[float]) -> None:
    """After waiting exactly as long as told a call is allowed, and a microsecond before it is not."""

    async def example() -> None:
        key = uuid.uuid4().hex
        for gap in [*gaps, *[0.0] * limit]:
            await world.limiter.hit("user", key, limit, window)
            world.now += timedelta(seconds=gap)
        verdict = await world.limiter.hit("user", key, limit, window)
        while verdict.allowed:
            verdict = await world.limiter.hit("user", key, limit, window)
        world.now += timedelta(seconds=verdict.retry_after) - TICK
        assert not (await world.limiter.hit("user", key, limit, window)).allowed
        world.now += TICK
        assert (await world.limiter.hit("user", key, limit, window)).allowed

    world.runner.run(example())


@given(waits=pauses)
def test_users_do_not_share_a_window(world: World, waits: list[int]) -> None:
    """However often one user calls, another one's first call is allowed."""

    async def example() -> None:
        user = uuid.uuid4().hex
        for wait in waits:
            world.now += timedelta(microseconds=wait)
            await world.limiter.check_user_rate(user)
        assert await world.limiter.check_user_rate(uuid.uuid4().hex)

    world.runner.run(example())


@COSTLY
@given(calls=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 25)), min_size=1, max_size=25))
def test_an_application_has_a_limit_for_all_its_callers(world: World, calls: list[tuple[str, int]]) -> None:
    """A call is admitted exactly when the windows of its user and of its application have room; else it is in neither.

    Three calls a minute for a user, five in forty seconds for the application.
    """

    async def example() -> None:
        app, own = uuid.uuid4().hex, RateRule(scope="app", limit=5, seconds=40)
        admissions = Admissions(
            world.database, process_id=uuid.uuid4(), daily_limit=10**12, monthly_limit=10**12, clock=lambda: world.now
        )
        admitted: list[tuple[str, datetime]] = []
        for name, wait in calls:
            world.now += timedelta(seconds=wait)
            mine = [at for user, at in admitted if user == name]
            fits = _fits(mine, world.now, 3, 60) and _fits([at for _, at in admitted], world.now, 5, 40)
            request = CallRequest(
                app_id=app,
                app_type="limited",
                trigger_type="user",
                site_id=1,
                prompt="",
                rate=RateRule(scope="user", limit=3, seconds=60),
                app_rate=own,
                estimate=1,
                user_id=f"{app}/{name}",
            )
            if fits:
                await admissions.admit(request)
                admitted.append((name, world.now))
            else:
                with pytest.raises(RateLimitExceededError) as refusal:
                    await admissions.admit(request)
                assert 0 < refusal.value.retry_after <= 60
        assert await world.hits(app) <= 5

    world.runner.run(example())
