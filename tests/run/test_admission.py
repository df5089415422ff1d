"""The one admission: its order, its refusals, its rows in the run log, and asking twice."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agenttrace.compat.rate_limit import RateLimiter
from agenttrace.run.errors import BudgetExceededError, CircuitOpenError, DashScopeError, RateLimitExceededError
from agenttrace.run.guards.admission import Admissions, JobCancelledError, StepSupersededError
from agenttrace.run.guards.breaker import CircuitBreaker, CircuitState
from agenttrace.run.postgres.pool import Database
from agenttrace.run.upstream.calls import CallRequest, RateRule

APP = "app-under-test"
DAILY, MONTHLY = 10_000, 50_000
TICK = timedelta(microseconds=1)
#: Everything that an admission may change.
_EVERYTHING = (
    "SELECT * FROM biz.ai_run_logs ORDER BY id",
    "SELECT * FROM biz.ai_rate_windows ORDER BY scope, key, span",
    "SELECT * FROM biz.ai_budget_days ORDER BY day, slot",
    "SELECT * FROM biz.ai_breakers ORDER BY app_id",
)

_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%ai_admit(%' AND wait_event_type = 'Lock'"
_CUT_WAITING = _WAITING.replace("count(*)", "pg_terminate_backend(pid)")


class World:
    """Guards on one database, by one clock."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = datetime(2026, 5, 15, 12, tzinfo=UTC)
        self.admissions = Admissions(
            database, process_id=uuid.uuid4(), daily_limit=DAILY, monthly_limit=MONTHLY, clock=lambda: self.now
        )
        self.breaker = CircuitBreaker(database, clock=lambda: self.now)
        self.limiter = RateLimiter(database, clock=lambda: self.now)

    async def open_circuit(self) -> None:
        for _ in range(5):
            await self.breaker.record_failure(APP)

    async def fill_window(self) -> None:
        while await self.limiter.check_user_rate("u", 3, 60):
            pass

    async def spend(self, tokens: int, at: datetime | None = None) -> None:
        await self.database.execute(
            "INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, status, tokens_used, created_at,"
            " response_text, latency_ms, finished_at) VALUES (1, 'x', 'user', 'success', %s, %s, 'x', 1, now())",
            (tokens, at or self.now),
        )

    async def log_of(self, request: CallRequest) -> dict[str, Any]:
        (row,) = await self.database.rows("SELECT * FROM biz.ai_run_logs WHERE call_key = %s", [request.key])
        return row

    async def everything(self) -> list[list[tuple[Any, ...]]]:
        return [await self.database.all(sql) for sql in _EVERYTHING]


@asynccontextmanager
async def _world(url: str) -> AsyncIterator[World]:
    async with Database(url, size=8) as database:
        yield World(database)


def _request(**changes: Any) -> CallRequest:  # noqa: ANN401 - any field of a request
    request = CallRequest(
        app_id=APP,
        app_type="app1_chat",
        trigger_type="user",
        site_id=42,
        prompt="你好",
        rate=RateRule(scope="user", limit=3, seconds=60),
        estimate=1000,
        member_id=7,
        user_id="u",
        conversation_id=5,
        session_id="conv_5_1",
    )
    return replace(request, **changes)


async def _refused(world: World, request: CallRequest) -> DashScopeError:
    with pytest.raises(DashScopeError) as refusal:
        await world.admissions.admit(request)
    return refusal.value


def test_an_admitted_call_runs_and_reserves(database_url: str) -> None:
    """An admitted call is a running row with everything that is known about it, and its estimate is reserved."""

    async def run() -> None:
        async with _world(database_url) as world:
            request = _request(prompt="字" * 3000)
            admission = await world.admissions.admit(request)
            row = await world.log_of(request)
            assert admission.request is request
            expected = {
                "id": admission.log_id,
                "status": "running",
                "site_id": 42,
                "app_type": "app1_chat",
                "trigger_type": "user",
                "member_id": 7,
                "user_id": "u",
                "conversation_id": 5,
                "session_id": "conv_5_1",
                "request_prompt": "字" * 2000,
                "tokens_reserved": 1000,
                "process_id": world.admissions.process_id,
                "created_at": world.now,
                "finished_at": None,
                "error_message": None,
            }
            assert {name: row[name] for name in expected} == expected
            sums = "SELECT sum(used), sum(failed), sum(reserved) FROM biz.ai_budget_days"
            assert await world.database.all(sums) == [(0, 0, 1000)]

    asyncio.run(run())


def test_breaker_comes_before_rate_and_rate_before_budget(database_url: str) -> None:
    """When all three would refuse, the breaker does; then the rate limit; then the budget; each leaves its row."""

    async def run() -> None:
        async with _world(database_url) as world:
            await world.open_circuit()
            await world.fill_window()
            await world.spend(DAILY)
            steps: list[tuple[type[DashScopeError], str, float]] = [
                (CircuitOpenError, "circuit_open", 0),
                (RateLimitExceededError, "rate_limited", 0),
                (BudgetExceededError, "budget_exceeded", 60),
            ]
            for kind, status, later in steps:
                if status == "rate_limited":
                    await world.breaker.close(APP)
                    await world.fill_window()
                world.now += timedelta(seconds=later)
                request = _request()
                refusal = await _refused(world, request)
                row = await world.log_of(request)
                assert type(refusal) is kind
                assert (row["status"], row["error_message"]) == (status, str(refusal))
                assert (row["tokens_reserved"], row["tokens_used"]) == (0, 0)
                assert row["finished_at"] == row["created_at"] == world.now

    asyncio.run(run())


def test_a_refusal_by_the_breaker_takes_no_place_in_the_window(database_url: str) -> None:
    """Calls that the breaker refuses do not count for the rate limit."""

    async def run() -> None:
        async with _world(database_url) as world:
            await world.open_circuit()
            for _ in range(5):
                assert isinstance(await _refused(world, _request()), CircuitOpenError)
            assert await world.limiter.windows() == []

    asyncio.run(run())


def test_retry_after_is_exact(database_url: str) -> None:
    """After exactly the seconds that a refusal names the call is admitted; a microsecond before, it is not."""

    async def run() -> None:
        async with _world(database_url) as world:
            await world.fill_window()
            world.now += timedelta(seconds=7.654321)
            refusal = await _refused(world, _request())
            assert isinstance(refusal, RateLimitExceededError)
            world.now += timedelta(seconds=refusal.retry_after) - TICK
            assert isinstance(await _refused(world, _request()), RateLimitExceededError)
            world.now += TICK
            await world.admissions.admit(_request())

            await world.open_circuit()
            world.now += timedelta(seconds=1.000001)
            opened = await _refused(world, _request())
            assert isinstance(opened, CircuitOpenError)
            world.now += timedelta(seconds=opened.retry_after) - TICK
            assert isinstance(await _refused(world, _request()), CircuitOpenError)
            world.now += TICK
            await world.admissions.admit(_request())

    asyncio.run(run())


@pytest.mark.parametrize(("limit", "reason"), [(DAILY, "daily_exceeded"), (MONTHLY, "monthly_exceeded")])
def test_the_budget_refuses_what_does_not_fit(database_url: str, limit: int, reason: str) -> None:
    """A call that fits exactly is admitted; one token more is refused, with the reason and the numbers."""

    async def run() -> None:
        async with _world(database_url) as world:
            at = world.now if limit == DAILY else world.now - timedelta(days=3)
            await world.spend(limit - 1000, at)
            refusal = await _refused(world, _request(estimate=1001))
            assert isinstance(refusal, BudgetExceededError)
            assert refusal.reason == reason
            assert all(number in str(refusal) for number in (str(limit - 1000), str(limit), "1001"))
            await world.admissions.admit(_request(estimate=1000))
            refusal = await _refused(world, _request(estimate=0))
            assert isinstance(refusal, BudgetExceededError)

    asyncio.run(run())


def test_a_new_day_and_a_new_month_have_budgets_of_their_own(database_url: str) -> None:
    """At midnight of the business zone the day begins anew, and on the first the month does."""

    async def run() -> None:
        async with _world(database_url) as world:
            world.now = datetime(2026, 5, 31, 15, 59, 59, 999999, tzinfo=UTC)
            await world.spend(DAILY)
            await world.spend(MONTHLY, world.now - timedelta(days=5))
            assert isinstance(await _refused(world, _request()), BudgetExceededError)
            world.now += TICK
            await world.admissions.admit(_request())

    asyncio.run(run())


def test_callers_around_midnight_share_the_month(database_url: str) -> None:
    """Calls of two days at once do not pass the month's limit together, even if they are held up in the middle."""

    async def run() -> None:
        async with _world(database_url) as world, Database(database_url, size=2) as holder:
            midnight = datetime(2026, 5, 20, 16, tzinfo=UTC)
            await world.spend(MONTHLY - 4500, midnight - timedelta(days=3))
            days = []
            for moment in (midnight - TICK, midnight):
                await world.spend(1, moment)
                days.append(World(world.database))
                days[-1].now = moment
            async with holder.transaction() as connection:
                # Nobody can charge a day now: whoever was admitted has to wait, and so has everybody else.
                await connection.execute("SELECT FROM biz.ai_budget_days FOR UPDATE")
                calls = [
                    asyncio.create_task(days[number % 2].admissions.admit(_request(user_id=str(number))))
                    for number in range(30)
                ]
                while await holder.one(_WAITING) != (8,):
                    await asyncio.sleep(0.005)
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(result, BudgetExceededError) for result in results) == 26

    asyncio.run(run())


@pytest.mark.parametrize("refused_by", ["rate", "budget"])
def test_a_probe_that_is_refused_elsewhere_frees_its_slot(database_url: str, refused_by: str) -> None:
    """A call that would have been the probe, but is refused by rate or budget, leaves the slot to the next."""

    async def run() -> None:
        async with _world(database_url) as world:
            await world.open_circuit()
            world.now += timedelta(seconds=60)
            if refused_by == "rate":
                await world.fill_window()
            refusal = await _refused(world, _request(estimate=1000 if refused_by == "rate" else DAILY + 1))
            assert refusal.status == ("rate_limited" if refused_by == "rate" else "budget_exceeded")
            assert await world.breaker.check(APP, uuid.uuid4()) is CircuitState.HALF_OPEN

    asyncio.run(run())


def test_of_twenty_calls_at_half_open_one_is_admitted(database_url: str) -> None:
    """When the circuit's time is up, exactly one of twenty calls at once is admitted."""

    async def run() -> None:
        async with _world(database_url) as world:
            await world.open_circuit()
            world.now += timedelta(seconds=60)
            results = await asyncio.gather(
                *(world.admissions.admit(_request(user_id=str(number), estimate=1)) for number in range(20)),
                return_exceptions=True,
            )
            assert sum(isinstance(result, CircuitOpenError) for result in results) == 19

    asyncio.run(run())


# ── asking twice ──


def test_asking_again_with_the_same_key_changes_nothing(database_url: str) -> None:
    """Whatever the first answer was, the same call asked again gets it again, and nothing else changes."""

    async def run() -> None:
        async with _world(database_url) as world:
            request = _request()
            first = await world.admissions.admit(request)
            before = await world.everything()
            assert await world.admissions.admit(request) == first
            assert await world.everything() == before

            await world.fill_window()
            limited, dear = _request(), _request(user_id="other", estimate=DAILY + 1)
            refusals = [await _refused(world, limited), await _refused(world, dear)]
            await world.open_circuit()
            stopped = _request()
            refusals.append(await _refused(world, stopped))
            before = await world.everything()
            for again, refusal in zip((limited, dear, stopped), refusals, strict=True):
                repeated = await _refused(world, again)
                assert (type(repeated), str(repeated)) == (type(refusal), str(refusal))
                # How long exactly is not kept: never too short, and never longer than the window or the recovery.
                assert 60 >= getattr(repeated, "retry_after", 60) >= getattr(refusal, "retry_after", 60)
                assert getattr(repeated, "reason", None) == getattr(refusal, "reason", None)
            assert await world.everything() == before

    asyncio.run(run())


def test_the_same_call_asked_many_times_at_once_is_one_call(database_url: str) -> None:
    """Ten copies of one question at the same time get one row, one place in the window and one reservation."""

    async def run() -> None:
        async with _world(database_url) as world:
            request = _request()
            admissions = await asyncio.gather(*(world.admissions.admit(request) for _ in range(10)))
            assert len({admission.log_id for admission in admissions}) == 1
            logs, windows, days, _ = await world.everything()
            assert len(logs) == 1
            assert [len(window[3]) for window in windows] == [1]
            assert sum(day[4] for day in days) == 1000

    asyncio.run(run())


def test_a_broken_connection_is_no_second_call(database_url: str) -> None:
    """A connection that is cut while the admission waits for its turn is asked again over another; one call is made."""

    async def run() -> None:
        async with _world(database_url) as world:
            await world.limiter.check_user_rate("u", 3, 60)
            async with world.database.transaction() as connection:
                # Whoever holds the window makes the admission wait.
                await connection.execute("SELECT FROM biz.ai_rate_windows FOR UPDATE")
                asking = asyncio.create_task(world.admissions.admit(_request()))
                while not await world.database.all(_CUT_WAITING):
                    await asyncio.sleep(0.01)
            admission = await asking
            logs, windows, _, _ = await world.everything()
            assert [log[0] for log in logs] == [admission.log_id]
            assert [len(window[3]) for window in windows] == [2]

    asyncio.run(run())


def test_a_call_closed_as_lost_is_admitted_as_another(database_url: str) -> None:
    """A call that was closed as lost before its admission was heard of gets a key and a reservation of its own."""

    async def run() -> None:
        async with _world(database_url) as world:
            request = _request()
            lost = await world.admissions.admit(request)
            await world.database.execute("UPDATE biz.ai_run_logs SET status = 'failed', error_message = 'lost: x'")
            admission = await world.admissions.admit(request)
            assert admission.log_id != lost.log_id
            assert (await world.log_of(admission.request))["status"] == "running"

    asyncio.run(run())


# ── jobs ──


async def _job(world: World, **columns: object) -> int:
    values = {"status": "running", "claim": 2, "cancel_requested": False} | columns
    row = await world.database.one(
        "INSERT INTO biz.ai_trigger_jobs (site_id, event_type, event_date, status, claim, cancel_requested)"
        " VALUES (1, 'consumption', now(), %(status)s, %(claim)s, %(cancel_requested)s) RETURNING id",
        values,
    )
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"claim": 3}, StepSupersededError),
        ({"status": "completed"}, StepSupersededError),
        ({"cancel_requested": True}, JobCancelledError),
    ],
)
def test_a_worker_that_lost_its_job_is_refused(
    database_url: str, columns: dict[str, object], error: type[Exception]
) -> None:
    """Steps of a job that another worker took, that has ended or is to be cancelled are refused without a trace."""

    async def run() -> None:
        async with _world(database_url) as world:
            job_id = await _job(world, **columns)
            with pytest.raises(error):
                await world.admissions.admit(_request(job_id=job_id, step="app3", claim=2))
            with pytest.raises(StepSupersededError):
                await world.admissions.admit(_request(job_id=job_id + 1, step="app3", claim=2))
            assert await world.everything() == [[], [], [], []]

    asyncio.run(run())


def test_a_worker_with_its_job_is_let_through(database_url: str) -> None:
    """A step of a job that is this worker's is admitted, and its row names job and step."""

    async def run() -> None:
        async with _world(database_url) as world:
            request = _request(job_id=await _job(world), step="app2:today", claim=2)
            await world.admissions.admit(request)
            row = await world.log_of(request)
            assert (row["trigger_job_id"], row["step"]) == (request.job_id, "app2:today")

    asyncio.run(run())


@pytest.mark.parametrize("prompt", ["a\0b", "half \ud83d pair", "\U0001f600" * 3000, ""])
def test_any_prompt_can_be_admitted(database_url: str, prompt: str) -> None:
    """Characters that PostgreSQL refuses, and prompts of any length, do not keep a call from being admitted."""

    async def run() -> None:
        async with _world(database_url) as world:
            request = _request(prompt=prompt)
            await world.admissions.admit(request)
            kept = (await world.log_of(request))["request_prompt"]
            assert kept == prompt[:2000].replace("\0", "\ufffd").replace("\ud83d", "\ufffd")

    asyncio.run(run())
