"""``/api/v1/team``: the persons and machines of a team, and who works on what now."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from agenttrace.serve.api.answers import Cached, answer, endpoint
from agenttrace.serve.context import ServerContext
from agenttrace.views.team import Team, team

#: An answer is cached for this long; the page asks again when something was recorded.
_SECONDS = 1.0


def team_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["overview"])
    found = Cached(lambda: _team(context), _SECONDS)

    @router.get("/team", **endpoint("Persons, machines, and who works on what now", Team, 401))
    async def show_team(request: Request) -> Response:
        return answer(request, await found.get())

    return router


async def _team(context: ServerContext) -> Team:
    prices, name = context.index.prices, context.team
    return await context.reader.query(lambda store: team(store, prices, name), empty=lambda: team(None, prices, name))
