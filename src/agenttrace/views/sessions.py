"""Sessions in lists: their titles, what they used and cost, and all of it for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttrace.prices.costing import Cashier
from agenttrace.projects import is_demo
from agenttrace.store.questions import title_of as title_of
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttrace.config import Settings
    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill
    from agenttrace.store.store import Store


def bills_of(store: Store, settings: Settings, found: Sequence[Session]) -> dict[int, Bill]:
    """What each of these sessions used and cost."""
    cash = Cashier.load(settings)
    rows = store.usage_by_session([session.id for session in found])
    return {session.id: cash.bill(rows.get(session.id, ())) for session in found}


def session_fields(session: Session, bill: Bill) -> dict[str, Any]:
    """A session for JSON."""
    return {
        "session_id": session.session_id,
        "agent": session.agent,
        "project": session.project,
        "title": title_of(session) or None,
        "state": session.state,
        "started_at": iso(session.started_at),
        "last_at": iso(session.last_at),
        "turns": session.turns,
        "steps": session.steps,
        "tools": session.tools,
        "usage": bill.usage_fields(),
        **bill.cost_fields(),
        "errors": session.errors,
        "events": session.events,
        "branch": session.branch,
        "model": session.model,
        "version": session.version,
        "parent": session.parent,
        "demo": is_demo(session.project),
        "machine": session.machine,
        "person": session.person,
    }
