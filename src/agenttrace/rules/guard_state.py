"""Writes the budgets for ``guard.py``: their states as text and shares, and the sessions that a hook may ask about."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from agenttrace.calendar import day_finder, midnight, zone
from agenttrace.config.rule_tables import console_file
from agenttrace.config.settings import Settings
from agenttrace.prices.costing import Cashier
from agenttrace.rules import guard, state_files
from agenttrace.rules.budgets import HOUR, BudgetState, budget_states, day_after, money_text, place_of
from agenttrace.store.questions import SessionFilter
from agenttrace.store.store import Store

_SECOND = 1_000_000
#: Sessions that a hook may ask about: active in so many hours, and how many.
_HOURS, _MOST = 24, 500
#: A warning that was given is forgotten after this.
_WARNED_SECONDS = 40 * 86_400.0
_PERIODS = {"day": "today", "week": "this week", "month": "this month", "session": "in this session"}


def refresh(store: Store | None, settings: Settings, cashier: Cashier | None = None) -> None:
    """Write the state of now; without a store nothing is spent."""
    home = str(settings.home)
    stamped = guard.store_stamp(home)
    now = time.time()
    micros = round(now * _SECOND)
    states = [] if store is None else budget_states(store, settings, micros, cashier)
    ends = [state.end for state in states if state.end is not None]
    ends.append(_midnight_after(settings, micros))
    file = settings.file or settings.home / "agenttrace.toml"
    state = {
        "version": guard.VERSION,
        "written_at": now,
        "until": min(ends) / _SECOND,
        "files": {str(path): guard.stamp(str(path)) for path in (file, console_file(settings.home))},
        #: Whether there is nothing to decide by, whatever is recorded.
        "idle": not settings.budgets,
        "store": stamped,
        "budgets": [budget_fields(each, settings.usage.timezone) for each in states],
        "sessions": {} if store is None or not states else _sessions(store, micros),
    }
    state_files.write_json(guard.state_path(home), state)


def budget_fields(state: BudgetState, timezone: str) -> dict[str, Any]:
    """A budget as the hook reads it."""
    session = state.session
    return {
        "name": state.name,
        "period": state.period,
        "place": place_of(state),
        "share": state.share,
        "crossed": list(state.crossed),
        "text": spent_text(state),
        "ends": "" if state.end is None else _clock(state.end, timezone),
        "problem": state.problem,
        "agents": list(state.where.agent),
        "projects": list(state.where.project),
        "models": list(state.where.model),
        "machines": list(state.where.machine),
        "persons": list(state.where.person),
        "session": None if session is None else session.session_id,
        "agent": None if session is None else session.agent,
    }


def spent_text(state: BudgetState) -> str:
    """``$12.40 of $30.00 today``."""
    if state.spent is None:
        return f"not known {_PERIODS[state.period]}"
    amounts = (f"{amount_text(state, state.spent)}", amount_text(state, state.limit))
    unknown = " and more without a known price" if state.unit == "money" and state.unpriced_tokens else ""
    return f"{amounts[0]}{unknown} of {amounts[1]} {_PERIODS[state.period]}"


def amount_text(state: BudgetState, amount: float) -> str:
    """An amount of a budget's unit."""
    if state.unit == "tokens":
        return f"{amount:,.0f} tokens" if amount == state.limit else f"{amount:,.0f}"
    return money_text(amount, state.currency)


def forget_warnings(home: str, now: float) -> None:
    """Remove the marks of warnings that are too old to matter."""
    with suppress(OSError):
        for entry in os.scandir(os.path.join(home, "guard", "warned")):
            if now - entry.stat().st_mtime > _WARNED_SECONDS:
                with suppress(OSError):
                    os.unlink(entry.path)


def _sessions(store: Store, now: int) -> dict[str, dict[str, str | None]]:
    wanted = SessionFilter(since=now - _HOURS * HOUR)
    return {
        f"{session.agent} {session.session_id}": {
            "project": session.project,
            "model": session.model,
            "machine": session.machine,
            "person": session.person,
        }
        for session in store.sessions(wanted, limit=_MOST)
    }


def _midnight_after(settings: Settings, now: int) -> int:
    today = datetime.fromisoformat(day_finder(settings.usage.timezone)(now)).date()
    return midnight(day_after("day", today), settings.usage.timezone)


def _clock(micros: int, timezone: str) -> str:
    then = datetime.fromtimestamp(micros / _SECOND, UTC).astimezone(zone(timezone))
    return then.strftime("%Y-%m-%d %H:%M")
