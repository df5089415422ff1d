"""``limits``: how far budgets and the limits of providers are used; the figures of ``agenttrace limits``."""

from __future__ import annotations

import msgspec

from agenttrace.mcp.tool import Arguments, Tool, ToolAnswer
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.views.limits import limits_fields

_NAME_CHARS = 200


class LimitsArguments(Arguments, frozen=True, kw_only=True):
    """None."""


class Budget(ToolAnswer, kw_only=True, omit_defaults=True):
    """A budget that the user has set, in its period or in one session."""

    name: str
    #: day, week, month or session.
    period: str
    session: str | None = None
    #: money or tokens.
    unit: str
    currency: str | None = None
    limit: float
    #: Left out where it cannot be known; "problem" says why.
    spent: float | None = None
    #: 1 is all of it.
    share: float | None = None
    #: Tokens of models without a known price: they are not in "spent".
    unpriced_tokens: int = 0
    end: str | None = None
    #: An hour, over the period so far.
    rate: float | None = None
    #: At the end of the period, at that rate.
    forecast: float | None = None
    reached_at: str | None = None
    problem: str | None = None


class Window(ToolAnswer, kw_only=True, omit_defaults=True):
    """A window of a provider's own limit that has not ended."""

    agent: str
    name: str
    minutes: int | None = None
    resets_at: str
    #: log, statusline or estimated: then its share is not known.
    source: str
    share: float | None = None
    exhausted_at: str | None = None
    tokens: int | None = None


class Limits(ToolAnswer):
    """Budgets and windows."""

    budgets: list[Budget]
    windows: list[Window]


def used(context: ToolContext, asked: LimitsArguments) -> Limits:
    """How far they are used."""
    found = limits_fields(context.store, context.settings, context.prices)
    return Limits(
        budgets=[msgspec.convert(_masked(context, each), Budget) for each in found["budgets"]],
        windows=[msgspec.convert(_masked(context, each), Window) for each in found["windows"] if not each["expired"]],
    )


def _masked(context: ToolContext, fields: dict[str, object]) -> dict[str, object]:
    """Names and problems come from settings and logs."""
    return {
        name: context.line(value, _NAME_CHARS) if isinstance(value, str) else value for name, value in fields.items()
    }


TOOL = Tool(
    name="limits",
    title="Budgets and limits",
    description=(
        "Tell how far the user's budgets for agents are used (by day, week, month or session), the forecast for the "
        "end of the period, and how far the providers' own limits are used (such as the five-hour and the weekly "
        "window), with the time at which each resets. Ask it before work that may become expensive."
    ),
    arguments=LimitsArguments,
    answer=Limits,
    ask=used,
)
