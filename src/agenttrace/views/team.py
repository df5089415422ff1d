"""Who works on what now, and the persons and machines of a team with their figures. Shared by CLI, API and MCP."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

from agenttrace.calendar import day_finder, midnight
from agenttrace.ids import session_key
from agenttrace.store.questions import SessionFilter, UsageQuery
from agenttrace.views.sessions import title_of
from agenttrace.views.times import MICROS, iso

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill, Cashier
    from agenttrace.store.store import Store
    from agenttrace.store.team import MachineFigures

#: Days with today that usage is summed over, beside today.
WEEK_DAYS = 7

CurrentState = Literal["working", "waiting"]
CURRENT: tuple[CurrentState, ...] = ("working", "waiting")
Whose = Literal["person", "machine"]


class CurrentSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that works, or waits for its user."""

    #: The key of the session.
    session: str
    session_id: str
    agent: str
    title: str | None
    project: str | None
    state: CurrentState
    person: str | None
    machine: str | None
    #: Of a waiting session when it began to wait, of a working one when it began.
    since: str | None


class PersonNow(msgspec.Struct, frozen=True, kw_only=True):
    """What a person works on: sessions that work, and after them those that wait, the latest first."""

    #: Null: sessions of no person.
    person: str | None
    sessions: list[CurrentSession]


def team_now(sessions: Iterable[Session]) -> list[PersonNow]:
    """Who works on what: the persons with sessions that work or wait, by name."""
    current = [each for each in sessions if each.state in CURRENT]
    current.sort(key=lambda each: (CURRENT.index(each.state), -(each.last_at or 0), each.id))
    found: dict[str, list[CurrentSession]] = defaultdict(list)
    for session in current:
        found[session.person or ""].append(_current(session))
    return [PersonNow(person=name or None, sessions=found[name]) for name in sorted(found, key=_by_name)]


def current_filter(person: str | None = None, machine: str | None = None) -> SessionFilter:
    """The sessions that ``team_now`` is about."""
    return SessionFilter(
        states=frozenset(CURRENT),
        persons=frozenset() if person is None else frozenset([person]),
        machines=frozenset() if machine is None else frozenset([machine]),
    )


def _by_name(name: str) -> tuple[bool, str]:
    """By name in any case, without a name last."""
    return not name, name.casefold()


def _current(session: Session) -> CurrentSession:
    waits = session.state == "waiting"
    return CurrentSession(
        session=session_key(session.id),
        session_id=session.session_id,
        agent=session.agent,
        title=title_of(session) or None,
        project=session.project,
        state="waiting" if waits else "working",
        person=session.person,
        machine=session.machine,
        since=iso(session.last_at if waits else session.started_at),
    )


# -- persons and machines -----------------------------------------------------------------------------------------


class TeamUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What was used, and what it cost by currency."""

    tokens: int = 0
    costs: dict[str, float] = {}
    #: Tokens of models without a known price: they are not in the costs.
    unpriced_tokens: int = 0


class TeamRow(msgspec.Struct, frozen=True, kw_only=True):
    """A person with the machines of their sessions, or a machine with the persons."""

    #: Null: sessions without one.
    name: str | None
    #: Of a person the machines, of a machine the persons, as far as they are known.
    others: list[str]
    working: int
    waiting: int
    #: Sessions that were active today.
    sessions_today: int
    today: TeamUsage
    #: Today and the six days before.
    week: TeamUsage
    #: When something was last received from a machine, or a session was last active.
    heard_at: str | None
    #: The version of AgentTrace on the machine, where it is known.
    version: str | None


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """The persons and machines of a team, by name."""

    name: str | None
    timezone: str
    persons: list[TeamRow]
    machines: list[TeamRow]
    now: list[PersonNow]


def team(
    store: Store | None,
    cashier: Cashier,
    name: str | None = None,
    *,
    versions: Mapping[str, str] | None = None,
    at: int | None = None,
) -> Team:
    """The team at a moment; ``versions`` are those of AgentTrace by machine, where they are known."""
    timezone, now = cashier.settings.timezone, time.time_ns() // 1000 if at is None else at
    if store is None:
        return Team(name=name, timezone=timezone, persons=[], machines=[], now=[])
    figures = _Figures(store, cashier, now, versions or {})
    return Team(
        name=name,
        timezone=timezone,
        persons=figures.rows("person"),
        machines=figures.rows("machine"),
        now=team_now(figures.current),
    )


class _Figures:
    """What is known of a team at a moment."""

    def __init__(self, store: Store, cashier: Cashier, now: int, versions: Mapping[str, str]) -> None:
        self._store, self._cashier, self._versions = store, cashier, versions
        self._today = date.fromisoformat(day_finder(cashier.settings.timezone)(now))
        self._week = self._today - timedelta(days=WEEK_DAYS - 1)
        self._midnight = midnight(self._today, cashier.settings.timezone)
        self._received = _received(store)
        # A store that notes what it receives knows the machines that were silent today.
        since = self._midnight if self._received else midnight(self._week, cashier.settings.timezone)
        self._sessions = store.sessions(SessionFilter(since=since))
        self.current = store.sessions(current_filter())

    def rows(self, whose: Whose) -> list[TeamRow]:
        """All persons, or all machines."""
        other: Whose = "machine" if whose == "person" else "person"
        today, week = self._usage(whose)
        sessions: dict[str, list[Session]] = defaultdict(list)
        for session in {each.id: each for each in (*self._sessions, *self.current)}.values():
            sessions[getattr(session, whose) or ""].append(session)
        received: dict[str, list[MachineFigures]] = defaultdict(list)
        for each in self._received:
            received[getattr(each, whose)].append(each)
        names = sorted({*week, *sessions, *received}, key=_by_name)
        return [
            self._row(name, whose, other, sessions.get(name, ()), received.get(name, ()), today, week) for name in names
        ]

    def _row(
        self,
        name: str,
        whose: Whose,
        other: Whose,
        sessions: Sequence[Session],
        received: Sequence[MachineFigures],
        today: Mapping[str, Bill],
        week: Mapping[str, Bill],
    ) -> TeamRow:
        others = {getattr(each, other) for each in (*sessions, *received)}
        heard = [each.last_at or 0 for each in sessions] + [int(each.received_at * MICROS) for each in received]
        return TeamRow(
            name=name or None,
            others=sorted(filter(None, others)),
            working=sum(each.state == "working" for each in sessions),
            waiting=sum(each.state == "waiting" for each in sessions),
            sessions_today=sum((each.last_at or 0) >= self._midnight for each in sessions),
            today=_used(today.get(name)),
            week=_used(week.get(name)),
            heard_at=iso(max(heard, default=0) or None),
            version=self._versions.get(name) if whose == "machine" else None,
        )

    def _usage(self, whose: Whose) -> tuple[dict[str, Bill], dict[str, Bill]]:
        """What was used today and in the week, by name."""
        rows = self._store.usage(UsageQuery(by=whose, split="day", since_day=self._week.isoformat()))
        today = self._today.isoformat()
        # Clocks that are wrong may have dated usage into the future.
        week = self._cashier.by_group([row for row in rows if row.part <= today])
        return self._cashier.by_group([row for row in rows if row.part == today]), week


def _received(store: Store) -> list[MachineFigures]:
    """What a store notes of the machines that send to it; the store of one machine notes nothing."""
    machines = getattr(store, "machines", None)
    return [] if machines is None else machines()


def _used(bill: Bill | None) -> TeamUsage:
    if bill is None:
        return TeamUsage()
    return TeamUsage(tokens=bill.all_tokens, costs=bill.amounts, unpriced_tokens=bill.unpriced_tokens)
