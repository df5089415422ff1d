"""Stop signals, and commands that run until one: the first asks for an orderly end, a second ends the process at once.

Threads cannot be ended from outside. So a stop has a deadline, after which the process ends with its threads. That
loses nothing that a power cut would not lose: the stores are transactional.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from agenttrace.cli.errors import FAILED

#: After the drain, for the last bytes of streams, closing files and ending child processes.
CLOSING_SECONDS = 10.0
#: Time to clean up after a second signal.
_SECOND_SIGNAL_SECONDS = 1.0
#: Time for threads that still run when the command is over.
_LEAVING_SECONDS = 5.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Main = Callable[[asyncio.Event], Awaitable[None]]


class Stop(threading.Event):
    """An event that also calls back, at once, when it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._callbacks: list[Callable[[], None]] = []

    def call(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the event is set, or now if it is."""
        self._callbacks.append(callback)
        if self.is_set():
            callback()

    def set(self) -> None:
        """Set it; callbacks run in the thread that does."""
        super().set()
        for callback in self._callbacks:
            callback()


@contextmanager
def stop_event(*, within: float | None = None) -> Iterator[Stop]:
    """An event set by the first Ctrl-C or SIGTERM; with ``within``, the process ends that many seconds later.

    A second signal has its usual effect, and ends the process for certain. Only the main thread may use it.
    """
    stop = Stop()
    deadline: list[threading.Timer] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if deadline or stop.is_set():
            deadline.append(_end_after(_SECOND_SIGNAL_SECONDS, code=128 + number))
            _as_before(before[signal.Signals(number)], number, frame)
            return
        _stopped.set()
        if within is not None:
            deadline.append(_end_after(within, code=FAILED))
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for timer in deadline:
            timer.cancel()


def leave() -> None:
    """Called when a command is over: if it was stopped, threads that still run do not keep the process."""
    if _stopped.is_set():
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        _end_after(_LEAVING_SECONDS, code=FAILED)


#: Whether this process was asked to stop.
_stopped = threading.Event()


def _end_after(seconds: float, *, code: int) -> threading.Timer:
    timer = threading.Timer(seconds, _end, (seconds, code))
    timer.daemon = True
    timer.name = "stop deadline"
    timer.start()
    return timer


def _end(seconds: float, code: int) -> None:
    own = threading.current_thread()
    busy = [each.name for each in threading.enumerate() if each is not own and not isinstance(each, threading.Timer)]
    message = f"agenttrace: ended after {seconds:g} s without waiting for threads: {', '.join(busy)}\n"
    with suppress(OSError, ValueError):
        # Not through sys.stderr, whose lock a thread may hold.
        os.write(2, message.encode("utf-8", "replace"))
    os._exit(code)


def _as_before(handler: object, number: int, frame: FrameType | None) -> None:
    """The effect of the signal without this handler."""
    if callable(handler):
        handler(number, frame)
    elif handler == signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


# -- asyncio -------------------------------------------------------------------------------------------------


def until_stopped(main: Main, *, drain_seconds: float = 0.0) -> None:
    """Run ``main`` with an event that Ctrl-C and SIGTERM set; when its drain time has passed, the process ends."""
    # Around the loop: closing it waits for its threads, which is part of the time.
    with stop_event(within=drain_seconds + CLOSING_SECONDS) as until:

        async def run() -> None:
            stop = asyncio.Event()
            until.call(setter(asyncio.get_running_loop(), stop))
            await main(stop)

        _run(run())


@contextmanager
def beside(
    main: Main, on_error: Callable[[BaseException], None], *, until: Stop | None = None, name: str = "run half"
) -> Iterator[None]:
    """Run ``main`` in a thread until ``until`` is set or the block is left, then let it finish.

    ``on_error`` is called with what ``main`` raises.
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
            # No caller can catch what a thread raises.
            on_error(error)
        finally:
            started.set()

    def end() -> None:
        for loop, stop in loops:
            setter(loop, stop)()

    worker = threading.Thread(target=thread, name=name)
    worker.start()
    started.wait()
    if until is not None:
        # It drains at the same time as the rest, not after it.
        until.call(end)
    try:
        yield
    finally:
        end()
        worker.join()


def setter(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Callable[[], None]:
    """A function that sets an event of a loop from any thread."""

    def set_event() -> None:
        with suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(stop.set)

    return set_event


def _run(work: Awaitable[None]) -> None:
    async def whole() -> None:
        await work

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(whole())
        except BaseExceptionGroup as group:
            # Server and worker run as a group; report the error of the one that failed.
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
