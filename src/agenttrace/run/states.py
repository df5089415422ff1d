"""The states of jobs, calls, results, breakers and messages, each set defined once for tables, API and console."""

from __future__ import annotations

from enum import StrEnum


class JobStatus(StrEnum):
    """The states of a job."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED_DUPLICATE = "skipped_duplicate"
    BUDGET_EXCEEDED = "budget_exceeded"
    CANCELLED = "cancelled"


class RunStatus(StrEnum):
    """The states of a call in the run log."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    BUDGET_EXCEEDED = "budget_exceeded"
    CIRCUIT_OPEN = "circuit_open"
    RATE_LIMITED = "rate_limited"


class StepStatus(StrEnum):
    """The states of a step of a job: that of its last call, or why there is none."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    BUDGET_EXCEEDED = "budget_exceeded"
    CIRCUIT_OPEN = "circuit_open"
    RATE_LIMITED = "rate_limited"
    WAITING = "waiting"
    SKIPPED = "skipped"


class CacheStatus(StrEnum):
    """The states of a cached result."""

    VALID = "valid"
    EXPIRED = "expired"
    INVALIDATED = "invalidated"
    GENERATING = "generating"


class CircuitState(StrEnum):
    """Whether a circuit breaker lets calls through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class TriggerType(StrEnum):
    """What caused a call."""

    USER = "user"
    SCHEDULED = "scheduled"
    EVENT = "event"
    FORCED = "forced"


class ConversationEntry(StrEnum):
    """Where in the user's program a conversation began."""

    GENERAL = "general"
    TASK = "task"
    CUSTOMER = "customer"
    COACH = "coach"


class MessageRole(StrEnum):
    """Who said a message of a conversation."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


#: Calls that are not over.
OPEN_RUNS = (RunStatus.PENDING, RunStatus.RUNNING)
#: Jobs that are not over.
OPEN_JOBS = (JobStatus.PENDING, JobStatus.RUNNING)
