"""A loop for the commands that stay: until a signal ends it, or beside something else that has the main thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from agenttrace.cli.stopping import CLOSING_SECONDS, Stop, stop_event

Main = Callable[[asyncio.Event], Awaitable[None]]


def until_stopped(main: Main, *, drain_seconds: float = 0.0) -> None:
    """Run ``main`` with an event that Ctrl-C and SIGTERM set; when its drain time has passed, the process ends."""
    # Around the loop: closing it waits for its threads, which is part of the time.
    with stop_event(within=drain_seconds + CLOSING_SECONDS) as until:

        async def run() -> None:
            stop = asyncio.Event()
            until.call(_setting(asyncio.get_running_loop(), stop))
            await main(stop)

        _run(run())


@contextmanager
def beside(main: Main, on_error: Callable[[BaseException], None], *, until: Stop | None = None) -> Iterator[None]:
    """Run ``main`` in a thread until ``until`` is set or the block is left, then let it finish.

    ``on_error`` hears what failed.
    """
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    started = threading.Event()

    async def run() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        started.set()
        await main(stop)

    def thread() -> None:
        try:
            _run(run())
        except BaseException as error:
            # A thread has nobody to raise to.
            on_error(error)
        finally:
            started.set()

    def end() -> None:
        for loop, stop in loops:
            _setting(loop, stop)()

    worker = threading.Thread(target=thread, name="run half")
    worker.start()
    started.wait()
    if until is not None:
        # Drains at the same time as everything else, not after it.
        until.call(end)
    try:
        yield
    finally:
        end()
        worker.join()


def _setting(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Callable[[], None]:
    """Sets an event of a loop from any thread."""

    def set_it() -> None:
        with suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(stop.set)

    return set_it


def _run(work: Awaitable[None]) -> None:
    async def whole() -> None:
        await work

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(whole())
        except BaseExceptionGroup as group:
            # Server and worker run as a group; what one of them failed with is what there is to tell.
            raise _only(group) from None


def _only(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
