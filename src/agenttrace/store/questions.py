"""What can be asked of a store: filters and queries, and the typed answers. No engine is named here."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from agenttrace.model import Session, Usage
from agenttrace.store.annotations import NO_MARKS, Marks, ScoreTest
from agenttrace.store.session_state import SessionState

#: What usage is grouped by. ``session`` is the session's number: two agents may have a session of one id.
UsageGroup = Literal["total", "day", "month", "model", "agent", "project", "session", "machine", "person"]
#: What outcomes of sessions are grouped by.
OutcomeGroup = Literal["project", "month", "agent", "machine", "person"]


#: What sessions can be filtered by; ``failed_tests``: in the last run with a summary.
OutcomeKind = Literal["files", "commits", "pull_requests", "tests", "failed_tests"]


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions; every field that is set must match. Times are microseconds since the epoch."""

    agents: frozenset[str] = frozenset()
    #: Exact directories; the empty text matches sessions without one.
    projects: frozenset[str] = frozenset()
    #: A part of the directory, in any case.
    project_contains: str | None = None
    states: frozenset[SessionState] = frozenset()
    models: frozenset[str] = frozenset()
    #: Occurs in the title (in the first prompt where there is no title), id or directory, in any case.
    text: str = ""
    #: All of these occur in title, first prompt, id, directory, branch or model, in any case.
    words: tuple[str, ...] = ()
    #: Active at some moment from ``since`` and before ``until``.
    since: int | None = None
    until: int | None = None
    #: With errors, without any, or either.
    errors: bool | None = None
    #: With commits, without any, or either; a session that was not examined yet has none.
    commits: bool | None = None
    #: With all of these; a session that was not examined yet has none.
    outcomes: frozenset[OutcomeKind] = frozenset()
    #: With all of these labels.
    labels: frozenset[str] = frozenset()
    #: With a star, without one, or either; the same for notes.
    starred: bool | None = None
    noted: bool | None = None
    #: All of these are true of the latest score of their name.
    scores: tuple[ScoreTest, ...] = ()
    #: Of a team's store: recorded on one of these machines, by one of these persons; the empty text: without one.
    machines: frozenset[str] = frozenset()
    persons: frozenset[str] = frozenset()

    def matches(
        self,
        session: Session,
        models: Collection[str],
        outcomes: OutcomeFigures | None = None,
        marks: Marks = NO_MARKS,
    ) -> bool:
        """Whether a session with these models matches: the meaning of the filter, which every engine has to agree with.

        A session's models are the one that its log names and those that its tokens are counted for. ``outcomes`` are
        the figures that ``Store.outcomes`` has of it, ``marks`` what ``Store.marks`` has.
        """
        came = outcomes or OutcomeFigures()
        return (
            (not self.agents or session.agent in self.agents)
            and (not self.machines or (session.machine or "") in self.machines)
            and (not self.persons or (session.person or "") in self.persons)
            and (not self.projects or (session.project or "") in self.projects)
            and (self.project_contains is None or _contains(session.project, self.project_contains))
            and (not self.states or session.state in self.states)
            and (not self.models or not self.models.isdisjoint(models))
            and (self.errors is None or self.errors == (session.errors > 0))
            and (self.commits is None or self.commits == (came.commits > 0))
            and all(came.has(kind) for kind in self.outcomes)
            and self.labels.issubset(marks.labels)
            and (self.starred is None or self.starred == marks.starred)
            and (self.noted is None or self.noted == (marks.notes > 0))
            and all(test.matches(marks) for test in self.scores)
            and (self.since is None or (session.last_at is not None and session.last_at >= self.since))
            and (self.until is None or (session.started_at is not None and session.started_at < self.until))
            and (not self.text or folded(self.text) in folded(title_of(session), session.session_id, session.project))
            and (not self.words or self._has_words(session))
        )

    def _has_words(self, session: Session) -> bool:
        names = (session.project, session.branch, session.model)
        text = folded(session.title, session.first_prompt, session.session_id, *names)
        return all(folded(word) in text for word in self.words)


def folded(*texts: str | None) -> str:
    """Texts as they are compared in any case: one a line."""
    return "\n".join(filter(None, texts)).casefold()


def _contains(text: str | None, part: str) -> bool:
    return text is not None and folded(part) in folded(text)


def title_of(session: Session) -> str:
    """The title, or the first prompt in its place."""
    return session.title or session.first_prompt or ""


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class SessionPlace(NamedTuple):
    """A place in the list of sessions, newest first; a page begins after one, so changes never hide other sessions."""

    last_at: _Int64
    number: _Int64

    @classmethod
    def of(cls, session: Session) -> SessionPlace:
        """Where a session stands; sessions that do not say when they were active stand last."""
        return cls(-(2**63) if session.last_at is None else session.last_at, session.id)


class SessionName(NamedTuple):
    """What a session is called; known of pruned sessions too."""

    session_id: str
    title: str


class OutcomeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a session, in figures; of tests, those of the last run with a summary.

    Copies from another session are not counted.
    """

    files: int = 0
    #: Lines; ``None`` where the log names files only.
    added: int | None = 0
    removed: int | None = 0
    commits: int = 0
    pull_requests: int = 0
    test_runs: int = 0
    #: Of the last run whose output has a summary.
    tests_passed: int | None = None
    tests_failed: int | None = None

    def has(self, kind: OutcomeKind) -> bool:
        """Whether there is any of this kind."""
        return (getattr(self, OUTCOME_FIELDS[kind]) or 0) > 0


#: The figure of each kind.
OUTCOME_FIELDS: dict[OutcomeKind, str] = {
    "files": "files",
    "commits": "commits",
    "pull_requests": "pull_requests",
    "tests": "test_runs",
    "failed_tests": "tests_failed",
}


#: Where an outcome is known from: a result of a tool call, the output of a command, or a line of the log itself.
KnownFrom = Literal["tool call", "command output", "log"]


class OutcomeShare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines and commits of one model in a quarter of an hour, which is a part of one day in every time zone."""

    #: Quarters of an hour since the epoch; ``None`` where the log has no time.
    quarter: int | None = None
    #: The model whose call did it; ``None`` where the log does not say.
    model: str | None = None
    #: Lines; ``None`` where the log names files only.
    added: int | None = 0
    removed: int | None = 0
    commits: int = 0
    #: Of the commits, as the log has them; some of very many.
    hashes: tuple[str, ...] = ()
    known_from: tuple[KnownFrom, ...] = ()


class StoredOutcomes(NamedTuple):
    """What came of a session, and how many of its events were examined for it."""

    events: int
    figures: OutcomeFigures
    shares: tuple[OutcomeShare, ...] = ()

    @property
    def hashes(self) -> list[str]:
        """The commits as the log has them; some of very many."""
        return [name for share in self.shares for name in share.hashes]


class SessionShares(NamedTuple):
    """The shares of a session, and what usage groups sessions by."""

    number: int
    agent: str
    project: str
    shares: tuple[OutcomeShare, ...]
    #: Of a team's store; empty elsewhere.
    machine: str = ""
    person: str = ""


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by group, and by part of a group; days are local dates such as ``2026-11-01``."""

    by: UsageGroup = "total"
    split: UsageGroup = "total"
    since_day: str | None = None
    before_day: str | None = None
    agents: frozenset[str] = frozenset()
    #: Exact directories; the empty text matches sessions without one.
    projects: frozenset[str] = frozenset()
    #: A part of the directory, in any case.
    project_contains: str | None = None
    models: frozenset[str] = frozenset()
    #: Of a team's store: recorded on one of these machines, by one of these persons; the empty text: without one.
    machines: frozenset[str] = frozenset()
    persons: frozenset[str] = frozenset()
    #: Without the sessions of the demo data.
    real: bool = False


class UsageRow(NamedTuple):
    """Tokens of one model in one group."""

    group: str
    model: str
    requests: int
    estimated: int
    copies: int
    usage: Usage
    #: The part of the group, where groups were split.
    part: str = ""
    #: What the price depends on beside the model.
    day: str = ""
    variant: str = ""


class RecentQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Responses from a moment on, in microseconds; every field that is set must match."""

    since: int
    #: Those before this moment only.
    before: int | None = None
    agents: frozenset[str] = frozenset()
    #: Exact directories; the empty text matches sessions without one.
    projects: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    #: Of a team's store: recorded on one of these machines, by one of these persons; the empty text: without one.
    machines: frozenset[str] = frozenset()
    persons: frozenset[str] = frozenset()
    #: Without the sessions of the demo data.
    real: bool = False


class TimedUsage(NamedTuple):
    """The tokens of one response, and when it came."""

    at: int
    #: Its group is the number of the session that owns the response.
    row: UsageRow


class TimeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Responses from one moment to before another, by steps of time; all in microseconds."""

    since: int
    before: int
    #: Steps begin at multiples of this since the epoch.
    step: int
    #: Only of these agents; of all where it is empty.
    agents: frozenset[str] = frozenset()
    #: Without the sessions of the demo data.
    real: bool = False


class ResponseCount(NamedTuple):
    """How many responses came in a step of time."""

    #: When the step begins.
    at: int
    responses: int


class ProviderWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window of a provider's limit, as it was at a moment; times are microseconds."""

    agent: str
    #: ``five_hour``, ``seven_day``, ``primary``, ``secondary``.
    name: str
    resets_at: int
    window_minutes: int | None = None
    used_percent: float
    at: int
    plan: str | None = None
    #: ``log`` or ``statusline``.
    source: str = "log"


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Full text: words, phrases in quotes and prefixes such as ``migrat*``, which all must occur in one event."""

    text: str
    #: The number of the one session to search.
    session: int | None = None
    agents: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    project_contains: str | None = None
    #: Of a team's store: recorded on one of these machines, by one of these persons; the empty text: without one.
    machines: frozenset[str] = frozenset()
    persons: frozenset[str] = frozenset()
    #: When the event was written; events without a time match only where neither is set.
    since: int | None = None
    until: int | None = None
    #: Only events before this number; pages go from new to old.
    before: int | None = None
    limit: int = 50


# -- agreement with the agents' own totals -----------------------------------------------------------------------


class Reason(msgspec.Struct, frozen=True):
    """Why figures differ, or what the agent's total leaves out.

    ``killed``: requests of a process that was killed are not in it. ``copied``: nor are requests that a fork has of
    another session. ``missing``: nothing is recorded of a subagent's log. ``placeholder``: responses of which the log
    holds only the first count. ``unread``: lines that are quarantined. ``unknown``: none of these.
    """

    kind: Literal["killed", "copied", "missing", "placeholder", "unread", "unknown"]
    #: How many requests or lines.
    number: int = 0
    #: Which subagent.
    name: str = ""


class Agreement(msgspec.Struct, kw_only=True, frozen=True):
    """How our count of a session stands to its agent's own."""

    #: ``nothing``: no total of the agent is in the log, or not yet.
    status: Literal["agree", "differ", "nothing"]
    #: Requests that a total of the agent covers.
    checked: int = 0
    #: What the agent says of them, and what we counted, by field.
    claimed: dict[str, int] = {}
    counted: dict[str, int] = {}
    #: The part of ``counted`` that is known from the agent's total alone: calls that no line of the log has.
    unlogged: dict[str, int] = {}
    #: By how much the agent's figures are above ours.
    difference: dict[str, int] = {}
    #: Why the figures differ, and what the agent's total leaves out.
    reasons: list[Reason] = []


#: Of a session without a total of its agent in the log.
NOTHING = Agreement(status="nothing")


# -- events, texts, search, spans and errors ----------------------------------------------------------------------

#: The stream of the agent itself; every other stream is a subagent's.
MAIN_STREAM = "main"
#: What an agent's telemetry says of a session is folded as this stream, and shown as the main one.
TELEMETRY = "telemetry"
#: The stream of calls that no message line has.
NOT_IN_LOG = "not in the log"


class ErrorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Failed spans, the latest first; every field that is set must match."""

    #: The number of the one session to look into.
    session: int | None = None
    agents: frozenset[str] = frozenset()
    #: A part of the directory, in any case.
    project_contains: str | None = None
    #: Of a team's store: recorded on one of these machines, by one of these persons; the empty text: without one.
    machines: frozenset[str] = frozenset()
    persons: frozenset[str] = frozenset()
    #: When the span began: from ``since`` and before ``until``.
    since: int | None = None
    until: int | None = None
    #: Only spans before this place, which is ``FailedSpan.place`` of the last one of the page before.
    before: tuple[int, int] | None = None
    limit: int = 50


class FailedSpan(NamedTuple):
    """A span that failed."""

    start: int
    #: Tells apart spans of the same start.
    order: int
    session: int
    span_id: bytes
    kind: str
    name: str
    turn_index: int
    #: JSON.
    attributes: str | None

    @property
    def place(self) -> tuple[int, int]:
        """Where a further page begins."""
        return self.start, self.order


class EventLine(NamedTuple):
    """A recorded line, and where it stood in its file."""

    event_no: int
    #: The number of the session.
    session: int
    event_type: str
    span_id: bytes | None
    turn_index: int
    step_n: int
    file_id: int
    generation: int
    offset: int
    raw: bytes


#: Number, span, turn, step and file of an event; a plain tuple, as a session may have hundreds of thousands of them.
EventPlace = tuple[int, bytes | None, int, int, int]


class EventMark(NamedTuple):
    """Identifies one event of one store; a rebuilt store has another event of that number."""

    event_no: int
    event_id: bytes
    recorded_at: float


class FileSource(NamedTuple):
    """The file that lines came from; ``source`` is what its format's module remembered of it, as JSON."""

    path: str
    source: bytes | None


class SourceFile(NamedTuple):
    """How far a log file was read."""

    path: str
    offset: int
    size: int
    gone: bool


class SpanPlace(NamedTuple):
    """Where a span stands in its session."""

    span_id: bytes
    kind: str
    parent_id: bytes | None
    turn_index: int
    step_n: int

    @property
    def root(self) -> bytes:
        """The model call of a tool; every other span itself."""
        return self.parent_id if self.kind == "tool" and self.parent_id is not None else self.span_id


#: What ended a span that its log left open.
ENDED_BY_CALL, ENDED_BY_LOG = 1, 2
_CLOSED_BY = {ENDED_BY_CALL: "result of its call", ENDED_BY_LOG: "end of the log"}
_attributes = msgspec.json.Decoder(dict[str, Any])


class SpanRow(NamedTuple):
    """A span with its tokens; ``attributes`` is JSON."""

    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    stream: str
    kind: str
    name: str
    start: int
    end: int | None
    status: str
    model: str | None
    turn_index: int
    step_n: int
    attributes: str | None
    changed: int
    #: The model that the ledger names for the response, which is what its tokens are priced by.
    billed_model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    reasoning_tokens: int | None
    web_searches: int | None
    #: False where another session owns the response.
    counted: int
    estimated: int | None
    #: Where the log left it open: by what it ended; 0 otherwise.
    ended_by: int
    #: What the price depends on beside the model.
    day: str | None
    variant: str | None

    @property
    def usage(self) -> Usage | None:
        """The tokens of the response."""
        if self.input_tokens is None:
            return None
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=self.cache_read_tokens or 0,
            cache_write_tokens=self.cache_write_tokens or 0,
            cache_write_1h_tokens=self.cache_write_1h_tokens or 0,
            reasoning_tokens=self.reasoning_tokens or 0,
            web_searches=self.web_searches or 0,
        )


class SpanView(msgspec.Struct, kw_only=True):
    """A span as it is shown: under its parent even where that is in another stream."""

    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    stream: str
    kind: str
    name: str
    start: int
    end: int | None
    status: str
    model: str | None
    #: The model that the ledger names for the response, which is what its tokens are priced by.
    billed_model: str | None
    turn_index: int
    step_n: int
    usage: Usage | None
    #: True where the log holds no more than a placeholder of the tokens.
    estimated: bool
    #: False where another session owns this response, so that its tokens count there.
    counted: bool
    attributes: dict[str, Any]

    @classmethod
    def of(cls, row: SpanRow) -> SpanView:
        """A row as it is shown."""
        attributes = _attributes.decode(row.attributes) if row.attributes else {}
        if row.ended_by:
            attributes["closed_by"] = _CLOSED_BY[row.ended_by]
        return cls(
            span_id=row.span_id,
            trace_id=row.trace_id,
            parent_id=row.parent_id,
            stream=row.stream,
            kind=row.kind,
            name=row.name,
            start=row.start,
            end=row.end,
            status=row.status,
            model=row.model,
            billed_model=row.billed_model,
            turn_index=row.turn_index,
            step_n=row.step_n,
            attributes=attributes,
            usage=row.usage,
            counted=bool(row.counted),
            estimated=bool(row.estimated),
        )


# -- status of recording --------------------------------------------------------------------------------------


class LinesByOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that were read, and what became of them; files whose bookkeeping was removed are included."""

    lines: int
    recorded: int
    duplicate: int
    ignored: int
    quarantined: int


class DedupCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Duplicates found by each tier of the deduplicator since the store was created, and what is recorded."""

    l0_hits: int
    l1_hits: int
    l2_hits: int
    #: Events that no tier knew.
    misses: int
    events: int
    sessions: int


class QuarantineCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many lines could not be understood."""

    open: int
    resolved: int
    #: Whole events that were cut out of broken lines and recorded.
    salvaged_events: int
    #: Lines beyond the limits of the quarantine: counted, not kept.
    counted_only: int


class FileStatus(msgspec.Struct, frozen=True):
    """A log file as it was when it was last read."""

    path: str
    #: Bytes that are recorded.
    offset: int
    size: int
    #: In seconds since the epoch; 0 where it was never read.
    read_at: float
    #: How often it was truncated or replaced.
    generation: int
    lines: int
    quarantined: int
    counted_only: int
    #: Bytes that vanished before they could be read.
    lost_bytes: int
    #: Why it could not be read.
    error: str | None
    #: Since when it is gone.
    gone_at: float | None


SessionGroupKind = Literal["agent", "project"]


class SessionGroup(msgspec.Struct, frozen=True):
    """The sessions of an agent or of a project; times are microseconds since the epoch."""

    name: str
    sessions: int
    first_at: int | None
    last_at: int | None
