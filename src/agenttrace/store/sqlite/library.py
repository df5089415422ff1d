"""The SQLite library that comes with this Python."""

from __future__ import annotations

import sqlite3
from contextlib import closing

#: The oldest version with everything that the store uses (upsert, the options of FTS5).
_OLDEST = (3, 35, 0)

VERSION = sqlite3.sqlite_version


def is_new_enough() -> bool:
    """Whether the store can work with this version."""
    return sqlite3.sqlite_version_info >= _OLDEST


def has_full_text() -> bool:
    """Whether it was built with FTS5."""
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5(text)")
    except sqlite3.OperationalError:
        return False
    return True
