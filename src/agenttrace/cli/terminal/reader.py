"""The trace store as the view reads it: in one thread, read-only, also while it is created or rebuilt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from agenttrace.config import Settings
from agenttrace.prices.costing import Cashier
from agenttrace.record.lock import owner
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.store.current import NO_STORE, StoreVersion
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.store import Store
from agenttrace.store.team_place import shown_source

T = TypeVar("T")


class Reader:
    """Answers questions of the screens, one at a time, without blocking the keys."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cashier = Cashier.load(settings)
        #: Texts of sessions, read lately.
        self.texts = SessionTexts()
        #: Why the last question got no answer; empty where it got one.
        self.problem = ""
        self._store = shown_source(settings).current()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store reader")

    async def ask(self, question: Callable[[Store], T], empty: Callable[[], T]) -> T:
        """The answer of the store; ``empty()`` where there is no store, or it cannot be read at this moment."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question, empty)

    def _answer(self, question: Callable[[Store], T], empty: Callable[[], T]) -> T:
        try:
            store = self._store.get()
            if store is None:
                return empty()
            with store.snapshot():
                answer = question(store)
        except STORE_FAILURES as error:
            self.problem = str(error)
            return empty()
        self.problem = ""
        return answer

    async def version(self) -> StoreVersion:
        """Differs when something was recorded."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._version)

    def _version(self) -> StoreVersion:
        try:
            return self._store.version()
        except STORE_FAILURES as error:
            self.problem = str(error)
            return NO_STORE

    def recording_process(self) -> int | None:
        """The process that records now, if any."""
        return owner(self.settings.home)

    def close(self) -> None:
        """End the thread and close the store."""
        self._store.interrupt()
        self._thread.shutdown(cancel_futures=True)
        self._store.close()
