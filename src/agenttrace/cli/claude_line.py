"""The status line of Claude Code: model, cost of the session, its limits, and the budget that is used most.

Claude Code waits for it at every answer, so the store is not opened: limits and cost come with the call, budgets from
the file that the guard reads.
"""

from __future__ import annotations

import time

from agenttrace.rules import guard, state_files

TYPE_CHECKING = False  # ``typing`` takes longer to load than all the rest
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_WINDOWS = {"five_hour": "5h", "seven_day": "7d"}
#: Below this a budget is not worth the space.
_SHOWN_FROM = 0.5


def claude_line(said: Mapping[str, Any]) -> str:
    """The line; what the call says of limits is stored on the way."""
    home = state_files.data_directory()
    windows = state_files.note_windows(home, said)
    now = time.time()
    return " · ".join(_parts(said, windows, home, now))


def _parts(said: Mapping[str, Any], windows: Mapping[str, Any], home: str, now: float) -> Iterator[str]:
    model, cost = said.get("model"), said.get("cost")
    name = model.get("display_name") if isinstance(model, dict) else None
    if isinstance(name, str) and name:
        yield name[:40]
    spent = cost.get("total_cost_usd") if isinstance(cost, dict) else None
    if isinstance(spent, int | float) and not isinstance(spent, bool):
        yield f"${spent:.2f}"
    for key, label in _WINDOWS.items():
        window = windows.get(key)
        if window is not None and window["resets_at"] > now:
            yield f"{label} {window['used_percent']:.0f}% ({_left(window['resets_at'] - now)})"
    yield from _budget(guard.Call("claude-code", said), home, now)


def _budget(call: guard.Call, home: str, now: float) -> Iterator[str]:
    """The budget of this session that is used most; a state that is too old is made anew beside."""
    from agenttrace.cli.guard_hook import start_refresh

    state = guard.read_state(home)
    age = guard.freshness(state, home, now)
    if age != "current" and guard.refresh_is_due(state, home, now):
        start_refresh(call.transcript)
    if age == "invalid":
        return
    shares = [
        (budget["share"], budget["name"])
        for budget in state["budgets"]
        if budget["share"] is not None and guard.concerns(budget, call, guard.known_session(state, call))
    ]
    share, name = max(shares, default=(0.0, ""))
    if share >= _SHOWN_FROM:
        yield f"{name} {share * 100:.0f}%{'!' if share >= 1 else ''}"


def _left(seconds: float) -> str:
    """``45m``, ``2h10m``, ``3d04h``."""
    minutes = max(0, int(seconds // 60))
    if minutes < 60:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h{minutes % 60:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"
