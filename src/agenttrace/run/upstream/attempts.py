"""The attempts of one call to an application: when to try again, what it has cost, and what the gate is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from agenttrace.run.errors import (
    BudgetExceededError,
    CircuitOpenError,
    DashScopeApiError,
    DashScopeError,
    DashScopeJsonParseError,
)
from agenttrace.run.upstream.providers import Provider
from agenttrace.run.upstream.wire import AppAnswer, AppUsage, ProviderReply, Request, estimate_tokens

#: Below this many characters a key or a prompt is no secret, only a word that messages may hold by chance.
SHORTEST_SECRET = 8

_logger = logging.getLogger(__name__)


class CallClosedError(Exception):
    """The run log has an end of this call already: its process was frozen for long, or cut off."""


class AttemptGate(Protocol):
    """What is asked and told around each attempt; the first one was admitted before the client was called.

    Each attempt is answered for exactly once, also when it is cancelled.
    """

    async def before_retry(self, app_id: str, billed: int = 0) -> None:
        """May the application be called again, after an attempt that took so many tokens?

        Raises CircuitOpenError, BudgetExceededError or CallClosedError if not.
        """

    def succeeded(self, app_id: str) -> Coroutine[Any, Any, None] | None:
        """The application has answered; None: nobody has to be told."""

    async def failed(self, app_id: str, error: DashScopeError) -> None:
        """The application has failed."""

    async def abandoned(self, app_id: str) -> None:
        """The attempt was cancelled, or failed through the request's own fault: neither good nor bad."""


def counts_as_failure(error: DashScopeError) -> bool:
    """Whether the error is the application's: no answer, a 5xx, a cut stream or something that cannot be read."""
    if isinstance(error, DashScopeApiError):
        return error.status_code is None or not 300 <= error.status_code < 500
    return isinstance(error, DashScopeJsonParseError)


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often, when and until when a call is tried."""

    retries: int
    #: Seconds before the second attempt; each further wait is twice as long.
    interval: float
    #: Seconds that all attempts and waits may take together.
    deadline: float
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], float]


class GateNotifier:
    """Tells gates how attempts have ended, also on behalf of callers that are cancelled meanwhile."""

    def __init__(self) -> None:
        self._telling: set[asyncio.Task[None]] = set()

    async def tell(self, telling: Coroutine[Any, Any, None]) -> None:
        """Wait until the gate has been told; a cancelled wait does not stop the telling."""
        task = asyncio.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._told)
        await asyncio.wait((task,))

    async def drain(self) -> None:
        """Wait until everything has been told."""
        while self._telling:
            await asyncio.wait(self._telling)

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # An answer that was paid for is worth more than the gate's book-keeping.
            _logger.warning("a gate could not be told how a call ended", exc_info=error)


class UpstreamCall:
    """The account of one call over all its attempts: their number, their time, their cost."""

    def __init__(
        self,
        app_id: str,
        request: Request,
        *,
        provider: Provider,
        policy: RetryPolicy,
        gate: AttemptGate | None,
        teller: GateNotifier,
    ) -> None:
        self.app_id = app_id
        self.request = request
        self.provider = provider
        #: How often the application was called.
        self.attempts = 0
        self._burnt = 0
        self._policy = policy
        self._gate = gate
        self._teller = teller
        self._started = policy.clock()

    def remaining(self) -> float:
        """The seconds that are left."""
        return self._policy.deadline - (self._policy.clock() - self._started)

    def answer(self, reply: ProviderReply, usage: AppUsage | None = None) -> AppAnswer:
        """The answer that the latest attempt has brought, with the account of the call."""
        return AppAnswer(
            text=reply.text,
            usage=usage or reply.usage or self._estimate(reply.text),
            session_id=reply.session_id,
            request_id=reply.request_id,
            attempts=self.attempts,
            burnt_tokens=self._burnt,
            finish_reason=reply.finish_reason,
        )

    def charge(self, error: DashScopeError) -> None:
        """Give the error the account of the call so far, and take from it what must not be seen."""
        error.attempts = self.attempts
        error.tokens_used += self._burnt
        # aiohttp's errors know the request's headers, and with them the key.
        error.__context__ = error.__cause__ = None
        message = str(error)
        for secret in (self.provider.key, self.request.prompt):
            if len(secret) >= SHORTEST_SECRET and secret in message:
                error.args = (message := message.replace(secret, "***"),)

    async def wait_after(self, failure: DashScopeError) -> None:
        """Wait until the application may be called again; raise the failure if it may not."""
        wait = self._policy.interval * 2.0 ** (self.attempts - 1)
        if isinstance(failure, DashScopeApiError):
            wait = max(wait, failure.retry_after or 0)
        if not counts_as_failure(failure) or self.attempts > self._policy.retries or wait >= self.remaining():
            raise failure
        await self._policy.sleep(wait)
        if self.remaining() <= 0 or not await self._admitted(failure):
            raise failure
        self._burnt = failure.tokens_used

    async def tell(self, error: BaseException | None) -> None:
        """Answer to the gate for an attempt that has ended this way."""
        if self._gate is None:
            return
        if error is None:
            telling = self._gate.succeeded(self.app_id)
            if telling is not None:
                await self._teller.tell(telling)
        elif isinstance(error, DashScopeError) and counts_as_failure(error):
            await self._teller.tell(self._gate.failed(self.app_id, error))
        else:
            await self._teller.tell(self._gate.abandoned(self.app_id))

    async def _admitted(self, failure: DashScopeError) -> bool:
        if self._gate is None:
            return True
        try:
            await self._gate.before_retry(self.app_id, failure.tokens_used - self._burnt)
        except (CircuitOpenError, BudgetExceededError, CallClosedError) as refusal:
            failure.add_note(f"not tried again: {refusal}")
        except Exception:
            # What the application said, and has billed, says more than that its gate is out of order.
            _logger.warning("a gate could not be asked", exc_info=True)
            failure.add_note("not tried again: the gate could not be asked")
        else:
            return True
        return False

    def _estimate(self, text: str) -> AppUsage:
        asked = self.provider.tokens(self.request)
        return AppUsage(input_tokens=asked, output_tokens=estimate_tokens(text), models=(), estimated=True)


class CallAttempt:
    """Sees to it that an attempt's error is charged, and that the gate hears exactly once how it has ended."""

    def __init__(self, call: UpstreamCall) -> None:
        self._call = call

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DashScopeError):
            self._call.charge(error)
        await self._call.tell(error)
