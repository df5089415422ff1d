"""The limits of a plan in a Codex log: ``rate_limits`` of ``token_count`` lines.

Each line has the windows as the provider gave them with the last response: a short one (``primary``) and a long one
(``secondary``), either may be null. ``resets_at`` is in seconds since the epoch; versions up to 0.45 have
``resets_in_seconds``, counted from the time of the line. The first version had percentages only: without the end of the
window they say nothing. Limits of their own for some models have a ``limit_id`` other than ``codex``.
"""

from __future__ import annotations

from collections.abc import Iterator

from agenttrace.record.formats.lenient import as_moment, lookup, text_at, time_at, time_of
from agenttrace.record.ingest import acts as a

_WINDOWS = ("primary", "secondary")
#: The limit that all models share.
_SHARED = "codex"
_MOST_MINUTES = 366 * 24 * 60
_LONGEST_NAME = 100


def limit_windows(limits: object, at: int | None) -> Iterator[a.LimitWindow]:
    """The windows that a line has, with their ends."""
    own = text_at(limits, "limit_id")
    prefix = "" if own in (None, _SHARED) else f"{own} "
    for name in _WINDOWS:
        window = lookup(limits, name)
        used, end = _amount(lookup(window, "used_percent")), _end(window, at)
        if used is not None and end is not None:
            yield a.LimitWindow(
                name=f"{prefix}{name}"[:_LONGEST_NAME],
                used_percent=used,
                resets_at=end,
                minutes=_minutes(lookup(window, "window_minutes")),
                plan=(text_at(limits, "plan_type") or "")[:_LONGEST_NAME] or None,
            )


def _end(window: object, at: int | None) -> int | None:
    left = _amount(lookup(window, "resets_in_seconds"))
    if left is not None and at is not None:
        return time_at(at + round(left * 1_000_000))
    return time_of(as_moment(lookup(window, "resets_at")))


def _amount(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < 1e9 else None  # type: ignore[operator,arg-type]


def _minutes(value: object) -> int | None:
    return value if type(value) is int and 0 < value <= _MOST_MINUTES else None
