"""``agenttrace team now``: who works on what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.session_ids import ShortIds
from agenttrace.cli.sessions import STATE_STYLES, last_part
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.team import CurrentSession, team_now
from agenttrace.views.times import parse_when

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.questions import SessionFilter
    from agenttrace.store.store import Store


def show_now(settings: Settings, target: str | None, wanted: SessionFilter, *, as_json: bool) -> None:
    """Print who works on what in the team's store, or in that of this machine where there is none."""
    with _opened(settings, target) as store:
        found = team_now(store.sessions(wanted))
        short = ShortIds([] if as_json else store.session_ids())
    if as_json:
        output.print_json(msgspec.to_builtins(found))
    elif not found:
        output.say("No session works or waits.")
    else:
        print_table(_columns(short), [session for each in found for session in each.sessions])


def _opened(settings: Settings, target: str | None) -> Store:
    from agenttrace.store import open_team_store
    from agenttrace.store.team_place import source_of

    source = source_of(settings, target)
    if target is not None or source.exists():
        return open_team_store(source.target, read_only=True, settings=settings)
    return opening.opened_store(settings)


def _clock(session: CurrentSession) -> str | None:
    return None if session.since is None else figures.clock(parse_when(session.since, "UTC"))


def _columns(short: ShortIds) -> tuple[Column[CurrentSession], ...]:
    return (
        Column("person", lambda each: one_line(each.person or "") or None, least=6),
        Column("machine", lambda each: one_line(each.machine or "") or None, least=8),
        Column("state", lambda each: each.state, style=STATE_STYLES),
        Column("since", _clock, right=True),
        Column("project", lambda each: last_part(each.project), least=8, optional=1),
        Column("agent", lambda each: each.agent, optional=3),
        Column("session", lambda each: short.of(each.session_id), style="cyan", optional=2),
        Column("title", lambda each: one_line(each.title or "", 200) or None, least=16),
    )
