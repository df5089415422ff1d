"""Numbers as people read them: tokens, bytes, durations, times, money."""

from __future__ import annotations

from datetime import datetime

from agenttrace.views.times import MICROS, moment

_SIGNS = {"USD": "$", "CNY": "¥"}


def count(number: int) -> str:
    """``12,345``."""
    return f"{number:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """``1 file``, ``12,345 files``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tokens(number: int) -> str:
    """``950``, ``12.3k``, ``4.56M``."""
    if number < 1000:
        return str(number)
    if number < 999_950:
        return f"{number / 1000:.1f}k"
    if number < 999_995_000:
        return f"{number / 1e6:.2f}M"
    return f"{number / 1e9:.2f}B"


def size(number: float) -> str:
    """``512 B``, ``1.2 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5 or (unit == "B" and number < 1000):
            return (
                f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}" if number < 100 else f"{number:.0f} {unit}"
            )
        number /= 1000
    return f"{number:.1f} TB"


def duration(micros: int) -> str:
    """``850 ms``, ``3.2 s``, ``4m 05s``, ``2h 13m``, ``3d 04h``."""
    if micros < 999_500:
        return f"{round(micros / 1000)} ms"
    seconds = micros / MICROS
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60}h {minutes % 60:02d}m"
    hours = round(seconds / 3600)
    return f"{hours // 24}d {hours % 24:02d}h"


def clock(micros: int | None, *, now: datetime | None = None) -> str:
    """Local time, as short as can be: ``14:03`` today, ``15 Nov 14:03`` this year, ``2025-11-15`` before."""
    if micros is None:
        return "–"
    then = _local(moment(micros))
    today = now or datetime.now().astimezone()
    if then.date() == today.date():
        return then.strftime("%H:%M")
    return then.strftime("%d %b %H:%M" if then.year == today.year else "%Y-%m-%d")


def time_of_day(micros: int) -> str:
    """``14:03:27`` in local time."""
    return _local(moment(micros)).strftime("%H:%M:%S")


def _local(then: datetime) -> datetime:
    try:
        return then.astimezone()
    except (OverflowError, OSError, ValueError):
        return then


def ago(seconds: float) -> str:
    """``just now``, ``12 s ago``, ``5m 02s ago``."""
    return "just now" if seconds < 1.5 else f"{duration(round(seconds * MICROS)).replace('.0 s', ' s')} ago"


def money(micros: int, currency: str) -> str:
    """``$1.23``; below a cent as many digits as it takes to see it."""
    sign = _SIGNS.get(currency, currency + " ")
    amount = micros / MICROS
    if micros and abs(micros) < 10_000:
        return f"{sign}{amount:.4f}" if abs(micros) >= 50 else f"<{sign}0.0001"
    return f"{sign}{amount:,.2f}"


def signed(sign: str, number: int | None) -> str | None:
    """``+12``, ``-3``; nothing where the number is not known."""
    return None if number is None else f"{sign}{number}"
