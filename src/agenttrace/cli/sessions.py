"""``agenttrace sessions``: all sessions, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, get_args

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_list
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.options import Agent, AsJson, Machine, Person, Project, Since, only
from agenttrace.cli.session_ids import ShortIds
from agenttrace.store import errors
from agenttrace.store.annotations import NO_MARKS
from agenttrace.store.questions import OutcomeFigures, OutcomeKind, SessionFilter
from agenttrace.store.session_state import SessionState
from agenttrace.views import figures, money
from agenttrace.views.annotations import marks_fields, marks_text, score_tests
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import bills_of, session_fields, title_of
from agenttrace.views.times import parse_since

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill
    from agenttrace.store.annotations import Marks
    from agenttrace.store.errors import SessionNameError
    from agenttrace.store.store import Store

EPILOG = """
  agenttrace sessions                            the latest twenty
  agenttrace sessions --state waiting            sessions that wait for you
  agenttrace sessions --project shop --since 7d  one project, last week
  agenttrace sessions --with-commits             sessions in which commits were made
  agenttrace sessions --with failed_tests        sessions whose last run of tests failed
  agenttrace sessions --person amy               of a team's store: the sessions of one person
  agenttrace sessions --starred --label bug      sessions with a star and a label
  agenttrace sessions --score 'quality<3'        sessions with a low score
  agenttrace sessions --json | jq '.[].cost'
"""

_LATEST = 20
_KINDS: tuple[OutcomeKind, ...] = get_args(OutcomeKind)
STATE_STYLES = {"working": "bold green", "waiting": "bold yellow", "interrupted": "red", "ended": "dim"}


def _outcome(text: str) -> OutcomeKind:
    for kind in _KINDS:
        if text == kind:
            return kind
    if text == "kept":
        raise typer.BadParameter(
            "Whether commits were kept is not stored: it is asked of each repository, and may be unknown. "
            "Use --with commits, and see kept in: agenttrace outcomes"
        )
    raise typer.BadParameter(f"{text!r} is not one of {', '.join(_KINDS)}.")


WithOutcome = Annotated[
    OutcomeKind | None,
    typer.Option("--with", parser=_outcome, metavar="|".join(_KINDS), help="Only sessions with this outcome."),
]


def sessions(
    agent: Agent = None,
    project: Project = None,
    machine: Machine = None,
    person: Person = None,
    since: Since = None,
    state: Annotated[SessionState | None, typer.Option(help="Filter by state.")] = None,
    with_commits: Annotated[
        bool, typer.Option("--with-commits", help="Only sessions in which commits were made.")
    ] = False,
    with_outcome: WithOutcome = None,
    label: Annotated[
        list[str], typer.Option(metavar="NAME", help="Only sessions with this label; may be repeated.")
    ] = [],  # noqa: B006 - never changed
    starred: Annotated[bool, typer.Option("--starred", help="Only sessions with a star.")] = False,
    with_notes: Annotated[bool, typer.Option("--with-notes", help="Only sessions with a note.")] = False,
    score: Annotated[
        list[str], typer.Option(metavar="TEST", help="Only where the latest score passes: 'quality<3'.")
    ] = [],  # noqa: B006 - never changed
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="The maximum number of rows; 0: all.", show_default="20, with --json all"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first, with tokens and cost."""
    settings = opening.settings()
    name = opening.checked_agent(agent)
    wanted = SessionFilter(
        agents=only(name),
        project_contains=project,
        machines=only(machine),
        persons=only(person),
        since=parse_since(since, settings.usage.timezone),
        states=frozenset() if state is None else frozenset([state]),
        labels=frozenset(name.strip() for name in label),
        starred=True if starred else None,
        noted=True if with_notes else None,
        scores=score_tests(score),
    )
    with opening.shown_store(settings) as store:
        shown = (limit if limit is not None else 0 if as_json else _LATEST) or None
        kinds: set[OutcomeKind] = {*([with_outcome] if with_outcome else ()), *(("commits",) if with_commits else ())}
        found = store.sessions(wanted, limit=None if kinds else shown)
        outcomes = _outcomes(store, found, read=bool(kinds))
        if kinds:
            found = [session for session in found if all(map(outcomes[session.id].has, kinds))][:shown]
        bills = bills_of(store, settings, found)
        marks = store.marks([session.id for session in found])
        short = ShortIds([] if as_json else store.session_ids())
        _, waiting = (0, 0) if as_json else store.active_counts()
    print_list(
        [
            _Row(
                session,
                bills[session.id],
                short.of(session.session_id),
                marks.get(session.id, NO_MARKS),
                outcomes.get(session.id),
                with_commits,
            )
            for session in found
        ],
        (*(_COLUMNS if outcomes else _WITHOUT_OUTCOMES), *_team_columns(found), *(_MARKS if marks else ())),
        _fields,
        as_json=as_json,
        empty="No session matches. Try fewer filters, or record first: agenttrace record --once",
        hint=f"{_waiting(waiting)}Next: agenttrace show SESSION (the beginning of an id is enough)",
    )


def find_one(store: Store, name: str) -> Session:
    """The session of that key, id or beginning of an id; clear errors for none and several."""
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


class _Row(NamedTuple):
    session: Session
    bill: Bill
    short: str
    marks: Marks
    #: ``None`` where the session was not examined yet.
    outcomes: OutcomeFigures | None
    with_commits: bool


def _fields(row: _Row) -> dict[str, Any]:
    outcomes = None if row.outcomes is None else msgspec.structs.asdict(row.outcomes)
    commits = {"commits": row.outcomes.commits} if row.with_commits and row.outcomes else {}
    return {**session_fields(row.session, row.bill), **marks_fields(row.marks), "outcomes": outcomes, **commits}


def _outcomes(store: Store, found: list[Session], *, read: bool) -> dict[int, OutcomeFigures]:
    """As far as sessions were examined; with ``read``, the lines of the others are read."""
    from agenttrace.views.outcome_figures import outcomes_by_session

    known = outcomes_by_session(store, found) if read else store.outcomes([session.id for session in found])
    return {number: outcomes.figures for number, outcomes in known.items()}


def changes_text(outcomes: OutcomeFigures | None) -> str | None:
    """Lines that were added and removed: ``+12 -3``; nothing where no file was changed, ``?`` where that is unknown."""
    if outcomes is None:
        return "?"
    if not outcomes.files:
        return None
    lines = (("+", outcomes.added), ("-", outcomes.removed))
    return " ".join(sign + ("?" if number is None else str(number)) for sign, number in lines)


def tests_text(outcomes: OutcomeFigures) -> str | None:
    """The last run of tests with a summary, or how many there were without one."""
    if outcomes.tests_passed is None:
        return f"{outcomes.test_runs}×" if outcomes.test_runs else None
    return f"{outcomes.tests_passed} ok" + (f", {outcomes.tests_failed} failed" if outcomes.tests_failed else "")


def _came(cell: Callable[[OutcomeFigures], object]) -> Callable[[_Row], object]:
    """A cell of outcomes: ``?`` where they are not known yet."""
    return lambda row: "?" if row.outcomes is None else cell(row.outcomes)


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("session", lambda row: row.short, style="cyan"),
    Column("agent", lambda row: row.session.agent, optional=1),
    Column("state", lambda row: row.session.state, style=STATE_STYLES),
    Column("last", lambda row: figures.clock(row.session.last_at), right=True, optional=2),
    Column("title", lambda row: one_line(title_of(row.session), 200), least=16),
    Column("project", lambda row: last_part(row.session.project), least=8, optional=7),
    Column("turns", lambda row: row.session.turns, right=True, optional=3),
    Column("tools", lambda row: _tools(row.session), right=True, optional=4),
    Column("in", lambda row: figures.tokens(row.bill.all_input), right=True, optional=6),
    Column("out", lambda row: figures.tokens(row.bill.tokens["output_tokens"]), right=True, optional=5),
    Column("changes", lambda row: changes_text(row.outcomes), right=True, optional=9),
    Column("commits", _came(lambda found: found.commits or None), right=True, optional=8),
    Column("PRs", _came(lambda found: found.pull_requests or None), right=True, optional=11),
    Column("tests", _came(tests_text), optional=10),
    Column("cost", lambda row: money.cost_text(row.bill), right=True),
)
#: Where no session was examined yet, as after a first import: nothing is known, which is not the same as no change.
_WITHOUT_OUTCOMES = tuple(column for column in _COLUMNS if column.name not in ("changes", "commits", "PRs", "tests"))
_TEAM: tuple[Column[_Row], ...] = (
    Column("machine", lambda row: one_line(row.session.machine or "") or None, least=8, optional=2),
    Column("person", lambda row: one_line(row.session.person or "") or None, least=6, optional=3),
)
_MARKS: tuple[Column[_Row], ...] = (
    Column("marks", lambda row: one_line(marks_text(row.marks), 60), least=8, optional=8, style="yellow"),
)


def _team_columns(found: list[Session]) -> tuple[Column[_Row], ...]:
    """The columns of a team's store, where some session has a value for them."""
    return tuple(column for column in _TEAM if any(getattr(session, column.name) for session in found))


def _tools(session: Session) -> str:
    return f"{session.tools}{f' ({session.errors}!)' if session.errors else ''}"


def _waiting(waiting: int) -> str:
    """How many wait in all, as the overview counts them, however many are listed."""
    return f"In all, {figures.counted(waiting, 'session waits', 'sessions wait')} for you. " if waiting else ""


def last_part(project: str | None) -> str:
    """The name of a directory."""
    return one_line((project or "").rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1])
