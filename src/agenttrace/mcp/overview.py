"""``overview``: what today, this week and this month cost, and what needs the user; as ``agenttrace overview``."""

from __future__ import annotations

from typing import Any

import msgspec

from agenttrace.mcp.tool import Arguments, Tool, ToolAnswer
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.views.attention import attention_of, said
from agenttrace.views.overview import overview_fields
from agenttrace.views.overview_days import DayBook

_CHARS = 300


class OverviewArguments(Arguments, frozen=True, kw_only=True):
    """None."""


class Period(ToolAnswer, kw_only=True, omit_defaults=True):
    """A period up to now."""

    #: day, week or month.
    period: str
    start: str
    end: str
    #: By currency; amounts of different currencies are never added.
    costs: dict[str, float]
    tokens: int
    #: Tokens of models without a known price: they are not in the costs.
    unpriced_tokens: int = 0
    #: Relative to the same part of the period before: 0.5 is half as much again; left out: nothing to compare with.
    cost_change: float | None = None
    token_change: float | None = None
    #: At the end of the period, if it goes on as it did so far.
    forecast_costs: dict[str, float]
    #: All of the period before.
    costs_before: dict[str, float]


class ProjectCost(ToolAnswer, kw_only=True, omit_defaults=True):
    """A project in the last 30 days; without a name: sessions without one."""

    project: str | None = None
    costs: dict[str, float]
    tokens: int
    unpriced_tokens: int = 0


class Overview(ToolAnswer):
    """Periods, the projects with the highest cost, and what needs the user."""

    periods: list[Period]
    projects: list[ProjectCost]
    #: What fails or is nearly used up, the worst first.
    attention: list[str]


def seen(context: ToolContext, asked: OverviewArguments) -> Overview:
    """The figures at this moment."""
    found = overview_fields(context.store, DayBook(context.prices))
    return Overview(
        periods=[msgspec.convert(_period(each), Period) for each in found["periods"]],
        projects=[
            ProjectCost(project=context.shown.line(each["project"] or "", _CHARS) or None, **_sums(each))
            for each in found["projects"]
        ],
        attention=[
            context.shown.line(said(each), _CHARS)
            for each in attention_of(context.store, context.settings, context.prices)
        ],
    )


def _sums(fields: dict[str, Any]) -> dict[str, Any]:
    bill = fields["bill"]
    return {"costs": bill["costs"], "tokens": fields["tokens"], "unpriced_tokens": bill["unpriced_tokens"]}


def _period(fields: dict[str, Any]) -> dict[str, Any]:
    names = ("period", "start", "end", "cost_change", "token_change", "forecast_costs")
    before = fields["whole_before"]["bill"]["costs"]
    return {name: fields[name] for name in names} | _sums(fields) | {"costs_before": before}


TOOL = Tool(
    name="overview",
    title="Overview",
    description=(
        "What agents cost today, this week and this month, each compared with the same part of the period before and "
        "with a forecast for its end; the projects with the highest cost in the last 30 days; and what needs the user: "
        "recording or rules that fail, budgets and limits that are nearly used."
    ),
    arguments=OverviewArguments,
    answer=Overview,
    ask=seen,
)
