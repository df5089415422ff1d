"""Times as they are written and read: ISO 8601 in UTC, and ``7d``, ``24h``, ``2026-11-01`` or a full ISO time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo

from agenttrace.calendar import zone
from agenttrace.views.trouble import TroubleError

MICROS = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(\d{1,6})\s*([mhdw])", re.IGNORECASE)
_FIX = (
    "Give a span such as 30m, 24h, 7d or 2w, a day such as 2026-11-01, or an ISO time such as 2026-11-01T08:30+08:00."
)
#: Words for the first moment of a day; weeks begin on Monday.
_WORDS: dict[str, Callable[[date], date]] = {
    "today": lambda today: today,
    "yesterday": lambda today: today - timedelta(days=1),
    "week": lambda today: today - timedelta(days=today.weekday()),
    "last-week": lambda today: today - timedelta(days=today.weekday() + 7),
    "month": lambda today: today.replace(day=1),
    "last-month": lambda today: (today.replace(day=1) - timedelta(days=1)).replace(day=1),
}


class NotATimeError(TroubleError, ValueError):
    """A text that names no time: what is wrong with it, and how to write one."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix, misused=True)

    def __str__(self) -> str:
        return f"{self.problem}. {self.fix}"


def iso(micros: int | None) -> str | None:
    """ISO 8601 in UTC, for JSON."""
    if micros is None:
        return None
    text = moment(micros).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def iso_seconds(seconds: float | None) -> str | None:
    """The same of seconds since the epoch; 0 is no time."""
    return iso(round(seconds * MICROS)) if seconds else None


def moment(micros: int) -> datetime:
    """The instant in UTC, limited to the range of the calendar."""
    try:
        return datetime.fromtimestamp(micros // MICROS, UTC).replace(microsecond=micros % MICROS)
    except (OverflowError, OSError, ValueError):
        return datetime.max.replace(tzinfo=UTC) if micros > 0 else datetime.min.replace(tzinfo=UTC)


def micros_of(then: datetime) -> int:
    """An instant in microseconds since the epoch."""
    return (then - _EPOCH) // timedelta(microseconds=1)


def parse_span(text: str) -> timedelta:
    """``7d`` as a length of time."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise NotATimeError(f"{text!r} is not a length of time", "Give a number and m, h, d or w: 30m, 24h, 7d, 2w.")
    return timedelta(**{_UNITS[match[2].lower()]: int(match[1])})


def parse_moment(text: str, timezone: str = "local", *, now: datetime | None = None) -> datetime:
    """The moment meant, with its time zone.

    Today is a day of ``timezone``, which is the setting ``usage.timezone`` wherever users see it; and so is a day
    without a time, which begins at its midnight.
    """
    place = zone(timezone)
    now = (now or datetime.now().astimezone()).astimezone(place)
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        day = _WORDS[stripped.lower()](now.date())
        return _in_zone(datetime(day.year, day.month, day.day), place)
    try:
        if _SPAN.fullmatch(stripped):
            return now - parse_span(stripped)
        then = datetime.fromisoformat(stripped)
        return then if then.tzinfo is not None else _in_zone(then, place)
    except (ValueError, OverflowError):
        raise NotATimeError(f"{text!r} is not a time", _FIX) from None


def _in_zone(then: datetime, place: tzinfo | None) -> datetime:
    """A time of day in a zone, with the offset of that day."""
    return then.astimezone() if place is None else then.replace(tzinfo=place)


def parse_since(text: str | None, timezone: str = "local") -> int | None:
    """The time of an option such as ``--since``, in microseconds since the epoch; ``None`` where it is not given."""
    return None if text is None else parse_when(text, timezone)


def parse_when(text: str, timezone: str = "local") -> int:
    """The moment meant, in microseconds since the epoch."""
    return micros_of(parse_moment(text, timezone))
