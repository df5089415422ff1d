"""How much a machine may send: rows and bytes in a minute, so that one that runs wild leaves room for the others.

A machine that was quiet has a whole minute's worth at once, and gets it back evenly. A page is taken while anything is
left, whatever its size: what it takes too much is waited for before the next one, so nothing is too large to be sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

_MINUTE = 60.0


class Slowed(NamedTuple):
    """A machine has to wait: of what it sent too much, and for how many seconds."""

    what: str
    seconds: float


@dataclass(slots=True)
class _Left:
    """What is left of a minute's worth at a moment."""

    amount: float
    at: float


class Allowances:
    """What each machine may send to this server; 0: any number."""

    def __init__(self, *, rows: int, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = {what: limit for what, limit in (("rows", rows), ("bytes", size)) if limit}
        self._clock = clock
        self._left: dict[tuple[str, str], _Left] = {}

    def slowed(self, machine: str) -> Slowed | None:
        """Whether a machine has to wait before its next page."""
        waits = [Slowed(what, self._wait(machine, what)) for what in self._limits]
        longest = max(waits, key=lambda each: each.seconds, default=None)
        return longest if longest is not None and longest.seconds > 0 else None

    def count(self, machine: str, *, rows: int = 0, size: int = 0) -> None:
        """A machine sent so much."""
        for what, amount in (("rows", rows), ("bytes", size)):
            if what in self._limits:
                self._now(machine, what).amount -= amount

    def _wait(self, machine: str, what: str) -> float:
        missing = -self._now(machine, what).amount
        return 0.0 if missing < 0 else (missing + 1) / self._limits[what] * _MINUTE

    def _now(self, machine: str, what: str) -> _Left:
        now, limit = self._clock(), self._limits[what]
        left = self._left.setdefault((machine, what), _Left(limit, now))
        left.amount, left.at = min(limit, left.amount + (now - left.at) / _MINUTE * limit), now
        return left
