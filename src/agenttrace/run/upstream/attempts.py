"""The attempts of one call to an application: when to retry, what they cost, and how the gate is notified."""

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
    """Is asked before and notified after each attempt; the first one was admitted before the client was called.

    It is notified of each attempt exactly once, also when the attempt is cancelled.
    """

    async def before_retry(self, app_id: str, billed: int = 0) -> None:
        """May the application be called again, after an attempt that took so many tokens?

        Raises CircuitOpenError, BudgetExceededError or CallClosedError if not.
        """

    def succeeded(self, app_id: str) -> Coroutine[Any, Any, None] | None:
        """The application has answered; None: there is nothing to write."""

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
    """Notifies gates of how attempts ended, also for callers that are cancelled meanwhile."""

    def __init__(self) -> None:
        self._notifications: set[asyncio.Task[None]] = set()

    async def notify(self, notification: Coroutine[Any, Any, None]) -> None:
        """Wait until the gate is notified; cancelling the wait does not stop the notification."""
        task = asyncio.create_task(notification)
        self._notifications.add(task)
        task.add_done_callback(self._done)
        await asyncio.wait((task,))

    async def drain(self) -> None:
        """Wait for all notifications."""
        while self._notifications:
            await asyncio.wait(self._notifications)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._notifications.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # An answer that was paid for is worth more than the gate's book-keeping.
            _logger.warning("a gate could not be notified of the end of a call", exc_info=error)


class UpstreamCall:
    """One call over all its attempts: their number, their time, their cost."""

    def __init__(
        self,
        app_id: str,
        request: Request,
        *,
        provider: Provider,
        policy: RetryPolicy,
        gate: AttemptGate | None,
        notifier: GateNotifier,
    ) -> None:
        self.app_id = app_id
        self.request = request
        self.provider = provider
        #: How often the application was called.
        self.attempts = 0
        self._burnt = 0
        self._policy = policy
        self._gate = gate
        self._notifier = notifier
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
        """Add attempts and tokens of the call to the error, and remove its secrets."""
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

    async def notify(self, error: BaseException | None) -> None:
        """Notify the gate of how an attempt ended."""
        if self._gate is None:
            return
        if error is None:
            notification = self._gate.succeeded(self.app_id)
            if notification is not None:
                await self._notifier.notify(notification)
        elif isinstance(error, DashScopeError) and counts_as_failure(error):
            await self._notifier.notify(self._gate.failed(self.app_id, error))
        else:
            await self._notifier.notify(self._gate.abandoned(self.app_id))

    async def _admitted(self, failure: DashScopeError) -> bool:
        if self._gate is None:
            return True
        try:
            await self._gate.before_retry(self.app_id, failure.tokens_used - self._burnt)
        except (CircuitOpenError, BudgetExceededError, CallClosedError) as refusal:
            failure.add_note(f"not tried again: {refusal}")
        except Exception:
            # The error of the application is worth more to the caller than that of its gate.
            _logger.warning("a gate could not be asked", exc_info=True)
            failure.add_note("not tried again: the gate could not be asked")
        else:
            return True
        return False

    def _estimate(self, text: str) -> AppUsage:
        asked = self.provider.tokens(self.request)
        return AppUsage(input_tokens=asked, output_tokens=estimate_tokens(text), models=(), estimated=True)


class CallAttempt:
    """Charges the error of an attempt, and notifies the gate exactly once."""

    def __init__(self, call: UpstreamCall) -> None:
        self._call = call

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DashScopeError):
            self._call.charge(error)
        await self._call.notify(error)
