"""The one admission of a call: breaker, rate limit and budget in one round trip, before anything is sent.

``biz.ai_admit`` (``postgres/sql/admission.sql``) does it in one transaction and writes a row of the run log: a running
call with its reservation, or the refusal. It finds the call by its key, so it may be asked again when the connection
broke before the answer came. Only a call that has to wait for its turn leaves no row.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import Any

from psycopg.errors import UniqueViolation
from psycopg.types.numeric import Int4, Int8

from agenttrace.run.errors import BudgetExceededError, CircuitOpenError, RateLimitExceededError
from agenttrace.run.guards.breaker import CircuitBreaker
from agenttrace.run.postgres.pool import Clock, Database
from agenttrace.run.results.storable import storable_text
from agenttrace.run.states import RunStatus
from agenttrace.run.upstream.calls import PROMPT_LIMIT, CallRequest

_ADMIT = f"SELECT verdict, log_id, retry_after, message, reserved FROM biz.ai_admit({', '.join(['%s'] * 30)})"
_ADMIT_AGAIN = "SELECT biz.ai_admit_again(%s, %s, %s, %s, %s)"
_LARGEST = 2**31 - 1
#: An answer that took longer is asked for again: a process that was frozen would act on one of the past.
STALE_SECONDS = 1.0


class StepSupersededError(Exception):
    """Another worker has taken the job over, or it has ended: this worker must not go on with it."""


class JobCancelledError(Exception):
    """A user cancelled the job: no further step is begun."""


class TurnWaitError(Exception):
    """The call has to wait: what is left of the budget is less than the calls under way and this one may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallAdmission:
    """A call that may be made, and the row of the run log that has to be settled after it."""

    log_id: int
    request: CallRequest
    #: The tokens that are held for it.
    reserved: int


class Admissions:
    """Admits calls, for all processes on one database together."""

    def __init__(
        self,
        database: Database,
        *,
        process_id: uuid.UUID,
        daily_limit: int = 100_000,
        monthly_limit: int = 2_000_000,
        breaker: CircuitBreaker | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.database = database
        #: Whose calls they are; when this process is not seen any more, they are closed as lost.
        self.process_id = process_id
        #: Its rules are those that the admission judges by, and its clock is the one of the admission.
        self._breaker = breaker or CircuitBreaker(database, clock=clock)
        self._budget = (Int8(daily_limit), Int8(monthly_limit))

    async def admit(self, request: CallRequest, *, waits: bool = False, asked: bool = False) -> CallAdmission:
        """Let the call through, or raise why not; a refusal is a row of the run log already.

        ``waits``: a call whose turn has not come raises TurnWaitError instead of being refused; it is to be asked for
        again, and then ``asked``, so that it counts once for the rate.
        """
        params = self._params(request, waits, asked)
        began = time.monotonic()
        answer = await self.database.patiently(lambda: self._ask(params))
        if time.monotonic() - began > STALE_SECONDS:
            answer = await self.database.patiently(lambda: self._ask(params))
        verdict, log_id, retry_after, message, reserved = answer
        if verdict == "admitted":
            return CallAdmission(log_id=log_id, request=request, reserved=reserved)
        if verdict == "waiting":
            raise TurnWaitError(message)
        if verdict in (RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.TIMEOUT):
            # Admitted before, and closed as lost while the database was away: this is another call now.
            return await self.admit(replace(request, key=uuid.uuid4()), waits=waits, asked=asked)
        raise _refusal(verdict, message or verdict, retry_after, request)

    async def admit_again(self, key: uuid.UUID, billed: int) -> None:
        """Let a call be tried again after an attempt that was billed; raises BudgetExceededError if it does not fit."""
        row = await self.database.one(_ADMIT_AGAIN, (key, _tokens(billed), *self._budget, self._breaker.now()))
        if row is not None and row[0] is not None:
            raise _budget_refusal(row[0])

    async def _ask(self, params: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            row = await self.database.one(_ADMIT, params)
        except UniqueViolation:
            # The same call, asked before over a connection that broke, was still on its way; now it has its answer.
            row = await self.database.one(_ADMIT, params)
        assert row is not None
        return row

    def _params(self, request: CallRequest, waits: bool, asked: bool) -> tuple[Any, ...]:
        # Numbers of one size whatever their value: for each combination of sizes psycopg would prepare a statement.
        return (
            request.key,
            self.process_id,
            request.app_id,
            request.app_type,
            request.trigger_type,
            Int8(request.site_id),
            _int8(request.member_id),
            request.user_id,
            storable_text(request.prompt[:PROMPT_LIMIT]),
            request.session_id,
            _int8(request.conversation_id),
            _int8(request.job_id),
            request.step,
            None if request.claim is None else Int4(request.claim),
            _tokens(request.prompt_tokens),
            _tokens(request.estimate),
            _tokens(request.ceiling),
            waits,
            asked,
            request.rate.scope,
            request.rate_key,
            Int4(request.rate.limit),
            f"{request.rate.seconds} seconds",
            self._breaker.rule_of(request.app_id).recovery,
            self._breaker.lease,
            *self._budget,
            self._breaker.now(),
            None if request.app_rate is None else Int4(request.app_rate.limit),
            None if request.app_rate is None else f"{request.app_rate.seconds} seconds",
        )


def _int8(value: int | None) -> Int8 | None:
    return None if value is None else Int8(value)


def _tokens(value: int) -> Int4:
    return Int4(min(max(value, 0), _LARGEST))


def _budget_refusal(message: str) -> BudgetExceededError:
    return BudgetExceededError(message, reason=message.partition(":")[0])


def _refusal(verdict: str, message: str, retry_after: float, request: CallRequest) -> Exception:
    if verdict == RunStatus.CIRCUIT_OPEN:
        return CircuitOpenError(message, retry_after=retry_after)
    if verdict == RunStatus.RATE_LIMITED:
        return RateLimitExceededError(message, retry_after=retry_after)
    if verdict == RunStatus.BUDGET_EXCEEDED:
        return _budget_refusal(message)
    if verdict == "cancelled":
        return JobCancelledError(f"job {request.job_id} was cancelled")
    return StepSupersededError(f"job {request.job_id} is not this worker's any more")
