"""Budgets for agents, and the windows of providers' limits."""

from __future__ import annotations

from typing import Literal

from agenttrace.serve.api.shapes.base import Shape


class AgentBudget(Shape):
    """How far a budget for agents is used, in its period or in one session."""

    name: str
    period: Literal["day", "week", "month", "session"]
    #: What it is about; all of them where a list is empty.
    agents: list[str]
    projects: list[str]
    models: list[str]
    machines: list[str]
    persons: list[str]
    start: str | None
    end: str | None
    #: The id, the key and the title of the session, of a budget for sessions.
    session: str | None
    session_key: str | None
    session_title: str | None
    unit: Literal["money", "tokens"]
    #: Null for tokens, and where nothing has a price yet.
    currency: str | None
    limit: float
    #: Null where it cannot be known; ``problem`` says why.
    spent: float | None
    #: 1 is all of it.
    share: float | None
    #: The shares at which it warns, and those of them that are reached.
    warn: list[float]
    crossed: list[float]
    #: By currency of the prices, before anything was converted.
    amounts: dict[str, float]
    tokens: int
    #: Tokens of models without a known price: they are not in ``spent``.
    unpriced_tokens: int
    unpriced_models: list[str]
    #: An hour, over the period so far and over the last hours.
    rate: float | None
    recent_rate: float | None
    #: At the end of the period, at ``rate``.
    forecast: float | None
    #: When it is used up at ``rate``; null where that is not before the end.
    reached_at: str | None
    problem: str | None


class ProviderWindow(Shape):
    """A window of a provider's own limit."""

    agent: str
    #: ``five_hour``, ``seven_day``, ``primary``, ``secondary``.
    name: str
    minutes: int | None
    start: str | None
    resets_at: str
    expired: bool
    #: ``estimated``: from what was recorded; then the share is not known.
    source: Literal["log", "statusline", "estimated"]
    #: When it was so.
    at: str
    plan: str | None
    share: float | None
    #: A share an hour, since the window began.
    rate: float | None
    #: When nothing is left at that rate; null where that is not before it resets.
    exhausted_at: str | None
    #: Of an estimated one: what was used in it.
    requests: int | None
    tokens: int | None
    costs: dict[str, float] | None


class AgentLimits(Shape):
    """Budgets for agents, and the windows of providers' limits."""

    timezone: str
    #: Over how many hours ``recent_rate`` is taken.
    recent_hours: int
    budgets: list[AgentBudget]
    #: Of budgets for sessions only the most used ones are listed.
    sessions_left_out: int
    windows: list[ProviderWindow]
