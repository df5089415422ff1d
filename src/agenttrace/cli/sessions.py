"""``agenttrace sessions``: what was worked on, newest first."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from agenttrace.cli import money, opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.times import since_micros
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import bills_of, session_fields, title_of

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill
    from agenttrace.store.errors import SessionNameError
    from agenttrace.store.sqlite.store import SqliteStore

EPILOG = """
[bold]Examples[/bold]

  agenttrace sessions                            the latest twenty

  agenttrace sessions --state waiting            which ones wait for you

  agenttrace sessions --project shop --since 7d  one project, last week

  agenttrace sessions --json | jq '.[].cost'
"""

_LATEST = 20
STATE_STYLES = {"working": "bold green", "waiting": "bold yellow", "interrupted": "red", "ended": "dim"}


class State(StrEnum):
    """What a session can be found doing."""

    working = "working"
    waiting = "waiting"
    ended = "ended"
    interrupted = "interrupted"


def sessions(
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Filter by agent.")] = None,
    project: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Filter by a part of the working directory.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Active since: 7d, 24h, 2026-11-01, ISO time.")
    ] = None,
    state: Annotated[State | None, typer.Option(help="Filter by state.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="Maximum number of rows; 0: all. [default: 20 in the table, all in JSON]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List sessions, newest first, with tokens and cost."""
    from agenttrace.store.questions import SessionFilter

    settings = opening.settings()
    name = opening.checked_agent(agent)
    wanted = SessionFilter(
        agents=frozenset() if name is None else frozenset([name]),
        project_contains=project,
        since=since_micros(since, settings.usage.timezone),
        states=frozenset() if state is None else frozenset([state.value]),
    )
    with opening.opened_store(settings) as store:
        shown = limit if limit is not None else 0 if as_json else _LATEST
        found = store.sessions(wanted, limit=shown or None)
        bills = bills_of(store, settings, found)
    if as_json:
        output.print_json([session_fields(session, bills[session.id]) for session in found])
    elif found:
        _show(found, bills)
    else:
        output.say("No session fits. Try fewer filters, or record first: agenttrace record --once")


def find_one(store: SqliteStore, name: str) -> Session:
    """The session of that key, id or beginning of an id; clear errors for none and several."""
    from agenttrace.store import errors

    try:
        return store.session(name)
    except errors.SessionNameError as error:
        _refuse(error)


def _refuse(error: SessionNameError) -> NoReturn:
    name, found = error.name, error.found
    if error.pruned:
        raise CommandError(f"session {name} was pruned; only its cost is kept", "See: agenttrace usage --by session")
    if not found:
        raise CommandError(f"no session begins with {name!r}", "See which there are: agenttrace sessions")
    output.note(f"{name!r} is the beginning of {len(found)} sessions:", "yellow")
    for session in found:
        output.note(f"  {session.session_id}  {session.agent}  {one_line(title_of(session), 60)}", "")
    raise UsageError(f"{name!r} is ambiguous", "Give more of the id.")


_COLUMNS = (
    Column("session"),
    Column("agent", optional=2),
    Column("state"),
    Column("last", right=True, optional=1),
    Column("title", least=16),
    Column("project", least=8, optional=7),
    Column("turns", right=True, optional=3),
    Column("tools", right=True, optional=4),
    Column("in", right=True, optional=6),
    Column("out", right=True, optional=5),
    Column("cost", right=True),
)


def _show(found: list[Session], bills: dict[int, Bill]) -> None:
    from agenttrace.store.session_state import recent_since

    short = short_ids([session.session_id for session in found])
    print_table(_COLUMNS, [_row(session, bills[session.id], short[session.session_id]) for session in found])
    recent = recent_since()
    waiting = sum(1 for session in found if session.state == "waiting" and (session.last_at or 0) >= recent)
    hint = f"{figures.counted(waiting, 'session waits', 'sessions wait')} for you. " if waiting else ""
    output.note(f"{hint}Next: agenttrace show SESSION (the beginning of an id is enough)")


def _row(session: Session, bill: Bill, short: str) -> list[Any]:
    return [
        output.styled(short, "cyan"),
        output.styled(session.agent),
        output.styled(session.state, STATE_STYLES.get(session.state, "")),
        figures.clock(session.last_at),
        output.styled(one_line(title_of(session), 200)),
        output.styled(_last_part(session.project)),
        str(session.turns),
        output.styled(f"{session.tools}{f' ({session.errors}!)' if session.errors else ''}"),
        figures.tokens(bill.all_input),
        figures.tokens(bill.tokens["output_tokens"]),
        output.styled(money.cost_text(bill)),
    ]


def short_ids(session_ids: list[str]) -> dict[str, str]:
    """Of each id as much as tells it from the others, and never less than eight characters."""
    names = {session_id: session_id.removeprefix("session_") for session_id in session_ids}
    ordered = sorted(set(names.values()))
    needed = {}
    for before, name, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        needed[name] = max(8, _shared(name, before) + 1, _shared(name, after) + 1)
    return {session_id: one_line(name[: needed[name]]) for session_id, name in names.items()}


def _shared(one: str, other: str) -> int:
    """How many characters two names begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _last_part(project: str | None) -> str:
    return one_line((project or "").rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1])
