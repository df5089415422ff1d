"""What a rule would have done: the events of a past period, and the same decisions about them.

Differences from what really would have happened are few, and are remarks of the trial: sessions are judged by what they
cost by now, waits for permissions are not in the store, and tokens of chains are estimated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import nlargest
from typing import NamedTuple

import msgspec

from agenttrace.calendar import day_finder
from agenttrace.config.rule_tables import RuleTables
from agenttrace.config.rules import RuleSettings
from agenttrace.config.settings import Settings
from agenttrace.masking import Mask
from agenttrace.prices.costing import Cashier
from agenttrace.rules.decision import objection, once_key, verdict
from agenttrace.rules.facts import Facts, read_facts
from agenttrace.rules.past import PastEvent
from agenttrace.rules.trial_events import Remark, TrialEvents
from agenttrace.rules.trial_tokens import ChainEstimate, TokenEstimates
from agenttrace.store.rule_reasons import Reason, why
from agenttrace.store.rules import Firing, RuleEvent
from agenttrace.store.sqlite.store import SqliteStore

#: Events that a trial looks at; a rule that would meet more is tried on the latest.
MOST_EVENTS = 20_000
_MICROS = 1_000_000
#: The state of a session when an event of these kinds happened.
_STATES = {"session.waiting": "waiting", "session.ended": "waiting", "session.stuck": "working"}


class Tried(NamedTuple):
    """What a rule would have done about an event."""

    facts: Facts
    outcome: str
    reason: Reason | None
    #: When, in seconds since the epoch.
    at: float
    #: What its chains would have used, estimated; 0 where it does not fire.
    tokens: int = 0


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
    #: What the chains of the rule would have used.
    estimates: tuple[ChainEstimate, ...] = ()
    remarks: tuple[Remark, ...] = ()

    def reasons(self) -> list[tuple[Reason, int]]:
        """Why events did not fire, and how often, the most frequent reason first."""
        found = [each.reason for each in self.tried if each.outcome == "skip" and each.reason is not None]
        known = {reason.sentence: reason for reason in found}
        return [(known[name], count) for name, count in Counter(each.sentence for each in found).most_common()]

    def fired(self) -> list[Tried]:
        """The events that fire."""
        return [each for each in self.tried if each.outcome in ("fire", "hold", "dry")]


def try_rule(
    store: SqliteStore, settings: Settings, tables: RuleTables, rule: RuleSettings, *, since: int, until: int
) -> Trial:
    """Ask a rule about the events of a period, in order of time."""
    cashier, day_of = Cashier.load(settings), day_finder(settings.usage.timezone)
    source = TrialEvents(store, settings, cashier, Mask(settings.export.mask).text)
    found = nlargest(MOST_EVENTS + 1, source.read(rule, since, until), key=lambda each: each.event.at)
    cut = len(found) > MOST_EVENTS
    found = sorted(found[:MOST_EVENTS], key=lambda each: each.event.at)
    found = [each for each in found if not store.rules.is_copy(each.event)]
    tokens = TokenEstimates(store, tables, rule)
    history = _PastFirings(tokens)
    asked = msgspec.structs.replace(rule, mode="on", start="all")
    known: dict[int | None, Facts] = {}

    def read(event: RuleEvent) -> Facts:
        facts = known.get(event.session)
        if facts is None:
            facts = known[event.session] = read_facts(store, cashier, event)
        return facts._replace(event=event)

    tried = [_tried(read, asked, each, history, number, day_of) for number, each in enumerate(found)]
    remarks = [*source.remarks, *tokens.remarks()]
    if any(each.facts.session is not None for each in tried):
        remarks.insert(0, Remark("costs_of_now"))
    return Trial(rule.name, since, until, tried, history.messages, cut, tokens.estimates(), tuple(remarks))


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
        state = _STATES.get(event.kind, facts.session.state)
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
    used = 0
    if found.outcome in ("fire", "hold"):
        used = history.note(firing, facts, now, found.due if found.outcome == "hold" else None, day_of)
    reason = found.reason if found.outcome == "skip" else None
    if reason is not None and reason.code == "fired_before":
        # Firings of a trial have no numbers.
        reason = why("fired_already", once=reason.facts["once"])
    return Tried(facts, found.outcome, reason, now, used)


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

    def __init__(self, tokens: TokenEstimates) -> None:
        self._tokens = tokens
        self._tokens_of: Counter[str] = Counter()
        self._once: dict[bytes, int] = {}
        self._days: Counter[str] = Counter()
        self._last: float | None = None
        #: When the message goes out that collects what a cooldown holds back.
        self._held: float | None = None
        self.messages = 0

    def note(self, firing: Firing, facts: Facts, now: float, held: float | None, day_of: Callable[[int], str]) -> int:
        """The rule fires, or its cooldown holds the event back; the tokens that it would have used."""
        self._once[firing.once_key] = firing.number
        day = day_of(round((held or now) * _MICROS))
        used = self._tokens.use(facts)
        self._tokens_of[day] += used
        if held is None or held != self._held:
            self._held = held
            self._last = now if held is None else self._last
            self.messages += 1
            self._days[day] += 1
        return used

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
        return self._days[day], self._tokens_of[day]
