"""What has to be written about one admitted call: how it ended, with what belongs to its answer, in one statement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agenttrace.run.errors import DashScopeApiError, DashScopeError
from agenttrace.run.guards.admission import Admissions, CallAdmission
from agenttrace.run.guards.breaker import CircuitBreaker
from agenttrace.run.postgres.pool import AWAY
from agenttrace.run.postgres.sql_call import SqlCall
from agenttrace.run.results.run_log import AIRunLogService, StepDoneError
from agenttrace.run.results.trace_log import TraceLog
from agenttrace.run.states import RunStatus
from agenttrace.run.upstream.calls import CallOutcome
from agenttrace.run.upstream.wire import AppAnswer

#: Seconds for which settling is tried while the database is away.
PATIENCE = 600.0
_MODEL_LIMIT = 100

T = TypeVar("T")
Data = dict[str, Any]
#: What belongs to an answer, as calls of SQL functions in the statement that settles it: (answer, parsed answer).
Writes = Callable[[AppAnswer, Data | None], Sequence[SqlCall]]

_LATE = "SELECT id FROM biz.ai_run_logs WHERE id = %s AND call_key = %s"


class EffectError(Exception):
    """The call is recorded, but what should have been written with it was not; why is the cause."""

    def __init__(self, answer: AppAnswer, data: Data | None, log_id: int) -> None:
        super().__init__(f"what belongs to the answer of run log {log_id} was not written")
        self.answer, self.data, self.log_id = answer, data, log_id


class Settlement:
    """What has to be written about one admitted call."""

    def __init__(
        self,
        admissions: Admissions,
        breaker: CircuitBreaker,
        run_logs: AIRunLogService,
        trace: TraceLog,
        admission: CallAdmission,
    ) -> None:
        self.log_id = admission.log_id
        self.request = admission.request
        self._reserved = admission.reserved
        self._database = admissions.database
        self._process_id = admissions.process_id
        self._breaker = breaker
        self._run_logs = run_logs
        self._trace = trace
        self._started = time.monotonic()
        #: Whether the breaker is notified of an answer with the settling.
        self._answered = False
        #: The row, and how the call ended there, once it is settled.
        self._settled: tuple[int, CallOutcome] | None = None

    def succeeded(self, answer: AppAnswer) -> CallOutcome:
        """The call has brought an answer."""
        self._answered = True
        return self._outcome(RunStatus.SUCCESS, answer)

    def failed(self, error: DashScopeError, answer: AppAnswer | None = None) -> CallOutcome:
        """The call has failed, a stream perhaps in the middle of the answer."""
        status = RunStatus.TIMEOUT if error.status == RunStatus.TIMEOUT else RunStatus.FAILED
        billed = answer if answer is not None and error.tokens_used else None
        return self._outcome(status, billed, message=_explain(error), error=error)

    def cut_off(self, reason: str, answer: AppAnswer) -> CallOutcome:
        """The caller wanted no more of a stream; what was billed for it is an estimate."""
        return self._outcome(RunStatus.FAILED, answer, message=reason)

    def broken_off(self, reason: str) -> CallOutcome:
        """The caller went away in mid-call: what will be billed is unknown, and what was reserved the best guess."""
        return CallOutcome(
            status=RunStatus.FAILED,
            latency_ms=self._latency(),
            error_message=reason,
            tokens_used=self._reserved,
            tokens_estimated=True,
        )

    def unbilled(self, reason: str) -> CallOutcome:
        """The caller went away before the application was called."""
        return CallOutcome(status=RunStatus.FAILED, latency_ms=self._latency(), error_message=reason, attempts=0)

    async def write(
        self,
        outcome: CallOutcome,
        answer: AppAnswer | None = None,
        data: Data | None = None,
        writes: Writes | None = None,
    ) -> int:
        """Settle the call, whatever happens to the caller meanwhile; the row that holds it."""
        task, cancelled = await undisturbed(self._write(outcome, answer, data, writes))
        self._trace.end(self.request, *self._settled or (self.log_id, outcome), answer.finish_reason if answer else "")
        log_id = task.result()
        if cancelled is not None:
            raise cancelled
        return log_id

    async def _write(
        self, outcome: CallOutcome, answer: AppAnswer | None, data: Data | None, writes: Writes | None
    ) -> int:
        if answer is None or writes is None:
            return await self._settle(outcome)
        try:
            return await self._settle(outcome, writes(answer, data))
        except (*AWAY, StepDoneError):
            raise
        except Exception as error:
            log_id = await self._settle(outcome)
            raise EffectError(answer, data, log_id) from error

    async def _settle(self, outcome: CallOutcome, writes: Sequence[SqlCall] = ()) -> int:
        try:
            log_id = await self._database.patiently(lambda: self._settle_row(outcome, writes), PATIENCE)
            await self._trace_row(log_id, outcome)
            return log_id
        except StepDoneError as done:
            # Its tokens are spent all the same.
            await self._settle(replace(outcome, status=RunStatus.FAILED, error_message=str(done)))
            raise

    async def _settle_row(self, outcome: CallOutcome, writes: Sequence[SqlCall]) -> int:
        async with self._database.pool.connection() as connection:
            return await self._run_logs.settle(
                connection,
                self.log_id,
                self.request,
                outcome,
                self._process_id,
                heals=self._answered,
                now=self._breaker.now(),
                writes=writes,
            )

    async def _trace_row(self, log_id: int, outcome: CallOutcome) -> None:
        """The trace shows a call as the row that holds it; where a crash lost that, under the number it had."""
        self._settled = self.log_id, outcome
        if log_id == self.log_id:
            return
        found = await self._database.patiently(lambda: self._database.one(_LATE, [log_id, self.request.late_key]))
        if found is not None:
            self._trace.late(self.request, self.log_id, log_id)
            self._settled = log_id, outcome

    def _outcome(
        self, status: str, answer: AppAnswer | None, *, message: str | None = None, error: DashScopeError | None = None
    ) -> CallOutcome:
        tokens = error.tokens_used if error else answer.tokens_used if answer else 0
        attempts = error.attempts if error else answer.attempts if answer else 0
        request_id = error.request_id if isinstance(error, DashScopeApiError) else ""
        return CallOutcome(
            status=status,
            latency_ms=self._latency(),
            response_text=answer.text if answer else None,
            error_message=message,
            tokens_used=tokens,
            tokens_estimated=answer.usage.estimated if answer else False,
            input_tokens=answer.usage.input_tokens if answer else 0,
            output_tokens=answer.usage.output_tokens if answer else 0,
            cached_tokens=answer.usage.cached_tokens if answer else 0,
            model=",".join(answer.usage.models)[:_MODEL_LIMIT] or None if answer else None,
            request_id=request_id or (answer.request_id if answer else ""),
            attempts=attempts,
        )

    def _latency(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


async def undisturbed(work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> tuple[asyncio.Task[T], BaseException | None]:
    """Wait until the work is done, also when the caller is cancelled meanwhile; the finished task, and that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    return task, cancelled


def _explain(error: DashScopeError) -> str:
    code = getattr(error, "code", "")
    text = str(error) or type(error).__name__
    if code and code not in text:
        text = f"{code}: {text}"
    return "; ".join((text, *getattr(error, "__notes__", ())))
