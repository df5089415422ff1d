"""Calls behind the guards: admitted, made with retries, and always settled, also when the caller is cancelled.

An admitted call has a row in the run log, with tokens reserved. That row is settled exactly once: with the answer, with
the error, or, when the caller is cancelled or hangs up, with what is known until then. Nothing stops the settling: it
runs in its own task, with retries while the database is away.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Self, Unpack

from agenttrace.run.errors import DashScopeError
from agenttrace.run.guards.admission import Admissions, CallAdmission, TurnWaitError
from agenttrace.run.guards.breaker import CircuitBreaker
from agenttrace.run.results.run_log import AIRunLogService
from agenttrace.run.results.settlement import Data, EffectError, Settlement, Writes, undisturbed
from agenttrace.run.results.trace_log import TraceLog
from agenttrace.run.states import RunStatus
from agenttrace.run.upstream.calls import CallRequest
from agenttrace.run.upstream.client import AppStream, UpstreamClient
from agenttrace.run.upstream.wire import AppAnswer, RequestOptions, object_or_text

__all__ = ["CANCELLED", "HUNG_UP", "EffectError", "GuardedClient", "GuardedStream"]

logger = logging.getLogger(__name__)

#: Why a stream was cut, unless its caller gives another reason.
HUNG_UP = "client hung up"
CANCELLED = "cancelled"


class GuardedClient:
    """The client behind breaker, rate limits and budget, with every call in the run log and in the trace."""

    def __init__(
        self,
        client: UpstreamClient,
        admissions: Admissions,
        breaker: CircuitBreaker,
        run_logs: AIRunLogService,
        trace: TraceLog,
    ) -> None:
        self._client = client
        self._admissions = admissions
        self._breaker = breaker
        self._run_logs = run_logs
        self._trace = trace

    async def call(
        self,
        request: CallRequest,
        *,
        parse: bool = True,
        writes: Writes | None = None,
        **options: Unpack[RequestOptions],
    ) -> tuple[AppAnswer, Data, int]:
        """One answer; ``writes`` gives what is written in the statement that settles it.

        It is a JSON object, or is asked for again; unless ``parse`` is false: then any text is an answer.

        Raises what refuses the call, or how it failed; ``EffectError`` when only the writing failed; ``StepDoneError``
        when another worker had finished the step meanwhile.
        """
        settlement = await self._admit(request)
        request = settlement.request
        try:
            answer, data = await self._client.complete(
                request.app_id,
                request.prompt,
                parse=parse,
                gate=self._breaker.gate(request.key, self._admissions.admit_again),
                **options,
            )
            if data is None:
                data = object_or_text(answer.text)
        except DashScopeError as error:
            await settlement.write(settlement.failed(error))
            raise
        except BaseException as error:
            await settlement.write(settlement.broken_off(_reason(error, CANCELLED)))
            raise
        log_id = await settlement.write(settlement.succeeded(answer), answer, data, writes)
        return answer, data or {}, log_id

    async def open_stream(
        self, request: CallRequest, *, writes: Writes | None = None, **options: Unpack[RequestOptions]
    ) -> GuardedStream:
        """An answer as it arrives; a refusal of the call is raised here, before anything is streamed.

        ``writes`` is as for ``call``, and also asked when the stream failed or was cut off.
        """
        settlement = await self._admit(request)
        request = settlement.request
        stream = self._client.stream(
            request.app_id,
            request.prompt,
            gate=self._breaker.gate(request.key, self._admissions.admit_again),
            **options,
        )
        return GuardedStream(settlement, stream, writes)

    async def _admit(self, request: CallRequest) -> Settlement:
        try:
            # Before anything is reserved: what has no provider cannot be called.
            self._client.provider_of(request.app_id)
            admission, cancelled = await self._turn(request)
        except DashScopeError as refusal:
            self._trace.refused(request, refusal.status, str(refusal))
            raise
        self._trace.begin(admission.request, admission.log_id)
        settlement = Settlement(self._admissions, self._breaker, self._run_logs, self._trace, admission)
        if cancelled is not None:
            await self._breaker.release(request.app_id, admission.request.key)
            await settlement.write(settlement.unbilled(_reason(cancelled, CANCELLED)))
            raise cancelled
        return settlement

    async def _turn(self, request: CallRequest) -> tuple[CallAdmission, BaseException | None]:
        """The admission, asked for again and again while it is not the call's turn; and what cancelled the caller."""
        loop = asyncio.get_running_loop()
        until, asked = loop.time() + request.patience, False
        # A call with less patience asks more often: a user goes before a chain.
        pauses = (min(request.patience / 600, 0.05), min(request.patience / 60, 1.0))
        pause = pauses[0]
        while True:
            waits = loop.time() < until
            task, cancelled = await undisturbed(self._admissions.admit(request, waits=waits, asked=asked))
            try:
                return task.result(), cancelled
            except TurnWaitError:
                if cancelled is not None:
                    raise cancelled from None
            asked = True
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads those who wait
            pause = min(pause * 2, pauses[1])


class GuardedStream:
    """An answer on its way: an async iterator of the pieces of its text, settled exactly once however it ends."""

    def __init__(self, settlement: Settlement, stream: AppStream, writes: Writes | None) -> None:
        self._settlement = settlement
        self._stream = stream
        self._writes = writes
        self._ending: asyncio.Task[int] | None = None
        #: The row of the run log; its final one only after the end.
        self.log_id = settlement.log_id
        #: As in the run log: ``running``, then ``success``, ``failed`` or ``timeout``.
        self.status: str = RunStatus.RUNNING

    @property
    def text(self) -> str:
        """What has arrived so far."""
        return self._stream.text

    @property
    def answer(self) -> AppAnswer | None:
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
        # The caller of the stream gets the reason of its end, not the error of writing it.
        try:
            await self._end(reason, error)
        except EffectError as failure:
            logger.error("the end of a stream was not written: %s", type(failure.__cause__).__name__)

    async def _end(self, reason: str = HUNG_UP, error: DashScopeError | None = None) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._write(reason, error))
        task, cancelled = await undisturbed(self._ending)
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
        return await self._settlement.write(outcome, answer, None, self._writes)


def _reason(error: BaseException, otherwise: str) -> str:
    """The reason of a cancellation, if it has one; of any other error, which is a defect of ours, only the type."""
    if isinstance(error, asyncio.CancelledError):
        return str(error.args[0]) if error.args else otherwise
    return f"internal error: {type(error).__name__}"
