"""An answer that is cached for a moment: however many pages ask, it is built once for all of them.

Fifty open pages that ask every few seconds would otherwise make the server read directories and sum tables many times a
second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: A slow answer is cached for longer: building it takes at most one part in this many of the time.
_SHARE = 10


class Cached(Generic[T]):
    """A value that is built again when it is asked for and older than so many seconds."""

    def __init__(self, make: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._make = make
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._made: T | None = None
        self._expires = 0.0

    async def get(self) -> T:
        """The latest value; callers that come while it is built wait for it, and build no second one."""
        async with self._lock:
            began = time.monotonic()
            if self._made is None or began >= self._expires:
                self._made = await self._make()
                ended = time.monotonic()
                self._expires = ended + max(self._seconds, (ended - began) * _SHARE)
            return self._made

    async def invalidate(self) -> None:
        """Build it again for the next caller."""
        async with self._lock:
            self._expires = 0.0
