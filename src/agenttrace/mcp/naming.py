"""Finding what a model names: a session by its id or the beginning of one, an agent, a moment."""

from __future__ import annotations

import json

from agenttrace.config import did_you_mean
from agenttrace.ids import session_key
from agenttrace.mcp.past import ToolContext
from agenttrace.model import Session
from agenttrace.record.formats import AGENTS
from agenttrace.redaction import session_name
from agenttrace.store.errors import SessionNameError
from agenttrace.views.sessions import title_of
from agenttrace.views.times import NotATimeError, iso, parse_when
from agenttrace.views.trouble import TroubleError

_SHOWN = 10
_TITLE_CHARS = 80
_LONGEST_ID = 200


def session_named(look: ToolContext, name: str) -> Session:
    """The session of that name; where several have it, the error says which."""
    name = name.strip()
    try:
        return look.store.session(name)
    except SessionNameError as error:
        if error.found:
            listed = "".join(f"\n- {_line(look, session)}" for session in error.found[:_SHOWN])
            problem, fix = f"{name!r} is the beginning of several sessions", f"Give one of these:{listed}"
        elif error.pruned:
            problem, fix = f"session {name!r} was pruned; only its cost is kept", "usage with by=session shows it."
        else:
            problem, fix = f"no session has an id that begins with {name!r}", "list_sessions and search give ids."
        raise TroubleError(problem, fix) from None


def name_of(look: ToolContext, session: Session) -> str:
    """What a model may call a session: its id, or its key where the id is nothing to copy or to be seen."""
    name = session_name(session, look.shown.mask)
    plain = len(name) <= _LONGEST_ID and name.isprintable() and name == name.strip()
    return name if plain else session_key(session.id)


def quoted(look: ToolContext, session: Session) -> str:
    """The name as it is written in a call."""
    return json.dumps(name_of(look, session), ensure_ascii=False)


def _line(look: ToolContext, session: Session) -> str:
    # Two agents may have a session of one id; keys tell them apart.
    facts = (session_key(session.id), name_of(look, session), session.agent, short_time(session.last_at))
    return " · ".join([*filter(None, facts), look.shown.line(title_of(session), _TITLE_CHARS)])


def agent_named(look: ToolContext, name: str | None) -> str | None:
    """An agent's name as the store has it."""
    if name is None:
        return None
    names = [agent.name for agent in AGENTS]
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in names:
        return wanted
    # Programs that send spans of their own are called what they call themselves.
    stored = look.store.agents()
    if name in stored:
        return name
    raise TroubleError(
        f"there is no agent named {name[:100]!r}", did_you_mean(wanted, sorted({*names, *stored})), misused=True
    )


def moment_of(look: ToolContext, text: str | None) -> int | None:
    """A moment in microseconds."""
    if text is None:
        return None
    try:
        return parse_when(text, look.settings.usage.timezone)
    except NotATimeError as error:
        raise TroubleError(error.problem, error.fix, misused=True) from None


def short_time(micros: int | None) -> str | None:
    """A moment in UTC, to the second: ``2026-11-15T08:30:00Z``."""
    text = iso(micros)
    return None if text is None else f"{text[:19]}Z"


def like(text: str) -> str:
    """A pattern of SQL for texts that contain this one."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
