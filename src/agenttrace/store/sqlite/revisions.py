"""Revisions of rows, and which rows were removed: what copies of a store are kept in step by."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

from agenttrace.store.rows import RemovedKind

#: Every change revises its session, except that of an annotation.
_LAST = """
SELECT max((SELECT coalesce(max(revision), 0) FROM sessions), (SELECT coalesce(max(revision), 0) FROM annotations))
"""
_REVISE = "UPDATE sessions SET revision = ? WHERE id = ?"
_NOTE = """
INSERT OR REPLACE INTO removed (kind, session_id, key, revision, last_event)
VALUES (?, ?, ?, ?, (SELECT coalesce(max(event_no), 0) FROM processed_events))
"""


def last_revision(connection: sqlite3.Connection) -> int:
    """The revision of the last commit; 0 where there is none."""
    return int(connection.execute(_LAST).fetchone()[0])


def next_revision(connection: sqlite3.Connection) -> int:
    """The revision of the rows of this transaction: milliseconds, and always more than the last one.

    A store that was restored from a backup goes on with larger revisions than those it lost.
    """
    return max(last_revision(connection) + 1, int(time.time() * 1000))


def revise_sessions(connection: sqlite3.Connection, sessions: Iterable[int], revision: int) -> None:
    """Mark sessions as changed, of which other rows than their own have this revision."""
    connection.executemany(_REVISE, ((revision, session) for session in sessions))


def note_removed(connection: sqlite3.Connection, rows: Iterable[tuple[RemovedKind, int, bytes]], revision: int) -> None:
    """Remember that these rows were removed: kind, session, and key in it."""
    connection.executemany(_NOTE, ((*row, revision) for row in rows))
