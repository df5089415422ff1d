"""What the store knows of rules: the rows and states that ``store.rules`` answers with."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple

import msgspec

from agenttrace.store.rule_reasons import Reason

FiringState = Literal["settling", "held", "queued", "running", "done", "failed", "collected", "dry", "skipped"]
#: Those of which something is still to be done.
OPEN_STATES: tuple[FiringState, ...] = ("settling", "held", "queued", "running")
#: Those in which an event was passed on, or will be: a rule does not fire again for the same session, turn or span.
FIRED_STATES: tuple[FiringState, ...] = ("held", "queued", "running", "done", "failed", "collected")
ActionState = Literal["queued", "running", "done", "failed"]


def key_of(*parts: str | int) -> bytes:
    """Sixteen bytes that name an event, or what a rule fires once for; the same in every store."""
    text = "\x1f".join(map(str, ("rule", *parts)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


class RuleEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened; ``at`` is in microseconds."""

    key: bytes
    kind: str
    at: int
    session: int | None = None
    span: bytes | None = None
    turn: int = -1
    #: What else is known of it: the name of a tool, of a budget, a reason.
    facts: dict[str, Any] = {}


class QueuedEvent(NamedTuple):
    """An event that rules are to be asked about."""

    number: int
    event: RuleEvent


class RuleState(NamedTuple):
    """What is stored of a rule."""

    rule: str
    #: Microseconds: earlier events do not fire it.
    since: int
    added_at: float
    kinds: tuple[str, ...]
    #: The switch of the user: ``on``, ``dry`` or ``off``; ``None``: as the settings say.
    mode: str | None
    #: Why it is paused.
    paused: str | None
    #: How many firings in a row have failed.
    failures: int


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule decided about an event."""

    number: int
    rule: str
    once_key: bytes
    event: RuleEvent
    state: FiringState
    #: In English; where it is a reason of the rule, and not of an action, it is ``why`` in a sentence.
    reason: str | None
    due_at: float
    created_at: float
    fired_at: float | None
    ended_at: float | None
    #: The firing whose message has this one too.
    message: int | None
    tokens: int
    why: Reason | None = None


class FiringAction(NamedTuple):
    """One action of a firing."""

    firing: int
    place: int
    action: str
    idempotency_key: str
    state: ActionState
    attempts: int
    due_at: float
    started_at: float | None
    ended_at: float | None
    #: JSON, for the actions after it and for display.
    answer: str | None
    error: str | None
    tokens: int


class Attempt(NamedTuple):
    """One attempt of an action."""

    firing: int
    place: int
    at: float
    seconds: float
    outcome: str
    detail: str


class ChainUse(NamedTuple):
    """What an action of a firing used: tokens, and the sessions of its traces."""

    firing: int
    place: int
    tokens: int
    sessions: tuple[str, ...]


class Answered(NamedTuple):
    """What an action of a firing answered."""

    #: The number of the attempt; it grows.
    attempt: int
    firing: Firing
    action: str
    idempotency_key: str
    answer: dict[str, Any]


class FiringCounts(NamedTuple):
    """How often a rule fired, and did not."""

    states: dict[FiringState, int]
    #: Messages, and tokens of chains, of one day.
    today: int
    tokens_today: int
    last_fired_at: float | None
