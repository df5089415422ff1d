"""Notes, scores, labels and stars beside sessions: reading, writing, searching, and copying to other stores.

A removed annotation loses its text and stays as a row, so that copies of the store remove it too, and so that what a
rule or a program wrote once does not come back. Retention keeps the annotations of pruned sessions: they are what
people said of a session, not what the session said.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from agenttrace.store.annotation_table import AnnotationTable
from agenttrace.store.annotations import Annotation, MarkRow, Marks, marks_of
from agenttrace.store.questions import SearchQuery
from agenttrace.store.rows import AnnotationRow
from agenttrace.store.sqlite.database import marks, portions, transaction
from agenttrace.store.sqlite.revisions import next_revision
from agenttrace.store.sqlite.search import match_expression, segmented
from agenttrace.store.sqlite.session_conditions import session_conditions
from agenttrace.store.sqlite.sessions import whole_session

_LAST = 2**63 - 1
_ROW = (
    "annotation_id, session_id, span_id, kind, name, value, text, source, author, created_at, changed_at, removed_at, "
    "revision"
)
_SELECT = """
SELECT annotation_id, session_id, span_id, kind, name, value, text, source, author, created_at, changed_at, revision
FROM annotations
"""
_MARKS = f"SELECT session_id, {', '.join(MarkRow._fields)} FROM annotations"
ANNOTATION_ROWS = f"SELECT {_ROW} FROM annotations"
_INSERT = f"INSERT OR REPLACE INTO annotations ({_ROW}, search_no) VALUES ({', '.join('?' * 14)})"
_PUT_WORDS = "INSERT OR REPLACE INTO annotation_search (rowid, text) VALUES (?, ?)"
_NEW_WORDS = "INSERT INTO annotation_search (text) VALUES (?)"
_MATCHING = """
SELECT a.annotation_id, a.search_no
FROM annotation_search JOIN annotations a ON a.search_no = annotation_search.rowid
    JOIN sessions s ON s.id = a.session_id
WHERE annotation_search MATCH :expression AND annotation_search.rowid < :before AND s.events > 0{where}
ORDER BY annotation_search.rowid DESC LIMIT :limit
"""
_TESTS = {
    "session": "a.session_id = :session",
    "since": "a.changed_at * 1000000 >= :since",
    "until": "a.changed_at * 1000000 < :until",
}


# -- reading ------------------------------------------------------------------------------------------------------


def annotations_of(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[Annotation]]:
    """The annotations of these sessions, the oldest first; of pruned ones too."""
    found: dict[int, list[Annotation]] = {}
    for part in portions(numbers):
        where = f"WHERE session_id IN {marks(part)} AND removed_at IS NULL ORDER BY created_at, annotation_id"
        for row in connection.execute(f"{_SELECT} {where}", part):
            found.setdefault(row[1], []).append(_annotation(row))
    return found


def marks_by_session(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Marks]:
    """What lists show of these sessions, where they have annotations."""
    found: dict[int, list[MarkRow]] = {}
    for part in portions(numbers):
        for number, *row in connection.execute(
            f"{_MARKS} WHERE session_id IN {marks(part)} AND removed_at IS NULL", part
        ):
            found.setdefault(number, []).append(MarkRow(*row))
    return {number: marks_of(rows) for number, rows in found.items()}


def annotation_by_id(connection: sqlite3.Connection, annotation_id: bytes) -> Annotation | None:
    """One annotation; ``None`` where there is none, or it was removed."""
    query = f"{_SELECT} WHERE annotation_id = ? AND removed_at IS NULL"
    row = connection.execute(query, (annotation_id,)).fetchone()
    return None if row is None else _annotation(row)


def labels(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """The labels of all sessions that have events, and of how many."""
    query = """
    SELECT a.name, count(DISTINCT a.session_id) FROM annotations a JOIN sessions s ON s.id = a.session_id
    WHERE a.kind = 'label' AND a.removed_at IS NULL AND s.events > 0 GROUP BY a.name ORDER BY 2 DESC, 1
    """
    return [(row[0], row[1]) for row in connection.execute(query)]


def annotated_since(connection: sqlite3.Connection, revision: int) -> list[int]:
    """The numbers of the sessions whose annotations changed after a revision."""
    query = "SELECT DISTINCT session_id FROM annotations WHERE revision > ?"
    return [row[0] for row in connection.execute(query, (revision,))]


def last_revision(connection: sqlite3.Connection) -> int:
    """The revision of the last change of an annotation; 0 where there is none."""
    return int(connection.execute("SELECT coalesce(max(revision), 0) FROM annotations").fetchone()[0])


def search(connection: sqlite3.Connection, query: SearchQuery) -> list[tuple[int, Annotation]]:
    """The annotations that match, the latest written first, with the number that a further page goes before."""
    expression = match_expression(query.text)
    if not expression:
        return []
    where, values = session_conditions(
        agents=query.agents,
        projects=query.projects,
        project_contains=query.project_contains,
        machines=query.machines,
        persons=query.persons,
    )
    for name, test in _TESTS.items():
        if getattr(query, name) is not None:
            where += f" AND {test}"
            values[name] = getattr(query, name)
    before = _LAST if query.before is None else query.before
    values |= {"expression": expression, "before": before, "limit": query.limit}
    found = connection.execute(_MATCHING.format(where=where), values).fetchall()
    read = ((number, annotation_by_id(connection, key)) for key, number in found)
    return [(number, annotation) for number, annotation in read if annotation is not None]


def _annotation(row: Sequence[Any]) -> Annotation:
    return Annotation(**dict(zip(Annotation.__struct_fields__, row, strict=True)))


# -- writing ------------------------------------------------------------------------------------------------------


class SqliteAnnotations(AnnotationTable):
    """Writes annotations; each change is a transaction of its own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._connection)

    def _next_revision(self) -> int:
        return next_revision(self._connection)

    def _whole_session(self, session: int) -> int:
        return whole_session(self._connection, session)

    def _row(self, key: bytes) -> AnnotationRow | None:
        row = self._connection.execute(f"{ANNOTATION_ROWS} WHERE annotation_id = ?", (key,)).fetchone()
        return None if row is None else AnnotationRow(*row)

    def _named(self, session: int, kind: str, name: str) -> list[AnnotationRow]:
        query = f"{ANNOTATION_ROWS} WHERE session_id = ? AND kind = ? AND name = ?"
        return [AnnotationRow(*row) for row in self._connection.execute(query, (session, kind, name))]

    def _counts(self, session: int) -> tuple[int, int] | None:
        if self._connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone() is None:
            return None
        query = "SELECT count(*), coalesce(sum(removed_at IS NULL), 0) FROM annotations WHERE session_id = ?"
        rows, present = self._connection.execute(query, (session,)).fetchone()
        return rows, present

    def _write(self, rows: Sequence[AnnotationRow]) -> None:
        write_rows(self._connection, rows)


def write_rows(connection: sqlite3.Connection, rows: Iterable[AnnotationRow]) -> None:
    """Store rows and their words for search, inside the caller's transaction."""
    for row in rows:
        number = _indexed(connection, row)
        connection.execute(_INSERT, (*msgspec.structs.astuple(row), number))


def _indexed(connection: sqlite3.Connection, row: AnnotationRow) -> int | None:
    """Store the words of a row; its number in the index, which stays when its text changes."""
    query = "SELECT search_no FROM annotations WHERE annotation_id = ?"
    known: int | None = next((found[0] for found in connection.execute(query, (row.annotation_id,))), None)
    words = segmented("\n".join(filter(None, (row.name, row.text)))) if row.removed_at is None else ""
    if words and known is None:
        return connection.execute(_NEW_WORDS, (words,)).lastrowid
    if words:
        connection.execute(_PUT_WORDS, (known, words))
        return known
    if known is not None:
        connection.execute("DELETE FROM annotation_search WHERE rowid = ?", (known,))
    return None


def reindex(connection: sqlite3.Connection) -> None:
    """Make the words of all annotations anew, after rows were copied whole."""
    connection.execute("DELETE FROM annotation_search")
    connection.execute("UPDATE annotations SET search_no = NULL")
    found = connection.execute(f"{ANNOTATION_ROWS} ORDER BY created_at, annotation_id").fetchall()
    write_rows(connection, (AnnotationRow(*row) for row in found))


def merge(connection: sqlite3.Connection, rows: Iterable[AnnotationRow]) -> None:
    """Store the rows that are newer than those of this store; of several of one id the newest."""
    newest: dict[bytes, AnnotationRow] = {}
    for row in rows:
        if row.annotation_id not in newest or row.revision > newest[row.annotation_id].revision:
            newest[row.annotation_id] = row
    query = "SELECT revision FROM annotations WHERE annotation_id = ?"
    for row in newest.values():
        known = connection.execute(query, (row.annotation_id,)).fetchone()
        if known is None or row.revision > known[0]:
            write_rows(connection, [row])
