"""``GET /api/v1/live``: what changes in the store as server-sent events, resumed after a break without a gap."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.types import Receive, Scope, Send

from agenttrace.serve.api.hub import Hub, Listener
from agenttrace.serve.api.rows import number_of
from agenttrace.serve.problems import ProblemError, documented

if TYPE_CHECKING:
    from agenttrace.serve.context import Context

__all__ = ["Hub", "LiveResponse", "live_router"]

#: A reader that takes nothing for this long is taken to be gone.
SEND_SECONDS = 30.0
_PING = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_STREAM = "text/event-stream"

_EXAMPLE_STREAM = """id: 4711-5f3a9c02
event: hello
data: {"cursor":4711,"version":"0.1.0"}

id: 4713-5f3a9c02
event: sessions
data: {"cursor":4713,"rows":[…]}
"""
_DOCS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`hello` (LiveHello), then `sessions` (LiveSessions) with the sessions that have changed, "
        "`timeline` (Timeline, `complete` false) with changed spans of the session that was asked for, and `reset` "
        "(LiveReset) where too much has happened to be told. An `id` is where to go on after a break, by the header "
        "Last-Event-ID or by `after`.",
        "content": {_STREAM: {"schema": {"type": "string"}, "example": _EXAMPLE_STREAM}},
    }
}


class LiveResponse(Response):
    """The stream of one listener, from joining to leaving."""

    media_type = _STREAM

    def __init__(self, hub: Hub, session: str | None, after: str | None, heartbeat: float) -> None:
        self._hub, self._session, self._after, self._heartbeat = hub, session, after, heartbeat
        self._gone = False
        self.status_code, self.background, self.body = 200, None, b""
        self.init_headers(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the hub ends it or nobody listens; then the hub knows nothing of it any more."""
        streaming = asyncio.current_task()
        assert streaming is not None
        watching = asyncio.create_task(self._until_gone(receive, streaming))
        listener: Listener | None = None
        try:
            listener = await self._hub.join(self._session, self._after)
            await self._stream(listener, send)
        except asyncio.CancelledError:
            if not self._gone or streaming.uncancel():
                raise
        except TimeoutError:
            # A reader that takes nothing is as good as gone.
            pass
        finally:
            watching.cancel()
            if listener is not None:
                self._hub.leave(listener)

    async def _stream(self, listener: Listener, send: Send) -> None:
        headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while (text := await self._next(listener)) != b"":
            async with asyncio.timeout(SEND_SECONDS):
                await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, listener: Listener) -> bytes:
        try:
            async with asyncio.timeout(self._heartbeat):
                return await listener.take()
        except TimeoutError:
            return _PING

    async def _until_gone(self, receive: Receive, streaming: asyncio.Task[None]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        streaming.cancel()


def live_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["live"])
    heartbeat = float(context.settings.serve.heartbeat_seconds)

    @router.get(
        "/live",
        summary="Hear what changes, as it changes",
        response_class=Response,
        responses=_DOCS | documented(400, 503),
    )
    async def live(
        request: Request,
        session: Annotated[str | None, Query(description="Also the changed spans of the session of this key.")] = None,
        after: Annotated[
            str | None,
            Query(description="The `id` of the last message, or the `cursor` of a list, to go on from."),
        ] = None,
    ) -> Response:
        if session is not None:
            number_of(session)
        if context.life.stopping:
            raise ProblemError(503, "The server is stopping.", headers={"Retry-After": "1"})
        # A browser that connects again by itself repeats the address it began with, and says in the header where it is.
        return LiveResponse(context.hub, session, request.headers.get("last-event-id") or after, heartbeat)

    return router
