"""The exporter put together for a command: what it reads texts with, what it masks them with, and how it is run."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from agenttrace.views.places import store_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttrace.config import Settings
    from agenttrace.export.assembly import Texts
    from agenttrace.export.exporter import Exporter

#: How often is looked whether the store is another file by now.
_LOOK_SECONDS = 1.0


def make_exporter(settings: Settings) -> Exporter:
    """Everything that leaves this data directory."""
    from agenttrace.export.exporter import Exporter
    from agenttrace.masking import Mask
    from agenttrace.record.formats import FACTS

    return Exporter(settings, texts=_texts(), mask=Mask(settings.export.mask).text, agents=FACTS)


def _texts() -> Texts:
    from agenttrace.record.texts.session_texts import SessionTexts

    texts = SessionTexts()
    return texts.contents


async def keep_sending(settings: Settings, stop: asyncio.Event) -> None:
    """Send until told to stop; a store that was rebuilt meanwhile is another file, which is opened anew."""
    while not stop.is_set():
        done = asyncio.Event()
        watching = asyncio.create_task(_watch(settings, stop, done))
        try:
            await make_exporter(settings).run(done)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


async def _watch(settings: Settings, stop: asyncio.Event, done: asyncio.Event) -> None:
    """Set ``done`` when there is reason to: told to stop, or the store is not the file that it was."""
    path = str(store_path(settings))
    known = _identity(path)
    while not stop.is_set() and (known is None or _identity(path) in (known, None)):
        known = known or _identity(path)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_SECONDS)
    done.set()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


async def send_once(settings: Settings, stop: Callable[[], bool], on_round: Callable[[], None]) -> dict[str, str]:
    """Send everything that is sealed by now; what is left, by destination, with the reason."""
    from agenttrace.record.lock import owner

    # Where nobody records, nothing more is written about any turn: there is nothing to wait for.
    quiet = 0.0 if owner(settings.home) is None else None
    return await make_exporter(settings).run_once(quiet_seconds=quiet, stop=stop, on_round=on_round)
