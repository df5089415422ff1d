"""The trace store as the server reads it: a few threads, each with a connection of its own that can only read.

SQLite blocks whoever asks; the loop that answers everybody must not wait for it. A server may run before anything was
recorded, and its store may be made anew under it; both are an empty store for a moment, never an error.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from agenttrace.serve.threads import shut_down
from agenttrace.store.errors import StoreError
from agenttrace.store.session_state import STALE_MINUTES
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.store import SqliteStore

T = TypeVar("T")

THREADS = 4
#: Of the store each thread keeps this much at hand: a session of 30,000 spans has twice as many rows to look up.
_CACHE_KIB = 16_384


class TraceReader:
    """Answers questions to the store, a few at a time."""

    def __init__(self, path: Path, *, stale_minutes: float = STALE_MINUTES) -> None:
        self.path = path
        self._stale_minutes = stale_minutes
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store reader")
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []

    async def ask(self, question: Callable[[sqlite3.Connection], T], *, empty: Callable[[], T]) -> T:
        """What the question finds; ``empty()`` where there is no store yet."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._asked, question, empty)

    async def query(self, question: Callable[[SqliteStore], T], *, empty: Callable[[], T]) -> T:
        """The same for a question that is asked of the store and not of a connection."""
        return await self.ask(lambda connection: question(self._store(connection)), empty=empty)

    def _store(self, connection: sqlite3.Connection) -> SqliteStore:
        return SqliteStore(connection, self.path, stale_minutes=self._stale_minutes)

    def _asked(self, question: Callable[[sqlite3.Connection], T], empty: Callable[[], T]) -> T:
        connection = self._connection()
        if connection is None:
            return empty()
        # One transaction, so that what several queries find belongs together.
        connection.execute("BEGIN")
        try:
            return question(connection)
        finally:
            connection.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection | None:
        """This thread's connection to the file that is there now; a store that was rebuilt is another file."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        known: tuple[tuple[int, int], sqlite3.Connection] | None = getattr(self._local, "known", None)
        identity = (status.st_dev, status.st_ino)
        if known is not None and known[0] == identity:
            return known[1]
        try:
            connection = connect(self.path, read_only=True, any_thread=True)
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        except StoreError:
            # Being made at this moment, or by a version that this one does not know: nothing that could be shown.
            return None
        if known is not None:
            self._open.remove(known[1])
            known[1].close()
        self._open.append(connection)
        self._local.known = (identity, connection)
        return connection

    def close(self) -> None:
        """Interrupt what is being asked, let the threads end and close their connections."""
        for connection in list(self._open):
            with suppress(sqlite3.ProgrammingError):  # its thread has closed it meanwhile
                connection.interrupt()
        if shut_down(self._threads):
            while self._open:
                self._open.pop().close()
