"""The circuit breaker among several callers: one probe, its lease, and what is shown."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from agenttrace.compat.run_log import AIRunLogService
from agenttrace.run.errors import CircuitOpenError, DashScopeApiError
from agenttrace.run.guards.admission import Admissions
from agenttrace.run.guards.breaker import BreakerRule, BreakerTable, BreakerView, CircuitBreaker, CircuitState
from agenttrace.run.postgres.pool import Database
from agenttrace.run.simulator import Simulator, faults
from agenttrace.run.upstream.client import DashScopeClient
from run.world import call

APP = "app-under-test"
TICK = timedelta(microseconds=1)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@asynccontextmanager
async def _breaker(url: str, clock: Clock, *, size: int = 8) -> AsyncIterator[CircuitBreaker]:
    async with Database(url, size=size) as database:
        yield CircuitBreaker(database, clock=clock)


async def _open(breaker: CircuitBreaker) -> None:
    for _ in range(5):
        await breaker.record_failure(APP)


async def _half_open(breaker: CircuitBreaker, clock: Clock) -> uuid.UUID:
    """Open it, let its time pass, and be the probe."""
    await _open(breaker)
    clock.wait(60)
    probe = uuid.uuid4()
    assert await breaker.check(APP, probe) is CircuitState.HALF_OPEN
    return probe


async def _view(breaker: CircuitBreaker) -> BreakerView:
    (view,) = await breaker.states()
    return view


def test_an_application_may_have_its_own_rule(database_url: str) -> None:
    """It opens after its own number of failures for its own time, in admission, retry and display; others as ever."""
    rules = {APP: BreakerTable(failure_threshold=2, recovery_seconds=20).over(BreakerRule())}

    async def run() -> None:
        clock = Clock()
        async with Database(database_url) as database:
            breaker = CircuitBreaker(database, rules=rules, clock=clock)
            admissions = Admissions(database, process_id=uuid.uuid4(), breaker=breaker)
            for _ in range(2):
                await breaker.record_failure(APP)
                await breaker.record_failure("another")
            assert await breaker.ask(APP) == (CircuitState.OPEN, 20)
            assert await breaker.check("another") is CircuitState.CLOSED
            with pytest.raises(CircuitOpenError) as refused:
                await admissions.admit(call(app_id=APP))
            assert refused.value.retry_after == 20
            assert {view.app_id: view.retry_after for view in await breaker.states()} == {APP: 20, "another": 0}
            clock.wait(20)
            assert {view.app_id: view.state for view in await breaker.states()}[APP] is CircuitState.HALF_OPEN
            assert (await admissions.admit(call(app_id=APP))).log_id

    asyncio.run(run())


@pytest.mark.parametrize("named", [True, False])
def test_of_twenty_concurrent_calls_one_is_the_probe(database_url: str, named: bool) -> None:
    """When the time is up, exactly one of twenty calls at once goes through, whether they have keys or not."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as one, _breaker(database_url, clock) as other:
            await _open(one)
            clock.wait(60)
            states = await asyncio.gather(
                *((one, other)[number % 2].check(APP, uuid.uuid4() if named else None) for number in range(20))
            )
            assert sorted(state.value for state in states) == ["half_open", *["open"] * 19]

    asyncio.run(run())


def test_a_cancelled_probe_frees_its_slot(database_url: str) -> None:
    """A probe that is given up lets the next caller probe; giving up another call does not."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            probe = await _half_open(breaker, clock)
            await breaker.release(APP, uuid.uuid4())
            assert await breaker.check(APP, uuid.uuid4()) is CircuitState.OPEN
            await breaker.release(APP, probe)
            assert await breaker.check(APP, uuid.uuid4()) is CircuitState.HALF_OPEN
            assert await breaker.check(APP, uuid.uuid4()) is CircuitState.OPEN

    asyncio.run(run())


def test_a_dead_probe_is_replaced_when_its_lease_expires(database_url: str) -> None:
    """A probe that is never heard of again blocks others for exactly its lease, and has no say any more then."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            dead, heir = await _half_open(breaker, clock), uuid.uuid4()
            clock.wait(130)
            clock.now -= TICK
            assert await breaker.check(APP, heir) is CircuitState.OPEN
            clock.now += TICK
            assert await breaker.check(APP, heir) is CircuitState.HALF_OPEN
            await breaker.record_failure(APP, dead)
            await breaker.record_success(APP, dead)
            assert (await _view(breaker)).state is CircuitState.HALF_OPEN
            await breaker.record_success(APP, heir)
            assert await breaker.check(APP, uuid.uuid4()) is CircuitState.CLOSED

    asyncio.run(run())


@pytest.mark.parametrize("word", ["record_success", "record_failure"])
def test_only_the_probe_decides(database_url: str, word: str) -> None:
    """What calls of before report while the breaker is half-open does not move it; what the probe reports does."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            probe = await _half_open(breaker, clock)
            await getattr(breaker, word)(APP, uuid.uuid4())
            assert (await _view(breaker)).state is CircuitState.HALF_OPEN
            assert await breaker.check(APP, probe) is CircuitState.HALF_OPEN
            await getattr(breaker, word)(APP, probe)
            expected = CircuitState.CLOSED if word == "record_success" else CircuitState.OPEN
            assert (await _view(breaker)).state is expected

    asyncio.run(run())


def test_a_late_success_does_not_close_an_open_circuit(database_url: str) -> None:
    """A call that was admitted before the circuit opened cannot close it by succeeding."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            await _open(breaker)
            await breaker.record_success(APP, uuid.uuid4())
            assert await breaker.check(APP) is CircuitState.OPEN

    asyncio.run(run())


def test_retry_after_is_exact(database_url: str) -> None:
    """After the seconds that an open breaker names a probe goes through, and a microsecond before none does."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            await _open(breaker)
            clock.wait(12.345678)
            state, retry_after = await breaker.ask(APP)
            view = await _view(breaker)
            assert (state, view.state, view.retry_after) == (CircuitState.OPEN, CircuitState.OPEN, retry_after)
            clock.wait(retry_after)
            clock.now -= TICK
            assert await breaker.check(APP) is CircuitState.OPEN
            clock.now += TICK
            view = await _view(breaker)
            assert (view.state, view.retry_after) == (CircuitState.HALF_OPEN, 0)
            assert await breaker.check(APP) is CircuitState.HALF_OPEN

    asyncio.run(run())


def test_failures_at_the_same_time_are_all_counted(database_url: str) -> None:
    """Forty failures told at once by two processes are forty, and the circuit opened at the fifth."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as one, _breaker(database_url, clock) as other:
            await asyncio.gather(*((one, other)[number % 2].record_failure(APP, uuid.uuid4()) for number in range(40)))
            view = await _view(one)
            assert (view.failure_count, view.state) == (40, CircuitState.OPEN)

    asyncio.run(run())


def test_held_open_stays_open_until_closed_by_hand(database_url: str) -> None:
    """Neither time nor success closes a breaker that was opened by hand; closing it by hand does, at once."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            await breaker.hold_open(APP)
            clock.wait(10_000)
            await breaker.record_success(APP)
            view = await _view(breaker)
            assert (view.state, view.held) == (CircuitState.OPEN, True)
            assert view.retry_after > 0
            assert await breaker.check(APP) is CircuitState.OPEN
            await breaker.close(APP)
            assert await breaker.check(APP) is CircuitState.CLOSED
            view = await _view(breaker)
            assert (view.held, view.failure_count, view.changed_at) == (False, 0, clock.now)

    asyncio.run(run())


def test_holding_takes_the_word_from_a_probe(database_url: str) -> None:
    """A probe that succeeds after a user opened the breaker does not close it."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            probe = await _half_open(breaker, clock)
            await breaker.hold_open(APP)
            await breaker.record_success(APP, probe)
            assert await breaker.check(APP, probe) is CircuitState.OPEN

    asyncio.run(run())


def test_the_gate_of_a_call_speaks_with_its_key(database_url: str) -> None:
    """Through its gate a call is refused while the circuit is open, and becomes the probe in time."""

    async def run() -> None:
        clock = Clock()
        async with _breaker(database_url, clock) as breaker:
            gate, other = breaker.gate(uuid.uuid4()), breaker.gate(uuid.uuid4())
            await gate.before_retry(APP)
            for _ in range(5):
                await gate.failed(APP, DashScopeApiError("broken", 500))
            with pytest.raises(CircuitOpenError) as refused:
                await gate.before_retry(APP)
            assert refused.value.retry_after == 60
            clock.wait(60)
            await gate.before_retry(APP)
            with pytest.raises(CircuitOpenError):
                await other.before_retry(APP)
            await gate.abandoned(APP)
            await other.before_retry(APP)
            # A success is told when the call is settled.
            assert other.succeeded(APP) is None
            assert (await _view(breaker)).state is CircuitState.HALF_OPEN

    asyncio.run(run())


def test_a_call_that_the_run_log_has_closed_is_not_tried_again(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A call is tried again while its row is open; once that is closed it fails with a note, and nothing is logged."""

    async def run() -> None:
        key = uuid.uuid4()
        async with _breaker(database_url, Clock()) as breaker, Simulator() as simulator:
            run_logs = AIRunLogService(breaker.database)
            log_id = await run_logs.create_log(1, "app3_clue", "event", call_key=key)
            await run_logs.update_running(log_id)
            waits = 0

            async def wait(_: float) -> None:
                nonlocal waits
                waits += 1
                if waits == 2:
                    await run_logs.update_failed(log_id, "lost: the process of this call has died", 0)

            simulator.always(APP, faults.status(500))
            async with DashScopeClient("sim-key", base_url=simulator.base_url, sleep=wait) as client:
                with pytest.raises(DashScopeApiError) as failure:
                    await client.complete(APP, "x", gate=breaker.gate(key))
            (note,) = failure.value.__notes__
            assert note.startswith("not tried again: it was closed as lost")
            assert failure.value.attempts == len(simulator.calls) == 2

    asyncio.run(run())
    assert [record for record in caplog.records if record.name.startswith("agenttrace")] == []
