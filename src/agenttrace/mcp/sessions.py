"""``list_sessions``: sessions, newest first."""

from __future__ import annotations

from typing import Annotated

import msgspec

from agenttrace.mcp.naming import name_of, narrowed, short_time
from agenttrace.mcp.tool import DATA_NOTE, NarrowedArguments, Tool, ToolAnswer, most, text
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.model import Session
from agenttrace.prices.costing import Bill
from agenttrace.projects import is_demo
from agenttrace.store.annotations import NO_MARKS, Marks
from agenttrace.store.questions import OutcomeFigures, OutcomeKind, SessionFilter, SessionPlace, StoredOutcomes
from agenttrace.store.session_state import SessionState
from agenttrace.views.annotations import score_tests
from agenttrace.views.cursors import from_cursor, page_of
from agenttrace.views.sessions import title_of

MOST = 100
TITLE_CHARS = 200
#: Further words are ignored.
_MOST_WORDS = 20


class SessionArguments(NarrowedArguments, frozen=True, kw_only=True):
    """Which sessions."""

    query: (
        Annotated[str, text("Words that all occur in title, first prompt, id, directory, branch or model.", 1_000)]
        | None
    ) = None
    state: (
        Annotated[SessionState, msgspec.Meta(description="Only in this state; waiting: it is the user's turn.")] | None
    ) = None
    limit: Annotated[int, most(MOST, "How many at most.")] = 20
    with_outcome: (
        Annotated[
            OutcomeKind,
            msgspec.Meta(description="Only with this outcome; failed_tests: in the last run of tests with a summary."),
        ]
        | None
    ) = None
    label: Annotated[str, text("Only with this label.", 100)] | None = None
    starred: Annotated[bool, msgspec.Meta(description="Only with a star, or only without one.")] | None = None
    score: Annotated[str, text("Only where the latest score passes, such as quality<3.", 200)] | None = None


class Came(ToolAnswer):
    """What came of a session, in figures; the tool outcomes has the details."""

    files_changed: int = 0
    #: Left out where the log names files only.
    lines_added: int | None = None
    lines_removed: int | None = None
    commits: int = 0
    pull_requests: int = 0
    test_runs: int = 0
    #: Of the last run with a summary.
    tests_passed: int | None = None
    tests_failed: int | None = None


class SessionLine(ToolAnswer):
    """A session in a list."""

    session: str
    agent: str
    state: str
    title: str | None = None
    project: str | None = None
    branch: str | None = None
    #: Of a team's store: where it was recorded, and whose it is.
    machine: str | None = None
    person: str | None = None
    model: str | None = None
    started: str | None = None
    last: str | None = None
    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    errors: int = 0
    #: Everything that went in, cached or not.
    input_tokens: int = 0
    output_tokens: int = 0
    #: By currency; amounts of different currencies are never added.
    cost: dict[str, float] = msgspec.field(default_factory=dict)
    #: Tokens of models without a known price: the cost is that much too low.
    unpriced_tokens: int = 0
    forked_from: str | None = None
    #: What came of it; left out before the session is examined, which happens in the background.
    outcomes: Came | None = None
    #: What people, programs and rules wrote beside it; read_session has the texts.
    starred: bool = False
    labels: list[str] = msgspec.field(default_factory=list)
    #: The latest of each name.
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    notes: int = 0
    #: Part of the demo data of AgentTrace: it did not happen.
    demo: bool = False


class ListedSessions(ToolAnswer):
    """Sessions, newest first."""

    note: str
    sessions: list[SessionLine]
    #: Of the next page, where there is one.
    next_cursor: str | None = None


def listed(context: ToolContext, asked: SessionArguments) -> ListedSessions:
    """One page."""
    limit = min(asked.limit, MOST)
    after = None if asked.cursor is None else from_cursor(asked.cursor, SessionPlace)
    found = context.store.sessions(_filter(context, asked), limit=limit + 1, after=after)
    page, following = page_of(found, limit, SessionPlace.of)
    numbers = [session.id for session in page]
    usage, marks = context.store.usage_by_session(numbers), context.store.marks(numbers)
    outcomes = context.store.outcomes(numbers)
    lines = [
        _line(
            context,
            session,
            context.prices.bill(usage.get(session.id, ())),
            marks.get(session.id, NO_MARKS),
            outcomes.get(session.id),
        )
        for session in page
    ]
    return ListedSessions(note=DATA_NOTE, sessions=lines, next_cursor=following)


def _filter(context: ToolContext, asked: SessionArguments) -> SessionFilter:
    return SessionFilter(
        states=frozenset() if asked.state is None else frozenset([asked.state]),
        outcomes=frozenset() if asked.with_outcome is None else frozenset([asked.with_outcome]),
        labels=frozenset() if asked.label is None else frozenset([asked.label.strip()]),
        starred=asked.starred,
        scores=() if asked.score is None else score_tests([asked.score]),
        words=tuple((asked.query or "").split()[:_MOST_WORDS]),
        **narrowed(context, asked),
    )


def _line(
    context: ToolContext, session: Session, bill: Bill, marks: Marks, outcomes: StoredOutcomes | None
) -> SessionLine:
    line = context.line
    return SessionLine(
        session=name_of(context, session),
        agent=line(session.agent) or "",
        state=session.state,
        title=line(title_of(session), TITLE_CHARS),
        project=line(session.project),
        branch=line(session.branch),
        machine=line(session.machine),
        person=line(session.person),
        model=line(", ".join(sorted(bill.models)) or session.model),
        started=short_time(session.started_at),
        last=short_time(session.last_at),
        turns=session.turns,
        model_calls=session.steps,
        tool_calls=session.tools,
        errors=session.errors,
        input_tokens=bill.all_input,
        output_tokens=bill.tokens["output_tokens"],
        cost=bill.amounts,
        unpriced_tokens=bill.unpriced_tokens,
        forked_from=line(session.parent),
        starred=marks.starred,
        labels=[line(label) or "" for label in marks.labels],
        scores={line(name) or "": value for name, value in marks.scores},
        notes=marks.notes,
        outcomes=None if outcomes is None else _came(outcomes.figures),
        demo=is_demo(session.project),
    )


def _came(figures: OutcomeFigures) -> Came:
    return Came(
        files_changed=figures.files,
        lines_added=figures.added,
        lines_removed=figures.removed,
        commits=figures.commits,
        pull_requests=figures.pull_requests,
        test_runs=figures.test_runs,
        tests_passed=figures.tests_passed,
        tests_failed=figures.tests_failed,
    )


TOOL = Tool(
    name="list_sessions",
    title="List past sessions",
    description=(
        "List the recorded sessions of coding agents on this machine (Claude Code, Codex, Kimi and others), newest "
        "first: title, directory, state, times, counts of turns, tool calls and errors, tokens, cost, and what "
        "came of it. Use it to find the session you mean by project, time or title; use search for what was said "
        "inside sessions, and read_session to read one."
    ),
    arguments=SessionArguments,
    answer=ListedSessions,
    ask=listed,
)
