"""The first page."""

from __future__ import annotations

from typing import Literal

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.exports import Exports
from agenttrace.serve.api.shapes.figures import Bill, NamedBill
from agenttrace.serve.api.shapes.recording import RecorderState
from agenttrace.serve.api.shapes.runs import RunState
from agenttrace.serve.api.shapes.sessions import SessionRow
from agenttrace.views.attention import Attention


class DayUsage(Shape):
    """A day's sums, by model."""

    day: str
    bill: Bill
    parts: list[NamedBill]


class PartUsage(Shape):
    """A day of a period; or an hour of today, of which only the responses are known."""

    #: `2026-11-16`, or `14:00`.
    name: str
    requests: int
    tokens: int | None = None
    costs: dict[str, float] | None = None


class SpanUsage(Shape):
    """What was used in a span of time."""

    bill: Bill
    #: All tokens.
    tokens: int
    #: The cost by the currency of the prices, before anything was converted.
    amounts: dict[str, float]


class EarlierUsage(SpanUsage):
    """The period before, up to when it was as old as the present one is now."""

    first_day: str
    until: str


class PeriodUsage(SpanUsage):
    """Today, this week or this month."""

    period: Literal["day", "week", "month"]
    first_day: str
    start: str
    end: str
    before: EarlierUsage
    #: All of the period before.
    whole_before: SpanUsage
    #: Relative to `before`: 0.5 is half as much again; null where there is nothing to compare with.
    cost_change: float | None
    token_change: float | None
    #: At the end of the period, if it goes on as it did so far.
    forecast_costs: dict[str, float]
    forecast_tokens: int
    parts: list[PartUsage]


class ActiveDay(Shape):
    """How many responses came in each hour of a day."""

    day: str
    hours: list[int]


class ProjectUsage(SpanUsage):
    """A project; null are sessions without one."""

    project: str | None


class OverviewFigures(Shape):
    """Cost and tokens by period, activity, and the largest projects of the last 30 days."""

    at: str
    timezone: str
    #: Why costs are not one sum, with the setting that is missing.
    currency_problem: str | None
    periods: list[PeriodUsage]
    #: The last 28 days, oldest first.
    activity: list[ActiveDay]
    projects: list[ProjectUsage]


class Overview(Shape):
    """The first page."""

    at: str
    timezone: str
    working: list[SessionRow]
    waiting: list[SessionRow]
    #: Interrupted within the last day.
    failed: list[SessionRow]
    today: Bill
    today_by_model: list[NamedBill]
    today_by_agent: list[NamedBill]
    month: Bill
    month_by_model: list[NamedBill]
    month_by_agent: list[NamedBill]
    #: The last 30 days, oldest first, none left out.
    days: list[DayUsage]
    figures: OverviewFigures
    #: What needs the user beside sessions, the worst first.
    attention: list[Attention]
    recording: RecorderState
    run: RunState
    exports: Exports
