"""``agenttrace outcomes``: files, commits, pull requests and tests of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.options import AsJson
from agenttrace.cli.sessions import find_one
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import title_of

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.views.outcomes import ChangedFile, Outcomes, SessionCommit, SessionTests

EPILOG = """
  agenttrace outcomes 5bc45ad6       files, commits and tests of one session
  agenttrace outcomes 5bc45ad6 --json | jq '.commits[] | select(.kept)'
"""


def outcomes(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or the beginning of one.")],
    as_json: AsJson = False,
) -> None:
    """Show what came of a session: files changed, commits, pull requests, tests, and whether it was kept.

    Each line says where it is known from: the result of a tool call, the output of a command, the log, or the git
    repository of the working directory, which is only read. Nothing is guessed.
    """
    from agenttrace.record.outcomes import session_facts
    from agenttrace.views.outcomes import outcomes_of

    with opening.opened_store(opening.settings()) as store:
        found = find_one(store, session)
        facts = session_facts(store, found)
    result = outcomes_of(found, facts)
    if as_json:
        output.print_json(msgspec.to_builtins(result))
    else:
        _show(found, result)


def _show(session: Session, found: Outcomes) -> None:
    output.say(one_line(title_of(session)) or "(no title)", "bold")
    output.fact("session", session.session_id)
    output.fact("project", one_line(session.project or "") or None)
    output.fact("files", f"{figures.counted(len(found.files), 'file')} +{found.added} -{found.removed}")
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
    elif not found.repository:
        output.note("The repository is not on this machine: whether commits were kept is not known.")


def _kept(found: Outcomes) -> str | None:
    parts = []
    if found.kept_commits is not None:
        kept, known = found.kept_commits
        parts.append(f"{kept} of {figures.counted(known, 'commit')} in a branch today")
    if found.kept_lines is not None:
        kept, known = found.kept_lines
        parts.append(f"{kept} of {figures.counted(known, 'added line')} still in the files")
    return ", ".join(parts) or None


def _signed(sign: str, number: int | None) -> str | None:
    return None if number is None else f"{sign}{number}"


def _lines_kept(file: ChangedFile) -> str | None:
    return None if file.lines_kept is None else f"{file.lines_kept}/{file.lines_compared}"


_KEPT = {True: "yes", False: "no", None: None}

_FILES: tuple[Column[ChangedFile], ...] = (
    Column("file", lambda file: one_line(file.path), least=20, keep_end=True, style="cyan"),
    Column("changes", lambda file: file.changes, right=True, optional=2),
    Column("added", lambda file: _signed("+", file.added), right=True, style="green"),
    Column("removed", lambda file: _signed("-", file.removed), right=True, style="red"),
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
