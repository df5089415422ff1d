"""What came of a session as JSON: files, commits, pull requests and tests, each with where it is known from.

What the log says is completed with what the repository says today, where it is on this machine: commits of the same
time and author, whether commits are still in a branch, and whether added lines are still in their files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from agenttrace.record.command_outcomes import TestRun
from agenttrace.record.formats.contract import Commit, FileChange, PullRequest
from agenttrace.record.outcomes import Fact, known_sum, relative_to
from agenttrace.record.repository import BUDGET, MOST_COMMITS, KeptCommit, LoggedCommit, Repository, lines_still_there
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session

#: A result of a tool call, the output of a command, a notice in the log, or the git repository.
OutcomeSource = Literal["tool call", "command output", "log", "repository"]


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the session changed."""

    #: Relative to the working directory, where it is below it.
    path: str
    changes: int
    #: Lines over all changes; ``None`` where the log names the file only.
    added: int | None
    removed: int | None
    known_from: list[OutcomeSource]
    #: Of the added lines that were compared, how many the file has today; ``None`` where it cannot be told.
    lines_kept: int | None = None
    lines_compared: int | None = None


class SessionCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit of the session."""

    hash: str
    subject: str
    at: str | None
    known_from: list[OutcomeSource]
    #: Whether a branch has it today, or ``kept_as``; null where the repository is not here, or does not know it.
    kept: bool | None = None
    #: The commit that a branch has instead: amended, rebased, cherry-picked or squashed.
    kept_as: str | None = None
    #: Some of the branches with either.
    branches: list[str] = []


class SessionPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request of the session."""

    url: str
    at: str | None
    known_from: list[OutcomeSource]


class SessionTests(msgspec.Struct, frozen=True, kw_only=True):
    """A run of tests."""

    command: str
    runner: str
    #: ``None`` where the output has no summary that is known.
    passed: int | None
    failed: int | None
    summary: str | None
    at: str | None
    known_from: list[OutcomeSource]


class SessionOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a session."""

    session_id: str
    agent: str
    project: str | None
    files: list[ChangedFile]
    #: Lines of all files; ``None`` where the log names files only.
    added: int | None
    removed: int | None
    commits: list[SessionCommit]
    pull_requests: list[SessionPullRequest]
    tests: list[SessionTests]
    #: Whether the git repository of the working directory was there to be asked.
    repository: bool

    @property
    def kept_commits(self) -> tuple[int, int] | None:
        """How many commits are in a branch today, and of how many this is known."""
        known = [commit.kept for commit in self.commits if commit.kept is not None]
        return (sum(known), len(known)) if known else None

    @property
    def kept_lines(self) -> tuple[int, int] | None:
        """How many added lines are in their files today, and of how many this is known."""
        known = [(file.lines_kept, file.lines_compared) for file in self.files if file.lines_compared]
        return (sum(kept or 0 for kept, _ in known), sum(of or 0 for _, of in known)) if known else None


def outcomes_of(session: Session, facts: Sequence[Fact], *, repository: bool = True) -> SessionOutcomes:
    """What came of a session, from what its log says; without ``repository`` nothing of today is added.

    Nothing of today is known of a session of another machine: its directory may be another one here.
    """
    repository = repository and session.machine is None
    asked = Repository(session.project) if repository and session.project else None
    found = asked if asked is not None and asked.exists else None
    files = _files(facts, session.project, today=repository)
    return SessionOutcomes(
        session_id=session.session_id,
        agent=session.agent,
        project=session.project,
        files=files,
        added=known_sum(file.added for file in files),
        removed=known_sum(file.removed for file in files),
        commits=_commits(facts, session, found),
        pull_requests=[
            SessionPullRequest(url=fact.what.url, at=iso(fact.at), known_from=[fact.known_from])
            for fact in facts
            if isinstance(fact.what, PullRequest)
        ],
        tests=[_tests(fact, fact.what) for fact in facts if isinstance(fact.what, TestRun)],
        repository=found is not None,
    )


def _files(facts: Sequence[Fact], project: str | None, *, today: bool) -> list[ChangedFile]:
    """The files as they changed; of very many, only the first are compared with what they are today."""
    deadline = time.monotonic() + BUDGET
    changes: dict[str, list[tuple[Fact, FileChange]]] = {}
    for fact in facts:
        if isinstance(fact.what, FileChange):
            changes.setdefault(relative_to(project, fact.what.path), []).append((fact, fact.what))
    return [
        _file(path, each, project if today and time.monotonic() < deadline else None) for path, each in changes.items()
    ]


def _file(path: str, changes: list[tuple[Fact, FileChange]], project: str | None) -> ChangedFile:
    lines = [line for _, change in changes for line in change.lines]
    kept = None if project is None else lines_still_there(project, path, lines)
    return ChangedFile(
        path=path,
        changes=len(changes),
        added=known_sum(change.added for _, change in changes),
        removed=known_sum(change.removed for _, change in changes),
        known_from=list(dict.fromkeys(fact.known_from for fact, _ in changes)),
        lines_kept=None if kept is None else kept[0],
        lines_compared=None if kept is None else kept[1],
    )


def _commits(facts: Sequence[Fact], session: Session, repository: Repository | None) -> list[SessionCommit]:
    """Those that the log names, completed by the repository, then those that only the repository has."""
    named = [
        SessionCommit(hash=fact.what.hash, subject=fact.what.subject, at=iso(fact.at), known_from=[fact.known_from])
        for fact in facts
        if isinstance(fact.what, Commit)
    ][:MOST_COMMITS]
    if repository is None:
        return named
    logged: list[LoggedCommit] = []
    if session.started_at is not None and session.last_at is not None:
        logged = repository.commits_between(session.started_at, session.last_at)
    kept = repository.kept([each.hash for each in named])
    hashes = {name for each in kept.values() for name in (each.hash, each.successor)}
    return [_completed(each, kept.get(each.hash)) for each in named] + [
        SessionCommit(
            hash=each.hash,
            subject=each.subject,
            at=iso(each.committed_at),
            known_from=["repository"],
            kept=True,
            branches=repository.branches_with(each.hash) or [],
        )
        for each in logged
        if each.hash not in hashes
    ]


def _completed(commit: SessionCommit, kept: KeptCommit | None) -> SessionCommit:
    if kept is None:
        return commit  # removed by now, or made in another repository
    return msgspec.structs.replace(
        commit,
        hash=kept.hash,
        kept=kept.kept,
        kept_as=kept.successor,
        branches=kept.branches or [],
        known_from=[*commit.known_from, "repository"],
    )


def _tests(fact: Fact, run: TestRun) -> SessionTests:
    return SessionTests(
        command=run.command,
        runner=run.runner,
        passed=run.passed,
        failed=run.failed,
        summary=run.summary,
        at=iso(fact.at),
        known_from=[fact.known_from],
    )
