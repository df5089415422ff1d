"""The SQLite files of these classes, none of which is the trace store."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Self

from agenttrace.config import load_settings
from agenttrace.store.errors import StoreError
from agenttrace.store.sqlite.database import BUSY_SECONDS, create_private, use_write_ahead_log

#: A table that every trace store has.
_STORE_TABLE = "SELECT 1 FROM sqlite_schema WHERE name = 'raw_blocks'"


class SpecificationDatabase:
    """The database at ``path``, else the one called ``name`` in the data directory; created with its tables."""

    def __init__(self, path: str | os.PathLike[str] | None, name: str, statements: tuple[str, ...]) -> None:
        place = Path(path).expanduser() if path is not None else load_settings().home / name
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_private(place)
        self.db_path = str(place)
        self._connection = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if self._connection.execute(_STORE_TABLE).fetchone() is not None:
                raise StoreError(f"{place} is a trace store, which only the recorder writes. Name another file.")
            use_write_ahead_log(self._connection)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            for statement in statements:
                self._connection.execute(statement)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
