"""``GET /api/v1/sessions/{session}/requests``: what each model call was sent, and where the prompt cache broke."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from agenttrace.serve.api.answers import endpoint, tag_of, tagged
from agenttrace.serve.api.lists import Cursor, place_of, to_cursor
from agenttrace.serve.api.sessions.lookup import SessionName, query_session
from agenttrace.serve.api.shapes.spans import RequestList
from agenttrace.views.requests import Requests

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

#: Sessions whose requests are cached: reading them takes a pass over all lines, and a page asks more than once.
_CACHED = 4

Limit = Annotated[int, Query(ge=1, le=2000, description="How many calls at most.")]


def requests_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    cache = _Cache()

    @router.get(
        "/sessions/{session}/requests",
        **endpoint("The model calls of a session, and what each was sent", RequestList, 400, 404, 409, 422),
    )
    async def requests(request: Request, session: SessionName, limit: Limit = 500, cursor: Cursor = None) -> Response:
        start = place_of(cursor) or 0

        def question(store: Store, found: Session) -> Response:
            body = msgspec.json.encode(_page(cache.get(store, found), start, limit))
            return tagged(request, body, tag_of(body), "application/json")

        return await query_session(context.reader, session, question)

    return router


def _page(found: Requests, start: int, limit: int) -> RequestList:
    end = start + limit
    following = to_cursor(end) if end < len(found.calls) else None
    return RequestList(**msgspec.structs.asdict(found.page(start, limit)), next=following)


class _Cache:
    """The requests of the sessions that were asked for last."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Requests]] = {}
        self._lock = threading.Lock()

    def get(self, store: Store, session: Session) -> Requests:
        """The requests of a session as of now; read again when it has changed."""
        version = (session.events, store.spans_revision(session.id), store.figures_revision(session.id))
        with self._lock:
            known = self._known.get(session.id)
        if known is not None and known[0] == version:
            return known[1]
        found = Requests.of(store, session)
        with self._lock:
            self._known.pop(session.id, None)
            self._known[session.id] = (version, found)
            if len(self._known) > _CACHED:
                del self._known[next(iter(self._known))]
        return found
