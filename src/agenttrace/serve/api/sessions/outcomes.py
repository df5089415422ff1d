"""``GET /api/v1/sessions/{session}/outcomes`` and ``…/changes``: what came of a session, and its edits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from agenttrace.record.outcomes import session_facts
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.sessions.downloads import attachment
from agenttrace.serve.api.sessions.lookup import SessionName, query_session
from agenttrace.serve.problems import documented
from agenttrace.views.changes import MOST_READ, SessionChanges, changes_of, patch_of
from agenttrace.views.outcomes import SessionOutcomes, outcomes_of

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

FilePath = Annotated[str | None, Query(max_length=4_000, description="Only this file, as its ``path`` is named.")]
_PATCH: dict[int | str, dict[str, Any]] = {200: {"description": "The patch.", "content": {"text/plain": {}}}}


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

    @router.get(
        "/sessions/{session}/changes", **endpoint("Every file that a session changed", SessionChanges, 404, 409, 422)
    )
    async def changes(request: Request, session: SessionName, path: FilePath = None) -> Response:
        def question(store: Store, found: Session) -> Response:
            facts = session_facts(store, found, diff_characters=MOST_READ)
            return answer(request, changes_of(found, facts, path=path))

        return await query_session(context.reader, session, question)

    @router.get(
        "/sessions/{session}/changes.patch",
        summary="The edits of a session as a patch",
        description="In their order; edits whose diff the log does not have are named in comments.",
        response_class=Response,
        responses=_PATCH | documented(404, 409, 422),
    )
    async def patch(session: SessionName, path: FilePath = None) -> Response:
        def question(store: Store, found: Session) -> bytes:
            facts = session_facts(store, found, diff_characters=MOST_READ)
            return "".join(patch_of(changes_of(found, facts, path=path, characters=MOST_READ))).encode(
                "utf-8", "replace"
            )

        body = await query_session(context.reader, session, question)
        return Response(body, headers=attachment("changes.patch"), media_type="text/plain")

    return router
