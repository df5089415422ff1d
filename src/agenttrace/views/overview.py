"""The figures of the overview, shared by CLI, API and MCP: cost and tokens of today, this week and this month, each
compared with the same part of the period before and continued to its end; activity by hour; the largest projects.
"""

from __future__ import annotations

import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from agenttrace.calendar import day_finder, midnight
from agenttrace.config.rules import Period
from agenttrace.rules.budgets import day_after, first_day_of, forecast, not_comparable
from agenttrace.views.overview_days import DayBook
from agenttrace.views.times import iso
from agenttrace.views.usage import ranked

if TYPE_CHECKING:
    from agenttrace.prices.costing import Bill
    from agenttrace.store.store import Store

PERIODS: tuple[Period, ...] = ("day", "week", "month")
#: Days of the activity by hour.
ACTIVITY_DAYS = 28
#: Days that projects are compared over, and how many projects are listed.
PROJECT_DAYS, MOST_PROJECTS = 30, 8


def overview_fields(store: Store | None, book: DayBook, now: int | None = None) -> dict[str, Any]:
    """All figures at a moment; without a store everything is zero.

    A process that asks again passes the same book: then only what has changed is read.
    """
    figures = _Figures(store, book, time.time_ns() // 1000 if now is None else now)
    return {
        "at": iso(figures.now),
        "timezone": figures.timezone,
        "currency_problem": figures.currency_problem(),
        "periods": [figures.period(period) for period in PERIODS],
        "activity": figures.activity(),
        "projects": figures.projects(),
    }


class _Figures:
    """The figures of one moment."""

    def __init__(self, store: Store | None, book: DayBook, now: int) -> None:
        self._store, self._book, self.now = store, book, now
        self.timezone = book.cashier.settings.timezone
        self._today = date.fromisoformat(day_finder(self.timezone)(now))
        self._first = min(before_start(period, self._today) for period in PERIODS)
        if store is not None:
            # Not further: clocks that are wrong may have dated usage into the future.
            book.read(store, self._first, self._today)

    def period(self, period: Period) -> dict[str, Any]:
        """A period up to now, the same part of the one before, and what it comes to at its end."""
        first = first_day_of(period, self._today)
        after = day_after(period, first)
        start, end = self._midnight(first), self._midnight(after)
        current = self._book.bill(_days(first, after))
        return {
            "period": period,
            "first_day": first.isoformat(),
            "start": iso(start),
            "end": iso(end),
            **_bill_fields(current),
            **self._compared(period, current),
            "forecast_costs": {
                currency: round(forecast(amount, start, end, self.now), 6)
                for currency, amount in current.amounts.items()
            },
            "forecast_tokens": round(forecast(current.all_tokens, start, end, self.now)),
            "parts": self._parts(period, first, after),
        }

    def _compared(self, period: Period, current: Bill) -> dict[str, Any]:
        """The period before: up to when it was as old as the present one is now, and in all."""
        first, began = first_day_of(period, self._today), before_start(period, self._today)
        last = began + (self._today - first)
        if last < first:
            passed = self.now - self._midnight(self._today)
            until = min(self._midnight(last) + passed, self._midnight(last + timedelta(days=1)))
            before = self._book.bill(_days(began, last))
            before.include(self._book.bill_until(self._store, last, until))
        else:  # The month before is shorter.
            until, before = self._midnight(first), self._book.bill(_days(began, first))
        return {
            "before": {"first_day": began.isoformat(), "until": iso(until), **_bill_fields(before)},
            "whole_before": _bill_fields(self._book.bill(_days(began, first))),
            "cost_change": _cost_change(current, before),
            "token_change": _change(current.all_tokens, before.all_tokens),
        }

    def _parts(self, period: Period, first: date, after: date) -> list[dict[str, Any]]:
        """The days of a period, also those to come; of a day its hours, of which only responses are known."""
        if period == "day":
            hours = enumerate(self._book.hours(first))
            return [{"name": f"{hour:02d}:00", "requests": number} for hour, number in hours]
        bills = ((day.isoformat(), self._book.bill([day])) for day in _days(first, after))
        return [
            {"name": day, "requests": bill.requests, "tokens": bill.all_tokens, "costs": bill.amounts}
            for day, bill in bills
        ]

    def currency_problem(self) -> str | None:
        """Why costs are not one sum, with the setting that is missing; ``None`` while they are."""
        amounts = self._book.bill(_days(self._first, self._today + timedelta(days=1))).amounts
        return not_comparable(sorted(amounts), self._book.cashier.settings) if len(amounts) > 1 else None

    def activity(self) -> list[dict[str, Any]]:
        """How many responses came in each hour of the last days, the oldest day first."""
        return [{"day": day.isoformat(), "hours": list(self._book.hours(day))} for day in self._last(ACTIVITY_DAYS)]

    def projects(self) -> list[dict[str, Any]]:
        """The projects with the highest cost in the last days."""
        days = self._last(PROJECT_DAYS)
        bills = self._book.projects(days).items()
        kept = ranked(self._book.bill(days), bills, lambda entry: entry[1])[:MOST_PROJECTS]
        return [{"project": name or None, **_bill_fields(bill)} for name, bill in kept]

    def _last(self, number: int) -> list[date]:
        return _days(self._today - timedelta(days=number - 1), self._today + timedelta(days=1))

    def _midnight(self, day: date) -> int:
        return midnight(day, self.timezone)


def before_start(period: Period, today: date) -> date:
    """The first day of the period before the one that a day is in."""
    return first_day_of(period, first_day_of(period, today) - timedelta(days=1))


def _days(first: date, after: date) -> list[date]:
    return [first + timedelta(days=number) for number in range((after - first).days)]


def _bill_fields(bill: Bill) -> dict[str, Any]:
    """The bill, its tokens as one number, and its amounts before anything was converted."""
    return {"bill": bill.fields(), "tokens": bill.all_tokens, "amounts": bill.originals}


def _cost_change(current: Bill, before: Bill) -> float | None:
    """The relative change; ``None`` where there is nothing to compare with, or more than one currency."""
    now, then = current.amounts, before.amounts
    currencies = sorted({*now, *then})
    if len(currencies) != 1:
        return None
    return _change(now.get(currencies[0], 0.0), then.get(currencies[0], 0.0))


def _change(current: float, before: float) -> float | None:
    return None if before <= 0 else round(current / before - 1, 4)
