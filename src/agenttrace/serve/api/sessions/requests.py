"""``GET /api/v1/sessions/{session}/requests``: what each model call was sent, and where the prompt cache broke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from agenttrace.serve.api.answers import endpoint, tag_of, tagged
from agenttrace.serve.api.lists import Cursor, place_of, to_cursor
from agenttrace.serve.api.sessions.lookup import SessionName, query_session
from agenttrace.serve.api.sessions.session_cache import SessionCache
from agenttrace.serve.api.shapes.spans import RequestList
from agenttrace.views.requests import Requests

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

Limit = Annotated[int, Query(ge=1, le=2000, description="How many calls at most.")]


def requests_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    cache = SessionCache(Requests.of)

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
