"""``--since`` and ``--older-than``: 7d, 24h, 2026-11-01, or a full ISO time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from agenttrace.cli.errors import UsageError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(\d{1,6})\s*([mhdw])", re.IGNORECASE)
_FIX = (
    "Give a span such as 30m, 24h, 7d or 2w, a day such as 2026-11-01, or an ISO time such as 2026-11-01T08:30+08:00."
)
_WORDS = {"today": 0, "yesterday": 1}


def parse_span(text: str) -> timedelta:
    """``7d`` as a length of time."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a length of time", "Give a number and m, h, d or w: 30m, 24h, 7d, 2w.")
    return timedelta(**{_UNITS[match[2].lower()]: int(match[1])})


def parse_since(text: str, *, now: datetime | None = None) -> datetime:
    """The moment meant, with its time zone. A day without a time begins at midnight, local time."""
    now = now or datetime.now().astimezone()
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        day = now.date() - timedelta(days=_WORDS[stripped.lower()])
        return datetime(day.year, day.month, day.day).astimezone()
    try:
        if _SPAN.fullmatch(stripped):
            return now - parse_span(stripped)
        then = datetime.fromisoformat(stripped)
        # Without a zone it is local time, with the offset that holds on that day.
        return then if then.tzinfo is not None else then.astimezone()
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a time", _FIX) from None


def since_micros(text: str | None) -> int | None:
    """``--since`` in microseconds since the epoch."""
    if text is None:
        return None
    then = parse_since(text)
    return int((then - datetime.fromtimestamp(0, then.tzinfo)) / timedelta(microseconds=1))
