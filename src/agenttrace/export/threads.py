"""Work with the store in a thread: it waits for the disk and for other writers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a function that uses the store."""
    return await shielded(asyncio.to_thread(function, *args, **kwargs))


async def shielded(work: Awaitable[T]) -> T:
    """Finish work in a thread before a cancellation takes effect: only one thread may use the store."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            await task
        raise


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, or return when ``stop`` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
