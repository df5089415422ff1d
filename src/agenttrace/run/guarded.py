"""Calls behind the guards: admitted, made with retries, and settled, whatever happens to them or to their caller.

An admitted call has a row in the run log, with tokens reserved. That row is settled exactly once: with the answer, with
the error, or, when the caller is cancelled or hangs up, with what is known until then. Nothing stops the settling: it
runs in a task of its own, and goes on trying while the database is away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from psycopg import AsyncConnection

from agenttrace.run.calls import CallOutcome, CallRequest
from agenttrace.run.client import AppStream, DashScopeClient
from agenttrace.run.database import AWAY
from agenttrace.run.errors import DashScopeApiError, DashScopeError
from agenttrace.run.guards.admission import Admission, Admissions
from agenttrace.run.guards.breaker import CircuitBreaker
from agenttrace.run.guards.budget import TokenEstimator
from agenttrace.run.run_log import AIRunLogService, StepDoneError
from agenttrace.run.sql_call import SqlCall
from agenttrace.run.storable import storable_text
from agenttrace.run.trace_log import TraceLog
from agenttrace.run.wire import Answer

logger = logging.getLogger(__name__)

#: Why a stream was cut, unless its caller says something else.
HUNG_UP = "client hung up"
CANCELLED = "cancelled"
#: Seconds for which settling is tried while the database is away.
PATIENCE = 600.0
_MODEL_LIMIT = 100

T = TypeVar("T")
Data = dict[str, Any]
#: Writes what belongs to an answer, in the transaction that settles it: (connection, log id, answer, parsed answer).
Effect = Callable[[AsyncConnection[Any], int, Answer, Data | None], Awaitable[None]]
#: The same in the statement itself that settles it, for what calls of SQL functions can write.
Writes = Callable[[Answer, Data | None], Sequence[SqlCall]]

_SETTLED = b"""
SELECT id FROM biz.ai_run_logs
WHERE call_key = ANY(%s) AND status = %s AND error_message IS NOT DISTINCT FROM %s
"""

_LATE = "SELECT id FROM biz.ai_run_logs WHERE id = %s AND call_key = %s"


class EffectError(Exception):
    """The call is recorded, but what should have been written with it was not; why is the cause."""

    def __init__(self, answer: Answer, data: Data | None, log_id: int) -> None:
        super().__init__(f"what belongs to the answer of run log {log_id} was not written")
        self.answer, self.data, self.log_id = answer, data, log_id


class GuardedClient:
    """The client behind breaker, rate limits and budget, with every call in the run log and in the trace."""

    def __init__(
        self,
        client: DashScopeClient,
        admissions: Admissions,
        breaker: CircuitBreaker,
        run_logs: AIRunLogService,
        trace: TraceLog,
        estimator: TokenEstimator,
    ) -> None:
        self.estimator = estimator
        self._client = client
        self._admissions = admissions
        self._breaker = breaker
        self._run_logs = run_logs
        self._trace = trace

    async def call(
        self,
        request: CallRequest,
        *,
        biz_params: Mapping[str, Any] | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        parameters: Mapping[str, Any] | None = None,
        effect: Effect | None = None,
        writes: Writes | None = None,
    ) -> tuple[Answer, Data, int]:
        """One answer that is a JSON object; with it, in one transaction, what follows from it is written.

        ``writes`` does that in one round trip, ``effect`` in any number of them. Raises what refuses the call, or how
        it failed; ``EffectError`` when only the writing failed; ``StepDoneError`` when another worker had finished the
        step meanwhile.
        """
        settlement = await self._admit(request)
        request = settlement.request
        try:
            answer, data = await self._client.complete(
                request.app_id,
                request.prompt,
                biz_params=biz_params,
                messages=messages,
                parameters=parameters,
                gate=self._breaker.gate(request.key),
            )
        except DashScopeError as error:
            await settlement.write(settlement.failed(error))
            raise
        except BaseException as error:
            await settlement.write(settlement.broken_off(_reason(error, CANCELLED)))
            raise
        log_id = await settlement.write(settlement.succeeded(answer), answer, data, effect, writes)
        return answer, data or {}, log_id

    async def open_stream(
        self,
        request: CallRequest,
        *,
        biz_params: Mapping[str, Any] | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        cloud_session: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        effect: Effect | None = None,
        writes: Writes | None = None,
    ) -> GuardedStream:
        """An answer as it arrives; whatever refuses the call is raised here, before there is anything to pass on.

        ``effect`` and ``writes`` are as for ``call``, and also made when the stream failed or was cut off.
        """
        settlement = await self._admit(request)
        request = settlement.request
        stream = self._client.stream(
            request.app_id,
            request.prompt,
            session_id=cloud_session,
            biz_params=biz_params,
            messages=messages,
            parameters=parameters,
            gate=self._breaker.gate(request.key),
        )
        return GuardedStream(settlement, stream, effect, writes)

    async def _admit(self, request: CallRequest) -> _Settlement:
        task, cancelled = await _undisturbed(self._admissions.admit(request))
        try:
            admission = task.result()
        except DashScopeError as refusal:
            self._trace.refused(request, refusal.status, str(refusal))
            raise
        self._trace.begin(admission.request, admission.log_id)
        settlement = _Settlement(
            self._admissions, self._breaker, self._run_logs, self._trace, self.estimator, admission
        )
        if cancelled is not None:
            await self._breaker.release(request.app_id, admission.request.key)
            await settlement.write(settlement.unbilled(_reason(cancelled, CANCELLED)))
            raise cancelled
        return settlement


class GuardedStream:
    """An answer on its way: an async iterator of the pieces of its text, settled exactly once however it ends."""

    def __init__(
        self, settlement: _Settlement, stream: AppStream, effect: Effect | None, writes: Writes | None
    ) -> None:
        self._settlement = settlement
        self._stream = stream
        self._effect = effect
        self._writes = writes
        self._ending: asyncio.Task[int] | None = None
        #: The row of the run log; its final one only after the end.
        self.log_id = settlement.log_id
        #: As in the run log: ``running``, then ``success``, ``failed`` or ``timeout``.
        self.status = "running"

    @property
    def text(self) -> str:
        """What has arrived so far."""
        return self._stream.text

    @property
    def answer(self) -> Answer | None:
        """The answer, once it is complete."""
        return self._stream.answer

    @property
    def cloud_session(self) -> str | None:
        """The session that the cloud answers in; known from the first piece on."""
        return self._stream.partial().session_id

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            await self._end()
            raise
        except DashScopeError as error:
            await self._end_anyhow(error=error)
            raise
        except BaseException as error:
            await self._end_anyhow(_reason(error, HUNG_UP))
            raise

    async def aclose(self, reason: str = HUNG_UP) -> None:
        """Stop, if it has not ended: the application is cut off, and what has arrived is settled."""
        await self._end(reason)

    async def _end_anyhow(self, reason: str = HUNG_UP, error: DashScopeError | None = None) -> None:
        # Whoever waits for the stream wants to know why it ended, not what could not be written about it.
        try:
            await self._end(reason, error)
        except EffectError as failure:
            logger.error("the end of a stream was not written: %s", type(failure.__cause__).__name__)

    async def _end(self, reason: str = HUNG_UP, error: DashScopeError | None = None) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._write(reason, error))
        task, cancelled = await _undisturbed(self._ending)
        self.log_id = task.result()
        if cancelled is not None:
            raise cancelled

    async def _write(self, reason: str, error: DashScopeError | None) -> int:
        await self._stream.aclose()
        answer = self._stream.partial()
        if error is not None:
            outcome = self._settlement.failed(error, answer)
        elif self._stream.answer is not None:
            outcome = self._settlement.succeeded(answer)
        else:
            outcome = self._settlement.cut_off(reason, answer)
        self.status = outcome.status
        return await self._settlement.write(outcome, answer, None, self._effect, self._writes)


class _Settlement:
    """What has to be written about one admitted call."""

    def __init__(
        self,
        admissions: Admissions,
        breaker: CircuitBreaker,
        run_logs: AIRunLogService,
        trace: TraceLog,
        estimator: TokenEstimator,
        admission: Admission,
    ) -> None:
        self.log_id = admission.log_id
        self.request = admission.request
        self._database = admissions.database
        self._process_id = admissions.process_id
        self._breaker = breaker
        self._run_logs = run_logs
        self._trace = trace
        self._estimator = estimator
        self._started = time.monotonic()
        #: The breaker hears of it with the settling, whatever becomes of the answer.
        self._answered = False
        #: The row, and how the call ended there, once it is settled.
        self._told: tuple[int, CallOutcome] | None = None

    def succeeded(self, answer: Answer) -> CallOutcome:
        """The call has brought an answer."""
        self._answered = True
        self._estimator.learn(self.request.app_type, answer.tokens_used)
        return self._outcome("success", answer)

    def failed(self, error: DashScopeError, answer: Answer | None = None) -> CallOutcome:
        """The call has failed, a stream perhaps in the middle of the answer."""
        status = "timeout" if error.status == "timeout" else "failed"
        told = answer if answer is not None and error.tokens_used else None
        return self._outcome(status, told, message=_explain(error), error=error)

    def cut_off(self, reason: str, answer: Answer) -> CallOutcome:
        """The caller wanted no more of a stream; what was billed for it is an estimate."""
        return self._outcome("failed", answer, message=reason)

    def broken_off(self, reason: str) -> CallOutcome:
        """The caller went away in mid-call: what will be billed is unknown, and what was reserved the best guess."""
        return CallOutcome(
            status="failed",
            latency_ms=self._latency(),
            error_message=reason,
            tokens_used=self.request.estimate,
            tokens_estimated=True,
        )

    def unbilled(self, reason: str) -> CallOutcome:
        """The caller went away before the application was called."""
        return CallOutcome(status="failed", latency_ms=self._latency(), error_message=reason, attempts=0)

    async def write(
        self,
        outcome: CallOutcome,
        answer: Answer | None = None,
        data: Data | None = None,
        effect: Effect | None = None,
        writes: Writes | None = None,
    ) -> int:
        """Settle the call, whatever happens to the caller meanwhile; the row that holds it."""
        task, cancelled = await _undisturbed(self._write(outcome, answer, data, effect, writes))
        self._trace.end(self.request, *self._told or (self.log_id, outcome), answer.finish_reason if answer else "")
        log_id = task.result()
        if cancelled is not None:
            raise cancelled
        return log_id

    async def _write(
        self,
        outcome: CallOutcome,
        answer: Answer | None,
        data: Data | None,
        effect: Effect | None,
        writes: Writes | None,
    ) -> int:
        if answer is None or (effect is None and writes is None):
            return await self._settle(outcome)
        try:
            calls = () if writes is None else writes(answer, data)
            if effect is None:
                return await self._settle(outcome, calls)
            return await self._settle(
                outcome, calls, lambda connection, log_id: effect(connection, log_id, answer, data)
            )
        except (*AWAY, StepDoneError):
            raise
        except Exception as error:
            log_id = await self._settle(outcome)
            raise EffectError(answer, data, log_id) from error

    async def _settle(
        self,
        outcome: CallOutcome,
        writes: Sequence[SqlCall] = (),
        effect: Callable[[AsyncConnection[Any], int], Awaitable[None]] | None = None,
    ) -> int:
        repeated = False

        async def settle() -> int:
            nonlocal repeated
            if effect is None:
                async with self._database.pool.connection() as connection:
                    return await self._settle_row(connection, outcome, writes)
            async with self._database.transaction() as connection:
                # Settled and acknowledged, only nobody heard it: then the effect is there as well, and once is enough.
                if repeated and (found := await self._settled(connection, outcome)) is not None:
                    return found
                repeated = True
                log_id = await self._settle_row(connection, outcome, writes)
                await effect(connection, log_id)
                return log_id

        try:
            log_id = await self._database.patiently(settle, PATIENCE)
            await self._tell_row(log_id, outcome)
            return log_id
        except StepDoneError as done:
            # Its tokens are spent all the same.
            await self._settle(replace(outcome, status="failed", error_message=str(done)))
            raise

    async def _settle_row(
        self, connection: AsyncConnection[Any], outcome: CallOutcome, writes: Sequence[SqlCall]
    ) -> int:
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

    async def _tell_row(self, log_id: int, outcome: CallOutcome) -> None:
        """The trace shows a call as the row that holds it; where a crash lost that, under the number it had."""
        self._told = self.log_id, outcome
        if log_id == self.log_id:
            return
        found = await self._database.patiently(lambda: self._database.one(_LATE, [log_id, self.request.late_key]))
        if found is not None:
            self._trace.late(self.request, self.log_id, log_id)
            self._told = log_id, outcome

    async def _settled(self, connection: AsyncConnection[Any], outcome: CallOutcome) -> int | None:
        keys = [self.request.key, self.request.late_key]
        message = None if outcome.error_message is None else storable_text(outcome.error_message)
        row = await (await connection.execute(_SETTLED, (keys, outcome.status, message))).fetchone()
        return None if row is None else int(row[0])

    def _outcome(
        self, status: str, answer: Answer | None, *, message: str | None = None, error: DashScopeError | None = None
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
            model=",".join(answer.usage.models)[:_MODEL_LIMIT] or None if answer else None,
            request_id=request_id or (answer.request_id if answer else ""),
            attempts=attempts,
        )

    def _latency(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


async def _undisturbed(work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> tuple[asyncio.Task[T], BaseException | None]:
    """Wait until the work is done, also when the caller is cancelled meanwhile; the finished task, and that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    return task, cancelled


def _reason(error: BaseException, otherwise: str) -> str:
    """Why somebody was cancelled, if they said so; anything else is a fault of ours, of which only the kind is told."""
    if isinstance(error, asyncio.CancelledError):
        return str(error.args[0]) if error.args else otherwise
    return f"internal error: {type(error).__name__}"


def _explain(error: DashScopeError) -> str:
    code = getattr(error, "code", "")
    text = str(error) or type(error).__name__
    if code and code not in text:
        text = f"{code}: {text}"
    return "; ".join((text, *getattr(error, "__notes__", ())))
