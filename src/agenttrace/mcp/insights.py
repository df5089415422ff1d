"""``insights``: how tools and models do over many sessions, and what stands out; as ``agenttrace insights``."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from agenttrace.mcp.naming import agent_named, team_filters
from agenttrace.mcp.tool import DATA_NOTE, Agent, Project, TeamArguments, Tool, ToolAnswer, most, text
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.views.findings import Finding, findings
from agenttrace.views.insights import (
    KINDS,
    FindingKind,
    InsightPeriod,
    InsightSpan,
    ModelInsight,
    ToolInsight,
    model_insights,
    tool_insights,
)

MOST = 100
_NAME_CHARS, _TEXT_CHARS = 200, 400
_SPANS = 5

View = Literal["findings", "tools", "models"]
Split = Literal["agent", "project", "model", "machine", "person"]


class InsightArguments(TeamArguments, frozen=True, kw_only=True):
    """Which insights."""

    view: Annotated[View, msgspec.Meta(description="What to tell.")] = "findings"
    by: Annotated[Split, msgspec.Meta(description="Divide tools or models by this; models not by model.")] | None = None
    kind: Annotated[FindingKind, msgspec.Meta(description="Only findings of this kind.")] | None = None
    since: Annotated[str, text("From that day on: 7d, today, 2026-11-01, ISO time, or all.", 100)] = "30d"
    until: Annotated[str, text("Before that day; written like since.", 100)] | None = None
    agent: Agent = None
    project: Project = None
    model: Annotated[str, text("Only of this model, or tools that it called.")] | None = None
    limit: Annotated[int, most(MOST, "How many tools or models, or findings of each kind, at most.")] = 10


class ToolFacts(ToolAnswer, kw_only=True, omit_defaults=True):
    """The calls of one tool; durations are left out where no log has them."""

    tool: str
    part: str | None = None
    calls: int
    failures: int = 0
    failure_rate: float = 0.0
    sessions: int
    p50_ms: int | None = None
    p95_ms: int | None = None
    total_ms: int | None = None


class ModelFacts(ToolAnswer, kw_only=True, omit_defaults=True):
    """The calls of one model; what no log tells is left out."""

    model: str
    part: str | None = None
    calls: int
    errors: int = 0
    sessions: int
    turns: int
    p50_ms: int | None = None
    p95_ms: int | None = None
    output_tokens_per_second: float | None = None
    cache_hit_rate: float | None = None
    costs: dict[str, float] = msgspec.field(default_factory=dict)
    cost_per_turn: dict[str, float] = msgspec.field(default_factory=dict)
    unpriced_tokens: int = 0


class FoundSpan(ToolAnswer):
    """What read_span is asked for."""

    session: str
    span: str | None = None
    at: str | None = None


class FoundFact(ToolAnswer):
    """Something that stands out, what it cost, and where it is."""

    kind: FindingKind
    text: str
    count: int
    sessions: int
    tokens: int | None = None
    costs: dict[str, float] = msgspec.field(default_factory=dict)
    duration_ms: int | None = None
    last_at: str | None = None
    spans: list[FoundSpan] = msgspec.field(default_factory=list)


class Insights(ToolAnswer):
    """One of the three lists."""

    note: str
    tools: list[ToolFacts] = msgspec.field(default_factory=list)
    models: list[ModelFacts] = msgspec.field(default_factory=list)
    findings: list[FoundFact] = msgspec.field(default_factory=list)
    #: Tools or models beyond the limit.
    left_out: int = 0


def told(context: ToolContext, asked: InsightArguments) -> Insights:
    """The insights that were asked for."""
    agent, limit = agent_named(context, asked.agent), min(asked.limit, MOST)
    period = InsightPeriod.of(
        None if asked.since == "all" else asked.since,
        asked.until,
        context.settings.usage.timezone,
        agents=frozenset() if agent is None else frozenset([agent]),
        project_contains=asked.project,
        **team_filters(asked),
        models=frozenset() if asked.model is None else frozenset([asked.model]),
    )
    if asked.view == "tools":
        tools = tool_insights(context.store, period.query(context.settings.usage.timezone), by=asked.by)
        shown = tools.ordered("calls", limit=limit)
        return Insights(note=DATA_NOTE, tools=[_tool(context, each) for each in shown.items], left_out=shown.left_out)
    if asked.view == "models":
        by = None if asked.by == "model" else asked.by
        models = model_insights(context.store, context.prices, period, by=by).ordered("calls", limit=limit)
        facts = [_model(context, each) for each in models.items]
        return Insights(note=DATA_NOTE, models=facts, left_out=models.left_out)
    kinds = KINDS if asked.kind is None else (asked.kind,)
    found = findings(context.store, context.prices, context.texts, period, kinds=kinds, limit=limit)
    return Insights(note=DATA_NOTE, findings=[_finding(context, each) for each in found.items])


def _tool(context: ToolContext, each: ToolInsight) -> ToolFacts:
    return ToolFacts(
        tool=context.line(each.tool, _NAME_CHARS) or "",
        part=context.line(each.part, _NAME_CHARS),
        calls=each.calls,
        failures=each.failures,
        failure_rate=each.failure_rate,
        sessions=each.sessions,
        p50_ms=each.p50_ms,
        p95_ms=each.p95_ms,
        total_ms=each.total_ms,
    )


def _model(context: ToolContext, each: ModelInsight) -> ModelFacts:
    return ModelFacts(
        model=context.line(each.model, _NAME_CHARS) or "",
        part=context.line(each.part, _NAME_CHARS),
        calls=each.calls,
        errors=each.errors,
        sessions=each.sessions,
        turns=each.turns,
        p50_ms=each.p50_ms,
        p95_ms=each.p95_ms,
        output_tokens_per_second=each.output_tokens_per_second,
        cache_hit_rate=each.cache_hit_rate,
        costs=each.costs,
        cost_per_turn=each.cost_per_turn,
        unpriced_tokens=each.unpriced_tokens,
    )


def _finding(context: ToolContext, each: Finding) -> FoundFact:
    return FoundFact(
        kind=each.kind,
        text=context.line(each.text, _TEXT_CHARS) or "",
        count=each.count,
        sessions=each.sessions,
        tokens=each.tokens,
        costs=each.costs,
        duration_ms=each.duration_ms,
        last_at=each.last_at,
        spans=[_span(span) for span in each.spans[:_SPANS]],
    )


def _span(span: InsightSpan) -> FoundSpan:
    return FoundSpan(session=span.session, span=span.span_id, at=span.at)


TOOL = Tool(
    name="insights",
    title="How tools and models do",
    description=(
        "Tell what stands out in many recorded sessions, computed without a model: calls that were retried with the "
        "same arguments, errors that repeat across sessions, lost prompt caches, the most expensive turns, long waits "
        "for the user; each with what it cost and its spans for read_span. Or, with view=tools or view=models: calls, "
        "failure rate and durations of every tool; latency, tokens per second, cache hit rate and cost of every model."
    ),
    arguments=InsightArguments,
    answer=Insights,
    ask=told,
)
