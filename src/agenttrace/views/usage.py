"""Usage by group with its cost, ranked, and periods in whole days."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agenttrace.calendar import day_finder
from agenttrace.views.times import parse_when

if TYPE_CHECKING:
    from agenttrace.prices.costing import Bill, Cashier
    from agenttrace.store.questions import SessionName, UsageGroup, UsageQuery, UsageRow
    from agenttrace.store.store import Store

T = TypeVar("T")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_DAYS = re.compile(r"(\d+)\s*[dw]", re.IGNORECASE)


class GroupUsage(NamedTuple):
    """One group of a report."""

    #: As the store groups: for sessions the number.
    group: str
    #: As people know it: for sessions the id.
    name: str
    #: Of a session.
    title: str
    bill: Bill
    #: What the group is split into.
    parts: dict[str, Bill]


class UsageReport(NamedTuple):
    """What was used and what it cost, in all and by group."""

    by: UsageGroup
    total: Bill
    #: In the order of their names.
    groups: list[GroupUsage]

    def ranked(self) -> list[GroupUsage]:
        """The groups, days and months in their order, all else with the most expensive first."""
        return self.groups if self.by in ("day", "month") else ranked(self.total, self.groups, lambda each: each.bill)


def usage_report(store: Store, cashier: Cashier, query: UsageQuery) -> UsageReport:
    """What was used and what it cost, by the groups of the query."""
    rows = store.usage(query)
    names = store.session_names(sorted({int(row.group) for row in rows})) if query.by == "session" else {}
    return _report(cashier, query, rows, {str(number): name for number, name in names.items()})


def empty_report(cashier: Cashier, query: UsageQuery) -> UsageReport:
    """The report where there is no store."""
    return _report(cashier, query, [], {})


def _report(cashier: Cashier, query: UsageQuery, rows: list[UsageRow], names: dict[str, SessionName]) -> UsageReport:
    parts: dict[str, list[UsageRow]] = {}
    for row in rows if query.split != "total" else ():
        parts.setdefault(row.group, []).append(row)
    return UsageReport(
        query.by,
        cashier.bill(rows),
        [
            GroupUsage(group, *names.get(group, (group, "")), bill, cashier.by_group(parts.get(group, ()), _part))
            for group, bill in cashier.by_group(rows).items()
        ],
    )


def _part(row: UsageRow) -> str:
    return row.part


def ranked(total: Bill, entries: Iterable[T], bill_of: Callable[[T], Bill]) -> list[T]:
    """The most expensive first where all costs are in one currency, else those with the most tokens."""
    comparable = len(total.costs) == 1

    def weight(entry: T) -> tuple[int, int]:
        bill = bill_of(entry)
        return sum(bill.costs.values()) if comparable else 0, bill.all_tokens

    return sorted(entries, key=weight, reverse=True)


def first_day(since: str, timezone: str) -> str:
    """The day of a moment; ``2026-11-01`` is that day wherever days begin, and ``7d`` are seven days with today."""
    named = _named_day(since)
    if named is not None:
        return named
    whole = _DAYS.fullmatch(since.strip())
    moment = parse_when(since, timezone)
    found = date.fromisoformat(day_finder(timezone)(moment))
    return (found + timedelta(days=1) if whole and int(whole[1]) else found).isoformat()


def day_after(until: str, timezone: str) -> str:
    """The first day that does not begin before a moment."""
    last = _named_day(until)
    if last is not None:
        return last
    found = date.fromisoformat(day_finder(timezone)(parse_when(until, timezone) - 1))
    return (found + timedelta(days=1)).isoformat() if found < date.max else found.isoformat()


def _named_day(text: str) -> str | None:
    stripped = text.strip()
    try:
        return date.fromisoformat(stripped).isoformat() if _DAY.fullmatch(stripped) else None
    except ValueError:
        return None  # not in the calendar; parse_when raises the error
