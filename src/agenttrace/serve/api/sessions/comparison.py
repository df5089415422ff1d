"""``GET /api/v1/compare``: two sessions side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.sessions.lookup import query_session, session_named
from agenttrace.serve.api.sessions.session_cache import SessionCache
from agenttrace.views.comparison import Comparison, read_side, side_by_side

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

Name = Annotated[str, Query(min_length=1, max_length=500, description="A session's key, id, or beginning of its id.")]


def comparison_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    sides = SessionCache(
        lambda store, session: read_side(store, context.index.prices, session), depend=lambda: context.index.prices
    )

    @router.get("/compare", **endpoint("Two sessions side by side", Comparison, 404, 409, 422))
    async def compared(request: Request, a: Name, b: Name) -> Response:
        def question(store: Store, one: Session) -> Response:
            other = session_named(store, b)
            return answer(request, side_by_side(sides.get(store, one), sides.get(store, other)))

        return await query_session(context.reader, a, question)

    return router
