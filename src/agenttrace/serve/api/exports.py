"""``/api/v1/exports``: where spans are sent, and how far that is. Nothing is sent anywhere yet: there are none."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from agenttrace.serve.api.answers import answer, shaped
from agenttrace.serve.api.shapes import Exports
from agenttrace.serve.context import Context
from agenttrace.serve.problems import documented


def exports(_: Context) -> Exports:
    """All destinations."""
    return Exports(destinations=[])


def exports_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["exports"])

    @router.get("/exports", summary="Where spans are sent", responses=shaped(Exports) | documented(401))
    async def show_exports(request: Request) -> Response:
        return answer(request, exports(context))

    return router
