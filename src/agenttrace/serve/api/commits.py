"""Whether anything was committed to the store: one connection that is kept, asked for SQLite's data version.

The version is a connection's own count of what others committed, and costs a look at shared memory; so it can be asked
twenty-five times a second. A store that is made anew is another file, and the connection to the old one would never
hear of it: the file is compared each time.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import NamedTuple

from agenttrace.store.errors import StoreError
from agenttrace.store.sqlite.database import connect


class Look(NamedTuple):
    """The store at a moment; two that are equal have nothing committed between them."""

    #: Which file, counted from 1; 0 where there is none.
    file: int
    version: int


class Commits:
    """Looks at the store again and again; to be used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        self._files = 0

    def look(self) -> Look:
        """The store as it is now."""
        connection = self._current()
        if connection is None:
            return Look(0, 0)
        return Look(self._files, int(connection.execute("PRAGMA data_version").fetchone()[0]))

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to the file that was looked at last, to read what changed."""
        assert self._connection is not None
        return self._connection

    def _current(self) -> sqlite3.Connection | None:
        try:
            status = os.stat(self._path)
        except OSError:
            self.close()
            return None
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or self._connection is None:
            self.close()
            try:
                self._connection = connect(self._path, read_only=True, any_thread=True)
            except (StoreError, sqlite3.OperationalError):
                # Being made at this moment, or by a version that this one does not know.
                return None
            self._identity = identity
            self._files += 1
        return self._connection

    def close(self) -> None:
        """Let go of the file; the next look opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._identity = None
