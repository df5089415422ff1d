"""Finding the session that an address names: by its key, its whole id, or the beginning of one."""

from __future__ import annotations

import re
import sqlite3
from typing import Annotated, NoReturn

from fastapi import Path

from agenttrace.config import Settings
from agenttrace.model import Session
from agenttrace.serve.api.rows import TITLE_CHARS, cut, session_key
from agenttrace.serve.api.shapes import SessionRef
from agenttrace.serve.problems import ProblemError
from agenttrace.store.sqlite.reading import find_sessions, joined_to, sessions_by_number
from agenttrace.views.sessions import title_of

#: As paths have it.
SessionName = Annotated[str, Path(description="A session's key, its id, or the beginning of its id.", max_length=500)]
SpanName = Annotated[str, Path(description="A span's id: sixteen hexadecimal digits.", max_length=500)]

_KEY = re.compile(r"[0-7][0-9a-f]{15}")
_SPAN = re.compile(r"[0-9a-fA-F]{16}")


def key_of(session: Session) -> str:
    """What addresses call the session."""
    return session_key(session.id)


def ref_of(session: Session) -> SessionRef:
    """Enough of a session to link to it."""
    title = cut(title_of(session), TITLE_CHARS) or None
    return SessionRef(key_of(session), session.session_id, session.agent, title, session.project)


def find_session(connection: sqlite3.Connection, name: str, settings: Settings) -> Session:
    """The session of that name; 404 where there is none, 409 where there are several."""
    stale = settings.record.stale_minutes
    if _KEY.fullmatch(name):
        number = int(name, 16)
        found = sessions_by_number(connection, [joined_to(connection, number) or number], stale_minutes=stale)
        if found:
            return found[0]
    matching = find_sessions(connection, name, stale_minutes=stale) if name else []
    found = [session for session in matching if session.events]
    if len(found) == 1:
        return found[0]
    if found:
        raise ProblemError(409, f"{len(found)} sessions have an id that begins like this; give more of it, or a key.")
    if matching:
        raise ProblemError(404, "This session was pruned; only its cost is kept.")
    return no_session()


def no_session() -> NoReturn:
    """404; what a store without sessions answers for every one of them."""
    raise ProblemError(404, "There is no such session.")


def span_of(name: str) -> bytes:
    """The id of a span as the store has it; 404 for what cannot be one."""
    if not _SPAN.fullmatch(name):
        raise ProblemError(404, "There is no such span: its id has sixteen hexadecimal digits.")
    return bytes.fromhex(name)
