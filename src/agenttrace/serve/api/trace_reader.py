"""The trace store as the server reads it: a few threads, each with its own read-only store.

A question blocks its thread; the loop that answers every request must not wait for it. A server may run before
anything was recorded, and its store may be rebuilt while it runs; both are an empty store for a moment, never an error.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from agenttrace.config import Settings
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.serve.problems import ProblemError
from agenttrace.store import open_store, store_path
from agenttrace.store.current import CurrentStore
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.session_state import LIMITS, StateLimits
from agenttrace.store.sqlite.store import SqliteStore

T = TypeVar("T")

logger = logging.getLogger(__name__)

THREADS = 4
#: How long a thread may work on when the server closes.
_CLOSE_SECONDS = 2.0
#: The cache of each thread: a session of 30,000 spans has twice as many rows to look up.
_CACHE_KIB = 16_384


class TraceReader:
    """Answers questions to the store, a few at a time."""

    def __init__(self, path: Path, *, limits: StateLimits = LIMITS) -> None:
        self.path = path
        #: Texts of sessions, read lately.
        self.texts = SessionTexts()
        self._limits = limits
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store reader")
        self._local = threading.local()
        self._stores: list[CurrentStore] = []

    async def query(self, question: Callable[[SqliteStore], T], *, empty: Callable[[], T]) -> T:
        """The result of the question; ``empty()`` where there is no store yet."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question, empty)

    def _answer(self, question: Callable[[SqliteStore], T], empty: Callable[[], T]) -> T:
        store = self._current().get()
        if store is None:
            return empty()
        with store.snapshot():
            return question(store)

    def _current(self) -> CurrentStore:
        """The store of this thread."""
        known: CurrentStore | None = getattr(self._local, "store", None)
        if known is None:
            known = self._local.store = CurrentStore(self.path, limits=self._limits, cache_kib=_CACHE_KIB)
            self._stores.append(known)
        return known

    def close(self) -> None:
        """Interrupt running questions, end the threads and close their stores."""
        for store in self._stores:
            store.interrupt()
        if shut_down(self._threads):
            for store in self._stores:
                store.close()


async def change_store(
    settings: Settings, change: Callable[[SqliteStore], T], *, empty: Callable[[], T] | None = None
) -> T:
    """The result of a change; where there is no store yet ``empty()``, or one is made. 503: it cannot be written."""

    def run() -> T:
        if empty is not None and not store_path(settings.home).exists():
            return empty()
        try:
            with open_store(settings, read_only=False) as store:
                return change(store)
        except STORE_FAILURES as error:
            raise ProblemError(503, f"The store cannot be written at the moment: {error}.") from error

    return await asyncio.to_thread(run)


def shut_down(threads: ThreadPoolExecutor) -> bool:
    """Start nothing more and wait for running work; False where it takes too long."""
    closer = threading.Thread(target=threads.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    closer.start()
    closer.join(_CLOSE_SECONDS)
    if closer.is_alive():
        logger.warning("a thread still works after %g s, and is not waited for", _CLOSE_SECONDS)
    return not closer.is_alive()
