"""``agenttrace overview``: cost and tokens of today, this week and this month, what needs you, the largest projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.options import AsJson
from agenttrace.cli.sessions import last_part
from agenttrace.prices.costing import Cashier
from agenttrace.store.questions import SessionFilter
from agenttrace.store.session_state import recent_since
from agenttrace.views import figures
from agenttrace.views.attention import Attention, attention_of, said
from agenttrace.views.exports import exports_fields
from agenttrace.views.overview import overview_fields
from agenttrace.views.overview_days import DayBook
from agenttrace.views.plain import one_line
from agenttrace.views.team import PersonNow, current_filter, team_now

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.session_state import SessionState
    from agenttrace.store.store import Store

EPILOG = """
  agenttrace overview
  agenttrace overview --json | jq '.periods[0].bill.costs'

Each period is compared with the same part of the one before: today until now with yesterday until this time of day.
The forecast goes on at the rate of the period so far. Costs are one sum if usage.currency and usage.rates are
set. The console shows the same.
"""

_NAMES = {"day": "today", "week": "this week", "month": "this month"}
_SHOWN_PROJECTS = 5
_CURRENT: tuple[SessionState, ...] = ("working", "waiting", "interrupted")


def overview(as_json: AsJson = False) -> None:
    """Show cost and tokens by period with changes and forecasts, what needs you, and the largest projects."""
    settings = opening.settings()
    cashier = Cashier.load(settings)
    with opening.shown_store(settings) as store:
        found = overview_fields(store, DayBook(cashier))
        attention = attention_of(store, settings, cashier, _destinations(store, settings))
        sessions = _current(store)
        now = team_now(store.sessions(current_filter()))
    if as_json:
        more = {"sessions": sessions, "now": msgspec.to_builtins(now), "attention": msgspec.to_builtins(attention)}
        output.print_json({**found, **more})
        return
    print_table(_PERIODS, found["periods"])
    if found["currency_problem"]:
        output.note(found["currency_problem"], "yellow")
    output.say()
    output.fact("sessions", ", ".join(f"{number} {state}" for state, number in sessions.items()))
    _show_now(now)
    _show_attention(attention)
    if found["projects"]:
        output.say()
        print_table(_PROJECTS, found["projects"][:_SHOWN_PROJECTS])


def _destinations(store: Store, settings: Settings) -> list[dict[str, Any]]:
    """Where this machine exports to; the server of a team exports nothing."""
    from agenttrace.store.sqlite.store import SqliteStore

    if not isinstance(store, SqliteStore):
        return []
    found: list[dict[str, Any]] = exports_fields(store.exports.ledgers(), settings)["destinations"]
    return found


def _current(store: Store) -> dict[str, int]:
    """How many sessions work, wait, and were interrupted lately."""
    since = {"working": None}
    return {
        state: len(store.sessions(SessionFilter(states=frozenset([state]), since=since.get(state, recent_since()))))
        for state in _CURRENT
    }


def _show_now(now: list[PersonNow]) -> None:
    """Who works on what, in a team's store."""
    for number, each in enumerate(found for found in now if found.person is not None):
        projects = dict.fromkeys(last_part(session.project) or session.agent for session in each.sessions)
        output.fact("" if number else "persons", f"{one_line(each.person or '')}: {', '.join(projects)}")


def _show_attention(attention: list[Attention]) -> None:
    if not attention:
        output.fact("needs you", "nothing fails")
    for number, each in enumerate(attention):
        output.fact("" if number else "needs you", said(each), "red" if each.level == "failed" else "yellow")


def _costs(costs: dict[str, float]) -> str | None:
    return " + ".join(figures.money(round(cost * 1e6), currency) for currency, cost in costs.items()) or None


def _cost(fields: dict[str, Any]) -> str:
    bill = fields["bill"]
    amount = _costs(bill["costs"])
    if amount is None:
        return "?" if bill["unpriced_tokens"] else "–"
    return f"{amount} +?" if bill["unpriced_tokens"] else amount


def _change(change: float | None) -> str | None:
    return None if change is None else f"{change:+.0%}"


_PERIODS: tuple[Column[dict[str, Any]], ...] = (
    Column("", lambda row: _NAMES[row["period"]]),
    Column("cost", _cost, right=True),
    Column("change", lambda row: _change(row["cost_change"]), right=True),
    Column("forecast", lambda row: _costs(row["forecast_costs"]), right=True),
    Column("tokens", lambda row: figures.tokens(row["tokens"]), right=True),
    Column("change", lambda row: _change(row["token_change"]), right=True, optional=1),
    Column("period before", lambda row: _costs(row["whole_before"]["bill"]["costs"]), right=True, optional=2),
)
_PROJECTS: tuple[Column[dict[str, Any]], ...] = (
    Column("project, 30 days", lambda row: one_line(row["project"] or "(no project)"), least=14, keep_end=True),
    Column("tokens", lambda row: figures.tokens(row["tokens"]), right=True),
    Column("cost", _cost, right=True),
)
