"""A loop for the commands that stay: until a signal ends it, or beside something else that has the main thread."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

Main = Callable[[asyncio.Event], Awaitable[None]]


def until_stopped(main: Main) -> None:
    """Run ``main`` with an event that Ctrl-C and SIGTERM set; a second Ctrl-C gets its usual, harder way."""

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def on_signal(number: int, _frame: object) -> None:
            signal.signal(number, before[signal.Signals(number)])
            loop.call_soon_threadsafe(stop.set)

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            await main(stop)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    _run(run())


@contextmanager
def beside(main: Main, on_error: Callable[[BaseException], None]) -> Iterator[None]:
    """Run ``main`` in a thread until the block is left, then let it finish; ``on_error`` hears what failed."""
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

    worker = threading.Thread(target=thread, name="run half")
    worker.start()
    started.wait()
    try:
        yield
    finally:
        for loop, stop in loops:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(stop.set)
        worker.join()


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
