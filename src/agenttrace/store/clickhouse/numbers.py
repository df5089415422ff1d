"""Numbers of events and spans, given in the order in which rows come, without asking the database.

A number is the milliseconds since 2026, the slot of the server, and a count: it fits 53 bits, which is what JavaScript
reads exactly, until the year 2060. Servers with one slot are told apart by chance only, so a slot is random where the
environment gives none; two events of one number would be two rows all the same, as numbers are no key.
"""

from __future__ import annotations

import os
import secrets
import threading
import time

#: Where the milliseconds begin: 2026-01-01.
_EPOCH_MS = 1_767_225_600_000
_SLOT_BITS, _COUNT_BITS = 6, 7
#: Numbers for one second.
SECOND = 1000 << (_SLOT_BITS + _COUNT_BITS)


class Numbers:
    """Growing numbers, of one process; any number of threads may take some."""

    def __init__(self, slot: int | None = None) -> None:
        given = os.environ.get("AGENTTRACE_TEAM_SLOT", "")
        chosen = slot if slot is not None else int(given) if given.isdigit() else secrets.randbelow(1 << _SLOT_BITS)
        self._slot = chosen % (1 << _SLOT_BITS) << _COUNT_BITS
        self._lock = threading.Lock()
        self._tick, self._count = 0, 0

    def take(self, count: int, *, after: int = 0) -> list[int]:
        """So many numbers, each larger than all before it, and than one of another server whose clock is ahead."""
        with self._lock:
            now = max(int(time.time() * 1000) - _EPOCH_MS, (after >> _SLOT_BITS + _COUNT_BITS) + 1)
            if now > self._tick:
                self._tick, self._count = now, 0
            return [self._next() for _ in range(count)]

    def one(self, *, after: int = 0) -> int:
        """The next number."""
        return self.take(1, after=after)[0]

    def _next(self) -> int:
        if self._count == 1 << _COUNT_BITS:
            self._tick, self._count = self._tick + 1, 0
        self._count += 1
        return self._tick << (_SLOT_BITS + _COUNT_BITS) | self._slot | (self._count - 1)


#: Those of this process.
NUMBERS = Numbers()
