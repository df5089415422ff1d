"""Thresholds that were crossed: ``budget.crossed`` and ``limit.crossed``, each once in its period or window.

Of thresholds that are crossed at once, the highest says it for all: the others have it as the fact ``above``.

What is crossed is a question to the states of budgets and limits, which come in from outside. When it was crossed is
not: a threshold counts from when it is first seen, and one that was crossed before a rule began does not fire it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol

import msgspec

from agenttrace.store.rule_store import RuleStore
from agenttrace.store.rules import RuleEvent

BUDGET, LIMIT = "budget.crossed", "limit.crossed"
_CURSOR = "crossings"
#: Not more often than the first, where something was recorded; and at least as often as the second.
_SECONDS, _LONGEST = 1.0, 30.0
_MICROS = 1_000_000
_HOUR, _DAY = 3_600 * _MICROS, 86_400 * _MICROS


class Crossing(Protocol):
    """A threshold that is reached: see ``budgets.Crossing`` and ``limits.LimitCrossing``."""

    @property
    def key(self) -> bytes:
        """The same whenever it is noticed."""
        ...

    @property
    def threshold(self) -> float:
        """A share of the whole."""
        ...

    @property
    def state(self) -> Any:  # noqa: ANN401 - the state of a budget, or of a window
        """What it is a threshold of."""
        ...


#: What is crossed now, and at the ends of periods that ended since a moment; both in microseconds.
BudgetCrossings = Callable[[int, int], Iterable[Crossing]]
#: What is crossed now.
LimitCrossings = Callable[[int], Iterable[Crossing]]


class _Seen(msgspec.Struct, frozen=True):
    """What was crossed at the last look, and since when that is known; ``since``: what rules asked for."""

    since: dict[str, int]
    at: dict[str, int]
    #: When that was, within an hour.
    looked: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Seen).decode


class CrossingSource:
    """Asks what is crossed, while a rule wants to know."""

    def __init__(
        self,
        store: RuleStore,
        budgets: BudgetCrossings,
        limits: LimitCrossings,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        zone: tzinfo | None = UTC,
    ) -> None:
        self._store = store
        self._budgets, self._limits = budgets, limits
        self._clock, self._steady = clock, steady
        #: In which the ends of periods and windows are written.
        self._zone = zone
        self._looked: float | None = None
        self._last_event = -1
        self._wanted: dict[str, int] = {}

    def __call__(self, wanted: Mapping[str, int]) -> Iterator[RuleEvent]:
        """Look; what is new is noted together with what was seen, so nothing is left to be noted."""
        asked = {kind: wanted[kind] for kind in (BUDGET, LIMIT) if kind in wanted}
        if asked and self._is_time(asked):
            self._look(asked)
        return iter(())

    def _is_time(self, asked: dict[str, int]) -> bool:
        steady, last = self._steady(), self._store.last_event()
        passed = float("inf") if self._looked is None else steady - self._looked
        if passed < _SECONDS or (last == self._last_event and asked == self._wanted and passed < _LONGEST):
            return False
        self._looked, self._last_event, self._wanted = steady, last, asked
        return True

    def _look(self, asked: dict[str, int]) -> None:
        stored = self._store.rules.cursor(_CURSOR)
        known = None if stored is None else _decode(stored)
        now = round(self._clock() * _MICROS)
        seen: dict[str, int] = {}
        events = []
        # What was spent before midnight may be recorded after it.
        back = (now if known is None else min(known.looked, now)) - _DAY
        for event, start in self._crossed(asked, back, now):
            name, since = event.key.hex(), asked[event.kind]
            before = known.at.get(name) if known is not None else None
            # The first look of all cannot tell what was crossed before it.
            is_first = known is None or event.kind not in known.since
            at = before if before is not None else since - 1 if is_first and start < since else event.at
            seen[name] = at
            if before is None or (known is not None and since < known.since.get(event.kind, since)):
                events.append(msgspec.structs.replace(event, at=at))
        found = _Seen(asked, seen, now)
        if events or known is None or (asked, seen) != (known.since, known.at) or abs(now - known.looked) > _HOUR:
            self._store.rules.advance(_CURSOR, _encode(found).decode(), with_highest(events))

    def _crossed(self, asked: dict[str, int], back: int, now: int) -> Iterator[tuple[RuleEvent, int]]:
        """What is crossed now, and when its period began."""
        if BUDGET in asked:
            for each in self._budgets(back, now):
                yield budget_event(each, now, self._zone), each.state.start
        if LIMIT in asked:
            for each in self._limits(now):
                yield limit_event(each, now, self._zone), each.state.at


def with_highest(events: Sequence[RuleEvent]) -> Iterator[RuleEvent]:
    """Events of one look; each that is not the highest of its budget or window with the one that is."""
    highest: dict[tuple[Any, ...], float] = {}
    for event in events:
        whole = _whole(event)
        highest[whole] = max(event.facts["threshold"], highest.get(whole, 0.0))
    for event in events:
        above = highest[_whole(event)]
        lower = {} if event.facts["threshold"] == above else {"above": above}
        yield msgspec.structs.replace(event, facts={**event.facts, **lower})


def _whole(event: RuleEvent) -> tuple[Any, ...]:
    """What an event is a threshold of: a budget in a period or session, or a window."""
    names = ("budget", "ends_at", "agent", "window", "resets_at")
    return (event.kind, event.session, *map(event.facts.get, names))


def budget_event(crossing: Crossing, now: int, zone: tzinfo | None) -> RuleEvent:
    """That a threshold of a budget is reached."""
    state = crossing.state
    facts = {
        "budget": state.name,
        "period": state.period,
        "threshold": crossing.threshold,
        "share": state.share,
        "spent": state.spent,
        "limit": state.limit,
        "currency": state.currency if state.unit == "money" else "tokens",
    }
    if state.end is not None:
        facts["ends_at"] = _iso(state.end, zone)
        # Of a period that is over, what was spent is known.
        if now < state.end and state.forecast is not None:
            facts["forecast"] = round(state.forecast, 2)
    at = now if state.end is None else min(now, state.end - 1)
    session = None if state.session is None else state.session.id
    return RuleEvent(key=crossing.key, kind=BUDGET, at=at, session=session, facts=facts)


def limit_event(crossing: Crossing, now: int, zone: tzinfo | None) -> RuleEvent:
    """That a share of a provider's window is used."""
    state = crossing.state
    facts = {
        "agent": state.agent,
        "window": state.name,
        "threshold": crossing.threshold,
        "share": state.share,
        "resets_at": _iso(state.resets_at, zone),
    }
    if state.window_minutes is not None:
        facts["minutes"] = state.window_minutes
    if state.exhausted_at is not None:
        facts["exhausted_at"] = _iso(state.exhausted_at, zone)
    return RuleEvent(key=crossing.key, kind=LIMIT, at=min(now, state.at), facts=facts)


def _iso(micros: int, zone: tzinfo | None) -> str:
    """A moment in the time zone of usage; ``None``: that of the machine."""
    then = datetime.fromtimestamp(micros // _MICROS, UTC).astimezone(zone)
    return then.isoformat().replace("+00:00", "Z")
