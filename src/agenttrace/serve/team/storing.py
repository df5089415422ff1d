"""Stores what machines send: in threads of its own, each with the store open for writing.

A file has one writer, a database several. What machines sent is indexed for search and examined for outcomes in another
thread, a piece at a time, so that nothing that arrives waits for it. Servers that share a database each do so: what is
indexed twice is stored once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from agenttrace.calendar import day_finder, zone_name
from agenttrace.record.outcome_updates import OutcomeUpdates
from agenttrace.record.texts.contents import Interpreter
from agenttrace.record.texts.search_index import index_portion
from agenttrace.serve.api.trace_reader import shut_down
from agenttrace.store.current import StoreSource
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.team import MachineFigures, Page, Position, TeamStore
from agenttrace.team.wire import ReceivedPage, unpacked

T = TypeVar("T")

logger = logging.getLogger(__name__)

_DATABASE_THREADS = 4
#: Seconds that a piece of examining sessions takes, between two pieces, and two looks where nothing arrives.
_PIECE_SECONDS, _PAUSE_SECONDS, _LOOK_SECONDS = 0.2, 0.2, 30.0
_CLOSE_SECONDS = 5.0
#: For so long pages are gathered to be indexed together; each look at a database is a question to other machines.
_GATHER_SECONDS, _GATHER_SECONDS_OF_DATABASE = 0.2, 1.0


class Storing:
    """The store of a team, for writing."""

    def __init__(self, source: StoreSource, timezone: str) -> None:
        self._source, self._timezone = source, timezone
        self._day_of = day_finder(timezone)
        self._is_file = not isinstance(source.target, str)
        count = 1 if self._is_file else _DATABASE_THREADS
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="team store")
        self._local = threading.local()
        self._stores: list[TeamStore] = []
        self._feeding = _Feeding(source, _GATHER_SECONDS if self._is_file else _GATHER_SECONDS_OF_DATABASE)

    def prepare(self) -> None:
        """Create or upgrade the store, and count days in the time zone of this server."""
        with self._source.team_store() as store:
            if isinstance(store, SqliteStore):
                store.keep_days(zone_name(self._timezone), self._day_of)
        self._feeding.start()

    async def take(self, body: bytes, machine: str, person: str) -> ReceivedPage:
        """Store a page as it was sent; it is durable once this returns."""

        def take(store: TeamStore) -> ReceivedPage:
            found = unpacked(body)
            sent = found.page
            page = Page(
                machine=machine,
                person=person,
                store=sent.store,
                after=sent.after,
                until=sent.until,
                previous=sent.previous,
            )
            store.take(sent.rows, page, day_of=self._day_of)
            return found

        found = await self._run(take)
        self._feeding.news.set()
        return found

    async def position(self, machine: str) -> Position | None:
        """How far the rows of a machine are stored."""
        return await self._run(lambda store: store.position(machine))

    async def machines(self) -> list[MachineFigures]:
        """What is stored of each machine."""
        return await self._run(lambda store: store.machines())

    async def remove_texts(self, person: str) -> int:
        """Remove the texts of a person; of how many sessions."""
        return await self._run(lambda store: store.remove_texts(person))

    async def prune(self, before: int, project: str | None) -> int:
        """Remove the texts of sessions that ended before a moment, in directories of a glob; of how many."""
        return await self._run(lambda store: store.prune(before, project))

    async def _run(self, work: Callable[[TeamStore], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._with_store, work)

    def _with_store(self, work: Callable[[TeamStore], T]) -> T:
        store: TeamStore | None = getattr(self._local, "store", None)
        if store is None:
            store = self._local.store = self._source.team_store()
            self._stores.append(store)
        try:
            return work(store)
        except STORE_FAILURES:
            # The file may have been replaced, or the database restarted.
            self._local.store = None
            self._stores.remove(store)
            with suppress(Exception):
                store.close()
            raise

    def close(self) -> None:
        """End the threads and close their stores."""
        self._feeding.close()
        if self._is_file:
            # A file is closed by the thread that opened it.
            with suppress(TimeoutError):
                self._threads.submit(self._close_stores).exception(_CLOSE_SECONDS)
        if shut_down(self._threads):
            self._close_stores()

    def _close_stores(self) -> None:
        while self._stores:
            with suppress(Exception):
                self._stores.pop().close()


class _Feeding:
    """Indexes and examines what arrived, in a thread."""

    def __init__(self, source: StoreSource, gather_seconds: float) -> None:
        self._source, self._gather_seconds = source, gather_seconds
        self._stop = threading.Event()
        #: Set when something arrived.
        self.news = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="team index", daemon=True)

    def start(self) -> None:
        """Begin with what earlier processes left."""
        self._thread.start()

    def close(self) -> None:
        """End after the current piece."""
        self._stop.set()
        self.news.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _keep(self) -> None:
        while not self._stop.is_set():
            try:
                self._run()
            except Exception as error:
                # What is wrong with the store is told to those who ask; the index goes on when it is right again.
                logger.warning("the search index of the team waits (%s)", type(error).__name__, exc_info=error)
                self._stop.wait(_LOOK_SECONDS)

    def _run(self) -> None:
        with self._source.team_store() as store:
            interpreter, outcomes = Interpreter(store), OutcomeUpdates(store)
            while not self._stop.is_set():
                arrived = self.news.is_set()
                self.news.clear()
                while not self._stop.is_set() and index_portion(store, interpreter):
                    pass
                self._examine(outcomes)
                self.news.wait(outcomes.pause if arrived or outcomes.is_busy else _LOOK_SECONDS)
                # Many small pages are indexed together.
                self._stop.wait(self._gather_seconds)

    def _examine(self, outcomes: OutcomeUpdates) -> None:
        """Examine sessions piece by piece, until all were, or something arrived."""
        while not self._stop.is_set():
            outcomes.step(_PIECE_SECONDS)
            if not outcomes.is_busy or self.news.is_set():
                return
            self._stop.wait(_PAUSE_SECONDS)
