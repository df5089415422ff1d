"""Sessions in lists, one session, and what they can be filtered by."""

from __future__ import annotations

from typing import Literal

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.figures import Bill, NamedBill
from agenttrace.store.questions import OutcomeFigures

State = Literal["working", "waiting", "ended", "interrupted"]


class SessionRef(Shape):
    """Enough of a session to link to it."""

    key: str
    session_id: str
    agent: str
    title: str | None
    project: str | None


class SessionMarks(Shape):
    """What is beside a session, as lists show it."""

    starred: bool
    labels: list[str]
    #: The latest of each name.
    scores: dict[str, float]
    #: How many.
    notes: int
    #: Another number when an annotation was changed.
    revision: int


class SessionRow(SessionRef):
    """A session in a list."""

    state: State
    started_at: str | None
    last_at: str | None
    turns: int
    steps: int
    tools: int
    errors: int
    events: int
    branch: str | None
    #: Of a team's store: where it was recorded, and whose it is.
    machine: str | None
    person: str | None
    model: str | None
    #: All models it used.
    models: list[str]
    version: str | None
    #: The session it was forked from.
    parent: str | None
    #: Part of the demo data, which can be removed.
    demo: bool
    bill: Bill
    #: Null until the session is examined, which happens in the background.
    outcomes: OutcomeFigures | None
    marks: SessionMarks


class SessionList(Shape):
    """A page of sessions."""

    items: list[SessionRow]
    next: str | None
    #: How many match, on all pages together.
    total: int
    #: The last event of this answer; live updates continue from here.
    cursor: int
    #: The moments of ``since`` and ``until``: days begin in ``usage.timezone``, not in the time zone of the page.
    since: str | None
    until: str | None


class Facet(Shape):
    """One value of a filter, and how many sessions have it."""

    value: str
    count: int


class SessionFacets(Shape):
    """What can be filtered by."""

    agents: list[Facet]
    projects: list[Facet]
    models: list[Facet]
    states: list[Facet]
    labels: list[Facet]
    #: Names of scores.
    scores: list[Facet]
    #: Of a team's store; empty elsewhere.
    machines: list[Facet]
    persons: list[Facet]


class SourceFile(Shape):
    """A log file that a session was read from."""

    path: str
    offset: int
    size: int | None
    gone: bool


class CheckReason(Shape):
    """Why figures differ, or what the agent's total leaves out: ``number`` requests or lines, of the agent ``name``."""

    kind: Literal["killed", "copied", "missing", "placeholder", "unread", "unknown"]
    number: int
    name: str


class UsageCheck(Shape):
    """Our count of a session against its agent's own totals."""

    #: ``nothing``: no total of the agent is in the log.
    status: Literal["agree", "differ", "nothing"]
    #: Requests that a total of the agent covers.
    checked: int
    #: What the agent says of them, and what we counted, by kind of token.
    claimed: dict[str, int]
    counted: dict[str, int]
    #: The part of ``counted`` that only the agent's total has: calls without a line in the log.
    unlogged: dict[str, int]
    #: By how much the agent's figures are above ours.
    difference: dict[str, int]
    reasons: list[CheckReason]


class ResumeHint(Shape):
    """How to go on with a session in its agent."""

    #: A line for a shell: the agent's own command, in the session's directory.
    command: str
    #: ``latest_only``: the command goes on with the agent's latest session. ``copy``: in a copy of this one.
    #: ``whole_history``: with all chats of the directory.
    limit: Literal["latest_only", "copy", "whole_history"] | None
    #: True where the machine of this server has no such directory.
    directory_gone: bool


class SessionDetail(SessionRow):
    """A session with its bills, parent, forks and files."""

    by_model: list[NamedBill]
    check: UsageCheck
    parent_session: SessionRef | None
    forks: list[SessionRef]
    files: list[SourceFile]
    #: The job of the run half whose trace this is.
    job_id: int | None
    #: Null where the agent has no command to go on with a session.
    resume: ResumeHint | None
    cursor: int


class Annotation(Shape):
    """A note, score, label or star beside a session."""

    #: 32 hexadecimal digits.
    id: str
    #: The key of the session.
    session: str
    #: The turn or span that it is about, where it is not the session.
    span_id: str | None
    kind: Literal["note", "score", "label", "star"]
    #: The label, or what is scored.
    name: str | None
    value: float | None
    #: The note, or the comment of a score.
    text: str | None
    source: Literal["person", "program", "rule"]
    author: str
    created_at: str
    changed_at: str


class AnnotationList(Shape):
    """All annotations of a session, the oldest first."""

    items: list[Annotation]
