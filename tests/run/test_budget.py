"""The token budget: sums that always equal the run log's, days of the business time zone, and no overspending."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.run.errors import BudgetExceededError
from agenttrace.run.guards.admission import Admissions, TurnWaitError
from agenttrace.run.guards.budget import BudgetTracker
from agenttrace.run.postgres.pool import Database
from agenttrace.run.upstream.calls import CallRequest, RateRule
from example_counts import COSTLY

LIMIT = 20_000
_sites = itertools.count(1)
#: With and without daylight saving, changing at 2:00 and at midnight, half hours, and the far ends of the day.
ZONES = ("Asia/Shanghai", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Asia/Kolkata", "Etc/GMT+12")
STATUSES = ("pending", "running", "success", "failed", "timeout", "budget_exceeded", "circuit_open", "rate_limited")

_SUMS = """
SELECT day, sum(used)::bigint, sum(failed)::bigint, sum(reserved)::bigint, sum(ceiling)::bigint
FROM biz.ai_budget_days GROUP BY day
HAVING sum(used) <> 0 OR sum(failed) <> 0 OR sum(reserved) <> 0 OR sum(ceiling) <> 0 ORDER BY day
"""
_LOGS = "SELECT status, coalesce(tokens_used, 0), tokens_reserved, tokens_ceiling, created_at FROM biz.ai_run_logs"
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%ai_admit(%' AND wait_event_type = 'Lock'"
_INSERT = """
INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, status, tokens_used, tokens_reserved, created_at,
                             response_text, latency_ms, finished_at, error_message)
VALUES (1, 'app3_clue', 'event', %s, %s, %s, %s, 'x', 1, now(), 'x')
"""


class World:
    """One database and one loop for all examples."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.database = database
        self.runner = runner


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with asyncio.Runner() as runner:
        database = Database(module_database_url, size=4)
        runner.run(database.open())
        yield World(database, runner)
        runner.run(database.close())


async def _expected_sums(database: Database, zone: str) -> list[tuple[Any, ...]]:
    """The sums as Python makes them from the run log."""
    days: dict[Any, list[int]] = {}
    for status, used, reserved, ceiling, at in await database.all(_LOGS):
        sums = days.setdefault(at.astimezone(ZoneInfo(zone)).date(), [0, 0, 0, 0])
        kind = 0 if status == "success" else 2 if status in ("pending", "running") else 1
        sums[kind] += reserved if kind == 2 else used
        sums[3] += max(reserved, ceiling) if kind == 2 else 0
    return sorted((day, *sums) for day, sums in days.items() if any(sums))


class Step(NamedTuple):
    """A change of the run log: what to do, to which row, with which values."""

    verb: str
    which: int
    status: str
    tokens: int
    reserved: int
    at: datetime


moments = st.one_of(
    st.sampled_from(
        [
            datetime(2026, 3, 8, 7, tzinfo=UTC),
            datetime(2026, 9, 6, 4, tzinfo=UTC),
            datetime(2026, 4, 30, 16, tzinfo=UTC),
            datetime(2026, 4, 30, 15, 59, 59, 999999, tzinfo=UTC),
        ]
    ),
    st.datetimes(datetime(2026, 3, 1), datetime(2026, 5, 2), timezones=st.just(UTC)),
)
steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["insert", "insert", "insert", "status", "tokens", "move", "delete", "together"]),
        st.integers(0, 30),
        st.sampled_from(STATUSES),
        st.integers(0, 5000),
        st.integers(0, 5000),
        moments,
    ),
    min_size=1,
    max_size=20,
)


async def _take(connection: psycopg.AsyncConnection[Any], step: Step) -> None:
    row = "id = (SELECT id FROM biz.ai_run_logs ORDER BY id OFFSET %s LIMIT 1)"
    match step.verb:
        case "insert":
            await connection.execute(_INSERT, (step.status, step.tokens, step.reserved, step.at))
        case "status":
            await connection.execute(f"UPDATE biz.ai_run_logs SET status = %s WHERE {row}", (step.status, step.which))
        case "tokens":
            values = (step.tokens, step.reserved, step.tokens, step.which)
            await connection.execute(
                f"UPDATE biz.ai_run_logs SET tokens_used = %s, tokens_reserved = %s, tokens_ceiling = %s WHERE {row}",
                values,
            )
        case "move":
            await connection.execute(f"UPDATE biz.ai_run_logs SET created_at = %s WHERE {row}", (step.at, step.which))
        case "delete":
            await connection.execute(f"DELETE FROM biz.ai_run_logs WHERE {row}", (step.which,))
        case "together":
            await connection.execute("UPDATE biz.ai_run_logs SET status = %s WHERE id %% 2 = 0", (step.status,))


@COSTLY
@given(before=steps, after=steps, zones=st.tuples(st.sampled_from(ZONES), st.sampled_from(ZONES)), one=st.booleans())
def test_the_sums_always_equal_the_run_log(
    world: World, before: list[Step], after: list[Step], zones: tuple[str, str], one: bool
) -> None:
    """After any inserts, updates and deletes, one by one or in one transaction, in any zone, the sums are the log's."""

    async def take(taken: list[Step]) -> None:
        if one:
            async with world.database.transaction() as connection:
                for step in taken:
                    await _take(connection, step)
            return
        async with world.database.pool.connection() as connection:
            for step in taken:
                await _take(connection, step)

    async def example() -> None:
        await world.database.execute("TRUNCATE biz.ai_run_logs")
        for zone, taken in zip(zones, (before, after), strict=True):
            await world.database.execute("SELECT biz.ai_set_business_zone(%s)", [zone])
            assert await world.database.all(_SUMS) == await _expected_sums(world.database, zone)
            await take(taken)
            assert await world.database.all(_SUMS) == await _expected_sums(world.database, zone)

    world.runner.run(example())


@given(zone=st.sampled_from(ZONES), at=moments, minutes=st.integers(-90, 90))
def test_days_and_months_are_those_of_the_business_zone(world: World, zone: str, at: datetime, minutes: int) -> None:
    """A call counts in the day and month that the zone's calendar shows, also when clocks are put forward or back."""

    async def example() -> None:
        now = at + timedelta(minutes=minutes)
        await world.database.execute("TRUNCATE biz.ai_run_logs")
        await world.database.execute("SELECT biz.ai_set_business_zone(%s)", [zone])
        await world.database.execute(_INSERT, ("success", 7, 0, at))
        status = await BudgetTracker(world.database, clock=lambda: now).check_budget()
        then, today = at.astimezone(ZoneInfo(zone)).date(), now.astimezone(ZoneInfo(zone)).date()
        assert status.daily_used == (7 if then == today else 0)
        assert status.monthly_used == (7 if (then.year, then.month) == (today.year, today.month) else 0)

    world.runner.run(example())


def test_an_unknown_zone_is_refused_and_changes_nothing(database_url: str) -> None:
    """A zone that PostgreSQL does not know is an error at once, not at the next call."""

    async def run() -> None:
        async with Database(database_url) as database:
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                await database.execute("SELECT biz.ai_set_business_zone('Asia/Nowhere')")
            await database.execute(_INSERT, ("success", 7, 0, datetime(2026, 4, 30, 16, tzinfo=UTC)))
            assert await database.all(_SUMS) == await _expected_sums(database, "Asia/Shanghai")

    asyncio.run(run())


def test_a_zone_is_taken_as_it_is_spelled(database_url: str) -> None:
    """Quotes and backslashes in the name of a zone are a part of the name, and of nothing else."""

    async def run() -> None:
        async with Database(database_url) as database:
            await database.execute(_INSERT, ("success", 7, 0, datetime(2026, 4, 30, 16, tzinfo=UTC)))
            # East of Greenwich is minus here: the first of May has begun, and then it has not.
            for zone, day in (("<it's>-8", date(2026, 5, 1)), ("<a$b\\'c>+5", date(2026, 4, 30))):
                await database.execute("SELECT biz.ai_set_business_zone(%s)", [zone])
                assert await database.all("SELECT day FROM biz.ai_budget_days") == [(day,)]
                await database.execute("UPDATE biz.ai_run_logs SET tokens_used = tokens_used + 1")
                assert await database.all("SELECT DISTINCT day FROM biz.ai_budget_days") == [(day,)]

    asyncio.run(run())


def test_a_change_of_zone_waits_for_what_is_being_written(database_url: str) -> None:
    """A row that was charged to a day of the old zone, and is not committed yet, is not forgotten by the new zone."""

    async def run() -> None:
        async with Database(database_url) as database:
            async with database.transaction() as connection:
                await connection.execute(_INSERT, ("success", 7, 0, datetime(2026, 4, 30, 16, 30, tzinfo=UTC)))
                await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                change = asyncio.create_task(database.execute("SELECT biz.ai_set_business_zone('America/New_York')"))
                while not change.done() and await database.one(_WAITING.replace("ai_admit", "zone")) == (0,):
                    await asyncio.sleep(0.005)
            await change
            assert await database.all(_SUMS) == await _expected_sums(database, "America/New_York")

    asyncio.run(run())


def test_the_zone_may_change_while_calls_are_made(database_url: str) -> None:
    """Zones change while calls are admitted and settled: no call fails, and the sums are right in the end."""

    async def run() -> None:
        async with Database(database_url, size=12) as database:
            admissions = _admissions(database, limit=10**9)

            async def call() -> None:
                for _ in range(10):
                    admission = await admissions.admit(_request(10))
                    await _settle(database, admission.log_id, 8)

            async def change() -> None:
                for zone in itertools.islice(itertools.cycle(ZONES), 19):
                    await database.execute("SELECT biz.ai_set_business_zone(%s)", [zone])

            await asyncio.gather(*(call() for _ in range(8)), change(), change())
            ((zone,),) = await database.all("SELECT zone FROM biz.ai_business_zone")
            assert await database.all(_SUMS) == await _expected_sums(database, zone)
            assert sum(row[1] for row in await database.all(_SUMS)) == 640

    asyncio.run(run())


# ── many callers on a nearly spent budget ──


def _admissions(database: Database, *, limit: int = LIMIT) -> Admissions:
    return Admissions(database, process_id=uuid.uuid4(), daily_limit=limit, monthly_limit=10 * limit)


def _request(estimate: int, **changes: Any) -> CallRequest:  # noqa: ANN401 - any field of a request
    request = CallRequest(
        app_id="app",
        app_type="app3_clue",
        trigger_type="event",
        # A window of its own, or calls would wait for each other there already.
        site_id=next(_sites),
        prompt="?",
        rate=RateRule(scope="store", limit=10_000, seconds=3600),
        estimate=estimate,
    )
    return replace(request, **changes)


async def _settle(database: Database, log_id: int, tokens: int) -> None:
    await database.execute(
        "UPDATE biz.ai_run_logs SET status = 'success', tokens_used = %s, response_text = 'x', latency_ms = 1,"
        " finished_at = now() WHERE id = %s",
        (tokens, log_id),
    )


async def _spend(url: str, callers: int, estimate: int, real: int) -> tuple[int, int]:
    """So many callers call until they are refused; how many calls were made, and the most the budget showed."""
    async with Database(url, size=8) as database:
        admissions, tracker = _admissions(database), BudgetTracker(database, daily_limit=LIMIT)
        calls = most = 0

        async def call_on() -> None:
            nonlocal calls, most
            while True:
                try:
                    admission = await admissions.admit(_request(estimate))
                except BudgetExceededError:
                    return
                calls += 1
                status = await tracker.check_budget()
                most = max(most, status.daily_used + status.daily_reserved + status.daily_failed)
                await _settle(database, admission.log_id, real)

        await asyncio.gather(*(call_on() for _ in range(callers)))
        return calls, most


def spend_in_a_process(url: str, callers: int, estimate: int, real: int) -> tuple[int, int]:
    """The same, for a process of its own."""
    return asyncio.run(_spend(url, callers, estimate, real))


async def _used(url: str) -> int:
    async with Database(url, size=1) as database:
        status = await BudgetTracker(database, daily_limit=LIMIT).check_budget()
        assert (status.daily_reserved, status.daily_failed) == (0, 0)
        return status.daily_used


@pytest.mark.parametrize(("estimate", "real"), [(700, 700), (700, 500), (700, 900)])
def test_fifty_callers_never_overspend(database_url: str, estimate: int, real: int) -> None:
    """Fifty callers at once stay within the budget, up to what their own estimates were wrong by."""
    calls, most = spend_in_a_process(database_url, 50, estimate, real)
    used = asyncio.run(_used(database_url))
    assert used == calls * real
    error = max(real - estimate, 0)
    # At most as many calls as fit were open or done at once, and each was wrong by no more than that.
    assert used <= LIMIT + error * calls
    assert most <= LIMIT + error * calls
    # The budget is used, too: what is left is less than a call was expected to need.
    assert used > LIMIT - max(estimate, real)
    if not error:
        assert max(used, most) <= LIMIT


def test_three_processes_never_overspend(database_url: str) -> None:
    """Three processes with eight callers each stay within one budget, and use it up."""
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as processes:
        spent = list(processes.map(spend_in_a_process, [database_url] * 3, [8] * 3, [300] * 3, [300] * 3))
    assert asyncio.run(_used(database_url)) == 300 * sum(calls for calls, _ in spent)
    assert LIMIT - 300 < 300 * sum(calls for calls, _ in spent) <= LIMIT
    assert max(most for _, most in spent) <= LIMIT


def test_a_nearly_spent_budget_lets_one_of_fifty_through(database_url: str) -> None:
    """With room for one more call, exactly one of fifty at once is admitted, even if all are held up in the middle."""

    async def run() -> None:
        async with Database(database_url, size=8) as database, Database(database_url, size=2) as holder:
            await database.execute(_INSERT, ("success", LIMIT - 1500, 0, datetime.now(UTC)))
            admissions = _admissions(database)
            async with holder.transaction() as connection:
                # Nobody can charge the day now: whoever was admitted has to wait, and so has everybody else.
                await connection.execute("SELECT FROM biz.ai_budget_days FOR UPDATE")
                calls = [asyncio.create_task(admissions.admit(_request(1000))) for _ in range(50)]
                while await holder.one(_WAITING) != (8,):
                    await asyncio.sleep(0.005)
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(result, BudgetExceededError) for result in results) == 49
            status = await BudgetTracker(database, daily_limit=LIMIT).check_budget()
            assert (status.allowed, status.daily_used, status.daily_reserved) == (True, LIMIT - 1500, 1000)

    asyncio.run(run())


# ── answers that are larger than reserved ──


async def _call(admissions: Admissions, request: CallRequest, size: int) -> int:
    """Make a call that takes so many tokens, waiting for its turn; by how much its reservation was too small."""
    asked = False
    while True:
        try:
            admission = await admissions.admit(request, waits=True, asked=asked)
            break
        except TurnWaitError:
            asked = True
            await asyncio.sleep(0.002)
    await asyncio.sleep(0.001)
    await _settle(admissions.database, admission.log_id, size)
    return max(size - admission.reserved, 0)


async def _errors(url: str, sizes: list[int], limit: int, processes: int = 2, **changes: Any) -> list[int]:  # noqa: ANN401
    """Make calls of these sizes, all at once and from several pools; the error of each that was admitted."""
    async with AsyncExitStack() as stack:
        databases = [await stack.enter_async_context(Database(url, size=6)) for _ in range(processes)]
        admissions = [_admissions(database, limit=limit) for database in databases]
        calls = (
            _call(admissions[number % processes], _request(700, **changes), size) for number, size in enumerate(sizes)
        )
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(result) for result in results} <= {int, BudgetExceededError}
        return [result for result in results if isinstance(result, int)]


def spend_much_in_a_process(url: str, sizes: list[int]) -> list[int]:
    """Calls of these sizes, from a process of its own."""
    return asyncio.run(_errors(url, sizes, LIMIT, ceiling=20_000))


def test_three_processes_with_huge_answers_pass_the_budget_by_one_error(database_url: str) -> None:
    """Answers of 20,000 tokens where 700 are reserved, 51 callers in three processes: one call is made, no more."""
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as processes:
        spent = list(processes.map(spend_much_in_a_process, [database_url] * 3, [[20_000] * 17] * 3))
    errors = [error for part in spent for error in part]
    assert errors == [19_300]
    assert asyncio.run(_used(database_url)) == 20_000


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 8000), min_size=1, max_size=40),
    limit=st.integers(1000, 60_000),
    estimate=st.integers(1, 3000),
    ceiling=st.sampled_from([8000, 20_000]),
    monthly=st.booleans(),
)
def test_a_budget_is_passed_by_one_error_at_most(
    world: World, sizes: list[int], limit: int, estimate: int, ceiling: int, monthly: bool
) -> None:
    """Whatever answers come to many callers at once, what is used is at most the limit and the error of one call."""

    async def example() -> None:
        database = world.database
        await database.execute("TRUNCATE biz.ai_run_logs")
        await database.execute("TRUNCATE biz.ai_app_sizes")
        daily, whole = (10**9, limit) if monthly else (limit, 10**9)
        admissions = Admissions(database, process_id=uuid.uuid4(), daily_limit=daily, monthly_limit=whole)
        calls = (_call(admissions, _request(estimate, ceiling=ceiling), size) for size in sizes)
        results = await asyncio.gather(*calls, return_exceptions=True)
        errors = [result for result in results if isinstance(result, int)]
        status = await BudgetTracker(database).check_budget()
        assert status.daily_used <= limit + max(errors, default=0)
        assert (status.daily_reserved, status.daily_ceiling) == (0, 0)
        # Nobody waits in vain either: who was refused did not fit.
        assert len(errors) == len(sizes) or status.daily_used + max(estimate, *sizes) > limit

    world.runner.run(example())


def test_small_calls_run_side_by_side(database_url: str) -> None:
    """While the ceilings of all calls fit into what is left, no call waits; after that, only one call is open."""

    async def run() -> None:
        async with Database(database_url, size=4) as database:
            admissions = _admissions(database)
            opened = [await admissions.admit(_request(700, ceiling=5000), waits=True) for _ in range(4)]
            with pytest.raises(TurnWaitError, match="calls under way may take up to 20000"):
                await admissions.admit(_request(700, ceiling=5000), waits=True)
            status = await BudgetTracker(database, daily_limit=LIMIT).check_budget()
            assert (status.daily_reserved, status.daily_ceiling) == (2800, 20_000)
            for admission in opened:
                await _settle(database, admission.log_id, 4000)
            alone = await admissions.admit(_request(700, ceiling=5000), waits=True)
            # It reserves what was learned from the others; what it gives back may be enough for the next.
            assert alone.reserved == 4000
            with pytest.raises(TurnWaitError, match="20000 of the day's 20000 tokens are used or reserved"):
                await admissions.admit(_request(700, ceiling=5000), waits=True)
            await _settle(database, alone.log_id, 100)
            with pytest.raises(BudgetExceededError, match="daily_exceeded: 16100 of the day's 20000 tokens are used"):
                await admissions.admit(_request(700, ceiling=5000), waits=True)

    asyncio.run(run())


def test_who_waits_counts_once_for_the_rate_and_leaves_no_row(database_url: str) -> None:
    """A call that waits has one place in the rate window, and a row only once it is admitted or refused."""

    async def run() -> None:
        async with Database(database_url, size=4) as database:
            admissions = _admissions(database)
            first = await admissions.admit(_request(700, ceiling=20_000))
            second = _request(700, ceiling=20_000)
            for asked in (False, True, True):
                with pytest.raises(TurnWaitError):
                    await admissions.admit(second, waits=True, asked=asked)
            assert await database.all("SELECT id FROM biz.ai_run_logs") == [(first.log_id,)]
            with pytest.raises(BudgetExceededError, match=r"daily_busy: .* too much at once"):
                await admissions.admit(second, waits=False, asked=True)
            hits = "SELECT cardinality(hits) FROM biz.ai_rate_windows WHERE key = %s"
            assert await database.all(hits, [str(second.site_id)]) == [(1,)]

    asyncio.run(run())


def test_sizes_are_learned_by_all_and_forgotten_in_time(database_url: str) -> None:
    """What one process has settled is what another reserves: beside the prompt, for two days; a ceiling for seven."""

    async def run() -> None:
        now = datetime(2026, 5, 15, 4, tzinfo=UTC)
        async with Database(database_url, size=2) as one, Database(database_url, size=2) as other:

            def at(database: Database, days: int) -> Admissions:
                return Admissions(
                    database,
                    process_id=uuid.uuid4(),
                    daily_limit=10**6,
                    monthly_limit=10**7,
                    clock=lambda: now + timedelta(days=days),
                )

            large = await at(one, 0).admit(_request(700, prompt_tokens=100))
            await _settle(one, large.log_id, 9100)
            small = await at(one, 0).admit(_request(700, prompt_tokens=100))
            await _settle(one, small.log_id, 300)
            expected = ((0, 9050, 9050), (1, 9050, 9050), (2, 700, 9050), (6, 700, 9050), (7, 700, 700))
            for days, reserved, ceiling in expected:
                admission = await at(other, days).admit(_request(700, prompt_tokens=50))
                row = await other.one("SELECT tokens_ceiling FROM biz.ai_run_logs WHERE id = %s", [admission.log_id])
                assert (admission.reserved, row) == (reserved, (ceiling,))

    asyncio.run(run())


def test_another_attempt_needs_as_much_again(database_url: str) -> None:
    """After an attempt that was billed, the next one is made only if it fits beside what is gone."""

    async def run() -> None:
        async with Database(database_url, size=2) as database:
            admissions = _admissions(database)
            request = _request(8000)
            await admissions.admit(request)
            await admissions.admit_again(request.key, 9000)
            status = await BudgetTracker(database, daily_limit=LIMIT).check_budget()
            assert status.daily_reserved == 17_000
            with pytest.raises(BudgetExceededError):
                await admissions.admit_again(request.key, 4000)

    asyncio.run(run())
