"""What a rule decides about an event: fire, wait, or not, with the reason.

``verdict`` depends on nothing but its arguments. Whether a rule would have fired in the past is the same question with
another clock and another history (see ``trial.py``).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, cast

import msgspec

from agenttrace.config.rules import Once, RuleMode, RuleSettings
from agenttrace.projects import is_demo
from agenttrace.rules.facts import Facts, mismatch
from agenttrace.store.rule_reasons import Reason, why
from agenttrace.store.rules import Firing, RuleEvent, RuleState, key_of

#: The beginning of the ids of sessions that rules cause.
CAUSED = "rule-"

#: Events that are one for each of these by themselves; their keys stay when the session becomes a part of another.
_NAMED: dict[str, tuple[Once, ...]] = {"tool.failed": ("span",), "turn.failed": ("turn", "span")}

#: An event is of the past after so many seconds.
_OLD_SECONDS = 86_400.0
#: When one that has to wait for another day is looked at again.
_LATER_SECONDS = 3_600.0

Outcome = Literal["fire", "wait", "hold", "dry", "skip"]


class Verdict(NamedTuple):
    """What is done about an event; ``due``: when to ask again."""

    outcome: Outcome
    reason: Reason | None = None
    due: float = 0.0


class History(Protocol):
    """What a rule did before."""

    def fired(self, firing: Firing) -> int | None:
        """Another firing of the rule for the same session, turn or span."""
        ...

    def fired_dry(self, firing: Firing) -> int | None:
        """The same among those that were only noted."""
        ...

    def told_otherwise(self, firing: Firing) -> int | None:
        """Another firing of the rule for the same, which telemetry told of and then the log, or the reverse."""
        ...

    def is_superseded(self, firing: Firing) -> bool:
        """Whether the rule knows of a later event of the kind in the session."""
        ...

    def last_message_at(self, rule: str) -> float | None:
        """When the last message of a rule was due to be sent."""
        ...

    def of_day(self, rule: str, day: str) -> tuple[int, int]:
        """How many messages of a rule a day has, and the tokens of their chains."""
        ...


def in_force(rule: RuleSettings, state: RuleState | None) -> RuleSettings:
    """A rule with the mode that the user switched it to, if any."""
    return switched(rule, None if state is None else state.mode)


def switched(rule: RuleSettings, mode: str | None) -> RuleSettings:
    """A rule with this mode; ``None``: that of its settings."""
    return rule if mode is None else msgspec.structs.replace(rule, mode=cast("RuleMode", mode))


def once_key(rule: RuleSettings, event: RuleEvent) -> bytes:
    """What a rule fires once for."""
    if event.session is None or rule.once == "crossing" or rule.once in _NAMED.get(event.kind, ()):
        return event.key
    if rule.once == "session":
        return key_of("session", event.session)
    if rule.once == "span" and event.span is not None:
        return key_of("span", event.session, event.span.hex())
    return key_of("turn", event.session, event.turn)


def is_sampled(rule: RuleSettings, event: RuleEvent) -> bool:
    """Whether the event is in the rule's sample: all events of a session are, or none."""
    whose = event.key.hex() if event.session is None else event.session
    place = int.from_bytes(key_of("sample", rule.name, whose)[:8], "big")
    return place < rule.sample * 2**64


def objection(rule: RuleSettings, event: RuleEvent, facts: Facts, since: int) -> Reason | None:
    """Why an event does not concern a rule at all, now or later; ``None``: it may."""
    if event.at < since:
        return why("before_start")
    if not is_sampled(rule, event):
        return why("sample", share=f"{rule.sample:.0%}")
    if event.session is not None and facts.session is None:
        return why("session_removed")
    if facts.session is not None and facts.session.session_id.startswith(CAUSED):
        return why("caused")
    if facts.session is not None and is_demo(facts.session.project):
        return why("demo")
    return mismatch(rule.where, facts) if rule.settle == 0 else None


def verdict(
    rule: RuleSettings, firing: Firing, facts: Facts, history: History, *, silent: float, now: float, day: str
) -> Verdict:
    """What is done now about an event that concerns a rule; ``silent``: for how many seconds its session was."""
    if firing.event.session is not None and facts.session is None:
        return Verdict("skip", why("session_removed"))
    if _is_history(firing, facts, history):
        return Verdict("skip", why("history"))
    if _went_on(firing, facts, history):
        return Verdict("skip", why("went_on"))
    if silent < rule.settle or _works_again(firing, facts):
        return Verdict("wait", None, now + max(rule.settle - silent, 1.0))
    reason = mismatch(rule.where, facts) or _higher(firing.event)
    if reason is not None:
        return Verdict("skip", reason)
    other = history.fired(firing)
    if other is not None:
        return Verdict("skip", why("fired_before", once=_whose(rule), firing=other))
    other = history.told_otherwise(firing) if _is_nameless(firing.event) else None
    if other is not None:
        return Verdict("skip", why("told", firing=other))
    if rule.mode == "dry":
        other = history.fired_dry(firing)
        return Verdict("dry") if other is None else Verdict("skip", why("noted_before", once=_whose(rule)))
    is_old = now - firing.event.at / 1_000_000 > rule.settle + _OLD_SECONDS
    capped = _capped(rule, history, day, is_old=is_old)
    if capped is not None:
        return Verdict("wait", capped, now + _LATER_SECONDS) if is_old else Verdict("skip", capped)
    return _cooling(rule, history, now) or Verdict("fire")


def _higher(event: RuleEvent) -> Reason | None:
    """Of thresholds that were crossed at once only the highest fires."""
    above = event.facts.get("above")
    return None if above is None else why("above", value=f"{above:.0%}")


def _is_history(firing: Firing, facts: Facts, history: History) -> bool:
    """Whether a session that waited has ended since then, without going on."""
    ended = facts.session is not None and facts.session.state == "ended"
    return ended and firing.event.kind == "session.waiting" and not history.is_superseded(firing)


def _went_on(firing: Firing, facts: Facts, history: History) -> bool:
    """Whether what the event says of its session is not so any more."""
    event, session = firing.event, facts.session
    if session is None:
        return False
    if event.kind == "session.waiting":
        return session.state != "waiting" or history.is_superseded(firing)
    if event.kind == "session.stuck":
        return session.state not in ("working", "interrupted") or session.turns > event.turn
    return event.kind == "session.ended" and session.turns > event.turn


def _is_nameless(event: RuleEvent) -> bool:
    """Whether telemetry and log have no name in common for it."""
    return event.kind in ("session.waiting", "turn.failed", "tool.failed") and "call" not in event.facts


def _works_again(firing: Firing, facts: Facts) -> bool:
    """Whether a session that had ended goes on within the same turn."""
    return firing.event.kind == "session.ended" and facts.session is not None and facts.session.state == "working"


def _whose(rule: RuleSettings) -> str:
    return "event" if rule.once == "crossing" else rule.once


def _capped(rule: RuleSettings, history: History, day: str, *, is_old: bool) -> Reason | None:
    """Which cap of the day is reached.

    What a rule looks back for is much at once: it takes half of a cap, which leaves room for what happens now.
    """
    messages, tokens = history.of_day(rule.name, day)
    share = 0.5 if is_old else 1.0
    if messages >= max(rule.max_per_day * share, 1):
        return why("later_messages" if is_old else "most_messages", count=messages, limit=rule.max_per_day)
    if rule.tokens_per_day is not None and tokens >= rule.tokens_per_day * share:
        return why("later_tokens" if is_old else "most_tokens", count=tokens, limit=rule.tokens_per_day)
    return None


def _cooling(rule: RuleSettings, history: History, now: float) -> Verdict | None:
    if not rule.cooldown:
        return None
    last = history.last_message_at(rule.name)
    # A message of the future is from before the clock was set back.
    if last is None or not last <= now < last + rule.cooldown:
        return None
    return Verdict("hold", why("cooling"), last + rule.cooldown)
