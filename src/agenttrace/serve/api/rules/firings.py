"""``/api/v1/rules/firings``: what rules decided, each firing with its actions and attempts, and run it again."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from agenttrace.calendar import day_finder
from agenttrace.prices.costing import Cashier
from agenttrace.rules.switches import retry
from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.lists import BIGGEST, Cursor, Limit, Name, page_of, place_of
from agenttrace.serve.api.rules.rule_files import tables_now
from agenttrace.serve.api.sessions.lookup import session_named
from agenttrace.serve.api.shapes.rules import RuleFiringList, RuleRetry
from agenttrace.serve.api.trace_reader import change_beside
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.rules import FiringState
from agenttrace.views.rules import RuleFiringDetail, firing_detail, firings_of

Number = Annotated[int, Path(ge=1, le=BIGGEST)]
_ERRORS = (400, 401, 404, 409, 422, 503)


def firings_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["rules"])
    day_of = day_finder(context.settings.usage.timezone)

    @router.get(
        "/rules/firings", **endpoint("What rules decided, the latest first", RuleFiringList, 400, 401, 404, 422)
    )
    async def list_firings(
        request: Request,
        rule: Name = None,
        state: Annotated[list[FiringState], Query(description="What became of them; may be given several times.")] = [],  # noqa: B006
        session: Annotated[str | None, Query(max_length=500, description="A session's key or id.")] = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        before = place_of(cursor)

        def read(store: RuleStore) -> RuleFiringList:
            number = None if session is None else session_named(store, session).id
            found = store.rules.firings(rule=rule, states=state, session=number, before=before, limit=limit + 1)
            page, following = page_of(found, limit, lambda each: each.number)
            return RuleFiringList(firings_of(store, page, Cashier.load(context.settings)), following)

        return answer(request, await context.reader.query_rules(read, empty=lambda: RuleFiringList([], None)))

    @router.get(
        "/rules/firings/{number:int}",
        **endpoint("A firing with its actions and attempts", RuleFiringDetail, 401, 404, 422),
    )
    async def show_firing(request: Request, number: Number) -> Response:
        def read(store: RuleStore) -> RuleFiringDetail | None:
            return firing_detail(store, number, Cashier.load(context.settings))

        found = await context.reader.query_rules(read, empty=lambda: None)
        if found is None:
            raise ProblemError(404, f"There is no firing {number}.")
        return answer(request, found)

    @router.post(
        "/rules/firings/{number:int}/retry",
        **endpoint("Run failed actions again, or fire what was skipped or dry", RuleRetry, *_ERRORS, for_admins=True),
    )
    async def retry_firing(request: Request, number: Number) -> Response:
        async with audited(request, "rule.retry", f"firing {number}"):
            tables = await asyncio.to_thread(tables_now, context)

            def change(store: RuleStore) -> RuleRetry:
                if store.rules.firing(number) is None:
                    raise ProblemError(404, f"There is no firing {number}.")
                if not retry(store, tables, [number], day=day_of(time.time_ns() // 1000)):
                    problem = (
                        "Only firings that failed, were skipped or dry can be run again, and each session, turn or "
                        "span once."
                    )
                    raise ProblemError(409, problem)
                return RuleRetry(number, True)

            return answer(request, await change_beside(context.reader.source, change))

    return router
