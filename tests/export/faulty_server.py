"""A real HTTP server that answers, or fails as a test orders."""

from __future__ import annotations

import asyncio
import gzip
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Literal, NamedTuple, Self

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Fault(NamedTuple):
    """What happens to one request instead of the usual."""

    #: Answer so; never answer; hang up without an answer; hang up in the middle of it; answer in many pieces.
    kind: Literal["reply", "hang", "close", "cut", "pieces"] = "reply"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    #: Whether the server does its work all the same, so that only the answer is lost.
    handled: bool = False


class Received(NamedTuple):
    """A request as it came over the wire."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> bytes:
        """The body, decompressed where it was compressed."""
        return gzip.decompress(self.raw) if self.headers.get("content-encoding") == "gzip" else self.raw


class FaultyServer:
    """Listens on 127.0.0.1 while its context lasts; ``faults`` are used up one a request."""

    def __init__(self) -> None:
        self.faults: deque[Fault] = deque()
        self.received: list[Received] = []
        self.url = ""
        self._released = asyncio.Event()
        self._app = web.Application(client_max_size=1 << 30, middlewares=[self._middleware])
        self._app.router.add_route("*", "/{path:.*}", self.handle)
        # Bodies are looked at as they came.
        self._runner = web.AppRunner(self._app, auto_decompress=False, shutdown_timeout=0)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The server's work."""
        return web.Response()

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        await self._runner.cleanup()

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        raw = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(request.method, request.path, dict(request.query), headers, raw))
        if not self.faults:
            return await handler(request)
        fault = self.faults.popleft()
        if fault.handled:
            await handler(request)
        return await self._misbehave(request, fault)

    async def _misbehave(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.kind == "hang":
            await self._released.wait()
        if fault.kind in ("hang", "close"):
            _hang_up(request)
            return web.Response()
        if fault.kind == "reply":
            return web.Response(status=fault.status, headers=dict(fault.headers), body=fault.body)
        response = web.StreamResponse(status=fault.status, headers=dict(fault.headers))
        if fault.kind == "cut":
            response.content_length = len(fault.body) + 1_000
        await response.prepare(request)
        for start in range(0, len(fault.body), 10_000):
            await response.write(fault.body[start : start + 10_000])
            await asyncio.sleep(0)
        if fault.kind == "cut":
            _hang_up(request)
        return response


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
