"""The process of rules: looks at the store whenever something was recorded, and runs what fires."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from agenttrace.rules.engine import RuleEngine
from agenttrace.rules.runner import ActionRunner
from agenttrace.store.errors import STORE_FAILURES

logger = logging.getLogger(__name__)

#: How often the store is asked whether something was committed: a few microseconds each time.
TICK_SECONDS = 0.05
#: The longest time between two looks, for what happens by silence.
LOOK_SECONDS = 1.0
#: A store that is locked, full or being replaced is looked at again after this.
TROUBLE_SECONDS = 2.0


async def serve(
    version: Callable[[], int],
    engine: RuleEngine,
    runner: ActionRunner,
    stop: asyncio.Event,
    *,
    on_look: Callable[[], None] = lambda: None,
) -> None:
    """Fire until ``stop`` is set.

    ``version`` tells whether something was committed; ``on_look`` is called before every look, such as to read changed
    settings.
    """
    known, looked = -1, 0.0
    while not stop.is_set():
        try:
            found = version()
            if found != known or time.monotonic() - looked >= LOOK_SECONDS:
                known, looked = found, time.monotonic()
                on_look()
                while engine.look():
                    await runner.step()
            await runner.step()
        except STORE_FAILURES as error:
            logger.warning("the store cannot be used: %s", error)
            await pause(stop, TROUBLE_SECONDS)
        await runner.rest(TICK_SECONDS)


async def run_once(engine: RuleEngine, runner: ActionRunner) -> None:
    """Decide and run everything that can be now."""
    while True:
        more = engine.look()
        await runner.step()
        if not more and not runner.busy:
            return
        await runner.drain()


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but not longer than until ``stop`` is set."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
