"""Which day a moment belongs to, in the time zone the user counts in."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

#: Offsets change on quarter hours only, so one look-up serves all moments of one.
_QUARTER_HOUR = 900_000_000


def zone(name: str) -> tzinfo | None:
    """The time zone by name; ``local`` (``None``) follows the machine."""
    if name == "local":
        return None
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"unknown time zone {name!r}: use a name such as Asia/Shanghai, UTC or local") from error


def zone_name(name: str) -> str:
    """The time zone in which a store counts days; for ``local``, the machine's zone by its names and offset."""
    return name if name != "local" else f"local {'/'.join(time.tzname)} {-time.timezone}"


def day_finder(name: str) -> Callable[[int], str]:
    """A function from microseconds to ``YYYY-MM-DD``."""
    place = zone(name)
    days: dict[int, str] = {}

    def day_of(at: int) -> str:
        quarter = at // _QUARTER_HOUR
        day = days.get(quarter)
        if day is None:
            if len(days) > 100_000:
                days.clear()
            try:
                moment = datetime.fromtimestamp(quarter * _QUARTER_HOUR // 1_000_000, UTC)
                day = moment.astimezone(place).date().isoformat()
            except (OverflowError, OSError, ValueError):
                day = "1970-01-01"
            days[quarter] = day
        return day

    return day_of


def midnight(day: date, name: str) -> int:
    """When a day begins in a time zone, in microseconds since the epoch."""
    then = datetime(day.year, day.month, day.day)
    place = zone(name)
    begun = then.astimezone() if place is None else then.replace(tzinfo=place)
    return round(begun.timestamp()) * 1_000_000
