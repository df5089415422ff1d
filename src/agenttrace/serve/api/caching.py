"""An answer that is kept for a moment: however many pages ask, it is made once for all of them.

Fifty open pages that ask every few seconds would otherwise have directories walked and tables summed many times a
second, for numbers that nobody can tell apart from those of a second ago.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: What takes long is made less often: it takes at most one part in this many of the time.
_SHARE = 10


class Kept(Generic[T]):
    """Something that is made anew when it is asked for and older than so many seconds."""

    def __init__(self, make: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._make = make
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._made: T | None = None
        self._good_until = 0.0

    async def get(self) -> T:
        """The latest; callers that come while it is made wait for that."""
        # Who came while another was waited for gets what that one brought, and no second one is made.
        async with self._lock:
            began = time.monotonic()
            if self._made is None or began >= self._good_until:
                self._made = await self._make()
                ended = time.monotonic()
                self._good_until = ended + max(self._seconds, (ended - began) * _SHARE)
            return self._made

    async def forget(self) -> None:
        """Have it made anew for whoever asks next: something was changed that they will want to see."""
        async with self._lock:
            self._good_until = 0.0
