"""Usage by group: what stands first, and the part of time that is asked for, in whole days."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING

from agenttrace.views.times import parse_when

if TYPE_CHECKING:
    from agenttrace.costing import Bill

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def ordered(by: str, total: Bill, groups: dict[str, Bill]) -> dict[str, Bill]:
    """Days and months as they are; the rest by cost where all costs are in one currency, by tokens otherwise."""

    def weight(entry: tuple[str, Bill]) -> tuple[int, int]:
        bill = entry[1]
        cost = sum(bill.costs.values()) if len(total.costs) == 1 else 0
        tokens = sum(bill.tokens.values()) - bill.tokens["reasoning_tokens"]
        return cost, tokens

    return groups if by in ("day", "month") else dict(sorted(groups.items(), key=weight, reverse=True))


def first_day(since: str, timezone: str) -> str:
    """The day of a moment; ``2026-11-01`` is that day wherever days begin."""
    from agenttrace.record.calendar import day_finder

    return _named_day(since) or day_finder(timezone)(parse_when(since, timezone))


def day_after(until: str, timezone: str) -> str:
    """The first day that does not begin before a moment."""
    from agenttrace.record.calendar import day_finder

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
        return None  # a day that no calendar has; whoever reads it as a time says so
