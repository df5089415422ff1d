"""Rate limits among several callers and processes: exact, bounded, and forgotten when idle."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from agenttrace.compat.rate_limit import RateLimiter
from agenttrace.run.guards.rate_limit import RateView
from agenttrace.run.postgres.pool import Database

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@asynccontextmanager
async def _limiter(url: str, now: list[datetime] | None = None) -> AsyncIterator[tuple[RateLimiter, Database]]:
    async with Database(url, size=8) as database:
        yield RateLimiter(database, clock=(lambda: now[0]) if now else None), database


async def _hit_at_once(url: str, calls: int) -> int:
    async with _limiter(url) as (limiter, _):
        verdicts = await asyncio.gather(*(limiter.hit("store", "7", 25, 3600) for _ in range(calls)))
        assert all(verdict.allowed or 0 < verdict.retry_after <= 3600 for verdict in verdicts)
        return sum(verdict.allowed for verdict in verdicts)


def hit_in_a_process(url: str, calls: int) -> int:
    """How many of so many concurrent calls were allowed."""
    return asyncio.run(_hit_at_once(url, calls))


def test_three_processes_share_one_limit(database_url: str) -> None:
    """Of 120 calls that three processes make at once, exactly as many are allowed as the limit says."""
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as processes:
        allowed = list(processes.map(hit_in_a_process, [database_url] * 3, [40] * 3))
    assert sum(allowed) == 25


def test_a_window_keeps_no_more_than_its_limit(database_url: str) -> None:
    """However many calls come over however long, a window holds at most its limit of instants."""

    async def run() -> None:
        now = [NOON]
        async with _limiter(database_url, now) as (limiter, database):
            for number in range(200):
                await limiter.hit("user", "u", 5, 60)
                now[0] += timedelta(seconds=number % 13)
                row = await database.one("SELECT cardinality(hits) FROM biz.ai_rate_windows")
                assert row is not None
                assert 1 <= row[0] <= 5

    asyncio.run(run())


def test_only_windows_that_are_empty_are_forgotten(database_url: str) -> None:
    """A window is forgotten once its last call has left it, not a microsecond before, and that changes no verdict."""

    async def run() -> None:
        now = [NOON]
        async with _limiter(database_url, now) as (limiter, _):
            assert await limiter.check_user_rate("short", limit=1, window_seconds=60)
            assert await limiter.check_store_rate(1, limit=1, window_seconds=3600)
            now[0] += timedelta(seconds=60, microseconds=-1)
            assert await limiter.forget_idle(0) == 0
            assert not await limiter.check_user_rate("short", limit=1, window_seconds=60)
            now[0] += timedelta(microseconds=1)
            assert await limiter.forget_idle(10) == 0
            assert await limiter.forget_idle(0) == 1
            assert await limiter.check_user_rate("short", limit=1, window_seconds=60)
            assert not await limiter.check_store_rate(1, limit=1, window_seconds=3600)

    asyncio.run(run())


def test_forgetting_while_calls_come_lets_none_slip_through(database_url: str) -> None:
    """Windows are forgotten again and again while calls race for them; still each allows exactly its limit."""

    async def run() -> None:
        async with _limiter(database_url) as (limiter, database):
            await database.execute(
                "INSERT INTO biz.ai_rate_windows (scope, key, span, last_at)"
                " SELECT 'user', n::text, '1 hour', now() - interval '2 hours' FROM generate_series(1, 60) AS n"
            )

            async def race(key: str) -> int:
                verdicts = await asyncio.gather(*(limiter.hit("user", key, 2, 3600) for _ in range(5)))
                return sum(verdict.allowed for verdict in verdicts)

            async def forget() -> None:
                for _ in range(40):
                    await limiter.forget_idle(0)

            *allowed, _ = await asyncio.gather(*(race(str(number)) for number in range(1, 61)), forget())
            assert allowed == [2] * 60

    asyncio.run(run())


def test_windows_of_different_lengths_do_not_disturb_each_other(database_url: str) -> None:
    """Calls under a rule of a minute do not make the hour of the same store forget its calls."""

    async def run() -> None:
        now = [NOON]
        async with _limiter(database_url, now) as (limiter, _):
            for _ in range(3):
                assert (await limiter.hit("store", "7", 3, 3600)).allowed
            now[0] += timedelta(minutes=5)
            assert (await limiter.hit("store", "7", 3, 60)).allowed
            verdict = await limiter.hit("store", "7", 3, 3600)
            assert (verdict.allowed, verdict.retry_after) == (False, 3300)

    asyncio.run(run())


def test_a_lower_limit_counts_what_a_higher_one_allowed(database_url: str) -> None:
    """When the limit is lowered, the calls of before still count, and the wait is until few enough are left."""

    async def run() -> None:
        now = [NOON]
        async with _limiter(database_url, now) as (limiter, _):
            for _ in range(4):
                assert (await limiter.hit("user", "u", 4, 60)).allowed
                now[0] += timedelta(seconds=10)
            verdict = await limiter.hit("user", "u", 2, 60)
            assert (verdict.allowed, verdict.retry_after) == (False, 40)
            assert not (await limiter.hit("user", "u", 0, 60)).allowed

    asyncio.run(run())


def test_a_clock_that_is_put_back_loses_no_call(database_url: str) -> None:
    """Calls from before the clock was put back still count, and each leaves the window in its own time."""

    async def run() -> None:
        now = [NOON]
        async with _limiter(database_url, now) as (limiter, _):
            for seconds in (20, -20, 10):
                now[0] += timedelta(seconds=seconds)
                assert (await limiter.hit("user", "u", 3, 60)).allowed
            verdict = await limiter.hit("user", "u", 3, 60)
            assert (verdict.allowed, verdict.retry_after) == (False, 50)
            now[0] += timedelta(seconds=50)
            assert (await limiter.hit("user", "u", 3, 60)).allowed
            assert (await limiter.hit("user", "u", 3, 60)).retry_after == 10

    asyncio.run(run())


def test_what_is_shown_is_what_is_counted(database_url: str) -> None:
    """The windows shown are those with calls in them, the fullest first, without the calls that left."""

    async def run() -> None:
        now = [NOON]
        async with _limiter(database_url, now) as (limiter, _):
            await limiter.check_user_rate("gone")
            now[0] += timedelta(seconds=60)
            await limiter.check_user_rate("u")
            for _ in range(3):
                await limiter.check_store_rate(9)
            shown = await limiter.windows()
            assert shown == [
                RateView(scope="store", key="9", seconds=3600, calls=3),
                RateView(scope="user", key="u", seconds=60, calls=1),
            ]
            assert await limiter.windows("user") == shown[1:]

    asyncio.run(run())
