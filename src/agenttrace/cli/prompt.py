"""One short line for a shell prompt, made fast; and another one for Claude Code, which says on stdin what it knows.

On any error it prints an empty line and exits with 0: a prompt must not break because a store is busy.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False  # ``typing`` takes longer to load than what Claude Code needs
if TYPE_CHECKING:
    from typing import Any

#: How long a prompt waits for a store that is locked.
_BUSY_SECONDS = 0.2
#: Below this a budget is not worth the space.
_SHOWN_FROM = 0.5
#: How long to wait for what Claude Code writes; a pipe of another program stays silent.
_INPUT_SECONDS = 0.2


def print_line(then: str | None = None) -> None:
    """Print the line, or an empty one; before it what another command prints that gets the same input."""
    from agenttrace.cli.hook_input import read_bytes

    data = read_bytes(_INPUT_SECONDS)
    if then is None:
        print(_line_for(data))
        return
    from agenttrace.cli.other_line import OtherLine

    other = OtherLine(then)
    own = _line_for(data)
    print("\n".join(text for text in (other.text(data), own) if text))


def _line_for(data: bytes) -> str:
    try:
        from agenttrace.cli.hook_input import parsed

        said = parsed(data)
        if isinstance(said, dict) and ("session_id" in said or "rate_limits" in said):
            from agenttrace.cli.claude_line import claude_line

            return claude_line(said)
        return line()
    except Exception:
        return ""


def line() -> str:
    """``2 working, 1 waiting, $4.20 today, shop 82%``."""
    found = today()
    parts = [f"{found[state]} {state}" for state in ("working", "waiting") if found[state]]
    if found["cost_text"] != "–":
        parts.append(f"{found['cost_text']} today")
    budget = found["budget"]
    if budget is not None and budget["share"] >= _SHOWN_FROM:
        parts.append(f"{budget['name']} {budget['share'] * 100:.0f}%")
    return ", ".join(parts) or "idle"


def today() -> dict[str, Any]:
    """Active sessions, usage since midnight, and the budget that is used most."""
    from agenttrace.calendar import day_finder
    from agenttrace.config import load_settings
    from agenttrace.prices.costing import Cashier
    from agenttrace.rules.budgets import budget_states
    from agenttrace.store.questions import UsageQuery
    from agenttrace.store.session_state import StateLimits
    from agenttrace.store.sqlite.store import SqliteStore
    from agenttrace.views.money import cost_text
    from agenttrace.views.places import store_path

    settings = load_settings()
    limits = StateLimits.of(settings.record)
    with SqliteStore.open(store_path(settings), limits=limits, busy_seconds=_BUSY_SECONDS) as store:
        working, waiting = store.active_counts()
        now = time.time_ns() // 1000
        today, cashier = day_finder(settings.usage.timezone)(now), Cashier.load(settings)
        bill = cashier.bill(store.usage(UsageQuery(since_day=today)))
        states = budget_states(store, settings, now, cashier)
    shares = [(state.share, state.name) for state in states if state.share is not None]
    most = max(shares, default=None)
    return {
        "working": working,
        "waiting": waiting,
        **bill.cost_fields(),
        "cost_text": cost_text(bill),
        "budget": None if most is None else {"name": most[1], "share": most[0]},
    }
