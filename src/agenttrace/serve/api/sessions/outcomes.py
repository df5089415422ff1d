"""``GET /api/v1/sessions/{session}/outcomes``: files, commits, pull requests and tests of a session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from agenttrace.record.outcomes import session_facts
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.sessions.lookup import SessionName, query_session
from agenttrace.views.outcomes import SessionOutcomes, outcomes_of

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext


def outcomes_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])

    @router.get("/sessions/{session}/outcomes", **endpoint("What came of a session", SessionOutcomes, 404, 409, 422))
    async def one(request: Request, session: SessionName) -> Response:
        found, facts = await query_session(
            context.reader, session, lambda store, each: (each, session_facts(store, each))
        )
        # Git is asked when the store is free again for other questions.
        outcomes = await asyncio.to_thread(outcomes_of, found, facts)
        return answer(request, outcomes)

    return router
