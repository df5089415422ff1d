"""``agenttrace budget``: the token budget of the day and the month, with the numbers that calls are refused by."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from agenttrace.cli import asking, opening, output
from agenttrace.cli.options import AsJson
from agenttrace.views import figures
from agenttrace.views.run import budget_fields

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.run.guards.budget import BudgetStatus

EPILOG = """
  agenttrace budget
  agenttrace budget --json | jq .day.left

Before a call, the tokens of its application's largest answer of the last two days are reserved; afterwards the
reservation is replaced by the tokens used. Failed calls count, because they are billed. A call is refused when its
reservation exceeds what is left. Near the limit calls run one at a time, so that at most one of them can exceed it.
Change the limits in agenttrace.toml under \\[run]: daily_tokens, monthly_tokens, max_call_tokens.
"""

_WIDTH, _INDENT = 40, 11
_STYLES = {"used": "green", "failed": "red", "reserved": "yellow"}
_LABELS = {"used": "used", "failed": "burnt by failed calls", "reserved": "reserved", "left": "left"}
_AT_MOST = "calls under way may take at most"


def budget(as_json: AsJson = False) -> None:
    """Show used, reserved and remaining tokens of today and this month."""
    zone = opening.settings().run.timezone
    status = asking.look(lambda engine: engine.budget.check_budget(), _unused)
    found = budget_fields(status, datetime.now(ZoneInfo(zone)))
    if as_json:
        output.print_json(found)
        return
    for name in ("day", "month"):
        _show(found[name])
    if found["allowed"]:
        output.note(f"Days and months are those of {zone}.")
    else:
        when = "tomorrow" if found["reason"] == "daily_exceeded" else "next month"
        output.say(f"Calls are refused ({found['reason']}) until {when}, {zone}, or until the limit is raised.", "red")


def _unused() -> BudgetStatus:
    from agenttrace.run.guards.budget import BudgetStatus

    run = opening.settings().run
    return BudgetStatus(True, 0, 0, daily_limit=run.daily_tokens, monthly_limit=run.monthly_tokens)


def _show(period: dict[str, Any]) -> None:
    from rich.text import Text

    taken = period["used"] + period["failed"] + period["reserved"]
    share = f"{100 * taken / period['limit']:.0f}%"
    output.put(
        Text.assemble(
            (f"{period['period']:<{_INDENT}}", "bold"),
            bar(period),
            f"  {figures.count(taken)} of {figures.count(period['limit'])} tokens ({share})",
        )
    )
    parts = [f"{label} {figures.count(period[name])}" for name, label in _LABELS.items()]
    if period["ceiling"]:
        parts.append(f"{_AT_MOST} {figures.count(period['ceiling'])}")
    output.say(" " * _INDENT + "   ".join(parts))


def bar(period: dict[str, Any]) -> Text:
    """The parts of a limit side by side; a part above zero gets at least one cell while there is room."""
    from rich.text import Text

    drawn, room = Text(), _WIDTH
    for name, style in _STYLES.items():
        exact = _WIDTH * period[name] / period["limit"]
        cells = min(room, max(round(exact), 1 if period[name] else 0))
        drawn.append("█" * cells, style)
        room -= cells
    return drawn.append("░" * room, "dim")
