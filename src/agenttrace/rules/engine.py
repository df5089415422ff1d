"""The engine: asks every rule about every event, and decides when each fires.

All of it is a function of what is stored and of the clock. Killed at any moment, the next engine goes on: events stay
queued until their decisions are committed, and a decision is unique.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from agenttrace.config.rule_tables import RuleTables
from agenttrace.config.rules import RuleSettings
from agenttrace.prices.costing import Cashier
from agenttrace.rules.decision import Verdict, in_force, objection, once_key, switched, verdict
from agenttrace.rules.facts import Facts, read_facts
from agenttrace.rules.journal import RuleJournal
from agenttrace.rules.past import portion_of
from agenttrace.rules.silence import Silence
from agenttrace.store.rule_reasons import Reason, why
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.rules import Firing, FiringState, QueuedEvent, RuleEvent, RuleState, key_of
from agenttrace.store.sqlite.rule_events import ended_event, stuck_event
from agenttrace.store.sqlite.store import SqliteStore

logger = logging.getLogger(__name__)

#: Events and firings that are handled in one transaction, or one look.
_PORTION = 500
#: How often sessions that work are looked at for silence.
_SILENT_SECONDS = 1.0
#: How often it is checked whether a rule has to look back.
_PAST_SECONDS = 1.0
#: So many failures in a row pause a rule.
MOST_FAILURES = 10
#: The longest time between two attempts of an action.
LONGEST_PAUSE = 3600.0

#: Finds events of the wanted kinds that happened since the given times (microseconds), in what is stored.
EventSource = Callable[[Mapping[str, int]], Iterable[RuleEvent]]
#: A rule, what it fires once for, the event, and its state.
_Decided = tuple[str, bytes, RuleEvent, FiringState, Reason | None, float]


class _LookBack(NamedTuple):
    """How far a rule has looked back; ``None``: to the end."""

    kind: str
    since: int
    after: int | None


_encode = msgspec.json.Encoder().encode
_cursor = msgspec.json.Decoder(_LookBack).decode


class ActiveRule(NamedTuple):
    """A rule that is on or dry, and since when it fires."""

    settings: RuleSettings
    since: int


def register(
    store: RuleStore, tables: RuleTables, *, home: Path, day_of: Callable[[int], str], now: float
) -> dict[str, ActiveRule]:
    """Have events noted for the rules that are on; before recording starts, so that none is missed."""
    states = store.rules.states()
    active: dict[str, ActiveRule] = {}
    for each in tables.rules.values():
        state, journal = states.get(each.name), RuleJournal(home, each.name)
        if state is None:
            rule = switched(each, journal.mode())
        else:
            journal.note_mode(state.mode)
            rule = in_force(each, state)
        if rule.mode == "off":
            continue
        active[rule.name] = ActiveRule(rule, _since(rule, state, journal, start_of(rule, now, day_of)))
        if state is None:
            store.rules.restore(rule.name, journal.fired())
    store.rules.keep(
        {name: (each.since, (each.settings.on,)) for name, each in active.items()},
        modes={name: RuleJournal(home, name).mode() for name in tables.rules if name not in states},
    )
    return active


def _since(rule: RuleSettings, state: RuleState | None, journal: RuleJournal, start: int) -> int:
    """Since when a rule fires: as it was when it was first seen, also where the store is a new one."""
    if rule.start != "now":
        return start
    if state is None:
        known = journal.since()
        since = start if known is None else known
    else:
        # One that was off, and is on again, starts anew.
        since = state.since if state.kinds else max(state.since, start)
    journal.begin(since)
    return since


class RuleEngine:
    """Decides what fires, for one store."""

    def __init__(
        self,
        store: RuleStore,
        tables: RuleTables,
        *,
        home: Path,
        cashier: Cashier,
        day_of: Callable[[int], str],
        silence: Silence | None = None,
        sources: Sequence[EventSource] = (),
        is_caused: Callable[[Facts], bool] = lambda _: False,
        is_copy: Callable[[RuleEvent], bool] | None = None,
        looks_back: bool = True,
    ) -> None:
        """``looks_back``: whether rules that start in the past look there; else the sources tell that, too."""
        self._store, self._rules = store, store.rules
        self._home = home
        self._cashier = cashier
        self._day_of = day_of
        self._silence = silence or Silence()
        self._sources = sources
        self._is_caused = is_caused
        self._looks_back = looks_back
        self._is_copy = is_copy or store.rules.is_copy
        self.tables = tables
        self.active: dict[str, ActiveRule] = {}
        self._states: dict[str, RuleState] = {}
        self._next_silent = self._next_past = -math.inf
        self.keep(tables)

    # -- rules ------------------------------------------------------------------------------------------------

    def use(self, *, cashier: Cashier, day_of: Callable[[int], str], sources: Sequence[EventSource]) -> None:
        """Use these prices, days and sources from now on: the settings have changed."""
        self._cashier, self._day_of, self._sources = cashier, day_of, sources

    def keep(self, tables: RuleTables) -> None:
        """Use these rules from now on."""
        self.tables = tables
        self.active = register(self._store, tables, home=self._home, day_of=self._day_of, now=self._silence.now())
        self._states = self._rules.states()
        self._next_past = -math.inf

    # -- one look ---------------------------------------------------------------------------------------------

    def look(self) -> bool:
        """Decide what can be decided now; whether there is more to be done at once."""
        states = self._rules.states()
        if states != self._states:
            self.keep(self.tables)
        if not self.active:
            return False
        more = self._look_back()
        self._derive()
        taken = self._rules.events(_PORTION)
        self._ask(taken)
        due = self._rules.to_decide(self._silence.now(), self._longest(), _PORTION)
        for firing in due:
            self._decide(firing)
        return more or _PORTION in (len(taken), len(due))

    def due(self, limit: int) -> list[Firing]:
        """Firings whose actions are to be run now; those of a paused rule wait."""
        return self._rules.to_run(self._silence.now(), self._longest(), limit)

    def tokens_left(self, rule: RuleSettings) -> int | None:
        """Tokens that a rule may still use today; ``None``: any number."""
        if rule.tokens_per_day is None:
            return None
        return rule.tokens_per_day - self._rules.of_day(rule.name, self._day(self._silence.now()))[1]

    def _longest(self) -> float:
        waits = (max(each.settings.settle, each.settings.cooldown) for each in self.active.values())
        return max([LONGEST_PAUSE, *waits]) + 60.0

    # -- events -----------------------------------------------------------------------------------------------

    def _look_back(self) -> bool:
        """Note a portion of what was recorded before each rule asked for it; whether there is more."""
        if not self._looks_back or self._silence.steady() < self._next_past:
            return False
        left = [rule for rule in self.active.values() if self._look_back_for(rule)]
        if not left:
            self._next_past = self._silence.steady() + _PAST_SECONDS
        return bool(left)

    def _look_back_for(self, rule: ActiveRule) -> bool:
        name, kind, since = rule.settings.name, rule.settings.on, rule.since
        stored = self._rules.looked_back(name)
        known = None if stored is None else _cursor(stored)
        if known is None or (known.kind, known.since) != (kind, since):
            known = _LookBack(kind, since, 0)
        if known.after is None:
            return False
        assert isinstance(self._store, SqliteStore)
        found = portion_of(self._store, kind, since, known.after, round(self._silence.now() * 1_000_000))
        following = known._replace(after=found.following)
        self._rules.look_back(name, _encode(following).decode(), found.events, found.working)
        return found.following is not None

    def _derive(self) -> None:
        """Note events that nobody records: of silence, of sums, of texts."""
        wanted: dict[str, int] = {}
        for rule in self.active.values():
            kind = rule.settings.on
            wanted[kind] = min(rule.since, wanted.get(kind, rule.since))
        found = [event for source in (self._silent, *self._sources) for event in source(wanted)]
        if found:
            self._rules.note(found)

    def _silent(self, wanted: Mapping[str, int]) -> Iterator[RuleEvent]:
        """Sessions that work and say nothing: stuck after a while, and interrupted after a longer one."""
        if "session.ended" not in wanted and "session.stuck" not in wanted:
            return
        if self._silence.steady() < self._next_silent:
            return
        self._next_silent = self._silence.steady() + _SILENT_SECONDS
        touched = self._rules.touched(_PORTION)
        sessions = {each.id: each for each in self._store.sessions_by_number([number for number, _ in touched])}
        over = [each for each in touched if each[0] not in sessions]
        stuck_after = min(
            (each.settings.settle for each in self.active.values() if each.settings.on == "session.stuck"), default=None
        )
        for number, at in touched:
            session = sessions.get(number)
            if session is None:
                continue
            heard = self._store.heard_of(session) / 1_000_000
            silent = self._silence.of(number, session.events, heard)
            if session.state == "working":
                if stuck_after is not None and silent >= stuck_after:
                    yield stuck_event(number, session.turns, round(heard * 1_000_000))
                continue
            over.append((number, at))
            if session.state == "interrupted" and "session.ended" in wanted:
                yield ended_event(session)
        if over:
            self._rules.untouch(over)

    def _ask(self, taken: Sequence[QueuedEvent]) -> None:
        """Ask all rules about these events, and forget the events."""
        if not taken:
            return
        now = self._silence.now()
        known: dict[int | None, Facts] = {}
        decided: list[_Decided] = []
        for _, event in taken:
            asked = [rule for rule in self.active.values() if rule.settings.on == event.kind]
            if asked and event.session not in known:
                known[event.session] = read_facts(self._store, self._cashier, event)
            facts = known[event.session]._replace(event=event) if asked else Facts(event)
            if asked and not self._is_caused(facts):
                decided += [
                    (each.name, once_key(each, event), event, "settling", None, now)
                    for each in self._concerned(asked, facts)
                ]
        self._rules.decide([number for number, _ in taken], decided)

    def _concerned(self, asked: Sequence[ActiveRule], facts: Facts) -> list[RuleSettings]:
        """The rules that an event may fire, now or later."""
        event = facts.event
        found = [rule.settings for rule in asked if objection(rule.settings, event, facts, rule.since) is None]
        return [] if found and self._is_copy(event) else found

    # -- decisions --------------------------------------------------------------------------------------------

    def _decide(self, firing: Firing) -> None:
        rule, known = self.active.get(firing.rule), self.tables.rules.get(firing.rule)
        if rule is None and known is not None and known.start != "now":
            # It looks back when it is switched on again.
            self._rules.drop(firing.number)
        elif rule is None:
            self._rules.close(firing.number, "skipped", why("switched_off"))
        elif firing.state == "held":
            self._release(rule.settings, self._silence.now())
        else:
            self._settle(rule.settings, firing, self._silence.now())

    def _settle(self, rule: RuleSettings, firing: Firing, now: float) -> None:
        facts = read_facts(self._store, self._cashier, firing.event)
        found = self._verdict(rule, firing, facts, now)
        if found.outcome == "wait":
            self._rules.postpone(firing.number, found.due, reason=found.reason)
        elif found.outcome == "hold":
            self._rules.postpone(firing.number, found.due, "held", found.reason)
        elif found.outcome == "fire":
            self._fire(rule, [firing], now)
        else:
            self._rules.close(firing.number, "dry" if found.outcome == "dry" else "skipped", found.reason)

    def _verdict(self, rule: RuleSettings, firing: Firing, facts: Facts, now: float) -> Verdict:
        silent = self._silent_for(firing, facts, now)
        return verdict(rule, firing, facts, self._rules, silent=silent, now=now, day=self._day(now))

    def _silent_for(self, firing: Firing, facts: Facts, now: float) -> float:
        if facts.session is not None:
            return self._silence.of(facts.session.id, facts.session.events, facts.heard)
        # An event of the future is from before the clock was set back: early is better than days late.
        age = max(now - firing.event.at / 1_000_000, now - firing.created_at)
        return age if age >= 0 else math.inf

    def _release(self, rule: RuleSettings, now: float) -> None:
        """The cooldown is over: one message for everything that was held back."""
        held = self._rules.held(rule.name)
        last = self._rules.last_message_at(rule.name)
        if last is not None and last <= now < last + rule.cooldown:
            for firing in held:
                self._rules.postpone(firing.number, last + rule.cooldown, reason=why("cooling"))
        elif held:
            self._fire(rule, held, now)

    def _fire(self, rule: RuleSettings, firings: Sequence[Firing], now: float) -> None:
        first, *others = firings
        self._rules.fire(
            first.number,
            [each.number for each in others],
            actions=actions_of(rule, first.once_key),
            day=self._day(now),
            now=now,
        )

    def _day(self, now: float) -> str:
        return self._day_of(round(now * 1_000_000))


def actions_of(rule: RuleSettings, key: bytes) -> list[tuple[str, str]]:
    """The actions of a firing for this key, each with its idempotency key, which does not depend on the store."""
    return [(name, key_of("action", rule.name, key.hex(), place, name).hex()) for place, name in enumerate(rule.do)]


def start_of(rule: RuleSettings, now: float, day_of: Callable[[int], str]) -> int:
    """Since when a new rule fires, in microseconds."""
    if rule.start == "now":
        return round(now * 1_000_000)
    if rule.start == "all":
        return 0
    # The first moment of the day in the time zone of ``day_of``: days begin at quarters of hours.
    at = round((datetime.fromisoformat(rule.start).replace(tzinfo=UTC).timestamp() - 86_400) * 1_000_000)
    while day_of(at) < rule.start:
        at += 900_000_000
    return at
