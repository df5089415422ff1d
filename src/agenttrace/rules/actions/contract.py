"""What an action gets, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from agenttrace.config.rules import ActionSettings, RuleSettings
from agenttrace.rules.facts import Facts


class Message(NamedTuple):
    """A firing with the events that it is about: more than one after a cooldown."""

    firing: int
    rule: RuleSettings
    action: ActionSettings
    #: The same in every attempt, also after the store was lost: receivers ignore repeats by it.
    idempotency_key: str
    events: Sequence[Facts]
    #: What the earlier actions of the firing answered, by name.
    answers: Mapping[str, Any]
    #: Which attempt this is, from 1.
    attempt: int
    #: Further events that the message only counts.
    more: int = 0
    #: Whether the attempt before was cut off, by a crash or a stop, before its result was stored.
    is_interrupted: bool = False
    #: Tokens that earlier attempts have used.
    tokens: int = 0
    #: Tokens that the rule may still use today; ``None``: any number.
    tokens_left: int | None = None


class ActionResult(NamedTuple):
    """What came of an attempt."""

    outcome: Literal["done", "retry", "failed"]
    #: For the delivery log: a status, an error. Never a secret.
    detail: str = ""
    #: For the actions after it; can be written as JSON. Of an attempt that did not do all, what it did.
    answer: Any = None
    tokens: int = 0
    #: Seconds before the next attempt, where the receiver says so.
    retry_after: float | None = None


class Action(Protocol):
    """Carries out one type of action."""

    async def run(self, message: Message) -> ActionResult:
        """One attempt; expected failures are results, and an exception counts as ``retry``."""
        ...
