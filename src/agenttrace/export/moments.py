"""Microseconds since the epoch as the times that servers are asked about."""

from __future__ import annotations

from datetime import UTC, datetime

#: The last moment that has a date.
_LAST = 253_402_300_799_000_000


def iso(microseconds: int) -> str:
    """A moment to the millisecond: ``2026-11-15T08:53:34.940Z``; one that has no date becomes the nearest that has."""
    milliseconds = min(max(microseconds, 0), _LAST) // 1_000
    moment = datetime.fromtimestamp(milliseconds // 1_000, UTC).replace(microsecond=milliseconds % 1_000 * 1_000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
