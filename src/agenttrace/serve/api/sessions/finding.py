"""Finding the session that an address names: by its key, its whole id, or the beginning of one."""

from __future__ import annotations

import re
from typing import Annotated, NoReturn

from fastapi import Path

from agenttrace.ids import session_key
from agenttrace.model import Session
from agenttrace.serve.api.sessions.rows import TITLE_CHARS, cut
from agenttrace.serve.api.shapes import SessionRef
from agenttrace.serve.problems import ProblemError
from agenttrace.store.errors import SessionNameError
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.sessions import title_of

#: As paths have it.
SessionName = Annotated[str, Path(description="A session's key, its id, or the beginning of its id.", max_length=500)]
SpanName = Annotated[str, Path(description="A span's id: sixteen hexadecimal digits.", max_length=500)]

_SPAN = re.compile(r"[0-9a-fA-F]{16}")


def key_of(session: Session) -> str:
    """What addresses call the session."""
    return session_key(session.id)


def ref_of(session: Session) -> SessionRef:
    """Enough of a session to link to it."""
    title = cut(title_of(session), TITLE_CHARS) or None
    return SessionRef(key_of(session), session.session_id, session.agent, title, session.project)


def session_named(store: SqliteStore, name: str) -> Session:
    """The session of that name; 404 where there is none, 409 where there are several."""
    try:
        return store.session(name)
    except SessionNameError as error:
        several = len(error.found)
        if several:
            problem = f"{several} sessions have an id that begins like this; give more of it, or a key."
            raise ProblemError(409, problem) from None
        if error.pruned:
            raise ProblemError(404, "This session was pruned; only its cost is kept.") from None
        return no_session()


def no_session() -> NoReturn:
    """404; what a store without sessions answers for every one of them."""
    raise ProblemError(404, "There is no such session.")


def span_of(name: str) -> bytes:
    """The id of a span as the store has it; 404 for what cannot be one."""
    if not _SPAN.fullmatch(name):
        raise ProblemError(404, "There is no such span: its id has sixteen hexadecimal digits.")
    return bytes.fromhex(name)
