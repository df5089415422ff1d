"""``/api/v1/insights``: tools and models over many sessions, the calls behind their figures, and what stands out."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from agenttrace.serve.api.answers import Cached, answer, endpoint
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.views.findings import Findings, findings
from agenttrace.views.insights import (
    KINDS,
    NO_CALLS,
    NO_MODELS,
    NO_TOOLS,
    FindingKind,
    InsightCalls,
    InsightPeriod,
    ModelInsights,
    ModelSort,
    ModelSplit,
    ToolInsights,
    ToolSort,
    ToolSplit,
    insight_calls,
    model_insights,
    tool_insights,
)

_PERIOD = "`7d`, `24h`, `2026-11-01` or an ISO time; whole days count."
#: While agents work, answers are cached for this long, or ten times as long as they took; so many questions.
_SECONDS, _MOST_ANSWERS = 5.0, 64
_MOST = 1000

Order = Literal["desc", "asc"]


class InsightFilters(BaseModel):
    """Which sessions and days."""

    since: str | None = Field(None, max_length=100, description=f"From that day on: {_PERIOD}")
    until: str | None = Field(None, max_length=100, description=f"Before that: {_PERIOD}")
    agent: list[str] = Field([], max_length=500, description="Only of these agents.")
    project: list[str] = Field([], max_length=500, description="Only in these directories; empty: in none.")
    model: list[str] = Field([], max_length=500, description="Only of these models, or tools that they called.")
    machine: list[str] = Field([], max_length=500, description="Only recorded on these machines; empty: on none.")
    person: list[str] = Field([], max_length=500, description="Only of these persons; empty: of none.")

    def period(self, timezone: str) -> InsightPeriod:
        """The days and filters; 400 for a time that is none."""
        try:
            return InsightPeriod.of(
                self.since,
                self.until,
                timezone,
                agents=frozenset(self.agent),
                projects=frozenset(self.project),
                models=frozenset(self.model),
                machines=frozenset(self.machine),
                persons=frozenset(self.person),
            )
        except ValueError as error:
            raise ProblemError(400, str(error)) from None


class ToolFilters(InsightFilters):
    """Which tools, and in which order."""

    by: ToolSplit | None = Field(None, description="What the figures of each tool are divided by.")
    sort: ToolSort = Field("calls", description="Tools without the figure come last.")
    order: Order = Field("desc", description="`name`: `desc` is A to Z.")
    limit: int = Field(200, ge=1, le=_MOST, description="How many at most.")


class ModelFilters(InsightFilters):
    """Which models, and in which order."""

    by: ModelSplit | None = Field(None, description="What the figures of each model are divided by.")
    sort: ModelSort = Field("calls", description="Models without the figure come last.")
    order: Order = Field("desc", description="`name`: `desc` is A to Z.")
    limit: int = Field(200, ge=1, le=_MOST, description="How many at most.")


class CallFilters(InsightFilters):
    """Which calls."""

    tool: str | None = Field(None, max_length=500, description="Of this tool; without it, the calls of `model`.")
    limit: int = Field(10, ge=1, le=100, description="How many of each at most.")


class FindingFilters(InsightFilters):
    """Which findings."""

    kind: list[FindingKind] = Field([], description="Only of these kinds; without any: all.")
    limit: int = Field(10, ge=1, le=100, description="How many of each kind at most.")


class RecentAnswers:
    """Answers to the latest questions, so that a page that is opened again, or twice, costs nothing.

    They are valid until something is recorded.
    """

    def __init__(self, version: Callable[[], Awaitable[object]]) -> None:
        self._version = version
        self._known: OrderedDict[object, Cached[Any]] = OrderedDict()

    async def get(self, question: object, make: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - any answer
        """The answer to a question; made where there is none, or an old one."""
        known = self._known.get(question)
        if known is None:
            known = self._known[question] = Cached(make, _SECONDS, version=self._version)
        self._known.move_to_end(question)
        while len(self._known) > _MOST_ANSWERS:
            self._known.popitem(last=False)
        return await known.get()


def insights_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1/insights", tags=["insights"])
    reader, timezone = context.reader, context.settings.usage.timezone
    recent = RecentAnswers(context.index.version)

    @router.get("/tools", **endpoint("Tools: calls, failures, durations", ToolInsights, 400, 401, 422))
    async def show_tools(request: Request, filters: Annotated[ToolFilters, Query()]) -> Response:
        query = filters.period(timezone).query(timezone)

        async def make() -> ToolInsights:
            return await reader.query(lambda store: tool_insights(store, query, by=filters.by), empty=lambda: NO_TOOLS)

        found = await recent.get(("tools", query, filters.by), make)
        return answer(request, found.ordered(filters.sort, ascending=filters.order == "asc", limit=filters.limit))

    @router.get("/models", **endpoint("Models: latency, speed, cache, cost", ModelInsights, 400, 401, 422))
    async def show_models(request: Request, filters: Annotated[ModelFilters, Query()]) -> Response:
        period = filters.period(timezone)

        async def make() -> ModelInsights:
            prices = context.index.prices
            return await reader.query(
                lambda store: model_insights(store, prices, period, by=filters.by), empty=lambda: NO_MODELS
            )

        found = await recent.get(("models", period, filters.by), make)
        return answer(request, found.ordered(filters.sort, ascending=filters.order == "asc", limit=filters.limit))

    @router.get("/calls", **endpoint("The calls behind the figures of a tool or model", InsightCalls, 400, 401, 422))
    async def show_calls(request: Request, filters: Annotated[CallFilters, Query()]) -> Response:
        query = filters.period(timezone).query(timezone)
        if filters.tool is None and not filters.model:
            raise ProblemError(400, "Give a tool, or a model.")

        async def make() -> InsightCalls:
            return await reader.query(
                lambda store: insight_calls(store, query, filters.tool, filters.limit), empty=lambda: NO_CALLS
            )

        return answer(request, await recent.get(("calls", query, filters.tool, filters.limit), make))

    @router.get("/findings", **endpoint("What stands out, computed without a model", Findings, 400, 401, 422))
    async def show_findings(request: Request, filters: Annotated[FindingFilters, Query()]) -> Response:
        period, limit = filters.period(timezone), filters.limit

        def of(kind: FindingKind) -> Awaitable[Findings]:
            prices = context.index.prices
            return recent.get(
                ("findings", period, kind, limit),
                lambda: reader.query(
                    lambda store: findings(store, prices, reader.texts, period, kinds=[kind], limit=limit),
                    empty=lambda: Findings(items=[]),
                ),
            )

        # Several threads answer, one kind each.
        found = await asyncio.gather(*(of(kind) for kind in KINDS if kind in filters.kind or not filters.kind))
        return answer(request, Findings(items=[each for part in found for each in part.items]))

    return router
