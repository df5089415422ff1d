"""For how long sessions were silent, whatever the clock of the machine does.

The time since the last line of a log is the answer, except when the clock was set: back, and the last line is in the
future; forward, or the machine was asleep, and a session that works would seem to have ended. So a second clock, which
cannot be set, measures how long the engine has seen no change, and after a leap of the first one only that counts.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

#: A larger difference between the two clocks is a leap.
_LEAP = 5.0
_REMEMBERED = 10_000


class Silence:
    """Two clocks, and what sessions looked like when they were last seen to change."""

    def __init__(self, clock: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._steady = clock, steady
        self._offset = clock() - steady()
        #: Since when the clock is to be trusted, on the steady clock.
        self._trusted: float | None = None
        self._seen: OrderedDict[int, tuple[int, float]] = OrderedDict()

    def now(self) -> float:
        """The time of the clock; looks whether it was set."""
        now, steady = self._clock(), self._steady()
        if abs(now - steady - self._offset) > _LEAP:
            self._trusted = steady
        # Small corrections of the clock add up.
        self._offset = now - steady
        return now

    def steady(self) -> float:
        """The time of the clock that cannot be set."""
        return self._steady()

    def of(self, session: int, events: int, heard: float) -> float:
        """For how long a session with so many events was silent; its last line says ``heard``."""
        now, steady = self.now(), self._steady()
        known = self._seen.get(session)
        if known is None or known[0] != events:
            known = (events, steady)
            self._seen[session] = known
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        unchanged = steady - known[1]
        if self._trusted is not None and heard <= now:
            return min(now - heard, max(unchanged, steady - self._trusted))
        return max(now - heard, unchanged)
