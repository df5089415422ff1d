"""Figures of days, kept from one look to the next: only days whose usage has changed are read again.

The roll-ups say at once which days those are; while agents work it is today.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from agenttrace.calendar import day_finder, midnight, zone
from agenttrace.prices.parsing import MILLION
from agenttrace.rules.budgets import HOUR
from agenttrace.store.questions import TimeQuery, UsageQuery, UsageRow

if TYPE_CHECKING:
    from agenttrace.prices.costing import Bill, Cashier
    from agenttrace.store.store import Store

#: Time zones differ from UTC by multiples of this.
_QUARTER_HOUR = HOUR // 4


@dataclass(kw_only=True)
class Day:
    """What was used in a day."""

    rows: tuple[UsageRow, ...]
    bill: Bill
    projects: dict[str, Bill] = field(default_factory=dict)
    #: Responses by hour.
    hours: list[int] = field(default_factory=lambda: [0] * 24)
    #: The bill of the day up to a moment, as it was last asked for.
    part: tuple[int, Bill] | None = None


class DayBook:
    """The days of one store in one time zone."""

    def __init__(self, cashier: Cashier) -> None:
        self.cashier = cashier
        self._zone = cashier.settings.timezone
        self._days: dict[str, Day] = {}
        self._day_of = day_finder(self._zone)
        #: Hours of the day by quarter hours since the epoch.
        self._hours: dict[int, int] = {}

    def read(self, store: Store, first: date, last: date) -> None:
        """Read all days from one to another that have changed, and forget the others."""
        rows: dict[str, list[UsageRow]] = {}
        for row in store.usage(UsageQuery(by="day", since_day=first.isoformat(), before_day=_next(last))):
            rows.setdefault(row.group, []).append(row)
        days = {day: tuple(found) for day, found in rows.items()}
        changed = [day for day, found in days.items() if day not in self._days or self._days[day].rows != found]
        self._days = {day: known for day, known in self._days.items() if day in days}
        for day in changed:
            self._days[day] = Day(rows=days[day], bill=self.cashier.bill(days[day]))
        if changed:
            self._read_parts(store, set(changed))

    def _read_parts(self, store: Store, changed: set[str]) -> None:
        """The projects and hours of these days."""
        first, last = min(changed), date.fromisoformat(max(changed))
        for row in store.usage(UsageQuery(by="day", split="project", since_day=first, before_day=_next(last))):
            if row.group in changed:
                self._days[row.group].projects.setdefault(row.part, self.cashier.bill()).add(row)
        since, before = midnight(date.fromisoformat(first), self._zone), midnight(last + timedelta(1), self._zone)
        for at, responses in store.responses_over_time(TimeQuery(since=since, before=before, step=_QUARTER_HOUR)):
            if (day := self._day_of(at)) in changed:
                self._days[day].hours[self._hour_of(at)] += responses

    def _hour_of(self, at: int) -> int:
        hour = self._hours.get(at)
        if hour is None:
            hour = self._hours[at] = datetime.fromtimestamp(at // MILLION, UTC).astimezone(zone(self._zone)).hour
        return hour

    def hours(self, day: date) -> Sequence[int]:
        """Responses by hour of a day."""
        known = self._days.get(day.isoformat())
        return [0] * 24 if known is None else known.hours

    def bill(self, days: Iterable[date]) -> Bill:
        """The bill of some days."""
        total = self.cashier.bill()
        for day in days:
            known = self._days.get(day.isoformat())
            if known is not None:
                total.include(known.bill)
        return total

    def bill_until(self, store: Store | None, day: date, until: int) -> Bill:
        """The bill of a day up to a moment of it: what is kept reaches to the last quarter hour, the rest is read."""
        total, known = self.cashier.bill(), self._days.get(day.isoformat())
        if known is None or store is None:
            return total
        quarter = until // _QUARTER_HOUR * _QUARTER_HOUR
        if known.part is None or known.part[0] != quarter:
            known.part = quarter, self._read_bill(store, midnight(day, self._zone), quarter)
        total.include(known.part[1])
        total.include(self._read_bill(store, quarter, until))
        return total

    def _read_bill(self, store: Store, since: int, before: int) -> Bill:
        if since >= before:
            return self.cashier.bill()
        found = store.usage_over_time(TimeQuery(since=since, before=before, step=24 * HOUR))
        return self.cashier.bill(each.row for each in found)

    def projects(self, days: Iterable[date]) -> dict[str, Bill]:
        """The bill of each project in some days."""
        totals: dict[str, Bill] = {}
        for day in days:
            known = self._days.get(day.isoformat())
            for name, bill in {} if known is None else known.projects.items():
                totals.setdefault(name, self.cashier.bill()).include(bill)
        return totals


def _next(day: date) -> str:
    return (day + timedelta(days=1)).isoformat()
