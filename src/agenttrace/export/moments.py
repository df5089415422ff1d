"""Microseconds since the epoch as dates, limited to the years that have one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The last microsecond of the year 9999.
_LATEST = 253_402_300_799_999_999


def moment(micros: int) -> datetime:
    """A time in UTC; one outside of the calendar becomes the nearest that is inside."""
    return _EPOCH + timedelta(microseconds=min(max(micros, 0), _LATEST))


def iso(micros: int) -> str:
    """A time as servers take it in queries, to the millisecond: ``2026-11-15T08:53:34.940Z``."""
    return moment(micros).isoformat(timespec="milliseconds").replace("+00:00", "Z")
