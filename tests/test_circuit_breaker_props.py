"""Properties 5 and 6: the circuit breaker, on PostgreSQL, by a clock of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.guards.breaker import BreakerView, CircuitBreaker, CircuitState
from agenttrace.run.postgres.pool import Database

THRESHOLD, RECOVERY, LEASE = 5, 60.0, 130.0
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)

#: What may happen to a breaker; a number is so many seconds passing.
happenings = st.builds(
    lambda first, then: [*first, *then],
    st.sampled_from([[], ["failure"] * THRESHOLD, [*["failure"] * THRESHOLD, RECOVERY, "check"]]),
    st.lists(
        st.one_of(
            st.sampled_from(["success", "failure", "failure", "failure", "check", "release"]),
            st.sampled_from([RECOVERY, RECOVERY - 0.001, LEASE, LEASE - 0.001, 1.0]),
        ),
        max_size=40,
    ),
)


class World:
    """One database, one loop and one clock for all examples; each has applications of its own."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.now = NOON
        self.breaker = CircuitBreaker(
            database,
            failure_threshold=THRESHOLD,
            recovery_timeout=RECOVERY,
            probe_lease=LEASE,
            clock=lambda: self.now,
        )

    async def happen(self, app_id: str, happening: str | float) -> CircuitState | None:
        match happening:
            case "success":
                await self.breaker.record_success(app_id)
            case "failure":
                await self.breaker.record_failure(app_id)
            case "release":
                await self.breaker.release(app_id)
            case "check":
                return await self.breaker.check(app_id)
            case seconds:
                self.now += timedelta(seconds=float(seconds))
        return None

    async def view(self, app_id: str) -> BreakerView | None:
        return next((view for view in await self.breaker.states() if view.app_id == app_id), None)


class Model:
    """The document's state machine, with one probe and its lease."""

    def __init__(self) -> None:
        self.state = CircuitState.CLOSED
        self.failures = 0
        self.opened_at = self.probe_until = NOON

    def happen(self, happening: str | float, now: datetime) -> CircuitState | None:
        match happening:
            case "success" if self.state is not CircuitState.OPEN:
                self.state, self.failures = CircuitState.CLOSED, 0
            case "failure":
                self.failures += 1
                if self.state is CircuitState.HALF_OPEN or (
                    self.state is CircuitState.CLOSED and self.failures >= THRESHOLD
                ):
                    self.state, self.opened_at = CircuitState.OPEN, now
            case "release" if self.state is CircuitState.HALF_OPEN:
                self.probe_until = now
            case "check":
                return self._check(now)
        return None

    def _check(self, now: datetime) -> CircuitState:
        if self.state is CircuitState.CLOSED:
            return CircuitState.CLOSED
        if self.state is CircuitState.OPEN and now < self.opened_at + timedelta(seconds=RECOVERY):
            return CircuitState.OPEN
        if self.state is CircuitState.HALF_OPEN and now < self.probe_until:
            return CircuitState.OPEN
        self.state, self.probe_until = CircuitState.HALF_OPEN, now + timedelta(seconds=LEASE)
        return CircuitState.HALF_OPEN


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with asyncio.Runner() as runner:
        database = Database(module_database_url, size=4)
        runner.run(database.open())
        yield World(database, runner)
        runner.run(database.close())


# Feature: P14-ai-dashscope-migration, Property 5: 熔断器 app_id 隔离
@given(before=happenings, failures=st.integers(1, 30))
def test_failures_of_one_application_leave_another_alone(
    world: World, before: Sequence[str | float], failures: int
) -> None:
    """Whatever state an application's breaker is in, failures of another application do not change it."""

    async def example() -> None:
        one, other = uuid.uuid4().hex, uuid.uuid4().hex
        for happening in before:
            await world.happen(one, happening)
        seen = await world.view(one)
        for _ in range(failures):
            await world.breaker.record_failure(other)
        assert await world.view(one) == seen
        assert await world.breaker.check(other) is (CircuitState.OPEN if failures >= THRESHOLD else CircuitState.CLOSED)

    world.runner.run(example())


# Feature: P14-ai-dashscope-migration, Property 6: 熔断器状态机转换
@given(events=happenings)
def test_the_breaker_is_the_documents_state_machine(world: World, events: Sequence[str | float]) -> None:
    """After any sequence of events the breaker answers and counts as the document's state machine does."""

    async def example() -> None:
        app_id, model = uuid.uuid4().hex, Model()
        for event in [*events, "check"]:
            told = await world.happen(app_id, event)
            assert told == model.happen(event, world.now)
        view = await world.view(app_id)
        assert (view.failure_count if view else 0) == model.failures
        assert (view.state if view else CircuitState.CLOSED) is model.state

    world.runner.run(example())


@given(failures=st.integers(0, THRESHOLD - 1), more=st.integers(0, THRESHOLD - 1))
def test_a_success_in_between_starts_the_count_again(world: World, failures: int, more: int) -> None:
    """Failures that are not consecutive do not add up to an open circuit."""

    async def example() -> None:
        app_id = uuid.uuid4().hex
        for event in [*["failure"] * failures, "success", *["failure"] * more]:
            await world.happen(app_id, event)
        assert await world.breaker.check(app_id) is CircuitState.CLOSED

    world.runner.run(example())
