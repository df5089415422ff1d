"""What a rule would have done: the events of a past period, and the same decisions about them.

Differences from what really would have happened are few, and said where the report is shown: sessions are judged by
what they cost by now, and waits for permissions are not in the store. Some kinds of events cannot be told from what is
stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import nlargest
from typing import NamedTuple

import msgspec

from agenttrace.config.rules import RuleSettings
from agenttrace.prices.costing import Cashier
from agenttrace.rules.decision import objection, once_key, verdict
from agenttrace.rules.facts import Facts, read_facts
from agenttrace.rules.past import TRIED as TRIED
from agenttrace.rules.past import PastEvent, past_events
from agenttrace.store.rule_reasons import Reason, why
from agenttrace.store.rules import Firing, RuleEvent
from agenttrace.store.sqlite.store import SqliteStore

#: Events that a trial looks at; a rule that would meet more is tried on the latest.
MOST_EVENTS = 20_000
_MICROS = 1_000_000


class Tried(NamedTuple):
    """What a rule would have done about an event."""

    facts: Facts
    outcome: str
    reason: Reason | None
    #: When, in seconds since the epoch.
    at: float


class Trial(NamedTuple):
    """What a rule would have done in a period."""

    rule: str
    since: int
    until: int
    #: In order of time.
    tried: list[Tried]
    #: Messages; events that a cooldown collects are in one message.
    messages: int
    #: Whether there were more events than a trial looks at.
    cut: bool

    def reasons(self) -> list[tuple[Reason, int]]:
        """Why events did not fire, and how often, the most frequent reason first."""
        found = [each.reason for each in self.tried if each.outcome == "skip" and each.reason is not None]
        known = {reason.sentence: reason for reason in found}
        return [(known[name], count) for name, count in Counter(each.sentence for each in found).most_common()]

    def fired(self) -> list[Tried]:
        """The events that fire."""
        return [each for each in self.tried if each.outcome in ("fire", "hold", "dry")]


def try_rule(
    store: SqliteStore, cashier: Cashier, rule: RuleSettings, *, since: int, until: int, day_of: Callable[[int], str]
) -> Trial:
    """Ask a rule about the events of a period, in order of time."""
    known_events = past_events(store, rule.on, since, until)
    found = nlargest(MOST_EVENTS + 1, known_events, key=lambda each: each.event.at)
    cut = len(found) > MOST_EVENTS
    found = [each for each in found[MOST_EVENTS - 1 :: -1] if not store.rules.is_copy(each.event)]
    history = _PastFirings()
    asked = msgspec.structs.replace(rule, mode="on", start="all")
    known: dict[int | None, Facts] = {}

    def read(event: RuleEvent) -> Facts:
        facts = known.get(event.session)
        if facts is None:
            facts = known[event.session] = read_facts(store, cashier, event)
        return facts._replace(event=event)

    tried = [_tried(read, asked, each, history, number, day_of) for number, each in enumerate(found)]
    return Trial(rule.name, since, until, tried, history.messages, cut)


def _tried(
    read: Callable[[RuleEvent], Facts],
    rule: RuleSettings,
    candidate: PastEvent,
    history: _PastFirings,
    number: int,
    day_of: Callable[[int], str],
) -> Tried:
    event = candidate.event
    facts = read(event)
    if facts.session is not None:
        # As it was then, as far as the decision asks for it.
        state = "waiting" if event.kind in ("session.waiting", "session.ended") else facts.session.state
        then = msgspec.structs.replace(facts.session, state=state, turns=max(event.turn, 0) or facts.session.turns)
        facts = facts._replace(session=then)
    now = event.at / _MICROS + min(rule.settle, candidate.silent)
    reason = objection(rule, event, facts, 0)
    if reason is not None:
        return Tried(facts, "skip", reason, now)
    if candidate.silent < rule.settle:
        return Tried(facts, "skip", why("went_on"), now)
    firing = _firing(rule, event, number, now)
    found = verdict(rule, firing, facts, history, silent=candidate.silent, now=now, day=day_of(round(now * _MICROS)))
    if found.outcome in ("fire", "hold"):
        history.note(firing, now, found.due if found.outcome == "hold" else None, day_of)
    reason = found.reason if found.outcome == "skip" else None
    if reason is not None and reason.code == "fired_before":
        # Firings of a trial have no numbers.
        reason = why("fired_already", once=reason.facts["once"])
    return Tried(facts, found.outcome, reason, now)


def _firing(rule: RuleSettings, event: RuleEvent, number: int, now: float) -> Firing:
    return Firing(
        number=number,
        rule=rule.name,
        once_key=once_key(rule, event),
        event=event,
        state="settling",
        reason=None,
        due_at=now,
        created_at=now,
        fired_at=None,
        ended_at=None,
        message=None,
        tokens=0,
    )


class _PastFirings:
    """What the rule did earlier in the trial."""

    def __init__(self) -> None:
        self._once: dict[bytes, int] = {}
        self._days: Counter[str] = Counter()
        self._last: float | None = None
        #: When the message goes out that collects what a cooldown holds back.
        self._held: float | None = None
        self.messages = 0

    def note(self, firing: Firing, now: float, held: float | None, day_of: Callable[[int], str]) -> None:
        """The rule fires, or its cooldown holds the event back."""
        self._once[firing.once_key] = firing.number
        if held is not None and held == self._held:
            return
        self._held = held
        self._last = now if held is None else self._last
        self.messages += 1
        self._days[day_of(round((held or now) * _MICROS))] += 1

    def fired(self, firing: Firing) -> int | None:
        return self._once.get(firing.once_key)

    def fired_dry(self, firing: Firing) -> int | None:
        return None

    def told_otherwise(self, firing: Firing) -> int | None:
        return None

    def is_superseded(self, firing: Firing) -> bool:
        return False

    def last_message_at(self, rule: str) -> float | None:
        return self._last

    def of_day(self, rule: str, day: str) -> tuple[int, int]:
        return self._days[day], 0
