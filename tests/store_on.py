"""A store on a connection that a test holds already."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agenttrace.store.sqlite.store import SqliteStore


def store_on(connection: sqlite3.Connection) -> SqliteStore:
    """The store that a connection was opened for."""
    return SqliteStore(connection, Path(connection.execute("PRAGMA database_list").fetchone()[2]))
