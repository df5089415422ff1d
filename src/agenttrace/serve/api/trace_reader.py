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
from typing import TypeVar, cast

from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.serve.problems import ProblemError
from agenttrace.store.current import Current, StoreSource
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.session_state import LIMITS, StateLimits
from agenttrace.store.sight import Sight, current_sight
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.store import Store
from agenttrace.store.visible import HiddenError, VisibleStore

T = TypeVar("T")

logger = logging.getLogger(__name__)

THREADS = 4
#: How long a thread may work on when the server closes.
_CLOSE_SECONDS = 2.0
#: The cache of each thread: a session of 30,000 spans has twice as many rows to look up.
_CACHE_KIB = 16_384
_OF_ONE_MACHINE = "This is the server of a team. What concerns one machine is changed there."


class TraceReader:
    """Answers questions to the store, a few at a time."""

    def __init__(self, source: StoreSource | Path, *, limits: StateLimits = LIMITS) -> None:
        #: Which store is read.
        self.source = StoreSource(source, limits) if isinstance(source, Path) else source
        #: Texts of sessions, read lately.
        self.texts = SessionTexts()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store reader")
        self._local = threading.local()
        self._stores: list[Current] = []

    async def query(self, question: Callable[[Store], T], *, empty: Callable[[], T]) -> T:
        """The result of the question for the current sight; ``empty()`` where there is no store yet."""
        sight = current_sight()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question, empty, sight)

    async def query_machine(self, question: Callable[[SqliteStore], T], *, empty: Callable[[], T]) -> T:
        """The same for a question about the bookkeeping of one machine, which a team's database has not."""

        def ask(store: Store) -> T:
            # What members and viewers see of a store has the parts of it that they see, and hides the others.
            is_here = isinstance(store.over if isinstance(store, VisibleStore) else store, SqliteStore)
            return question(cast("SqliteStore", store)) if is_here else empty()

        return await self.query(ask, empty=empty)

    async def query_rules(self, question: Callable[[RuleStore], T], *, empty: Callable[[], T]) -> T:
        """The same for a question about what rules did."""
        if not self.source.has_rules:
            return empty()
        return await self.query(lambda store: question(cast("RuleStore", store)), empty=empty)

    def _answer(self, question: Callable[[Store], T], empty: Callable[[], T], sight: Sight | None) -> T:
        store = self._current().get()
        if store is None:
            return empty()
        with store.snapshot():
            if sight is None:
                return question(store)
            try:
                return question(VisibleStore(store, sight))
            except HiddenError:
                return empty()

    def _current(self) -> Current:
        """The store of this thread."""
        known: Current | None = getattr(self._local, "store", None)
        if known is None:
            known = self._local.store = self.source.current(cache_kib=_CACHE_KIB)
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
    source: StoreSource, change: Callable[[SqliteStore], T], *, empty: Callable[[], T] | None = None
) -> T:
    """The result of a change of what a team's database has not: the bookkeeping of one machine; 409 there."""

    def of_machine(store: RuleStore) -> T:
        if not isinstance(store, SqliteStore):
            raise ProblemError(409, _OF_ONE_MACHINE)
        return change(store)

    return await change_beside(source, of_machine, empty=empty)


async def change_beside(
    source: StoreSource, change: Callable[[RuleStore], T], *, empty: Callable[[], T] | None = None
) -> T:
    """The result of a change beside what was recorded: of annotations, and of what is stored of rules.

    Where there is no store yet ``empty()``, or one is made. 503: it cannot be written.
    """

    def run() -> T:
        if empty is not None and not source.exists():
            return empty()
        try:
            with source.writable() as store:
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
