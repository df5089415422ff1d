"""Sessions by the name in an address, and sessions and bills in the shapes of the API."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar, cast

import msgspec
from fastapi import Path

from agenttrace.ids import key_number, session_key
from agenttrace.model import Session
from agenttrace.projects import is_demo
from agenttrace.serve.api.shapes.figures import Bill
from agenttrace.serve.api.shapes.sessions import SessionMarks, SessionRef, SessionRow, State
from agenttrace.serve.problems import ProblemError
from agenttrace.store.annotations import NO_MARKS
from agenttrace.store.errors import SessionNameError
from agenttrace.views.annotations import marks_fields
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.prices import costing
    from agenttrace.serve.api.trace_reader import TraceReader
    from agenttrace.store.annotations import Marks
    from agenttrace.store.questions import StoredOutcomes
    from agenttrace.store.store import Store

T = TypeVar("T")

SessionName = Annotated[str, Path(description="A session's key, its id, or the beginning of its id.", max_length=500)]
SpanName = Annotated[str, Path(description="A span's id: sixteen hexadecimal digits.", max_length=500)]

#: Characters of a title or first prompt in lists.
TITLE_CHARS = 300
_SPAN = re.compile(r"[0-9a-fA-F]{16}")


# -- by name ------------------------------------------------------------------------------------------------------


async def query_session(reader: TraceReader, name: str, question: Callable[[Store, Session], T]) -> T:
    """Ask the store about the session of this name; 404 where there is none, 409 where there are several."""
    return await reader.query(lambda store: question(store, session_named(store, name)), empty=_no_session)


def session_named(store: Store, name: str) -> Session:
    """The session of this name; 404 where there is none, 409 where there are several."""
    try:
        return store.session(name)
    except SessionNameError as error:
        if error.found:
            problem = f"{len(error.found)} sessions have an id that begins like this; give more of it, or a key."
            raise ProblemError(409, problem) from None
        if error.pruned:
            raise ProblemError(404, "This session was pruned; only its cost is kept.") from None
        return _no_session()


def _no_session() -> NoReturn:
    raise ProblemError(404, "There is no such session.")


def number_of(key: str) -> int:
    """The number of the session with this key; 400 where it is not a key."""
    number = key_number(key)
    if number is None:
        raise ProblemError(400, "session is not a key: sixteen hexadecimal digits, as lists of sessions have them.")
    return number


def span_of(name: str) -> bytes:
    """The id of a span as the store has it; 404 for what cannot be one."""
    if not _SPAN.fullmatch(name):
        raise ProblemError(404, "There is no such span: its id has sixteen hexadecimal digits.")
    return bytes.fromhex(name)


# -- in the shapes of the API -------------------------------------------------------------------------------------


def ref_of(session: Session) -> SessionRef:
    """Enough of a session to link to it."""
    title = cut(title_of(session), TITLE_CHARS) or None
    return SessionRef(session_key(session.id), session.session_id, session.agent, title, session.project)


def row_of(session: Session, bill: costing.Bill, outcomes: StoredOutcomes | None, marks: Marks | None) -> SessionRow:
    """A session as lists show it; names that many sessions share are stored once."""
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
        machine=_shared(session.machine),
        person=_shared(session.person),
        model=_shared(session.model),
        models=[sys.intern(model) for model in models],
        version=_shared(session.version),
        parent=session.parent,
        demo=is_demo(session.project),
        bill=bill_of(bill),
        outcomes=None if outcomes is None else outcomes.figures,
        marks=_NO_MARKS if marks is None else _marks(marks),
    )


def masked_row(row: SessionRow, session: Session) -> SessionRow:
    """The row of a session whose figures alone are shown."""
    return msgspec.structs.replace(
        row,
        session_id=session.session_id,
        title=None,
        project=session.project,
        branch=None,
        parent=None,
        demo=False,
        marks=_NO_MARKS,
    )


def _marks(marks: Marks) -> SessionMarks:
    return SessionMarks(**marks_fields(marks), revision=marks.revision)


#: Shared by the many sessions that have none.
_NO_MARKS = _marks(NO_MARKS)


def bill_of(bill: costing.Bill) -> Bill:
    """A bill as the API shows it."""
    return Bill(**bill.fields())


def cut(text: str, chars: int) -> str:
    """At most this many characters of a text; the last one is an ellipsis where there are more."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _shared(name: str | None) -> str | None:
    return None if name is None else sys.intern(name)
