"""Waiting for the store of a team that does not answer when its server starts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from agenttrace.store.errors import StoreAwayError
from agenttrace.store.team import TeamStore

#: For so long a server waits, and between two tries.
PATIENCE_SECONDS = 60.0
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 10.0


async def await_store(
    opened: Callable[[], TeamStore], stop: asyncio.Event, *, on_wait: Callable[[StoreAwayError], None]
) -> None:
    """Return when the store can be opened, or ``stop`` is set; ``StoreAwayError`` where it stays away.

    What does not pass by itself, such as a wrong password, is raised at once.
    """
    deadline, delay = time.monotonic() + PATIENCE_SECONDS, _FIRST_DELAY
    while not stop.is_set():
        try:
            await asyncio.to_thread(_try, opened)
        except StoreAwayError as error:
            if time.monotonic() + delay > deadline:
                raise
            if delay == _FIRST_DELAY:
                on_wait(error)
        else:
            return
        try:
            await asyncio.wait_for(stop.wait(), delay)
        except TimeoutError:
            delay = min(2 * delay, _LONGEST_DELAY)


def _try(opened: Callable[[], TeamStore]) -> None:
    with opened():
        pass
