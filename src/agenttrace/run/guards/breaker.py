"""The circuit breaker: an application that failed too often is not called for a while, then probed by one call.

Its state is one row for each application id in ``biz.ai_breakers``, so all processes see the same one. The SQL
functions that change it are in ``postgres/sql/breakers.sql``; the admission of a call uses the same ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Annotated

import msgspec

from agenttrace.run.errors import CircuitOpenError, DashScopeError
from agenttrace.run.postgres.pool import Clock, Database, DatabaseService, patient
from agenttrace.run.states import CircuitState
from agenttrace.run.upstream.attempts import AttemptGate, CallClosedError

__all__ = ["BreakerView", "CircuitBreaker", "CircuitState"]

#: Admits another attempt of a call (its key) after one that took so many tokens, or raises why not.
Budget = Callable[[uuid.UUID, int], Awaitable[None]]

_STATES = """
SELECT app_id, CASE WHEN due THEN 'half_open' ELSE state END, failure_count, last_failure_at, changed_at,
       CASE WHEN state = 'closed' OR due THEN 0
            WHEN held THEN extract(epoch FROM recovery)
            WHEN state = 'open' THEN extract(epoch FROM changed_at + recovery - at)
            WHEN probe_until > at THEN least(extract(epoch FROM probe_until - at), extract(epoch FROM recovery))
            ELSE 0 END::double precision,
       held
FROM (SELECT *, state = 'open' AND NOT held AND changed_at + recovery <= at AS due
      FROM (SELECT a.*, coalesce(r.recovery, %s::interval) AS recovery, coalesce(%s, clock_timestamp()) AS at
            FROM biz.ai_breakers AS a
            LEFT JOIN unnest(%s::text[], %s::interval[]) AS r (app_id, recovery) ON r.app_id = a.app_id) AS asked) AS b
ORDER BY app_id
"""
_CLOSED = "SELECT id FROM biz.ai_run_logs WHERE call_key = %s AND status NOT IN ('pending', 'running')"
_HOLD = """
INSERT INTO biz.ai_breakers (app_id, state, held, changed_at) VALUES (%s, 'open', true, coalesce(%s, clock_timestamp()))
ON CONFLICT (app_id) DO UPDATE SET state = 'open', held = true, changed_at = excluded.changed_at,
                                   probe_key = NULL, probe_until = NULL
"""
_CLOSE = """
UPDATE biz.ai_breakers SET state = 'closed', held = false, failure_count = 0, probe_key = NULL, probe_until = NULL,
                           changed_at = coalesce(%s, clock_timestamp())
WHERE app_id = %s
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakerRule:
    """Consecutive failures that open the breaker, and the seconds until a probe is let through."""

    failure_threshold: int = 5
    recovery_seconds: float = 60.0

    @property
    def recovery(self) -> str:
        """How long it stays open, as PostgreSQL reads an interval."""
        return f"{self.recovery_seconds} seconds"


class BreakerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[apps.NAME.breaker]``: what is not given is as for all."""

    failure_threshold: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    recovery_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None

    def over(self, rule: BreakerRule) -> BreakerRule:
        """The rule of the application."""
        return BreakerRule(
            failure_threshold=self.failure_threshold or rule.failure_threshold,
            recovery_seconds=self.recovery_seconds or rule.recovery_seconds,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakerView:
    """A breaker as it is shown."""

    app_id: str
    #: An open one whose time is up is shown half-open: the next call is let through.
    state: CircuitState
    failure_count: int
    last_failure_at: datetime | None
    changed_at: datetime
    #: Seconds until a call may be let through; 0 when it may be now.
    retry_after: float
    #: Opened by hand, and only closed by hand.
    held: bool


class CircuitBreaker(DatabaseService):
    """One breaker for each application id, shared by all processes."""

    def __init__(
        self,
        database: Database,
        *,
        failure_threshold: int = 5,
        recovery_timeout: float = 60.0,
        probe_lease: float = 130.0,
        rules: Mapping[str, BreakerRule] = MappingProxyType({}),
        clock: Clock | None = None,
    ) -> None:
        super().__init__(database, clock)
        self._rule = BreakerRule(failure_threshold=failure_threshold, recovery_seconds=recovery_timeout)
        #: Rules of single applications, by id.
        self._rules = rules
        #: A probe without a result for so long is dead, and the next one may go.
        self.lease = f"{probe_lease} seconds"

    async def check(self, app_id: str, key: uuid.UUID | None = None) -> CircuitState:
        """May the application be called? OPEN: no. HALF_OPEN: yes, and the caller is the one probe.

        The probe that asks again with its ``key`` is still the probe.
        """
        state, _ = await self.ask(app_id, key)
        return state

    @patient
    async def ask(self, app_id: str, key: uuid.UUID | None = None) -> tuple[CircuitState, float]:
        """The same, and the seconds until it is worth asking again."""
        row = await self.database.one(
            "SELECT state, retry_after FROM biz.ai_breaker_check(%s, %s, %s, %s, %s)",
            (app_id, key, self.rule_of(app_id).recovery, self.lease, self.now()),
        )
        assert row is not None
        return CircuitState(row[0]), row[1]

    @patient
    async def record_success(self, app_id: str, key: uuid.UUID | None = None) -> None:
        """The application has answered: HALF_OPEN closes, and failures are counted from 0 again.

        While it is half-open only the probe's word counts; without a ``key`` the caller is taken for the probe.
        """
        await self.database.one("SELECT biz.ai_breaker_success(%s, %s, %s)", (app_id, key, self.now()))

    @patient
    async def record_failure(self, app_id: str, key: uuid.UUID | None = None) -> None:
        """The application has failed: the last of so many in a row opens the circuit, a failed probe does so again."""
        await self.database.one(
            "SELECT biz.ai_breaker_failure(%s, %s, %s, %s)",
            (app_id, key, self.rule_of(app_id).failure_threshold, self.now()),
        )

    @patient
    async def release(self, app_id: str, key: uuid.UUID | None = None) -> None:
        """The probe ended without a result: the next caller may probe."""
        await self.database.one("SELECT biz.ai_breaker_release(%s, %s)", (app_id, key))

    async def hold_open(self, app_id: str) -> None:
        """Open it by hand: it stays open until it is closed by hand."""
        await self.database.execute(_HOLD, (app_id, self.now()))

    async def close(self, app_id: str) -> None:
        """Close it by hand."""
        await self.database.execute(_CLOSE, (self.now(), app_id))

    async def states(self) -> list[BreakerView]:
        """All breakers that have counted a failure, or were opened by hand."""
        times = [rule.recovery for rule in self._rules.values()]
        rows = await self.database.all(_STATES, (self._rule.recovery, self.now(), list(self._rules), times))
        return [
            BreakerView(
                app_id=app_id,
                state=CircuitState(state),
                failure_count=failures,
                last_failure_at=last_failure_at,
                changed_at=changed_at,
                retry_after=retry_after,
                held=held,
            )
            for app_id, state, failures, last_failure_at, changed_at, retry_after, held in rows
        ]

    def gate(self, key: uuid.UUID, budget: Budget | None = None) -> AttemptGate:
        """The gate of one call; ``budget`` admits another attempt after a billed one."""
        return _BreakerGate(self, key, budget)

    def rule_of(self, app_id: str) -> BreakerRule:
        """When the breaker of an application opens, and for how long."""
        return self._rules.get(app_id, self._rule)


class _BreakerGate:
    """The breaker for one call; the key of the call shows whether it is the probe."""

    def __init__(self, breaker: CircuitBreaker, key: uuid.UUID, budget: Budget | None) -> None:
        self._breaker = breaker
        self._key = key
        self._budget = budget

    async def before_retry(self, app_id: str, billed: int = 0) -> None:
        if await self._breaker.database.one(_CLOSED, [self._key]) is not None:
            raise CallClosedError("it was closed as lost meanwhile, and another process may have made it again")
        if billed and self._budget is not None:
            await self._budget(self._key, billed)
        state, retry_after = await self._breaker.ask(app_id, self._key)
        if state is CircuitState.OPEN:
            raise CircuitOpenError(
                f"the circuit opened before another attempt; next try in {retry_after:.0f} s", retry_after=retry_after
            )

    def succeeded(self, app_id: str) -> None:
        """Nothing: the statement that settles the call notifies the breaker, which saves a round trip."""

    async def failed(self, app_id: str, error: DashScopeError) -> None:
        await self._breaker.record_failure(app_id, self._key)

    async def abandoned(self, app_id: str) -> None:
        await self._breaker.release(app_id, self._key)
