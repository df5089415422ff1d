"""``/api/v1/limits``: budgets for agents, and the windows of the providers' own limits."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from agenttrace.serve.api.answers import Cached, answer, endpoint
from agenttrace.serve.api.shapes.limits import AgentLimits
from agenttrace.serve.context import ServerContext
from agenttrace.views.limits import limits_fields

#: An answer is cached for this long; the page asks again when something was recorded.
_SECONDS = 1.0


def limits_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["usage"])
    limits = Cached(lambda: _limits(context), _SECONDS)

    @router.get("/limits", **endpoint("Budgets and limits of agents", AgentLimits, 401))
    async def show_limits(request: Request) -> Response:
        return answer(request, await limits.get())

    return router


async def _limits(context: ServerContext) -> AgentLimits:
    settings, prices = context.settings, context.index.prices
    found = await context.reader.query(
        lambda store: limits_fields(store, settings, prices), empty=lambda: limits_fields(None, settings, prices)
    )
    return msgspec.convert(found, AgentLimits)
