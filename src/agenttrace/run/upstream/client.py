"""The client: LLM applications called over one connection pool, with retries, a deadline and streams.

It speaks the wire formats of providers itself, on aiohttp: DashScope's official SDK is synchronous or, in its
asynchronous form, loses text (see ``dashscope``), and costs about eight times the CPU. Nothing is resent without a
retry that the caller can see, and all billed tokens are counted, also by the errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self, TypedDict, Unpack

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from agenttrace.run.errors import DashScopeApiError, DashScopeError, DashScopeJsonParseError, DashScopeTimeoutError
from agenttrace.run.upstream.attempts import (
    AttemptGate,
    CallAttempt,
    GateNotifier,
    RetryPolicy,
    UpstreamCall,
    counts_as_failure,
)
from agenttrace.run.upstream.dashscope import DEFAULT_BASE_URL, DashScope
from agenttrace.run.upstream.providers import Providers
from agenttrace.run.upstream.sse import FrameSplitter
from agenttrace.run.upstream.wire import (
    MAX_BYTES,
    AppAnswer,
    AppUsage,
    ProviderReply,
    Request,
    RequestOptions,
    estimate_tokens,
    parse_json_object,
    parse_retry_after,
)

__all__ = ["DEFAULT_BASE_URL", "AppStream", "AttemptGate", "DashScopeClient", "UpstreamClient", "counts_as_failure"]

CONNECT_TIMEOUT = 5.0
#: The error of an attempt that sent nothing: the application cannot be reached, or this process was frozen.
NOT_CONNECTED = "no connection in time"
#: How long the end of a stream is waited for once its answer is complete, so that the connection can be used again.
LINGER = 1.0
#: How long the usage is waited for that some providers send after the end of the text.
USAGE_WAIT = 5.0
_TRANSPORT_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError)


class ClientOptions(TypedDict, total=False):
    """How any client calls."""

    deadline: float
    stream_deadline: float
    read_timeout: float
    connections: int
    sleep: Callable[[float], Awaitable[None]]
    clock: Callable[[], float]


class UpstreamClient:
    """Calls the applications of any providers. One client, and so one connection pool, is enough for a process."""

    MAX_RETRIES = 3
    BASE_INTERVAL = 1

    def __init__(
        self,
        providers: Providers,
        *,
        deadline: float = 120.0,
        stream_deadline: float = 300.0,
        read_timeout: float = 60.0,
        connections: int = 256,
        retries: int = MAX_RETRIES,
        interval: float = BASE_INTERVAL,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        #: The provider of an application; raises AppNotConfiguredError where there is none.
        self.provider_of = providers
        self._read_timeout = read_timeout
        self._connections = connections
        self._policy = RetryPolicy(retries=retries, interval=interval, deadline=deadline, sleep=sleep, clock=clock)
        self._stream_policy = replace(self._policy, deadline=stream_deadline)
        self._notifier = GateNotifier()
        self._session: aiohttp.ClientSession | None = None

    async def complete(
        self,
        app_id: str,
        prompt: str,
        *,
        parse: bool = True,
        gate: AttemptGate | None = None,
        **options: Unpack[RequestOptions],
    ) -> tuple[AppAnswer, dict[str, Any] | None]:
        """One whole answer with everything known about it and, unless ``parse`` is false, the object that it is."""
        call = self._call(app_id, Request(prompt=prompt, **options), self._policy, gate)
        while True:
            try:
                async with CallAttempt(call):
                    answer = call.answer(await self._ask(call))
                    return answer, _parsed(answer) if parse else None
            except DashScopeError as error:
                failure = error
            await call.wait_after(failure)

    def stream(
        self, app_id: str, prompt: str, *, gate: AttemptGate | None = None, **options: Unpack[RequestOptions]
    ) -> AppStream:
        """An answer as it arrives; to be used with ``async with``, so that the connection is closed when it is left."""
        return AppStream(self, self._call(app_id, Request(prompt=prompt, **options), self._stream_policy, gate))

    async def aclose(self) -> None:
        """Close the connections, after all gates are notified."""
        await self._notifier.drain()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _call(self, app_id: str, request: Request, policy: RetryPolicy, gate: AttemptGate | None) -> UpstreamCall:
        provider = self.provider_of(app_id)
        return UpstreamCall(app_id, request, provider=provider, policy=policy, gate=gate, notifier=self._notifier)

    async def _ask(self, call: UpstreamCall) -> ProviderReply:
        try:
            async with await self._post(call, stream=False) as response:
                body = await _read_body(response)
        except _TRANSPORT_ERRORS as error:
            raise _no_answer(error) from None
        return call.provider.read_reply(body, status=response.status, retry_after=_retry_after(response))

    async def _post(self, call: UpstreamCall, *, stream: bool) -> aiohttp.ClientResponse:
        body = call.provider.encode(call.request, stream=stream)
        headers = call.provider.headers(stream=stream)
        timeout = aiohttp.ClientTimeout(
            # The total covers the wait for a free connection too; 0 would mean none at all.
            total=max(call.remaining(), 0.001),
            sock_connect=CONNECT_TIMEOUT,
            sock_read=self._read_timeout,
        )
        call.attempts += 1
        url = call.provider.url(call.app_id)
        return await self._pool().post(url, data=body, headers=headers, timeout=timeout, allow_redirects=False)

    def _pool(self) -> aiohttp.ClientSession:
        # Made at the first call, because it belongs to the loop that is running then.
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=60)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


class DashScopeClient(UpstreamClient):
    """Calls the applications of one DashScope account."""

    def __init__(
        self,
        api_key: str,
        workspace_id: str | None = None,
        *,
        base_url: str = DEFAULT_BASE_URL,
        **options: Unpack[ClientOptions],
    ) -> None:
        provider = DashScope(api_key, workspace_id, base_url)
        super().__init__(lambda _: provider, **options)

    async def call_app(
        self, app_id: str, prompt: str, session_id: str | None = None, biz_params: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], int, str | None]:
        """One round with an application that answers in JSON: the object, the tokens billed, the new session id."""
        answer, value = await self.complete(app_id, prompt, session_id=session_id, biz_params=biz_params)
        return value or {}, answer.tokens_used, answer.session_id

    async def call_app_stream(
        self, app_id: str, prompt: str, session_id: str | None = None, biz_params: dict[str, Any] | None = None
    ) -> AsyncGenerator[str, None]:
        """The text of the answer, as it arrives."""
        async with self.stream(app_id, prompt, session_id=session_id, biz_params=biz_params) as deltas:
            async for delta in deltas:
                yield delta


class AppStream:
    """An answer on its way: an async context manager, and an async iterator of the pieces of its text."""

    def __init__(self, client: UpstreamClient, call: UpstreamCall) -> None:
        self._client = client
        self._call = call
        self._finish_reason = ""
        self._begin()
        self._iterated = False
        self._billable = False
        self._deltas = self._run()
        #: The whole answer, once it is complete.
        self.answer: AppAnswer | None = None

    @property
    def text(self) -> str:
        """What has been received so far, also after an error or a cancellation."""
        return self._reader.text

    def partial(self) -> AppAnswer:
        """The answer as far as it came; when it was cut off, with an estimate of what was billed."""
        if self.answer is not None:
            return self.answer
        known = self._usage or AppUsage(input_tokens=0, output_tokens=0, models=(), estimated=True)
        usage = AppUsage(
            input_tokens=known.input_tokens
            or (self._call.provider.tokens(self._call.request) if self._billable else 0),
            output_tokens=max(known.output_tokens, estimate_tokens(self.text)),
            models=known.models,
            estimated=True,
        )
        return self._call.answer(self._reply(), usage)

    async def aclose(self) -> None:
        """Stop: the connection is closed, so the application stops too."""
        if not self._iterated:
            # The gate has admitted an attempt that will never be made.
            self._iterated = True
            await self._call.notify(GeneratorExit())
        await self._deltas.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        self._iterated = True
        return await anext(self._deltas)

    async def _run(self) -> AsyncGenerator[str, None]:
        while True:
            try:
                async with CallAttempt(self._call), aclosing(self._attempt()) as deltas:
                    async for delta in deltas:
                        yield delta
                return
            except DashScopeError as error:
                failure = error
            if self._reader.started:
                raise failure
            await self._call.wait_after(failure)

    async def _attempt(self) -> AsyncGenerator[str, None]:
        self._begin()
        self._billable = True
        try:
            response = await self._client._post(self._call, stream=True)
            async with response, aclosing(self._replies(response)) as replies:
                async for reply in replies:
                    if delta := self._take(reply):
                        yield delta
            if not self._finish_reason:
                raise DashScopeApiError("the stream ended before the answer was complete", request_id=self._request_id)
        except _TRANSPORT_ERRORS as error:
            raise self._billed(_no_answer(error)) from None
        except DashScopeError as error:
            self._billed(error)
            raise
        self.answer = self._call.answer(self._reply(), self._usage)

    async def _replies(self, response: aiohttp.ClientResponse) -> AsyncGenerator[ProviderReply, None]:
        provider = self._call.provider
        if response.status != 200 or response.content_type != "text/event-stream":
            body = await _read_body(response)
            yield provider.read_reply(body, status=response.status, retry_after=_retry_after(response))
            self._finish_reason = self._finish_reason or "stop"
            return
        splitter = FrameSplitter()
        while chunk := await self._read(response):
            for frame in splitter.feed(chunk):
                yield provider.read_frame(frame)
        for frame in splitter.close():
            yield provider.read_frame(frame)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            if not self._finish_reason:
                return await response.content.readany()
            async with asyncio.timeout(LINGER if self._is_complete else USAGE_WAIT):
                return await response.content.readany()
        except _TRANSPORT_ERRORS:
            if not self._finish_reason:
                raise
            return b""

    def _begin(self) -> None:
        self._reader = self._call.provider.deltas(self._call.request)
        self._finish_reason = ""
        self._is_complete = False
        self._session_id: str | None = None
        self._request_id = ""
        self._usage: AppUsage | None = None

    def _take(self, reply: ProviderReply) -> str:
        self._finish_reason = reply.finish_reason or self._finish_reason
        self._is_complete = self._is_complete or reply.is_last
        self._session_id = reply.session_id or self._session_id
        self._request_id = reply.request_id or self._request_id
        self._usage = reply.usage or self._usage
        return self._reader.feed(reply)

    def _billed(self, error: DashScopeError) -> DashScopeError:
        if self._reader.started or self._usage is not None:
            error.tokens_used = self.partial().usage.total
        else:
            self._billable = False
        return error

    def _reply(self) -> ProviderReply:
        return ProviderReply(
            text=self.text,
            finish_reason=self._finish_reason,
            session_id=self._session_id,
            request_id=self._request_id,
            usage=self._usage,
        )


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await response.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise DashScopeApiError(f"the answer is larger than {MAX_BYTES} bytes", response.status)
    return b"".join(chunks)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    return parse_retry_after(response.headers.get("Retry-After"))


def _no_answer(error: BaseException) -> DashScopeApiError:
    # Only the kind of error: its text may hold more than should be seen.
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return DashScopeTimeoutError(NOT_CONNECTED)
    if isinstance(error, TimeoutError):
        return DashScopeTimeoutError("no answer in time")
    return DashScopeApiError(f"the connection failed ({type(error).__name__})")


def _parsed(answer: AppAnswer) -> dict[str, Any]:
    try:
        return parse_json_object(answer.text)
    except DashScopeJsonParseError as error:
        error.tokens_used = answer.usage.total
        raise
