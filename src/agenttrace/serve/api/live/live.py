"""``GET /api/v1/live``: what changes in the store as server-sent events, resumed after a break without a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from agenttrace.serve.api.live.hub import Hub, Subscriber
from agenttrace.serve.api.sessions.rows import number_of
from agenttrace.serve.event_stream import MEDIA_TYPE, EventStream
from agenttrace.serve.problems import ProblemError, documented

if TYPE_CHECKING:
    from agenttrace.serve.context import Context

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
        "`timeline` (Timeline, `complete` false) with changed spans of the session that was asked for, `texts` "
        "(LiveTexts) with what is said in them where they are few, and `reset` "
        "(LiveReset) where too much has happened to be told. An `id` is where to go on after a break, by the header "
        "Last-Event-ID or by `after`.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE_STREAM}},
    }
}


class LiveResponse(EventStream):
    """The stream of one subscriber, from joining to leaving."""

    def __init__(self, hub: Hub, session: str | None, after: str | None, heartbeat: float) -> None:
        super().__init__(heartbeat)
        self._hub, self._session, self._after = hub, session, after
        self._subscriber: Subscriber | None = None

    async def begin(self) -> None:
        """From here on the hub keeps what happens."""
        self._subscriber = await self._hub.join(self._session, self._after)

    async def take(self) -> bytes:
        """What the hub has for this subscriber."""
        assert self._subscriber is not None
        return await self._subscriber.take()

    def over(self) -> None:
        """The hub knows nothing of it any more."""
        if self._subscriber is not None:
            self._hub.leave(self._subscriber)


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
