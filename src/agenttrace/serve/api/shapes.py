"""The shapes of ``/api/v1``, one struct each: the source of the OpenAPI document and the console's TypeScript types.

Times are ISO 8601 in UTC; only the timeline has microseconds. The id of a session is its ``key``: sixteen hexadecimal
digits that are the same after every rebuild.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from agenttrace.run.states import CacheStatus, CircuitState, JobStatus, RunStatus, StepStatus


class Shape(msgspec.Struct):
    """An object of the API."""


# ── figures ──


class Bill(Shape):
    """Tokens and cost of something, each response counted once."""

    #: Neither read from nor written to a cache.
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    #: Part of ``output_tokens``.
    reasoning_tokens: int
    requests: int
    #: The amount, where there is one currency; null where there is none or several.
    cost: float | None
    #: ``USD``, ``CNY``, … or ``mixed``; null where nothing has a price.
    currency: str | None
    costs: dict[str, float]
    #: Tokens of models without a known price: their cost is unknown, not zero.
    unpriced_tokens: int
    unpriced_models: list[str]
    #: Responses whose log has only a placeholder for their usage.
    estimated_requests: int
    #: Copies of responses, which are counted once.
    folded_copies: int


class NamedBill(Shape):
    """The bill of one model, agent, project or day."""

    name: str
    bill: Bill


# ── sessions ──

State = Literal["working", "waiting", "ended", "interrupted"]


class SessionRef(Shape):
    """Enough of a session to link to it."""

    key: str
    session_id: str
    agent: str
    title: str | None
    project: str | None


class OutcomeFigures(Shape):
    """What came of a session, in figures; of tests, those of the last run with a summary."""

    files: int
    #: Lines; null where the log names files only.
    added: int | None
    removed: int | None
    commits: int
    pull_requests: int
    test_runs: int
    tests_passed: int | None
    tests_failed: int | None


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
    model: str | None
    #: All models it used.
    models: list[str]
    version: str | None
    #: The session it was forked from.
    parent: str | None
    bill: Bill
    #: Null until the session is examined, which happens in the background.
    outcomes: OutcomeFigures | None


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


class SourceFile(Shape):
    """A log file that a session was read from."""

    path: str
    offset: int
    size: int | None
    gone: bool


class CheckReason(Shape):
    """Why figures differ, or what the agent's total leaves out: ``number`` requests or lines, of the agent ``name``."""

    kind: Literal["killed", "missing", "placeholder", "unread", "unknown"]
    number: int
    name: str


class UsageCheck(Shape):
    """Our count of a session against its agent's own totals."""

    #: ``nothing``: the agent has written no total yet.
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
    #: ``latest_only``: the command goes on with the agent's latest session. ``whole_history``: with all chats of the
    #: directory.
    limit: Literal["latest_only", "whole_history"] | None
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


# ── outcomes ──

OutcomeSource = Literal["tool call", "command output", "log", "repository"]


class ChangedFile(Shape):
    """A file that a session changed; lines are null where the log names the file only."""

    path: str
    changes: int
    added: int | None
    removed: int | None
    known_from: list[OutcomeSource]
    #: Of the added lines that were compared, how many the file has today; null where it cannot be told.
    lines_kept: int | None
    lines_compared: int | None


class SessionCommit(Shape):
    """A commit of a session."""

    hash: str
    subject: str
    at: str | None
    known_from: list[OutcomeSource]
    #: Whether a branch has it today; null where the repository is not on this machine, or does not know the commit.
    kept: bool | None
    branches: list[str]


class SessionPullRequest(Shape):
    """A pull request of a session."""

    url: str
    at: str | None
    known_from: list[OutcomeSource]


class SessionTests(Shape):
    """A run of tests; without figures where its output has no summary that is known."""

    command: str
    runner: str
    passed: int | None
    failed: int | None
    summary: str | None
    at: str | None
    known_from: list[OutcomeSource]


class SessionOutcomes(Shape):
    """What came of a session: files, commits, pull requests and tests, each with where it is known from."""

    session_id: str
    agent: str
    project: str | None
    files: list[ChangedFile]
    added: int | None
    removed: int | None
    commits: list[SessionCommit]
    pull_requests: list[SessionPullRequest]
    tests: list[SessionTests]
    #: Whether the git repository of the working directory could be asked.
    repository: bool


# ── spans ──

#: ``span`` is other work of a program that sends all its spans.
Kind = Literal["turn", "step", "tool", "span"]
SpanStatus = Literal["open", "ok", "error", "cancelled", "unclosed"]


class Timeline(Shape):
    """All spans of a session, or those that changed since a cursor, by column, which keeps 30,000 rows small."""

    session: str
    cursor: int
    #: True where these are all spans; false where they are changes to be merged by ``span_id``.
    complete: bool
    #: The next page, for sessions with more spans than one answer has.
    next: str | None
    #: The names of the streams, by the numbers of ``stream``: empty for the main one, the others are subagents.
    streams: list[str]
    span_id: list[str]
    parent_id: list[str | None]
    kind: list[Kind]
    name: list[str]
    #: Microseconds since the epoch.
    start: list[int]
    end: list[int | None]
    status: list[SpanStatus]
    model: list[str | None]
    stream: list[int]
    turn: list[int]
    step: list[int]
    #: All input tokens, cached ones included; null where the span is no model call.
    input: list[int | None]
    cached: list[int | None]
    output: list[int | None]
    #: In ``currency``; null where it is unknown or the span is no model call.
    cost: list[float | None]
    currency: list[str | None]
    #: False where another session has this response, so that its tokens count there.
    counted: list[bool]
    estimated: list[bool]


TextKind = Literal["prompt", "text", "thinking", "arguments", "result", "error", "note"]


class TextPiece(Shape):
    """A text of a span, cut where it is long."""

    kind: TextKind
    text: str
    #: How long the whole text is, in characters.
    chars: int
    #: Its place among the texts of the span, for ``…/texts/{index}``.
    index: int
    call: str | None


class Texts(Shape):
    """The texts of some spans by span."""

    spans: dict[str, list[TextPiece]]


class TextPart(Shape):
    """Some characters of a long text."""

    text: str
    start: int
    chars: int


class LineRef(Shape):
    """A recorded line, its file and its offset."""

    event_no: int
    type: str
    at: str | None
    file: str
    offset: int
    length: int


class PriceInfo(Shape):
    """The price of a million tokens of a model, as applied to this call, and its source."""

    model: str
    currency: str
    input: float
    output: float
    cache_read: float | None
    cache_write: float | None
    cache_write_1h: float | None
    #: A thousand searches that the provider ran.
    web_search: float | None
    #: The first day of this price; empty: always.
    since: str
    #: What made it differ from the usual price: ``fast``, ``peak``, a place such as ``us``.
    terms: list[str]
    #: The prompt was longer than this many tokens, which has another price.
    above: int | None
    source: str
    #: The day on which the source was checked.
    checked: str


class SpanDetail(Shape):
    """One span with everything but its long texts."""

    session: SessionRef
    trace_id: str
    span_id: str
    parent_id: str | None
    kind: Kind
    name: str
    start: str
    end: str | None
    status: SpanStatus
    model: str | None
    stream: str
    turn_index: int
    step_n: int
    #: input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens.
    usage: dict[str, int] | None
    counted: bool
    estimated: bool
    cost: float | None
    currency: str | None
    price: PriceInfo | None
    attributes: dict[str, Any]
    texts: list[TextPiece]
    lines: list[LineRef]


class SpanList(Shape):
    """A page of spans, each as ``agenttrace show --json`` prints it."""

    items: list[dict[str, Any]]
    next: str | None


KnownFrom = Literal["request", "conversation", "usage"]
ChangeKind = Literal["system", "tools", "messages", "parameters", "model", "compaction", "shorter", "pause"]


class RequestChange(Shape):
    """What is not as it was in the model call before."""

    kind: ChangeKind
    known_from: KnownFrom
    #: Of a model its name, of a system prompt and of a shorter prompt the size.
    before: str | None
    after: str | None
    #: Names of tools; of parameters only ``changed``.
    added: list[str]
    removed: list[str]
    changed: list[str]
    #: Messages that are no longer sent; null where they are not known one by one.
    dropped_messages: int | None
    #: What is no longer sent, in characters by part.
    dropped_characters: dict[str, int]
    #: The first message that differs, counted from 0.
    first_message: int | None
    pause_seconds: float | None


class RequestRow(Shape):
    """A model call and the context that it was sent."""

    #: Its number in the session, from 1 on.
    call: int
    at: str | None
    #: ``main``, or the subagent.
    stream: str
    #: Null for a request that was not answered.
    span_id: str | None
    model: str | None
    #: What the agent says that it is for.
    purpose: str | None
    #: ``request``: the log has the request itself. ``conversation``: computed. ``usage``: only tokens are known.
    known_from: KnownFrom
    #: Characters by part; parts that the log does not have are in ``unknown_parts``.
    parts: dict[str, int]
    unknown_parts: list[str]
    #: The sum of ``parts``.
    characters: int
    messages: int | None
    messages_not_in_log: int
    #: Null where the log has no usage of it.
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    #: More than 0: the prompt cache broke here.
    cache_lost_tokens: int
    #: What changed since the call before that has tokens, where the cache broke; empty: the log does not say why.
    causes: list[ChangeKind]
    changes: list[RequestChange]


class OfferedTool(Shape):
    """From which model call on a tool was offered, and from which on it was not any more."""

    name: str
    stream: str
    characters: int
    came: int
    went: int | None


class RequestList(Shape):
    """A page of the model calls of a session, with figures and tools of all of them."""

    items: list[RequestRow]
    next: str | None
    calls: int
    cache_breaks: int
    compactions: int
    tools: list[OfferedTool]


class EventDetail(Shape):
    """A recorded line whole, up to a limit."""

    event_no: int
    at: str | None
    session: SessionRef
    type: str
    turn_index: int
    step_n: int
    span_id: str | None
    span: str | None
    file: str
    offset: int
    length: int
    #: The line itself; cut at a megabyte, ``/events/{event_no}/raw`` has all of it.
    raw: str
    cut: bool


# ── search ──


class Piece(Shape):
    """A part of a snippet."""

    text: str
    hit: bool


class SearchHit(Shape):
    """An event whose text matches."""

    event_no: int
    at: str | None
    session: SessionRef
    span_id: str | None
    span: str | None
    kind: str
    snippet: list[Piece]


class SearchList(Shape):
    """A page of hits, newest first."""

    items: list[SearchHit]
    next: str | None
    #: Events that are recorded but not indexed yet.
    backlog: int


# ── usage ──


class UsageGroup(Shape):
    """One row: a day, a month, a model, an agent, a project or a session."""

    #: Null where the sessions of the group have none (no project).
    group: str | None
    #: The session's, where groups are sessions.
    title: str | None
    key: str | None
    bill: Bill
    #: By model, agent or project, where ``split`` asked for it.
    parts: list[NamedBill]


class UsageAnswer(Shape):
    """Usage by group."""

    by: str
    split: str | None
    timezone: str
    total: Bill
    rows: list[UsageGroup]


# ── limits ──


class AgentBudget(Shape):
    """How far a budget for agents is used, in its period or in one session."""

    name: str
    period: Literal["day", "week", "month", "session"]
    #: What it is about; all of them where a list is empty.
    agents: list[str]
    projects: list[str]
    models: list[str]
    start: str | None
    end: str | None
    #: The id, the key and the title of the session, of a budget for sessions.
    session: str | None
    session_key: str | None
    session_title: str | None
    unit: Literal["money", "tokens"]
    #: Null for tokens, and where nothing has a price yet.
    currency: str | None
    limit: float
    #: Null where it cannot be known; ``problem`` says why.
    spent: float | None
    #: 1 is all of it.
    share: float | None
    #: The shares at which it warns, and those of them that are reached.
    warn: list[float]
    crossed: list[float]
    #: By currency of the prices, before anything was converted.
    amounts: dict[str, float]
    tokens: int
    #: Tokens of models without a known price: they are not in ``spent``.
    unpriced_tokens: int
    unpriced_models: list[str]
    #: An hour, over the period so far and over the last hours.
    rate: float | None
    recent_rate: float | None
    #: At the end of the period, at ``rate``.
    forecast: float | None
    #: When it is used up at ``rate``; null where that is not before the end.
    reached_at: str | None
    problem: str | None


class ProviderWindow(Shape):
    """A window of a provider's own limit."""

    agent: str
    #: ``five_hour``, ``seven_day``, ``primary``, ``secondary``.
    name: str
    minutes: int | None
    start: str | None
    resets_at: str
    expired: bool
    #: ``estimated``: from what was recorded; then the share is not known.
    source: Literal["log", "statusline", "estimated"]
    #: When it was so.
    at: str
    plan: str | None
    share: float | None
    #: A share an hour, since the window began.
    rate: float | None
    #: When nothing is left at that rate; null where that is not before it resets.
    exhausted_at: str | None
    #: Of an estimated one: what was used in it.
    requests: int | None
    tokens: int | None
    costs: dict[str, float] | None


class AgentLimits(Shape):
    """Budgets for agents, and the windows of providers' limits."""

    timezone: str
    #: Over how many hours ``recent_rate`` is taken.
    recent_hours: int
    budgets: list[AgentBudget]
    #: Of budgets for sessions only the most used ones are listed.
    sessions_left_out: int
    windows: list[ProviderWindow]


# ── recording ──


class LineCounts(Shape):
    """Every line that was read is one of these."""

    lines: int
    recorded: int
    duplicate: int
    ignored: int
    quarantined: int


class DedupTier(Shape):
    """How often a tier of the deduplicator knew an event."""

    tier: Literal["l0", "l1", "l2"]
    hits: int
    rate: float


class RecordingState(Shape):
    """The state of recording."""

    running: bool
    pid: int | None
    #: Why recording fails now, and how often it was restarted since; null while it works.
    problem: str | None
    restarts: int
    file_count: int
    read_bytes: int
    behind_bytes: int
    behind_files: int
    lost_bytes: int
    lines: LineCounts
    dedup: list[DedupTier]
    new_events: int
    quarantine_open: int
    #: Lines that could not be understood and are only counted, because there were too many.
    counted_only: int
    unreadable: int
    #: Links that lead out of the watched directories.
    links_not_followed: int
    search_backlog: int
    database_bytes: int


class FileRow(Shape):
    """A log file."""

    path: str
    offset: int
    size: int | None
    behind: int
    lines: int
    #: Lines that could not be understood, and those of them that are only counted.
    quarantined: int
    counted_only: int
    generation: int
    lost_bytes: int
    last_read_at: str | None
    gone: bool
    error: str | None


class FileList(Shape):
    """A page of files, and the sums over all of them."""

    items: list[FileRow]
    next: str | None
    total: int
    recording: RecordingState


class QuarantineRow(Shape):
    """A line that could not be understood."""

    id: int
    file: str
    offset: int
    length: int
    reason: str
    salvaged: int
    found_at: str
    resolved_at: str | None
    #: When a retry was requested, and its result; null while it is pending.
    retry_asked_at: str | None
    retry_result: str | None


class QuarantineList(Shape):
    """A page of them, newest first."""

    items: list[QuarantineRow]
    next: str | None
    open: int
    #: Further lines that are only counted, because there were too many.
    counted_only: int


class QuarantineDetail(QuarantineRow):
    """One of them with its line; null where it was too long to be stored."""

    line: str | None
    cut: bool


class RetryAnswer(Shape):
    """How many lines will be tried again."""

    asked: int


# ── the run half ──


class BudgetPeriod(Shape):
    """A day or a month of tokens."""

    period: str
    limit: int
    used: int
    failed: int
    reserved: int
    #: The most that the calls under way may take.
    ceiling: int
    left: int


class Budget(Shape):
    """The numbers that refuse calls."""

    allowed: bool
    reason: str | None
    timezone: str
    day: BudgetPeriod
    month: BudgetPeriod


class BreakerRow(Shape):
    """The breaker of an application."""

    app: str
    app_type: str
    title: str
    titles: dict[str, str]
    provider: str
    model: str | None
    app_id: str | None
    state: CircuitState
    failure_count: int
    last_failure_at: str | None
    changed_at: str | None
    retry_after: float
    held: bool


class LimitRow(Shape):
    """A rate window that has calls in it."""

    scope: str
    key: str
    seconds: float
    calls: int
    limit: int


class RunRow(Shape):
    """A call to an application, without its texts."""

    id: int
    site_id: int
    app_type: str
    trigger_type: str
    member_id: int | None
    tokens_used: int | None
    tokens_reserved: int
    #: The most that it may take while it is under way.
    tokens_ceiling: int
    tokens_estimated: bool
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int | None
    status: RunStatus
    error_message: str | None
    session_id: str | None
    #: The session of its trace.
    session_key: str | None
    created_at: str
    finished_at: str | None
    user_id: str | None
    conversation_id: int | None
    trigger_job_id: int | None
    step: str | None
    model: str | None
    request_id: str | None
    attempts: int


class RunList(Shape):
    """A page of calls, newest first."""

    items: list[RunRow]
    next: str | None


class RunDetail(RunRow):
    """A call with its texts."""

    request_prompt: str | None
    response_text: str | None


class Guards(Shape):
    """Everything that can refuse a call."""

    breakers: list[BreakerRow]
    limits: list[LimitRow]
    budget: Budget
    #: Open calls with what they have reserved.
    reservations: list[RunRow]


class JobRow(Shape):
    """A job in a list."""

    id: int
    site_id: int
    event_type: str
    connector_type: str | None
    member_id: int | None
    status: JobStatus
    is_forced: bool
    app_chain: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    error_message: str | None
    event_date: str
    rerun_of: int | None
    cancel_requested: bool
    #: The schedule that it comes from.
    schedule: str | None
    session_id: str
    session_key: str


class JobList(Shape):
    """A page of jobs, newest first."""

    items: list[JobRow]
    next: str | None


class StepCall(Shape):
    """One call of a step; a step that was called again has several."""

    run_id: int
    status: RunStatus
    prompt: str | None
    response: str | None
    tokens_used: int
    attempts: int
    latency_ms: int | None
    model: str | None
    error: str | None
    created_at: str
    finished_at: str | None


class ChainStep(Shape):
    """A step of the chain, whether it was called or not."""

    name: str
    app: str
    title: str
    titles: dict[str, str]
    #: The steps that have to be over before it begins.
    after: list[str]
    #: The status of its last call; ``waiting`` before the first one, ``skipped`` where there will be none.
    status: StepStatus
    calls: list[StepCall]


class JobDetail(JobRow):
    """A job with its chain."""

    payload: dict[str, Any] | None
    steps: list[ChainStep]


class JobAccepted(Shape):
    """The job that was started."""

    job_id: int
    status: JobStatus
    #: The job that does the same already, if one does.
    duplicate_of: int | None


class CacheRow(Shape):
    """A cached result, without its body."""

    id: int
    cache_type: str
    site_id: int
    target_id: str
    status: CacheStatus
    created_at: str
    expires_at: str | None
    triggered_by: str | None


class CacheList(Shape):
    """A page of results, newest first."""

    items: list[CacheRow]
    next: str | None
    types: list[str]


class CacheDetail(CacheRow):
    """A cached result whole."""

    result: Any


class Invalidated(Shape):
    """How many results were invalidated."""

    invalidated: int


class AppInfo(Shape):
    """An application of the catalog."""

    app: str
    app_type: str
    #: In the language of the catalog, and by language where it has several.
    title: str
    titles: dict[str, str]
    provider: str
    model: str | None
    app_id: str | None
    stream: bool
    rate_scope: str
    rate_limit: int
    rate_seconds: float
    #: The limit for all callers together.
    app_limit: int | None
    app_limit_seconds: float | None


class EventInfo(Shape):
    """An event of the catalog and the steps it starts."""

    event: str
    steps: list[str]


class Catalog(Shape):
    """Applications and events."""

    apps: list[AppInfo]
    events: list[EventInfo]
    #: Variables without which some application, or all of them, cannot be called.
    missing: list[str]
    #: The application that users chat with, and its variables that are not set.
    chat_app: str | None
    chat_missing: list[str]


class RunState(Shape):
    """Whether the run half works, and the state of its guards and jobs."""

    available: bool
    #: Why it does not work, and what to do.
    reason: str | None
    missing: list[str]
    budget: Budget | None
    breakers: list[BreakerRow]
    running_jobs: int
    waiting_jobs: int
    failed_jobs_today: int


# ── exports ──


DestinationState = Literal["idle", "sending", "confirming", "waiting", "paused", "unused", "stopped", "removed"]
ExportState = Literal["queued", "sending", "acknowledged", "refused", "unknown", "dropped"]


class Destination(Shape):
    """A destination of spans, and its progress."""

    name: str
    kind: str
    address: str
    state: DestinationState
    #: Why it waits or is not used.
    reason: str | None
    #: When a destination that waits is tried again.
    retry_at: str | None
    paused: bool
    #: Spans by state.
    queued: int
    sending: int
    acknowledged: int
    refused: int
    unknown: int
    dropped: int
    #: Spans that changed after they were sent.
    late: int
    #: Spans that were refused by number only.
    rejected: int
    oldest_queued_at: str | None
    last_success_at: str | None
    last_error: str | None
    last_error_at: str | None
    requests: int
    sent_bytes: int
    added_at: str | None
    #: Turns that ended earlier are not sent; null: all are.
    since: str | None


class ExporterState(Shape):
    """Whether an exporter runs."""

    running: bool
    pid: int | None


class Exports(Shape):
    """The exporter and all destinations."""

    exporter: ExporterState
    destinations: list[Destination]


class ExportSpan(Shape):
    """A span for a destination; of a span that was removed from the store, only its place is known."""

    #: The key of its session.
    session: str
    session_id: str | None
    agent: str | None
    title: str | None
    span_id: str
    span: str | None
    kind: str | None
    started_at: str | None
    state: ExportState
    attempts: int
    #: When its state changed.
    at: str
    #: The answer of the destination.
    answer: str | None
    late: bool


class ExportSpanList(Shape):
    """Spans of a destination."""

    items: list[ExportSpan]
    next: str | None


class ExportChange(Shape):
    """How many spans were changed."""

    spans: int


class Backfill(Shape):
    """The traces that a backfill has added to a destination."""

    traces: int
    #: Null: everything that was recorded.
    since: str | None


# ── overview ──


class DayUsage(Shape):
    """A day's sums, by model."""

    day: str
    bill: Bill
    parts: list[NamedBill]


class Overview(Shape):
    """The first page."""

    at: str
    timezone: str
    working: list[SessionRow]
    waiting: list[SessionRow]
    #: Interrupted within the last day.
    failed: list[SessionRow]
    today: Bill
    today_by_model: list[NamedBill]
    today_by_agent: list[NamedBill]
    month: Bill
    month_by_model: list[NamedBill]
    month_by_agent: list[NamedBill]
    #: The last 30 days, oldest first, none left out.
    days: list[DayUsage]
    recording: RecordingState
    run: RunState
    exports: Exports


# ── settings and access ──


class SettingRow(Shape):
    """A setting: its value, and where it comes from."""

    name: str
    #: Secrets are masked.
    value: Any
    origin: str
    secret: bool
    description: str


class SettingList(Shape):
    """All settings."""

    home: str
    file: str
    items: list[SettingRow]


class Check(Shape):
    """A finding of the doctor."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    fix: str


class Doctor(Shape):
    """All findings."""

    ok: bool
    checks: list[Check]


Role = Literal["viewer", "admin"]


class Me(Shape):
    """The current user and role."""

    #: Null before the login.
    name: str | None
    role: Role | None
    login_required: bool
    #: The link of ``agenttrace open`` is a login here, without a user.
    by_link: bool
    #: False where a login is not possible, because there is no user yet.
    users_exist: bool
    #: The header ``X-CSRF-Token`` of every change.
    csrf: str | None
    version: str


class AuditRow(Shape):
    """A change, and who made it."""

    id: int
    at: str
    user: str
    address: str
    action: str
    target: str
    outcome: str


class AuditList(Shape):
    """A page of the audit log, newest first."""

    items: list[AuditRow]
    next: str | None


# ── live ──


class LiveHello(Shape):
    """The first message of a stream."""

    cursor: int
    version: str


class LiveSessions(Shape):
    """Sessions that have changed."""

    cursor: int
    rows: list[SessionRow]


class LiveTexts(Shape):
    """The texts of changed spans of the watched session, each cut after ``chars``."""

    cursor: int
    session: str
    chars: int
    spans: dict[str, list[TextPiece]]


class LiveReset(Shape):
    """Too much has changed: load everything again."""

    cursor: int
