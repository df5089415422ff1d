"""The other side of the demo's exports and rules: a server of this machine that accepts all but one span.

A collector takes spans as OTLP, and a webhook takes the messages of rules. Nothing leaves the machine.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_PROTOBUF = "application/x-protobuf"
_REFUSED = "span {span}: the demo's collector refuses one span, to show what a refusal looks like"


class DemoCollector:
    """Listens at once, so that its address is known; answers while :meth:`running`."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        #: The span that is refused: the first tool call.
        self._refused: bytes | None = None
        self.spans = 0
        self.messages = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests until the block is left."""
        from aiohttp import web

        app = web.Application(client_max_size=64 << 20)
        app.add_routes([web.post("/v1/traces", self._traces), web.post("/hook", self._hook)])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.SockSite(runner, self._socket).start()
            yield
        finally:
            await runner.cleanup()

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    async def _traces(self, request: web.Request) -> web.Response:
        from aiohttp import web
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp

        sent = otlp.ExportTraceServiceRequest.FromString(await request.read())
        spans = [span for each in sent.resource_spans for scope in each.scope_spans for span in scope.spans]
        if self._refuses(spans):
            return web.Response(status=400, text=_REFUSED.format(span=(self._refused or b"").hex()))
        self.spans += len(spans)
        answer = otlp.ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type=_PROTOBUF)

    def _refuses(self, spans: list[Span]) -> bool:
        if self._refused is None:
            tools = (span.span_id for span in spans if span.name.startswith("execute_tool"))
            self._refused = next(tools, None)
        return any(span.span_id == self._refused for span in spans)

    async def _hook(self, request: web.Request) -> web.Response:
        from aiohttp import web

        await request.read()
        self.messages += 1
        return web.json_response({"ok": True})
