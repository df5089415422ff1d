"""What a model names in its arguments: a session by its id or the beginning of one, an agent, a time."""

from __future__ import annotations

import json
from typing import Any

from agenttrace.config import did_you_mean
from agenttrace.ids import session_key
from agenttrace.mcp.tool import NarrowedArguments, TeamArguments
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.model import Session
from agenttrace.record.formats import AGENTS
from agenttrace.redaction import session_name
from agenttrace.store.errors import SessionNameError
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso, parse_since
from agenttrace.views.trouble import TroubleError

_SHOWN = 10
_TITLE_CHARS = 80
_LONGEST_ID = 200


def session_named(context: ToolContext, name: str) -> Session:
    """The session of that name; where several have it, the error says which."""
    name = name.strip()
    try:
        return context.store.session(name)
    except SessionNameError as error:
        if error.found:
            listed = "".join(f"\n- {_line(context, session)}" for session in error.found[:_SHOWN])
            problem, fix = f"{name!r} is the beginning of several sessions", f"Give one of these:{listed}"
        elif error.pruned:
            problem, fix = f"session {name!r} was pruned; only its cost is kept", "usage with by=session shows it."
        else:
            problem, fix = f"no session has an id that begins with {name!r}", "list_sessions and search give ids."
        raise TroubleError(problem, fix) from None


def name_of(context: ToolContext, session: Session) -> str:
    """The name of a session for a model: its id, or its key where the id cannot be copied or shown."""
    name = session_name(session, context.shown.mask)
    plain = len(name) <= _LONGEST_ID and name.isprintable() and name == name.strip()
    return name if plain else session_key(session.id)


def quoted(context: ToolContext, session: Session) -> str:
    """The name as it is written in a call."""
    return json.dumps(name_of(context, session), ensure_ascii=False)


def _line(context: ToolContext, session: Session) -> str:
    # Two agents may have a session of one id; keys tell them apart.
    facts = (session_key(session.id), name_of(context, session), session.agent, short_time(session.last_at))
    return " · ".join([*filter(None, facts), context.shown.line(title_of(session), _TITLE_CHARS)])


def agent_named(context: ToolContext, name: str | None) -> str | None:
    """An agent's name as the store has it."""
    if name is None:
        return None
    names = [agent.name for agent in AGENTS]
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in names:
        return wanted
    # Programs that send their own spans have other names.
    stored = context.store.agents()
    if name in stored:
        return name
    raise TroubleError(
        f"there is no agent named {name[:100]!r}", did_you_mean(wanted, sorted({*names, *stored})), misused=True
    )


def narrowed(context: ToolContext, asked: NarrowedArguments) -> dict[str, Any]:
    """The parts of a query that several tools filter by."""
    agent, timezone = agent_named(context, asked.agent), context.settings.usage.timezone
    return {
        "agents": frozenset() if agent is None else frozenset([agent]),
        "project_contains": asked.project,
        **team_filters(asked),
        "since": parse_since(asked.since, timezone),
        "until": parse_since(asked.until, timezone),
    }


def team_filters(asked: TeamArguments) -> dict[str, Any]:
    """The machine and the person of a query."""
    return {
        "machines": frozenset() if asked.machine is None else frozenset([asked.machine]),
        "persons": frozenset() if asked.person is None else frozenset([asked.person]),
    }


def short_time(micros: int | None) -> str | None:
    """A moment in UTC, to the second: ``2026-11-15T08:30:00Z``."""
    text = iso(micros)
    return None if text is None else f"{text[:19]}Z"
