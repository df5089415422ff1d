"""``agenttrace outcomes``: files, commits, pull requests and tests of a session, of all, or by project or month."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_list, print_table
from agenttrace.cli.errors import UsageError
from agenttrace.cli.options import Agent, AsJson, Machine, Person, Project, Since, only
from agenttrace.cli.session_ids import ShortIds
from agenttrace.cli.sessions import WithOutcome, find_one, tests_text
from agenttrace.prices.costing import Cashier
from agenttrace.store.questions import OutcomeGroup, SessionFilter
from agenttrace.views import figures, money
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import bills_of, title_of
from agenttrace.views.times import iso, parse_since

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill
    from agenttrace.store.questions import OutcomeFigures
    from agenttrace.views.outcome_figures import GroupOutcomes
    from agenttrace.views.outcomes import ChangedFile, SessionCommit, SessionOutcomes, SessionTests

EPILOG = """
  agenttrace outcomes --since 7d     the sessions of the last week, in figures
  agenttrace outcomes --with failed_tests    sessions whose last run of tests failed
  agenttrace outcomes --by project   what a commit costs in each project
  agenttrace outcomes --by person    and of each person, in a team's store
  agenttrace outcomes 5bc45ad6       files, commits and tests of one session
  agenttrace outcomes 5bc45ad6 --patch | git apply --check    its edits, in order, as a patch
  agenttrace outcomes 5bc45ad6 --json | jq '.commits[] | select(.kept)'
"""


_LATEST = 20


def outcomes(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="A session's id, or the beginning of one.")
    ] = None,
    agent: Agent = None,
    project: Project = None,
    machine: Machine = None,
    person: Person = None,
    since: Since = None,
    with_outcome: WithOutcome = None,
    by: Annotated[OutcomeGroup | None, typer.Option(help="Group by, with the cost of a commit.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="The maximum number of sessions; 0: all.", show_default="20, with --json or --by all"),
    ] = None,
    patch: Annotated[
        bool, typer.Option("--patch", help="Print the edits of the session in their order, as one patch.")
    ] = False,
    path: Annotated[str | None, typer.Option(help="With --patch or --json: only the edits of this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what came of sessions: files changed, commits, pull requests, tests, and whether it was kept.

    Each fact of a session says where it is known from: the result of a tool call, the output of a command, the log, or
    the git repository of the working directory, which is only read. Nothing is guessed.
    """
    if session is not None:
        if by or since or agent or project or machine or person or with_outcome or limit is not None:
            raise UsageError("a session and filters do not go together", "Give the session alone, or only filters.")
        if patch or path is not None:
            _edits(session, path, as_json=as_json)
        else:
            _one(session, as_json=as_json)
        return
    if patch or path is not None:
        raise UsageError("a patch is of one session", "Give the session: agenttrace outcomes SESSION --patch")
    from agenttrace.views.outcome_figures import KeptCommits, outcomes_by, outcomes_by_session

    settings = opening.settings()
    name = opening.checked_agent(agent)
    wanted = SessionFilter(
        agents=only(name),
        project_contains=project,
        machines=only(machine),
        persons=only(person),
        since=parse_since(since, settings.usage.timezone),
    )
    shown = limit if limit is not None else 0 if as_json or by else _LATEST
    with opening.shown_store(settings) as store:
        found = store.sessions(wanted, limit=(shown or None) if with_outcome is None else None)
        if with_outcome is not None:
            came = outcomes_by_session(store, found)
            found = [each for each in found if came[each.id].figures.has(with_outcome)][: shown or None]
        if by is not None:
            _by(by, outcomes_by(store, Cashier.load(settings), found, by, settings.usage.timezone), as_json=as_json)
            return
        found_of, bills = outcomes_by_session(store, found), bills_of(store, settings, found)
        short = ShortIds([] if as_json else store.session_ids())
    kept = KeptCommits()
    rows = [
        _Row(
            each, short.of(each.session_id), found_of[each.id].figures, bills[each.id], kept.of(each, found_of[each.id])
        )
        for each in found
    ]
    print_list(
        rows,
        _SESSIONS,
        _Row.fields,
        as_json=as_json,
        empty="No session matches. Try fewer filters, or record first: agenttrace record --once",
        hint="Next: agenttrace outcomes SESSION (files, commits and tests of one session)",
    )


# -- many sessions ------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    session: Session
    short: str
    figures: OutcomeFigures
    bill: Bill
    kept: tuple[int, int] | None

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        session = self.session
        names = {"session_id": session.session_id, "agent": session.agent, "project": session.project}
        return {
            **names,
            "title": title_of(session) or None,
            "last_at": iso(session.last_at),
            **msgspec.structs.asdict(self.figures),
            "commits_kept": None if self.kept is None else self.kept[0],
            **self.bill.cost_fields(),
        }


_SESSIONS: tuple[Column[_Row], ...] = (
    Column("session", lambda row: row.short, style="cyan"),
    Column("agent", lambda row: row.session.agent, optional=3),
    Column("title", lambda row: one_line(title_of(row.session), 200), least=16),
    Column("files", lambda row: row.figures.files or None, right=True),
    Column("added", lambda row: figures.signed("+", row.figures.added or None), right=True, style="green"),
    Column("removed", lambda row: figures.signed("-", row.figures.removed or None), right=True, style="red"),
    Column("commits", lambda row: row.figures.commits or None, right=True),
    Column("kept", lambda row: None if row.kept is None else f"{row.kept[0]}/{row.kept[1]}", right=True),
    Column("PRs", lambda row: row.figures.pull_requests or None, right=True, optional=2),
    Column("tests", lambda row: tests_text(row.figures), optional=1),
    Column("cost", lambda row: money.cost_text(row.bill), right=True, optional=4),
)


def _by(by: OutcomeGroup, groups: list[GroupOutcomes], *, as_json: bool) -> None:
    columns: tuple[Column[GroupOutcomes], ...] = (
        Column(by, lambda group: one_line(group.name) or f"(no {by})", least=14, keep_end=by == "project"),
        Column("sessions", lambda group: group.sessions, right=True, optional=2),
        Column("files", lambda group: group.figures.files, right=True, optional=1),
        Column("added", lambda group: figures.signed("+", group.figures.added), right=True, style="green"),
        Column("removed", lambda group: figures.signed("-", group.figures.removed), right=True, style="red"),
        Column("commits", lambda group: group.figures.commits, right=True),
        Column("PRs", lambda group: group.figures.pull_requests, right=True, optional=3),
        Column("cost", lambda group: money.cost_text(group.bill), right=True),
        Column("per commit", lambda group: money.per_commit_text(group.per_commit() or {}), right=True),
    )
    hint = "A commit counts when the output of a command, or the agent itself, names it; cost is that of all sessions."
    empty = "No session matches. Try fewer filters, or record first: agenttrace record --once"
    print_list(groups, columns, lambda group: _group_fields(by, group), as_json=as_json, empty=empty, hint=hint)


def _group_fields(by: OutcomeGroup, group: GroupOutcomes) -> dict[str, Any]:
    figures = msgspec.structs.asdict(group.figures)
    sums = {name: value for name, value in figures.items() if name not in ("tests_passed", "tests_failed")}
    costs = {**group.bill.cost_fields(), "cost_per_commit": group.per_commit()}
    return {by: group.name or None, "sessions": group.sessions, **sums, **costs}


# -- one session --------------------------------------------------------------------------------------------------


def _one(name: str, *, as_json: bool) -> None:
    from agenttrace.record.outcomes import session_facts
    from agenttrace.views.outcomes import outcomes_of

    with opening.shown_store(opening.settings()) as store:
        found = find_one(store, name)
        facts = session_facts(store, found)
    result = outcomes_of(found, facts)
    if as_json:
        output.print_json(msgspec.to_builtins(result))
    else:
        _show(found, result)


def _edits(name: str, path: str | None, *, as_json: bool) -> None:
    from agenttrace.record.outcomes import session_facts
    from agenttrace.views.changes import MOST_READ, changes_of, patch_of

    with opening.shown_store(opening.settings()) as store:
        found = find_one(store, name)
        facts = session_facts(store, found, diff_characters=MOST_READ)
    changes = changes_of(found, facts, path=path, characters=MOST_READ)
    if as_json:
        output.print_json(msgspec.to_builtins(changes))
        return
    for piece in patch_of(changes):
        output.print_whole(piece)
    if not changes.files:
        output.note("The session changed no file." if path is None else f"The session did not change {one_line(path)}.")


def _show(session: Session, found: SessionOutcomes) -> None:
    output.say(one_line(title_of(session)) or "(no title)", "bold")
    output.fact("session", session.session_id)
    output.fact("project", one_line(session.project or "") or None)
    output.fact("files", _files_text(found))
    output.fact("kept", _kept(found))
    if found.files:
        output.say()
        print_table(_FILES, found.files)
    if found.commits:
        output.say()
        print_table(_COMMITS, found.commits)
    if found.tests:
        output.say()
        print_table(_TESTS, found.tests)
    for request in found.pull_requests:
        output.say()
        output.say(f"pull request {one_line(request.url)} (known from {', '.join(request.known_from)})")
    if not (found.files or found.commits or found.tests or found.pull_requests):
        output.note("Nothing came of this session that its log tells: no file changed, no commit, no tests.")
    elif found.commits and not found.repository:
        output.note("The repository is not on this machine: whether commits were kept is not known.")


def _files_text(found: SessionOutcomes) -> str:
    lines = (figures.signed("+", found.added), figures.signed("-", found.removed))
    return " ".join([figures.counted(len(found.files), "file"), *filter(None, lines)])


def _kept(found: SessionOutcomes) -> str | None:
    parts = []
    if found.kept_commits is not None:
        kept, known = found.kept_commits
        parts.append(f"{kept} of {figures.counted(known, 'commit')} in a branch today")
    if found.kept_lines is not None:
        kept, known = found.kept_lines
        parts.append(f"{kept} of {figures.counted(known, 'added line')} still in the files")
    return ", ".join(parts) or None


def _lines_kept(file: ChangedFile) -> str | None:
    return None if file.lines_kept is None else f"{file.lines_kept}/{file.lines_compared}"


_KEPT = {True: "yes", False: "no", None: None}

_FILES: tuple[Column[ChangedFile], ...] = (
    Column("file", lambda file: one_line(file.path), least=20, keep_end=True, style="cyan"),
    Column("changes", lambda file: file.changes, right=True, optional=2),
    Column("added", lambda file: figures.signed("+", file.added), right=True, style="green"),
    Column("removed", lambda file: figures.signed("-", file.removed), right=True, style="red"),
    Column("still there", _lines_kept, right=True, optional=1),
    Column("known from", lambda file: ", ".join(file.known_from), optional=3),
)
_COMMITS: tuple[Column[SessionCommit], ...] = (
    Column("commit", lambda commit: commit.hash[:10], style="cyan"),
    Column("subject", lambda commit: one_line(commit.subject, 200), least=16),
    Column("kept", lambda commit: _KEPT[commit.kept]),
    Column("branches", lambda commit: one_line(", ".join(commit.branches)) or None, least=8, optional=2),
    Column("known from", lambda commit: ", ".join(commit.known_from), optional=3),
)
_TESTS: tuple[Column[SessionTests], ...] = (
    Column("tests", lambda run: run.runner, style="cyan"),
    Column("passed", lambda run: run.passed, right=True, style="green"),
    Column("failed", lambda run: run.failed, right=True),
    Column("command", lambda run: one_line(run.command, 200), least=16),
    Column("known from", lambda run: ", ".join(run.known_from), optional=3),
)
