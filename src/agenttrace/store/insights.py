"""Questions about the work of many sessions at once, and the answers: tools, models, and what stands out.

Durations are milliseconds. A percentile is the smallest duration that at least that part of the calls does not exceed
(nearest rank), so it is the duration of a call. A duration is known of calls that ended, in logs that have two times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from agenttrace.model import Usage

#: What figures can be divided by.
InsightSplit = Literal["total", "agent", "project", "model", "machine", "person"]

#: Fewer failures of one call in a turn are no loop.
LOOP_FAILURES = 3
#: The shortest wait for the user that is told, and the longest that is a wait and no break, in microseconds.
SHORTEST_WAIT, LONGEST_WAIT = 600_000_000, 28_800_000_000
#: Tools that ask the user: their time is a wait.
QUESTION_TOOLS = ("AskUserQuestion", "ExitPlanMode", "ask_followup_question", "ask_user", "question")


class InsightQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls and turns; every field that is set must match.

    What a fork repeats of another session, whose tokens count there, is left out.
    """

    #: When it began, in microseconds: from ``since`` and before ``until``.
    since: int | None = None
    until: int | None = None
    agents: frozenset[str] = frozenset()
    #: Exact directories; the empty text matches sessions without one.
    projects: frozenset[str] = frozenset()
    #: A part of the directory, in any case.
    project_contains: str | None = None
    #: Of a tool call: the model that asked for it.
    models: frozenset[str] = frozenset()
    #: Of a team's store: recorded on one of these machines, by one of these persons; the empty text: without one.
    machines: frozenset[str] = frozenset()
    persons: frozenset[str] = frozenset()


class ToolFigures(NamedTuple):
    """The calls of one tool."""

    tool: str
    #: The agent, project or model, where the figures are divided.
    part: str
    calls: int
    failures: int
    #: Stopped by the user, or refused.
    cancelled: int
    sessions: int
    #: When the latest began, in microseconds.
    last_at: int
    #: How many have a known duration; without any, the others are ``None``.
    timed: int
    total_ms: int | None
    p50_ms: int | None
    p95_ms: int | None
    max_ms: int | None


class ModelFigures(NamedTuple):
    """The calls of one model; tokens and cost are in ``Store.usage``."""

    model: str
    #: The agent or project, where the figures are divided.
    part: str
    calls: int
    errors: int
    sessions: int
    #: Turns in which it was called.
    turns: int
    last_at: int
    #: How many have a known duration; without any, the others are ``None``.
    timed: int
    p50_ms: int | None
    p95_ms: int | None
    max_ms: int | None
    #: Of calls with a known duration and known tokens: what they wrote, and how long they took together.
    output_tokens: int
    output_ms: int


#: ``failed``: the latest failures; ``slow``: the longest calls.
CallOrder = Literal["failed", "slow"]


class InsightCall(NamedTuple):
    """One tool call or model call."""

    session: int
    span_id: bytes
    #: When it began, in microseconds.
    at: int
    turn_index: int
    #: ``None``: not known.
    duration_ms: int | None
    status: str
    error: str | None


# -- what stands out ---------------------------------------------------------------------------------------------


class RepeatedFailure(NamedTuple):
    """A tool that failed with the same error in several sessions."""

    tool: str
    #: As far as it is stored: its first characters.
    error: str
    failures: int
    sessions: int
    first_at: int
    last_at: int
    #: ``None``: not known of any of them.
    total_ms: int | None
    #: The latest ones.
    calls: tuple[InsightCall, ...]


class FailedCalls(NamedTuple):
    """Failures of one tool in one turn, in order of time. Whether they had the same arguments, only the log says."""

    session: int
    tool: str
    turn_index: int
    #: How many; ``calls`` are the first of very many.
    failures: int
    calls: tuple[InsightCall, ...]


class CacheLoss(NamedTuple):
    """Cached tokens that a model call did not read again."""

    session: int
    span_id: bytes
    at: int
    turn_index: int
    model: str
    #: What its price depends on beside the model.
    day: str
    variant: str
    lost_tokens: int
    #: Whether the call wrote to the cache.
    wrote: bool
    #: Since the call before, in microseconds.
    pause: int


class Rate(NamedTuple):
    """What tokens of a model cost on a day and in a variant: millionths of the currency for a million."""

    model: str
    day: str
    variant: str
    currency: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    web_search: int


class TurnCost(NamedTuple):
    """A turn, with the work of its subagents, and what its tokens cost in one currency."""

    session: int
    #: The span of the turn; ``None`` where the log has none.
    span_id: bytes | None
    trace_id: bytes
    at: int
    turn_index: int
    duration_ms: int | None
    currency: str
    #: Millionths of a millionth of the currency.
    numerator: int
    requests: int
    usage: Usage


class UserWait(NamedTuple):
    """How long an agent waited for the user: for an answer to a question, or for the next prompt."""

    session: int
    #: The question, or the turn that began when the wait was over.
    span_id: bytes
    at: int
    turn_index: int
    wait_ms: int
    #: The tool that asked; empty: it waited for a prompt.
    tool: str


class FindingsQuery(InsightQuery, frozen=True, kw_only=True):
    """The same, and how many of each kind at most."""

    limit: int = 20


class CacheQuery(FindingsQuery, frozen=True, kw_only=True):
    """The same, without the sessions of some agents."""

    #: Agents whose calls do not continue one conversation.
    without_agents: frozenset[str] = frozenset()


class TurnQuery(FindingsQuery, frozen=True, kw_only=True):
    """The same, and what tokens cost; those without a rate count as nothing."""

    rates: Sequence[Rate] = ()
