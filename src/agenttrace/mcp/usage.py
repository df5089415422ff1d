"""``usage``: tokens and cost, each response counted once; the figures of ``agenttrace usage``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from agenttrace.mcp.naming import agent_named, team_filters
from agenttrace.mcp.sessions import TITLE_CHARS
from agenttrace.mcp.tool import Agent, Project, TeamArguments, Tool, ToolAnswer, most, text
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.prices.costing import Bill
from agenttrace.store.questions import UsageQuery
from agenttrace.views.usage import day_after, first_day, usage_report
from agenttrace.views.usage_outcomes import UsageOutcomes, with_outcomes

MOST = 500
_GROUP_CHARS = 300

By = Literal["day", "month", "model", "agent", "project", "session", "machine", "person"]


class UsageArguments(TeamArguments, frozen=True, kw_only=True):
    """Which usage, and how it is grouped."""

    by: Annotated[By, msgspec.Meta(description="How to group.")] = "day"
    since: Annotated[str, text("From that day on: 7d, today, 2026-11-01, ISO time.", 100)] | None = None
    until: Annotated[str, text("Before that day; written like since.", 100)] | None = None
    agent: Agent = None
    project: Project = None
    limit: Annotated[int, most(MOST, "How many groups at most; the total is always over all of them.")] = 50


class Figures(ToolAnswer, kw_only=True, omit_defaults=True):
    """Tokens and cost. Input, cache reads and cache writes do not overlap; reasoning is a part of output."""

    #: The day, month, model, agent, project, session, machine or person; left out: sessions without one.
    group: str | None = None
    #: Of a session.
    title: str | None = None
    requests: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    #: Where all of it is in one currency.
    cost: float | None = None
    #: That currency; "mixed" where there are several, which are never added.
    currency: str | None = None
    costs: dict[str, float] = msgspec.field(default_factory=dict)
    #: Tokens of models without a known price; they are not in the cost.
    unpriced_tokens: int = 0
    unpriced_models: list[str] = msgspec.field(default_factory=list)
    #: Requests whose log has only a placeholder or a rounded figure of their tokens.
    estimated_requests: int = 0
    #: Further mentions of responses that were counted once.
    folded_copies: int = 0
    #: Commits that logs name, each once, and lines that were changed; left out: none are known.
    commits: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    #: The cost of the group by its commits, by currency.
    cost_per_commit: dict[str, float] = msgspec.field(default_factory=dict)
    #: Where commits and lines are known from.
    commits_known_from: list[str] = msgspec.field(default_factory=list)


class GroupedUsage(ToolAnswer):
    """Usage by group: days and months in order, all else with the most expensive first."""

    by: By
    total: Figures
    groups: list[Figures]
    #: Groups that were left out: of days and months the oldest, of others the cheapest.
    left_out: int = 0
    #: Sessions that were not examined for commits and lines yet.
    not_examined: int = 0


def used(context: ToolContext, asked: UsageArguments) -> GroupedUsage:
    """Tokens and cost by group."""
    query = _query(context, asked)
    report = usage_report(context.store, context.prices, query)
    found = with_outcomes(context.store, context.prices, query, report, context.settings.usage.timezone)
    groups = found.usage.ranked()
    limit = min(asked.limit, MOST)
    kept = groups[-limit:] if asked.by in ("day", "month") else groups[:limit]
    return GroupedUsage(
        by=asked.by,
        total=Figures(**_fields(context, report.total, found.total)),
        groups=[
            Figures(
                group=context.shown.line(each.name, _GROUP_CHARS) or None,
                title=context.shown.line(each.title, TITLE_CHARS) or None,
                **_fields(context, each.bill, found.groups[each.group]),
            )
            for each in kept
        ],
        left_out=len(groups) - len(kept),
        not_examined=found.not_examined,
    )


def _query(context: ToolContext, asked: UsageArguments) -> UsageQuery:
    timezone = context.settings.usage.timezone
    agent = agent_named(context, asked.agent)
    return UsageQuery(
        by=asked.by,
        since_day=None if asked.since is None else first_day(asked.since, timezone),
        before_day=None if asked.until is None else day_after(asked.until, timezone),
        agents=frozenset() if agent is None else frozenset([agent]),
        project_contains=asked.project,
        **team_filters(asked),
    )


def _fields(context: ToolContext, bill: Bill, outcomes: UsageOutcomes) -> dict[str, Any]:
    fields = bill.fields()
    fields |= {"commits": outcomes.commits, "cost_per_commit": outcomes.cost_per_commit}
    fields |= {"lines_added": outcomes.added or 0, "lines_removed": outcomes.removed or 0}
    fields["commits_known_from"] = list(outcomes.known_from)
    fields["unpriced_models"] = [context.shown.line(model, _GROUP_CHARS) for model in fields["unpriced_models"][:MOST]]
    return fields


TOOL = Tool(
    name="usage",
    title="Tokens and cost",
    description=(
        "Tokens and cost of the recorded sessions, grouped by day, month, model, agent, project or session, in a "
        "team's store also by machine or person; each model response counts once, however many sessions hold a copy of "
        "it. Costs of different currencies stay apart, and tokens of models without a known price are told as "
        "unpriced, never as free. Commits and their cost are known from the logs. The figures are those of the command "
        "agenttrace usage."
    ),
    arguments=UsageArguments,
    answer=GroupedUsage,
    ask=used,
)
