"""The run half: calls, guards, jobs, cached results and the catalog."""

from __future__ import annotations

from typing import Any

from agenttrace.run.states import CacheStatus, CircuitState, JobStatus, RunStatus, StepStatus
from agenttrace.serve.api.shapes.base import Shape


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
    #: False where no application is configured, and none was run before: that is no problem.
    used: bool
    #: Why it does not work, and what to do.
    reason: str | None
    missing: list[str]
    budget: Budget | None
    breakers: list[BreakerRow]
    running_jobs: int
    waiting_jobs: int
    failed_jobs_today: int
