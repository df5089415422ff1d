"""Insights: figures of tools and models over many sessions. Shared by CLI, API and MCP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import msgspec

from agenttrace.calendar import midnight
from agenttrace.ids import session_key
from agenttrace.prices.costing import Bill, Cashier
from agenttrace.store.insights import InsightQuery
from agenttrace.store.questions import UsageQuery, UsageRow
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso
from agenttrace.views.usage import day_after, first_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttrace.model import Session
    from agenttrace.store.insights import CallOrder, InsightCall, ModelFigures, ToolFigures
    from agenttrace.store.store import Store

T = TypeVar("T")

ToolSort = Literal["calls", "failures", "failure_rate", "p50", "p95", "max", "total", "sessions", "last", "name"]
ModelSort = Literal["cost", "calls", "errors", "p50", "p95", "speed", "cache", "turn_cost", "sessions", "last", "name"]
ToolSplit = Literal["agent", "project", "model", "machine", "person"]
ModelSplit = Literal["agent", "project", "machine", "person"]
#: What findings there are.
FindingKind = Literal["retry_loop", "repeated_failure", "cache_break", "expensive_turn", "long_wait"]
KINDS: tuple[FindingKind, ...] = get_args(FindingKind)


@dataclass(frozen=True, kw_only=True)
class InsightPeriod:
    """Whole days, and filters; the same for spans and for the usage that is counted by day."""

    since_day: str | None = None
    before_day: str | None = None
    agents: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    project_contains: str | None = None
    models: frozenset[str] = frozenset()
    machines: frozenset[str] = frozenset()
    persons: frozenset[str] = frozenset()

    @classmethod
    def of(cls, since: str | None, until: str | None, timezone: str, **filters: Any) -> InsightPeriod:  # noqa: ANN401 - fields
        """The days of two moments; ``ValueError`` for a text that is no time."""
        return cls(
            since_day=None if since is None else first_day(since, timezone),
            before_day=None if until is None else day_after(until, timezone),
            **filters,
        )

    def query(self, timezone: str) -> InsightQuery:
        """The question about calls."""
        return InsightQuery(
            since=None if self.since_day is None else _beginning(self.since_day, timezone),
            until=None if self.before_day is None else _beginning(self.before_day, timezone),
            agents=self.agents,
            projects=self.projects,
            project_contains=self.project_contains,
            models=self.models,
            machines=self.machines,
            persons=self.persons,
        )

    def usage(self, split: ModelSplit | None) -> UsageQuery:
        """The question about the usage of models."""
        return UsageQuery(
            by="model",
            split=split or "total",
            since_day=self.since_day,
            before_day=self.before_day,
            agents=self.agents,
            projects=self.projects,
            project_contains=self.project_contains,
            models=self.models,
            machines=self.machines,
            persons=self.persons,
        )


def _beginning(day: str, timezone: str) -> int:
    """When a day begins; days at the edges of the calendar are before and after all sessions."""
    found = date.fromisoformat(day)
    try:
        return midnight(found, timezone)
    except (OverflowError, OSError, ValueError):
        return -_NEVER if found.year < _EPOCH_YEAR else _NEVER


_EPOCH_YEAR, _NEVER = 1970, 2**62


# -- tools --------------------------------------------------------------------------------------------------------


class ToolInsight(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one tool; durations are null where no log has them."""

    tool: str
    #: The part, where the figures are divided; empty: none.
    part: str | None
    calls: int
    failures: int
    failure_rate: float
    #: Stopped by the user, or refused.
    cancelled: int
    sessions: int
    last_at: str | None
    #: Calls with a known duration; the percentiles are theirs.
    timed: int
    p50_ms: int | None
    p95_ms: int | None
    max_ms: int | None
    total_ms: int | None


class ToolInsights(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that were called."""

    by: ToolSplit | None
    calls: int
    failures: int
    items: list[ToolInsight]
    #: Tools beyond the limit.
    left_out: int

    def ordered(self, sort: ToolSort, *, ascending: bool = False, limit: int | None = None) -> ToolInsights:
        """The same in the order of one of their figures; those without it come last."""
        items = _sorted(self.items, _TOOL_ORDERS[sort], ascending=ascending != (sort == "name"))
        return msgspec.structs.replace(self, items=items[:limit], left_out=len(items) - len(items[:limit]))


_TOOL_ORDERS: dict[ToolSort, Callable[[ToolInsight], Any]] = {
    "calls": lambda each: each.calls,
    "failures": lambda each: each.failures,
    "failure_rate": lambda each: each.failure_rate,
    "p50": lambda each: each.p50_ms,
    "p95": lambda each: each.p95_ms,
    "max": lambda each: each.max_ms,
    "total": lambda each: each.total_ms,
    "sessions": lambda each: each.sessions,
    "last": lambda each: each.last_at,
    "name": lambda each: each.tool,
}


def tool_insights(store: Store, query: InsightQuery, *, by: ToolSplit | None = None) -> ToolInsights:
    """The tools that were called, the most called first."""
    items = [_tool(each, by) for each in store.tool_figures(query, by or "total")]
    return ToolInsights(
        by=by,
        calls=sum(each.calls for each in items),
        failures=sum(each.failures for each in items),
        items=items,
        left_out=0,
    ).ordered("calls")


#: The answer where there is no store.
NO_TOOLS = ToolInsights(by=None, calls=0, failures=0, items=[], left_out=0)


def _tool(figures: ToolFigures, by: ToolSplit | None) -> ToolInsight:
    return ToolInsight(
        tool=figures.tool,
        part=None if by is None else figures.part,
        calls=figures.calls,
        failures=figures.failures,
        failure_rate=figures.failures / figures.calls,
        cancelled=figures.cancelled,
        sessions=figures.sessions,
        last_at=iso(figures.last_at or None),
        timed=figures.timed,
        p50_ms=figures.p50_ms,
        p95_ms=figures.p95_ms,
        max_ms=figures.max_ms,
        total_ms=figures.total_ms,
    )


def _sorted(items: Sequence[T], value: Callable[[T], Any], *, ascending: bool) -> list[T]:
    """By a figure; items without it last, in the order that they had."""
    known = [each for each in items if value(each) is not None]
    known.sort(key=value, reverse=not ascending)
    return known + [each for each in items if value(each) is None]


# -- models -------------------------------------------------------------------------------------------------------


class ModelInsight(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one model; what no log tells is null, not 0."""

    #: Empty: the log does not name it.
    model: str
    #: The part, where the figures are divided; empty: none.
    part: str | None
    calls: int
    errors: int
    error_rate: float
    sessions: int
    turns: int
    last_at: str | None
    #: Calls with a known duration; the percentiles are theirs.
    timed: int
    p50_ms: int | None
    p95_ms: int | None
    max_ms: int | None
    #: What calls with a known duration wrote, by the time that they took from the request to the end of the answer.
    output_tokens_per_second: float | None
    #: The part of the prompts that was read from the cache; null where the model was given none.
    cache_hit_rate: float | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    #: The amount, where there is one currency; null where there is none or several.
    cost: float | None
    currency: str | None
    costs: dict[str, float]
    #: By turn in which it was called, by currency.
    cost_per_turn: dict[str, float]
    unpriced_tokens: int


class ModelInsights(msgspec.Struct, frozen=True, kw_only=True):
    """The models that were called."""

    by: ModelSplit | None
    calls: int
    errors: int
    items: list[ModelInsight]
    #: Models beyond the limit.
    left_out: int

    def ordered(self, sort: ModelSort, *, ascending: bool = False, limit: int | None = None) -> ModelInsights:
        """The same in the order of one of their figures; those without it come last."""
        items = _sorted(self.items, _MODEL_ORDERS[sort], ascending=ascending != (sort == "name"))
        return msgspec.structs.replace(self, items=items[:limit], left_out=len(items) - len(items[:limit]))


def _largest(costs: dict[str, float]) -> float | None:
    return max(costs.values()) if costs else None


_MODEL_ORDERS: dict[ModelSort, Callable[[ModelInsight], Any]] = {
    "cost": lambda each: _largest(each.costs),
    "calls": lambda each: each.calls,
    "errors": lambda each: each.error_rate,
    "p50": lambda each: each.p50_ms,
    "p95": lambda each: each.p95_ms,
    "speed": lambda each: each.output_tokens_per_second,
    "cache": lambda each: each.cache_hit_rate,
    "turn_cost": lambda each: _largest(each.cost_per_turn),
    "sessions": lambda each: each.sessions,
    "last": lambda each: each.last_at,
    "name": lambda each: each.model,
}


def model_insights(
    store: Store, cashier: Cashier, period: InsightPeriod, *, by: ModelSplit | None = None
) -> ModelInsights:
    """The models that were called, the most called first."""
    usage: dict[tuple[str, str], list[UsageRow]] = {}
    for row in store.usage(period.usage(by)):
        usage.setdefault((row.model, row.part), []).append(row)
    figures = store.model_figures(period.query(cashier.settings.timezone), by or "total")
    items = [_model(each, by, cashier.bill(usage.get((each.model, each.part), ()))) for each in figures]
    return ModelInsights(
        by=by,
        calls=sum(each.calls for each in items),
        errors=sum(each.errors for each in items),
        items=items,
        left_out=0,
    ).ordered("calls")


#: The answer where there is no store.
NO_MODELS = ModelInsights(by=None, calls=0, errors=0, items=[], left_out=0)


def _model(figures: ModelFigures, by: ModelSplit | None, bill: Bill) -> ModelInsight:
    costs = bill.amounts
    return ModelInsight(
        model=figures.model,
        part=None if by is None else figures.part,
        calls=figures.calls,
        errors=figures.errors,
        error_rate=figures.errors / figures.calls,
        sessions=figures.sessions,
        turns=figures.turns,
        last_at=iso(figures.last_at or None),
        timed=figures.timed,
        p50_ms=figures.p50_ms,
        p95_ms=figures.p95_ms,
        max_ms=figures.max_ms,
        output_tokens_per_second=figures.output_tokens * 1000 / figures.output_ms if figures.output_ms else None,
        cache_hit_rate=bill.tokens["cache_read_tokens"] / bill.all_input if bill.all_input else None,
        **bill.tokens,
        cost=bill.cost,
        currency=bill.currency,
        costs=costs,
        cost_per_turn={currency: cost / figures.turns for currency, cost in costs.items()},
        unpriced_tokens=bill.unpriced_tokens,
    )


# -- the calls behind the figures ---------------------------------------------------------------------------------


class InsightSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span and its session: a link."""

    #: The key of the session.
    session: str
    session_id: str
    agent: str
    title: str | None
    project: str | None
    #: Null where the log has no span for it.
    span_id: str | None
    at: str | None
    #: Counted from 1.
    turn: int
    duration_ms: int | None
    status: str | None
    error: str | None


class InsightCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of a tool or of a model: the latest failures, and the longest."""

    failed: list[InsightSpan]
    slow: list[InsightSpan]


NO_CALLS = InsightCalls(failed=[], slow=[])


def insight_calls(store: Store, query: InsightQuery, tool: str | None, limit: int) -> InsightCalls:
    """Calls of a tool, or of the models of the query where ``tool`` is not given."""

    def calls(order: CallOrder) -> list[InsightCall]:
        return store.model_calls(query, order, limit) if tool is None else store.tool_calls(query, tool, order, limit)

    failed, slow = calls("failed"), calls("slow")
    spans = SpanLinks(store, [each.session for each in (*failed, *slow)])
    return InsightCalls(failed=spans.calls(failed), slow=spans.calls(slow))


class SpanLinks:
    """Spans with what is known of their sessions."""

    def __init__(self, store: Store, numbers: Sequence[int]) -> None:
        self._sessions = {each.id: each for each in store.sessions_by_number(sorted(set(numbers)))}

    def session(self, number: int) -> Session | None:
        """A session of them; ``None`` where it was pruned meanwhile."""
        return self._sessions.get(number)

    def calls(self, calls: Sequence[InsightCall]) -> list[InsightSpan]:
        """These calls."""
        return [link for call in calls if (link := self.call(call)) is not None]

    def call(self, call: InsightCall) -> InsightSpan | None:
        """A call; ``None`` where its session was pruned meanwhile."""
        return self.span(
            call.session,
            call.span_id,
            call.at,
            call.turn_index,
            duration_ms=call.duration_ms,
            status=call.status,
            error=call.error,
        )

    def span(
        self,
        number: int,
        span_id: bytes | None,
        at: int,
        turn_index: int,
        *,
        duration_ms: int | None = None,
        status: str | None = None,
        error: str | None = None,
    ) -> InsightSpan | None:
        """A span; ``None`` where its session was pruned meanwhile."""
        session = self._sessions.get(number)
        if session is None:
            return None
        return InsightSpan(
            session=session_key(session.id),
            session_id=session.session_id,
            agent=session.agent,
            title=title_of(session) or None,
            project=session.project,
            span_id=None if span_id is None else span_id.hex(),
            at=iso(at or None),
            turn=turn_index + 1,
            duration_ms=duration_ms,
            status=status,
            error=error,
        )
