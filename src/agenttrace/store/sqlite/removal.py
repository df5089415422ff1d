"""Removes everything that was recorded from the logs of a directory: the demo data.

Each session goes in a transaction of its own, and the rows of the files, by which the sessions are found, go last. A
run that is interrupted is continued by the next one.
"""

from __future__ import annotations

import sqlite3
import time

import msgspec

from agenttrace.ids import session_number
from agenttrace.store.batch import BLOCK_BITS
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.revisions import next_revision, note_removed
from agenttrace.store.sqlite.search import SearchIndex

#: An index of at most so many events is made anew at once; a larger one loses the words when it is rebuilt.
_REINDEXED = 50_000

_FILES = "SELECT file_id, source FROM file_offsets WHERE substr(filepath, 1, length(:top)) = :top"
_RESPONSES = "SELECT response FROM responses WHERE session_id = ?"
_ANNOTATIONS = "SELECT annotation_id, search_no FROM annotations WHERE session_id = ?"
#: The newest event stays, without an id that a line could have: a new event must not get its number, under which the
#: search index, or a copy of the store, may know another one.
_KEEP_NEWEST = """
UPDATE processed_events SET event_id = randomblob(16), span_id = NULL, block_id = NULL, line_n = NULL
WHERE session_id = ?1 AND event_no = (SELECT max(event_no) FROM processed_events)
"""
_EVENTS = """
DELETE FROM processed_events
WHERE session_id = ?1 AND event_no < (SELECT max(event_no) FROM processed_events)
"""
_OF_SESSION = (
    "spans",
    "streams",
    "links",
    "outcomes",
    "totals",
    "usage_rollup",
    "pruned",
    "annotations",
    "export_touched",
    "export_spans",
    "rule_sessions",
    "rule_events",
)


class _Source(msgspec.Struct):
    """Of what a format remembers of a file, whose it is."""

    agent: str
    session_id: str


class Removal:
    """Removes recorded data for good, its usage included."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def sessions_below(self, directory: str) -> set[int]:
        """The numbers of the sessions that were recorded from files in this directory."""
        return {number for _, number in self._files(directory) if number is not None}

    def remove_below(self, directory: str) -> int:
        """Remove what was recorded from files in this directory; how many sessions."""
        files = self._files(directory)
        numbers = {number for _, number in files if number is not None}
        for number in sorted(numbers):
            self._remove_session(number)
        for file, _ in files:
            self._remove_file(file)
        if files:
            remove_words(self._connection)
        return len(numbers)

    def _files(self, directory: str) -> list[tuple[int, int | None]]:
        rows = self._connection.execute(_FILES, {"top": directory.rstrip("/\\") + "/"}).fetchall()
        return [(file, _session_of(source)) for file, source in rows]

    def _remove_session(self, number: int) -> None:
        connection = self._connection
        with transaction(connection):
            revision = next_revision(connection)
            responses = [row[0] for row in connection.execute(_RESPONSES, (number,))]
            ledger.replace(connection, responses, (), day_of=lambda _: "", revision=revision)
            annotations = connection.execute(_ANNOTATIONS, (number,)).fetchall()
            for table, column, place in (("export_annotations", "annotation_id", 0), ("annotation_search", "rowid", 1)):
                values = ((row[place],) for row in annotations if row[place] is not None)
                connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", values)
            connection.execute(_KEEP_NEWEST, (number,))
            connection.execute(_EVENTS, (number,))
            for table in _OF_SESSION:
                connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (number,))
            connection.execute("DELETE FROM sessions WHERE id = ?", (number,))
            note_removed(connection, [("session", number, b"")], revision)
            note_removed(connection, [("response", 0, response) for response in responses], revision)

    def _remove_file(self, number: int) -> None:
        first = number << BLOCK_BITS
        with transaction(self._connection):
            self._connection.execute(
                "DELETE FROM raw_blocks WHERE block_id BETWEEN ? AND ?", (first, first + (1 << BLOCK_BITS) - 1)
            )
            self._connection.execute("DELETE FROM quarantine WHERE file_id = ?", (number,))
            self._connection.execute("DELETE FROM file_offsets WHERE file_id = ?", (number,))


def remove_words(connection: sqlite3.Connection) -> None:
    """Words of removed events are not found; here they leave the index as well."""
    index = SearchIndex(connection)
    (events,) = connection.execute("SELECT count(*) FROM processed_events").fetchone()
    if events <= _REINDEXED:
        index.reset()
    else:
        index.mark_stale(time.time())


def _session_of(source: bytes | None) -> int | None:
    try:
        found = None if source is None else msgspec.json.decode(source, type=_Source)
    except msgspec.MsgspecError:
        return None
    return None if found is None else session_number(found.agent, found.session_id)
