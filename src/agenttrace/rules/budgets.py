"""The state of budgets at a moment: what is spent of each, how fast, and what that comes to at the end of the period.

The burn rate is what was spent in the period divided by its hours so far; the first hour counts whole, so that a few
minutes are not projected onto a day. The forecast is linear: it goes on at that rate until the period ends. The rate of
the last hours stands beside it. A budget of a session is one of each session that was active in the last day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from agenttrace.calendar import day_finder, midnight
from agenttrace.config.rules import BudgetSettings, Period, Where
from agenttrace.config.sections import UsageSettings
from agenttrace.config.settings import Settings
from agenttrace.ids import crossing_key
from agenttrace.model import Session
from agenttrace.prices.costing import Bill, Cashier
from agenttrace.projects import is_demo, project_matches
from agenttrace.store.questions import RecentQuery, SessionFilter, UsageQuery, UsageRow
from agenttrace.store.store import Store

HOUR = 3_600_000_000
#: Over how many hours the recent rate is taken.
RECENT_HOURS = 3
#: For how many hours after its last line a session has a state of its budget, and how many of them.
_SESSION_HOURS, _MOST_SESSIONS = 24, 300
#: Sessions of the past of which it is computed when they reached a threshold.
_MOST_PAST_SESSIONS = 5_000
#: How many days that ended meanwhile are looked at.
_MOST_DAYS = 32
#: What rounding leaves of a sum must not decide whether a threshold is crossed.
_ROUNDING = 1e-9
_SIGNS = {"USD": "$", "CNY": "¥"}


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a budget is used; times are microseconds since the epoch."""

    name: str
    period: Period
    where: Where
    #: The period, or of a session's budget the session.
    start: int
    end: int | None
    #: The first day of the period, in the time zone of usage.
    first_day: str
    session: Session | None = None
    unit: str
    #: Of money: the currency that the budget is counted in; ``None`` where nothing has a price yet.
    currency: str | None
    limit: float
    #: ``None`` where it cannot be known; ``problem`` says why.
    spent: float | None
    share: float | None
    warn: tuple[float, ...]
    #: Of ``warn`` those that are reached.
    crossed: tuple[float, ...] = ()
    #: Currency units by the currency of the prices, before anything was converted.
    amounts: dict[str, float] = {}
    tokens: int = 0
    #: Tokens that have no price: they are not in ``spent``.
    unpriced_tokens: int = 0
    unpriced_models: tuple[str, ...] = ()
    #: An hour, over the period so far and over the last hours.
    rate: float | None = None
    recent_rate: float | None = None
    #: At the end of the period, if it goes on at ``rate``.
    forecast: float | None = None
    #: When the limit will be reached at ``rate``; ``None`` where that is not before the end, or it is reached.
    reached_at: int | None = None
    problem: str | None = None


class Crossing(NamedTuple):
    """A threshold of a budget that was reached."""

    #: The same whenever and however often it is noticed.
    key: bytes
    threshold: float
    state: BudgetState


def budget_states(store: Store, settings: Settings, now: int, cashier: Cashier | None = None) -> list[BudgetState]:
    """The state of every budget of the settings, in their order; budgets of sessions are one for each session."""
    if not settings.budgets:
        return []
    counter = _Counter(store, settings, now, cashier or Cashier.load(settings))
    return [state for budget in settings.budgets.values() for state in counter.states(budget)]


def crossings(states: Iterable[BudgetState]) -> list[Crossing]:
    """The thresholds that are reached, each with a key that is unique in its period or session."""
    return [
        Crossing(crossing_key("budget", state.name, state.period, place_of(state), repr(threshold)), threshold, state)
        for state in states
        for threshold in state.crossed
    ]


def crossings_since(
    store: Store, settings: Settings, since: int, now: int, cashier: Cashier | None = None
) -> list[Crossing]:
    """The thresholds that are reached now, and those of periods that ended since the last look.

    What was spent just before midnight may be recorded after it.
    """
    moments = (*_ends_of_days(settings.usage.timezone, since, now), now)
    prices = cashier or Cashier.load(settings)
    found = (crossings(budget_states(store, settings, moment, prices)) for moment in moments)
    return list({crossing.key: crossing for each in found for crossing in each}.values())


def past_crossings(
    store: Store, settings: Settings, since: int, until: int, cashier: Cashier
) -> Iterator[tuple[int, Crossing]]:
    """The thresholds that were reached in a time, each with the moment of the response that reached it.

    Budgets, prices and rates are those of now. Of each period all is counted, also what is before the time.
    """
    if settings.budgets:
        counter = _Counter(store, settings, since, cashier)
        for budget in settings.budgets.values():
            yield from counter.reached(budget, since, until)


def _ends_of_days(timezone: str, since: int, now: int) -> list[int]:
    """The last moments of the days that ended from one moment to another, of very many the latest."""
    day, found = date.fromisoformat(day_finder(timezone)(now)), list[int]()
    while len(found) < _MOST_DAYS and (start := midnight(day, timezone)) > since:
        found.append(start - 1)
        day -= timedelta(days=1)
    return found[::-1]


def place_of(state: BudgetState) -> str:
    """The period that a state is of: its first day, or its session."""
    return state.first_day if state.session is None else f"session {state.session.id}"


def first_day_of(period: Period, today: date) -> date:
    """The first day of the period that a day is in; weeks begin on Monday."""
    if period == "week":
        return today - timedelta(days=today.weekday())
    return today.replace(day=1) if period == "month" else today


def day_after(period: Period, first: date) -> date:
    """The first day of the next period."""
    if period == "month":
        return (first.replace(day=28) + timedelta(days=4)).replace(day=1)
    return first + timedelta(days=7 if period == "week" else 1)


def money_text(amount: float, currency: str | None) -> str:
    """``$12.40``; without a sign where the currency is not known."""
    sign = _SIGNS.get(currency or "", f"{currency} " if currency else "")
    return f"{sign}{amount:,.2f}"


def burn_rate(spent: float, start: int, now: int) -> float:
    """What is spent in an hour, over a period so far; its first hour counts whole."""
    return spent / max((now - start) / HOUR, 1.0)


def forecast(spent: float, start: int, end: int, now: int) -> float:
    """What is spent at the end of a period, if it goes on at the rate so far."""
    return spent + burn_rate(spent, start, now) * max(end - now, 0) / HOUR


#: What a budget names by globs; the store filters by whole names.
_Glob = Literal["project", "model", "machine", "person"]
_GLOBS: tuple[_Glob, ...] = get_args(_Glob)


class _Counter:
    """Counts what budgets are about, with one look at the directories, models, machines and persons."""

    def __init__(self, store: Store, settings: Settings, now: int, cashier: Cashier) -> None:
        self._store, self._settings, self._now, self._cashier = store, settings, now, cashier
        self._zone = settings.usage.timezone
        self._today = date.fromisoformat(day_finder(self._zone)(now))
        budgets = settings.budgets.values()
        since = min(first_day_of(each.period, self._today) for each in budgets).isoformat()
        used = [by for by in _GLOBS if any(getattr(each.where, by) for each in budgets)]
        self._names = {by: {row.group for row in store.usage(UsageQuery(by=by, since_day=since))} for by in used}

    def _filter(self, where: Where) -> dict[str, Any] | None:
        """``where`` as the store takes it; ``None`` where nothing that is recorded matches."""
        found = {"agents": frozenset(where.agent)}
        for by in _GLOBS:
            globs: Sequence[str] = getattr(where, by)
            if globs:
                found[f"{by}s"] = frozenset(name for name in self._names[by] if _is_about(by, name, globs))
                if not found[f"{by}s"]:
                    return None
        return found

    def states(self, budget: BudgetSettings) -> Iterator[BudgetState]:
        if budget.period == "session":
            yield from self._of_sessions(budget)
            return
        first = first_day_of(budget.period, self._today)
        after = day_after(budget.period, first)
        start, end = midnight(first, self._zone), midnight(after, self._zone)
        wanted = self._filter(budget.where)
        rows: list[UsageRow] = []
        if wanted is not None:
            query = UsageQuery(since_day=first.isoformat(), before_day=after.isoformat(), real=True, **wanted)
            rows = self._store.usage(query)
        state = BudgetState(
            **_figures(budget, self._cashier.bill(rows), self._settings.usage),
            start=start,
            end=end,
            first_day=first.isoformat(),
        )
        yield self._projected(state, [] if wanted is None else self._recent(wanted))

    def reached(self, budget: BudgetSettings, since: int, until: int) -> Iterator[tuple[int, Crossing]]:
        """The thresholds of a budget that were reached in a time, and when."""
        rows = self._used_in(budget, until) if budget.period != "session" else self._used_by_sessions(budget, since)
        sums: dict[str, _Sum] = {}
        for at, place, used in rows:
            known = sums.get(place.name)
            if known is None:
                known = sums[place.name] = _Sum(self._cashier.bill(), len(budget.warn))
            known.bill.add(used)
            amount = _spent(_unit(budget), known.bill, self._settings.usage).amount
            if not known.left or amount is None or amount + _ROUNDING < budget.warn[-known.left] * _limit(budget):
                continue
            state = BudgetState(**_figures(budget, known.bill, self._settings.usage), **place.fields)
            new = crossings([state])[len(budget.warn) - known.left :]
            known.left = len(budget.warn) - len(state.crossed)
            yield from ((at, each) for each in new if since <= at < until)

    def _used_in(self, budget: BudgetSettings, until: int) -> Iterator[tuple[int, _Place, UsageRow]]:
        """The responses that a budget is about, in order, from the beginning of its period on; read day by day."""
        wanted = self._filter(budget.where)
        first = first_day_of(budget.period, self._today)
        day, places = first, dict[str, _Place]()
        while wanted is not None and (begin := midnight(day, self._zone)) < until:
            day += timedelta(days=1)
            query = RecentQuery(since=begin, before=min(midnight(day, self._zone), until), real=True, **wanted)
            for each in self._store.recent_usage(query):
                own = max(first, first_day_of(budget.period, date.fromisoformat(each.row.day)))
                name = own.isoformat()
                if name not in places:
                    end = midnight(day_after(budget.period, own), self._zone)
                    places[name] = _Place(name, {"start": midnight(own, self._zone), "end": end, "first_day": name})
                yield each.at, places[name], each.row

    def _used_by_sessions(self, budget: BudgetSettings, since: int) -> Iterator[tuple[int, _Place, UsageRow]]:
        """The responses of the sessions that a budget is about and that were active since a moment."""
        wanted = SessionFilter(agents=frozenset(budget.where.agent), since=since)
        for session in self._store.sessions(wanted, limit=_MOST_PAST_SESSIONS):
            if not _concerns(budget, session):
                continue
            start = session.started_at or 0
            fields = {"start": start, "end": None, "first_day": day_finder(self._zone)(start), "session": session}
            place = _Place(str(session.id), fields)
            for row in self._store.span_rows(session):
                if row.usage is None or not row.counted or not _is_about("model", row.billed_model, budget.where.model):
                    continue
                used = UsageRow("", row.billed_model or "", 1, 0, 0, row.usage, "", row.day or "", row.variant or "")
                yield row.end or row.start, place, used

    def _recent(self, wanted: dict[str, Any]) -> list[UsageRow]:
        query = RecentQuery(since=self._now - RECENT_HOURS * HOUR, real=True, **wanted)
        return [each.row for each in self._store.recent_usage(query) if each.at <= self._now]

    def _projected(self, state: BudgetState, recent: Sequence[UsageRow]) -> BudgetState:
        if state.spent is None or state.end is None:
            return state
        rate = burn_rate(state.spent, state.start, self._now)
        expected = forecast(state.spent, state.start, state.end, self._now)
        reached = None
        if state.spent < state.limit <= expected:
            reached = self._now + round((state.limit - state.spent) / rate * HOUR)
        lately = _spent(state.unit, self._cashier.bill(recent), self._settings.usage)
        return msgspec.structs.replace(
            state,
            rate=rate,
            recent_rate=None if lately.amount is None else lately.amount / RECENT_HOURS,
            forecast=expected,
            reached_at=reached,
        )

    def _of_sessions(self, budget: BudgetSettings) -> Iterator[BudgetState]:
        since = self._now - _SESSION_HOURS * HOUR
        wanted = SessionFilter(agents=frozenset(budget.where.agent), since=since)
        found = [
            session for session in self._store.sessions(wanted, limit=_MOST_SESSIONS) if _concerns(budget, session)
        ]
        usage = self._store.usage_by_session([session.id for session in found])
        states = []
        for session in found:
            rows = [row for row in usage.get(session.id, ()) if _is_about("model", row.model, budget.where.model)]
            if rows:
                states.append(self._of_session(budget, session, rows))
        yield from sorted(states, key=lambda state: state.share or 0.0, reverse=True)

    def _of_session(self, budget: BudgetSettings, session: Session, rows: Sequence[UsageRow]) -> BudgetState:
        start = session.started_at or self._now
        last = session.last_at or start
        figures = _figures(budget, self._cashier.bill(rows), self._settings.usage)
        spent = figures["spent"]
        return BudgetState(
            **figures,
            start=start,
            end=None,
            first_day=day_finder(self._zone)(start),
            session=session,
            rate=None if spent is None else spent / max((last - start) / HOUR, 1.0),
        )


class _Place(NamedTuple):
    """A period or a session, and what a state says of it."""

    name: str
    fields: dict[str, Any]


@dataclass
class _Sum:
    """What was spent so far in a place, and how many thresholds are left."""

    bill: Bill
    left: int


def _concerns(budget: BudgetSettings, session: Session) -> bool:
    """Whether a session is one that a budget is about, whatever its models are."""
    return (
        not is_demo(session.project)
        and _is_about("project", session.project, budget.where.project)
        and _is_about("machine", session.machine, budget.where.machine)
        and _is_about("person", session.person, budget.where.person)
    )


class _Spent(NamedTuple):
    amount: float | None
    currency: str | None = None
    problem: str | None = None


def _figures(budget: BudgetSettings, bill: Bill, usage: UsageSettings) -> dict[str, Any]:
    """The fields of a state that a bill says."""
    unit, limit = _unit(budget), _limit(budget)
    spent = _spent(unit, bill, usage)
    amount = spent.amount
    crossed = () if amount is None else tuple(each for each in budget.warn if amount + _ROUNDING >= each * limit)
    return {
        "name": budget.name,
        "period": budget.period,
        "where": budget.where,
        "unit": unit,
        "currency": spent.currency,
        "limit": limit,
        "spent": amount,
        "share": None if amount is None else amount / limit,
        "warn": budget.warn,
        "crossed": crossed,
        "amounts": bill.originals,
        "tokens": bill.all_tokens,
        "unpriced_tokens": bill.unpriced_tokens,
        "unpriced_models": tuple(sorted(bill.unpriced_models)),
        "problem": spent.problem,
    }


def _unit(budget: BudgetSettings) -> str:
    return "tokens" if budget.tokens is not None else "money"


def _limit(budget: BudgetSettings) -> float:
    return float(budget.tokens if budget.tokens is not None else budget.limit or 0)


def _spent(unit: str, bill: Bill, usage: UsageSettings) -> _Spent:
    """What counts for a budget of this unit, or why that is not known."""
    if unit == "tokens":
        return _Spent(float(bill.all_tokens))
    amounts = bill.amounts
    if not amounts:
        if bill.unpriced_tokens:
            models = ", ".join(sorted(bill.unpriced_models)[:3])
            return _Spent(None, None, f"no price is known for {models}; set one in agenttrace.toml under [prices]")
        return _Spent(0.0, None if usage.currency == "native" else usage.currency)
    if len(amounts) == 1 and usage.currency in ("native", *amounts):
        ((currency, amount),) = amounts.items()
        return _Spent(amount, currency)
    return _Spent(None, None, not_comparable(sorted(amounts), usage))


def not_comparable(currencies: Sequence[str], usage: UsageSettings) -> str:
    """Why amounts cannot be added, with the setting that is missing."""
    listed = " and ".join(currencies)
    if not {*currencies, usage.currency} <= {"USD", "CNY", "native"}:
        lacking = [f"usage.rates.{each}" for each in currencies if each != usage.currency]
        names = ["usage.currency", "usage.rates"] if usage.currency == "native" else lacking
        return f"costs are in {listed}; set {' and '.join(names)} in agenttrace.toml"
    missing = [] if usage.exchange_rate is not None else ["usage.exchange_rate"]
    if usage.currency == "native":
        missing.insert(0, "usage.currency")
    return f"costs are in {listed}; set {' and '.join(missing)} in agenttrace.toml"


def _is_about(by: _Glob, name: str | None, globs: Sequence[str]) -> bool:
    """Whether a name is one of those that a budget is about; no name is none of them."""
    if not globs:
        return True
    if by == "project":
        return project_matches(name or None, globs)
    return bool(name) and any(fnmatchcase(name or "", glob) for glob in globs)
