"""Sessions and bills in the shapes of the API, made of what the store and the cashier know of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from agenttrace.ids import key_number, session_key
from agenttrace.serve.api.shapes import Bill, SessionRow, State
from agenttrace.serve.problems import ProblemError
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.prices import costing

#: Of a title or first prompt, lists show this much.
TITLE_CHARS = 300


def number_of(key: str) -> int:
    """The number of the session of this key; 400 where it is no key."""
    number = key_number(key)
    if number is None:
        raise ProblemError(400, "session is not a key: sixteen hexadecimal digits, as lists of sessions have them.")
    return number


def bill_of(bill: costing.Bill) -> Bill:
    """A bill as the API has it."""
    return Bill(**bill.fields())


def row_of(session: Session, bill: costing.Bill) -> SessionRow:
    """A session as lists have it; names that many sessions share are held once."""
    models = sorted(bill.models | ({session.model} if session.model else set()))
    return SessionRow(
        key=session_key(session.id),
        session_id=session.session_id,
        agent=sys.intern(session.agent),
        title=cut(title_of(session), TITLE_CHARS) or None,
        project=_shared(session.project),
        state=cast("State", session.state),
        started_at=iso(session.started_at),
        last_at=iso(session.last_at),
        turns=session.turns,
        steps=session.steps,
        tools=session.tools,
        errors=session.errors,
        events=session.events,
        branch=_shared(session.branch),
        model=_shared(session.model),
        models=[sys.intern(model) for model in models],
        version=_shared(session.version),
        parent=session.parent,
        bill=bill_of(bill),
    )


def cut(text: str, chars: int) -> str:
    """No more than so many characters of a text, the last one saying that there are more."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _shared(name: str | None) -> str | None:
    return None if name is None else sys.intern(name)
