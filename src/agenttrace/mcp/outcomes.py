"""``outcomes``: what came of a session."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agenttrace.mcp.naming import name_of, session_named
from agenttrace.mcp.tool import DATA_NOTE, Arguments, SessionName, Tool, ToolAnswer, text
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.record.outcomes import session_facts
from agenttrace.views.changes import MOST_READ, changes_of, patch_of
from agenttrace.views.outcomes import ChangedFile, SessionCommit, SessionTests, outcomes_of

#: Of each kind; further ones are only counted.
MOST = 100
_TEXT_CHARS = 300
_PATCH_CHARS = 20_000


class OutcomeArguments(Arguments, frozen=True, kw_only=True):
    """Which session, and of which file the edits."""

    session: SessionName
    path: Annotated[str, text("A file of the answer: its edits are added as a patch.", 4_000)] | None = None


class FileLine(ToolAnswer):
    """A file that was changed."""

    path: str
    #: Left out where the log names the file only.
    added: int | None = None
    removed: int | None = None
    known_from: list[str] = msgspec.field(default_factory=list)


class CommitLine(ToolAnswer):
    """A commit."""

    hash: str
    subject: str | None = None
    at: str | None = None
    known_from: list[str] = msgspec.field(default_factory=list)


class TestLine(ToolAnswer):
    """A run of tests; without figures where its output has no summary."""

    command: str
    passed: int | None = None
    failed: int | None = None
    at: str | None = None


class FoundOutcomes(ToolAnswer):
    """What came of a session."""

    note: str
    session: str
    project: str | None = None
    files: list[FileLine] = msgspec.field(default_factory=list)
    commits: list[CommitLine] = msgspec.field(default_factory=list)
    pull_requests: list[str] = msgspec.field(default_factory=list)
    tests: list[TestLine] = msgspec.field(default_factory=list)
    #: Entries beyond the limit of each list.
    not_listed: int = 0
    #: The edits of one file, in order.
    patch: str | None = None


def outcomes(context: ToolContext, asked: OutcomeArguments) -> FoundOutcomes:
    """As the log has it: a model sees what was recorded, and nothing else of this machine."""
    session = session_named(context, asked.session)
    facts = session_facts(context.store, session, diff_characters=0 if asked.path is None else MOST_READ)
    found = outcomes_of(session, facts, repository=False)
    patch = "" if asked.path is None else "".join(patch_of(changes_of(session, facts, path=asked.path)))
    lists = (found.files, found.commits, found.pull_requests, found.tests)
    return FoundOutcomes(
        note=DATA_NOTE,
        session=name_of(context, session),
        project=context.line(session.project),
        files=[_file(context, file) for file in found.files[:MOST]],
        commits=[_commit(context, commit) for commit in found.commits[:MOST]],
        pull_requests=[context.line(each.url, _TEXT_CHARS) or "" for each in found.pull_requests[:MOST]],
        tests=[_tests(context, run) for run in found.tests[:MOST]],
        not_listed=sum(max(0, len(each) - MOST) for each in lists),
        patch=context.shown.ends(patch, _PATCH_CHARS) if patch else None,
    )


def _file(context: ToolContext, file: ChangedFile) -> FileLine:
    known: list[str] = [*file.known_from]
    path = context.line(file.path, _TEXT_CHARS) or ""
    return FileLine(path=path, added=file.added, removed=file.removed, known_from=known)


def _commit(context: ToolContext, commit: SessionCommit) -> CommitLine:
    known: list[str] = [*commit.known_from]
    return CommitLine(
        hash=commit.hash, subject=context.line(commit.subject, _TEXT_CHARS), at=commit.at, known_from=known
    )


def _tests(context: ToolContext, run: SessionTests) -> TestLine:
    command = context.line(run.command, _TEXT_CHARS) or ""
    return TestLine(command=command, passed=run.passed, failed=run.failed, at=run.at)


TOOL = Tool(
    name="outcomes",
    title="What came of a session",
    description=(
        "Show what came of a recorded session, as its log tells it: files changed with added and removed lines, "
        "commits, pull requests, and tests with their results; with `path`, the edits of one file. Use it to see what "
        "a session really did, before reading it with read_session."
    ),
    arguments=OutcomeArguments,
    answer=FoundOutcomes,
    ask=outcomes,
)
