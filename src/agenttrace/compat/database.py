"""The small SQLite files of the classes here; the trace store is none of them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from agenttrace.config import load_settings
from agenttrace.store.errors import StoreError
from agenttrace.store.sqlite.database import BUSY_SECONDS, create_private, use_write_ahead_log

#: A table that every trace store has.
_STORE_TABLE = "SELECT 1 FROM sqlite_schema WHERE name = 'raw_blocks'"


def open_database(
    path: str | os.PathLike[str] | None, name: str, statements: tuple[str, ...]
) -> tuple[Path, sqlite3.Connection]:
    """The database at ``path``, else the one called ``name`` in the data directory; created with its tables."""
    place = Path(path).expanduser() if path is not None else load_settings().home / name
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_private(place)
    connection = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if connection.execute(_STORE_TABLE).fetchone() is not None:
            raise StoreError(f"{place} is a trace store, which the recorder alone writes. Name another file.")
        use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        for statement in statements:
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return place, connection
