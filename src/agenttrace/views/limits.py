"""Budgets and windows of limits as JSON, shared by CLI, API and MCP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agenttrace.ids import session_key
from agenttrace.rules.budgets import RECENT_HOURS, BudgetState, budget_states
from agenttrace.rules.limits import LimitState, limit_states
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.prices.costing import Cashier
    from agenttrace.store.store import Store

#: Of a budget of sessions so many are shown, the most used first.
MOST_SESSIONS = 10


def limits_fields(
    store: Store | None, settings: Settings, cashier: Cashier | None = None, now: int | None = None
) -> dict[str, Any]:
    """All budgets and windows at a moment; without a store there are only those of the status line."""
    at = time.time_ns() // 1000 if now is None else now
    budgets = [] if store is None else budget_states(store, settings, at, cashier)
    windows = limit_states(store, settings, at, cashier)
    shown = _shown(budgets)
    return {
        "timezone": settings.usage.timezone,
        "recent_hours": RECENT_HOURS,
        "budgets": [budget_fields(each) for each in shown],
        "sessions_left_out": len(budgets) - len(shown),
        "windows": [window_fields(each) for each in windows],
    }


def _shown(budgets: list[BudgetState]) -> list[BudgetState]:
    counts: dict[str, int] = {}
    found = []
    for each in budgets:
        counts[each.name] = counts.get(each.name, 0) + 1
        if each.session is None or counts[each.name] <= MOST_SESSIONS:
            found.append(each)
    return found


def budget_fields(state: BudgetState) -> dict[str, Any]:
    """A budget."""
    session = state.session
    return {
        "name": state.name,
        "period": state.period,
        "agents": list(state.where.agent),
        "projects": list(state.where.project),
        "models": list(state.where.model),
        "machines": list(state.where.machine),
        "persons": list(state.where.person),
        "start": iso(state.start),
        "end": iso(state.end),
        "session": None if session is None else session.session_id,
        "session_key": None if session is None else session_key(session.id),
        "session_title": None if session is None else title_of(session),
        "unit": state.unit,
        "currency": state.currency,
        "limit": state.limit,
        "spent": state.spent,
        "share": state.share,
        "warn": list(state.warn),
        "crossed": list(state.crossed),
        "amounts": state.amounts,
        "tokens": state.tokens,
        "unpriced_tokens": state.unpriced_tokens,
        "unpriced_models": list(state.unpriced_models),
        "rate": state.rate,
        "recent_rate": state.recent_rate,
        "forecast": state.forecast,
        "reached_at": iso(state.reached_at),
        "problem": state.problem,
    }


def window_fields(state: LimitState) -> dict[str, Any]:
    """A window of a provider's limit."""
    return {
        "agent": state.agent,
        "name": state.name,
        "minutes": state.window_minutes,
        "start": iso(state.start),
        "resets_at": iso(state.resets_at),
        "expired": state.expired,
        "source": state.source,
        "at": iso(state.at),
        "plan": state.plan,
        "share": state.share,
        "rate": state.rate,
        "exhausted_at": iso(state.exhausted_at),
        "requests": state.requests,
        "tokens": state.tokens,
        "costs": state.costs,
    }
