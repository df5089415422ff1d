"""The store that is at a path now: opened when it appears, and again when it was rebuilt, which is another file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from agenttrace.store.errors import STORE_FAILURES, StoreError
from agenttrace.store.session_state import LIMITS, StateLimits
from agenttrace.store.sqlite.store import SqliteStore


class StoreVersion(NamedTuple):
    """The store at a moment; between two equal versions nothing was committed."""

    #: Which file, counted from 1; 0 where there is none.
    file: int
    commits: int


NO_STORE = StoreVersion(0, 0)


class CurrentStore:
    """Opens the store of a path read-only and keeps it open; used by one thread at a time, closed by any."""

    def __init__(self, path: Path, *, limits: StateLimits = LIMITS, cache_kib: int | None = None) -> None:
        self._path = path
        self._limits, self._cache_kib = limits, cache_kib
        self._identity: tuple[int, int] | None = None
        self._files = 0
        #: The store that was opened last, without a look at what is at the path now.
        self.opened: SqliteStore | None = None

    def get(self) -> SqliteStore | None:
        """The store; None where there is none, or one that is being made or that this version does not know."""
        try:
            status = os.stat(self._path)
        except OSError:
            self.close()
            return None
        identity = (status.st_dev, status.st_ino)
        if self.opened is None or identity != self._identity:
            self.close()
            try:
                self.opened = SqliteStore.open(
                    self._path, any_thread=True, limits=self._limits, cache_kib=self._cache_kib
                )
            except StoreError:
                return None
            self._identity = identity
            self._files += 1
        return self.opened

    def version(self) -> StoreVersion:
        """Which file it is and how often others committed to it; cheap enough to be asked many times a second."""
        try:
            store = self.get()
        except STORE_FAILURES:
            # Another process is creating it at this moment.
            return NO_STORE
        return NO_STORE if store is None else StoreVersion(self._files, store.foreign_version())

    def interrupt(self) -> None:
        """Make the question that is being answered in another thread fail."""
        if (store := self.opened) is not None:
            store.interrupt()

    def close(self) -> None:
        """Release the file; the next question opens it again."""
        store, self.opened = self.opened, None
        if store is not None:
            store.close()
