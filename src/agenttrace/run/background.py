"""Tasks in the background, and their certain end."""

from __future__ import annotations

import asyncio
from typing import Any

_AGAIN_SECONDS = 0.2


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks until they have ended; what they end with is dropped.

    Once is not enough: a cancellation that meets a task in the moment in which what it waits for has come is lost
    there (``asyncio.wait_for`` before Python 3.12), and a task that goes round for ever then does so.
    """
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
