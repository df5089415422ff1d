"""``GET /api/v1/sessions``: all sessions, filtered and sorted, and what they can be filtered by."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from agenttrace.serve.api.answers import Cursor, Limit, answer, shaped, unchanged
from agenttrace.serve.api.filters import micros_of
from agenttrace.serve.api.sessions.selection import Order, Sort, Sorted, facets
from agenttrace.serve.api.sessions.session_index import SessionIndex
from agenttrace.serve.api.shapes import SessionFacets, SessionList, State
from agenttrace.serve.problems import documented
from agenttrace.store.questions import SessionFilter
from agenttrace.views.times import MICROS, iso

if TYPE_CHECKING:
    from agenttrace.serve.context import Context


def sessions_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    index = context.index

    @router.get(
        "/sessions",
        summary="Sessions, newest first or in another order",
        response_class=Response,
        responses=shaped(SessionList) | documented(400, 422),
    )
    async def list_sessions(
        request: Request,
        agent: Annotated[list[str], Query(description="Only of these agents.")] = [],  # noqa: B006 - never changed
        project: Annotated[list[str], Query(description="Only in these directories; empty: in none.")] = [],  # noqa: B006
        state: Annotated[list[State], Query(description="Only in these states.")] = [],  # noqa: B006
        model: Annotated[list[str], Query(description="Only where one of these models was used.")] = [],  # noqa: B006
        q: Annotated[str, Query(max_length=500, description="Title, id or project contains this.")] = "",
        since: Annotated[str | None, Query(description="Active then or later: `7d`, `2026-11-01`, ISO.")] = None,
        until: Annotated[str | None, Query(description="Begun before: `7d`, `2026-11-01`, ISO.")] = None,
        min_cost: Annotated[
            float | None,
            Query(ge=0, description="Cost at least this, in the currency it is in, the largest of several."),
        ] = None,
        errors: Annotated[bool | None, Query(description="With errors, or without any.")] = None,
        sort: Annotated[Sort, Query(description="Sessions without a value come last.")] = "last",
        order: Annotated[Order, Query()] = "desc",
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        wanted = SessionFilter(
            agents=frozenset(agent),
            projects=frozenset(project),
            states=frozenset(state),
            models=frozenset(model),
            text=q,
            since=micros_of(since, context.settings),
            until=micros_of(until, context.settings),
            errors=errors,
        )
        await index.refresh()
        tag = _tag(index, request.url.query, wanted)
        known = unchanged(request, tag)
        if known is not None:
            return known
        found = Sorted(index.entries(), wanted, sort, order, min_cost)
        rows, following = found.page(cursor, limit)
        period = (iso(wanted.since), iso(wanted.until))
        return answer(request, SessionList(rows, following, len(found.rows), index.cursor, *period), tag=tag)

    @router.get(
        "/sessions/facets",
        summary="What sessions can be filtered by",
        response_class=Response,
        responses=shaped(SessionFacets),
    )
    async def list_facets(request: Request) -> Response:
        await index.refresh()
        tag = _tag(index, "facets")
        return unchanged(request, tag) or answer(request, facets(index.rows()), tag=tag)

    return router


def _tag(index: SessionIndex, query: str, wanted: SessionFilter | None = None) -> str:
    """Names what the index knows and what it is asked; ``7d`` is another question with every minute."""
    minutes = [] if wanted is None else [(at or 0) // (60 * MICROS) for at in (wanted.since, wanted.until)]
    asked = f"{index.epoch} {index.revision} {index.cursor} {minutes} {query}"
    return hashlib.blake2b(asked.encode(), digest_size=9).hexdigest()
