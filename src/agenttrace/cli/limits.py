"""``agenttrace limits``: budgets of agents, and the windows of the providers' own limits."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenttrace.cli import opening, output
from agenttrace.cli.options import AsJson
from agenttrace.views import figures
from agenttrace.views.limits import limits_fields
from agenttrace.views.times import MICROS, micros_of

if TYPE_CHECKING:
    from rich.text import Text

EPILOG = """
  agenttrace limits
  agenttrace limits --json | jq '.budgets[] | select(.share > 0.8) | .name'

Budgets are \\[budgets.NAME] in agenttrace.toml. The rate is what was spent in the period by its hours so far; the
forecast goes on at that rate until the end of the period. Windows of Codex are in its log, those of Claude Code come
with its status line (agenttrace hooks install claude-code --statusline); without that, blocks of five hours are
estimated from what was recorded.
"""

_BAR, _SPAN = 20, 8
#: The bar is as wide as the line leaves it, and not less than this.
_LEAST_BAR = 6
#: Names are as wide as the longest, up to this.
_WIDEST = 30
_INDENT = "  "
_WINDOWS = {300: "5 hours", 1_440: "day", 10_080: "week", 43_200: "month"}


def limits(as_json: AsJson = False) -> None:
    """Show how far budgets and the limits of providers are used."""
    settings = opening.settings()
    if opening.has_shown_store(settings):
        with opening.shown_store(settings) as store:
            found = limits_fields(store, settings)
    else:
        found = limits_fields(None, settings)
    if as_json:
        output.print_json(found)
        return
    now = time.time_ns() // 1000
    names = [*(each["name"] for each in found["budgets"]), *(each["agent"] for each in found["windows"])]
    width = min(_WIDEST, max(map(len, names), default=0))
    for budget in found["budgets"]:
        _show_budget(budget, found["recent_hours"], width)
    if found["sessions_left_out"]:
        output.note(f"{_INDENT}and {figures.counted(found['sessions_left_out'], 'session')} more")
    windows = [each for each in found["windows"] if not each["expired"]]
    if found["budgets"] and windows:
        output.say()
    for window in windows:
        _show_window(window, now, width)
    _remarks(found, windows)


def _remarks(found: dict[str, Any], windows: list[dict[str, Any]]) -> None:
    expired = len(found["windows"]) - len(windows)
    if expired:
        output.note(f"{figures.counted(expired, 'window')} of older logs expired, and not shown.")
    if not found["budgets"]:
        output.say("No budget is set. Write one in agenttrace.toml, such as:")
        output.say('  [budgets.all]\n  period = "month"\n  limit = 100')


def _show_budget(each: dict[str, Any], hours: int, width: int) -> None:
    title = each["session_title"] or each["session"]
    spent = "not known" if each["spent"] is None else _amount(each, each["spent"])
    more = " +?" if each["unpriced_tokens"] and each["unit"] == "money" and each["spent"] is not None else ""
    text = f"{spent}{more} of {_amount(each, each['limit'])}"
    output.put(_line(each["name"], width, each["period"], each["share"], text))
    if title:
        output.put(output.styled(f"{_INDENT}{title}", "dim"))
    if each["problem"]:
        output.say(f"{_INDENT}{each['problem']}", "yellow")
    elif each["forecast"] is not None:
        output.say(f"{_INDENT}{_pace(each, hours)}", "dim")
    if len(each["amounts"]) > 1 and each["spent"] is not None:
        amounts = " + ".join(figures.money(round(value * MICROS), key) for key, value in each["amounts"].items())
        output.say(f"{_INDENT}{amounts}", "dim")


def _pace(each: dict[str, Any], hours: int) -> str:
    parts = [f"{_amount(each, each['rate'])}/h"]
    if each["recent_rate"] is not None:
        parts.append(f"last {hours} h {_amount(each, each['recent_rate'])}/h")
    parts.append(f"forecast {_amount(each, each['forecast'])}")
    if each["reached_at"]:
        parts.append(f"used up {figures.clock(_micros(each['reached_at']))}")
    return ", ".join(parts)


def _show_window(each: dict[str, Any], now: int, width: int) -> None:
    left = figures.duration(max(0, _micros(each["resets_at"]) - now))
    span = _WINDOWS.get(each["minutes"] or 0, each["name"])
    if each["source"] == "estimated":
        used = f"{figures.tokens(each['tokens'])} tokens, ends in {left} (estimated)"
        output.put(_line(each["agent"], width, span, None, used))
        return
    output.put(_line(each["agent"], width, span, each["share"], f"resets in {left}"))
    if each["exhausted_at"]:
        output.say(f"{_INDENT}used up {figures.clock(_micros(each['exhausted_at']))} at this rate", "yellow")


def _line(name: str, width: int, span: str, share: float | None, text: str) -> Text:
    from rich.cells import cell_len
    from rich.text import Text

    style = "red" if (share or 0) >= 1 else "yellow" if (share or 0) >= 0.8 else "green"
    head = f"{name if len(name) <= width else name[: width - 1] + '…':<{width}} "
    told = output.styled(f" {'   ?' if share is None else f'{share * 100:>3.0f}%'}  {text}")
    left = output.stdout().width - cell_len(head) - _SPAN - 1 - told.cell_len
    bar = max(_LEAST_BAR, min(_BAR, left))
    cells = min(bar, max(round(bar * (share or 0)), 1 if share else 0))
    return Text.assemble(
        (head, "bold"), f"{span[:_SPAN]:<{_SPAN}} ", ("█" * cells, style), ("░" * (bar - cells), "dim"), told
    )


def _amount(each: dict[str, Any], amount: float) -> str:
    if each["unit"] == "tokens":
        return figures.tokens(round(amount))
    if each["currency"] is None:
        return f"{amount:,.2f}"
    return figures.money(round(amount * MICROS), each["currency"])


def _micros(text: str) -> int:
    return micros_of(datetime.fromisoformat(text))
