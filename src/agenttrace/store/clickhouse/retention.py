"""Removing what sessions said, for good: when their time is over, or with the person whose they were.

Their rows are noted first, so that nothing which comes later brings texts back; then the texts are removed from the
disks of all replicas, and from the rows of the sessions last, so that a run that was interrupted is continued by the
next one. What responses cost stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from agenttrace.model import Session
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.numbers import NUMBERS
from agenttrace.store.clickhouse.relations import EVENTS, SESSIONS
from agenttrace.store.clickhouse.tables import Table
from agenttrace.store.rows import (
    AnnotationRow,
    EventRow,
    FileOfLines,
    LinkRow,
    StoredSession,
    StoredSpan,
    TotalRow,
)

#: Why: a session's time was over, or its person was removed.
Reason = Literal["time", "person"]

_FORGOTTEN = Table.of("forgotten", "session", "origin", "reason", "last_event")
#: Of all origins of a session.
_ALL = ""
#: Sessions whose texts are removed at a time: each time tables are written anew.
_PORTION = 10_000
_KNOWN = "SELECT session, reason FROM forgotten FINAL WHERE session IN :numbers"
_OLD_DATED = f"SELECT id, coalesce(project, '') FROM {SESSIONS} WHERE events > 0 AND last_at < :before"
_OLD_UNDATED = f"""
SELECT id, coalesce(project, '') FROM {SESSIONS} WHERE events > 0 AND last_at IS NULL AND id NOT IN (
    SELECT session FROM {EVENTS} WHERE session IN (SELECT id FROM sessions WHERE last_at IS NULL)
        AND recorded_at * 1000000 >= :before
)
"""
_OF_PERSON = "SELECT DISTINCT id FROM sessions FINAL WHERE person = :person"
_DELETED = ("spans", "links", "totals", "texts", "outcomes")
_EMPTIED: dict[Reason, str] = {
    "time": "title = NULL, first_prompt = NULL, branch = NULL, state = 'ended', turns = 0, steps = 0, tools = 0, "
    "errors = 0, events = 0, folded_title = '', folded_words = ''",
}
_EMPTIED["person"] = f"{_EMPTIED['time']}, project = NULL, person = NULL, folded_project = ''"
_FILES = "SELECT DISTINCT file_id FROM events WHERE session IN :numbers"


def old_sessions(database: Database, before: int, project: str | None = None) -> list[int]:
    """The sessions that ended before a moment, in directories that match a glob."""
    found = [row for query in (_OLD_DATED, _OLD_UNDATED) for row in database.rows(query, before=before)]
    return [number for number, name in found if project is None or fnmatchcase(name, project)]


def sessions_of(database: Database, person: str) -> list[int]:
    """The sessions of a person, in all copies."""
    return [row[0] for row in database.rows(_OF_PERSON, person=person)]


def forget(database: Database, numbers: Sequence[int], reason: Reason) -> int:
    """Remove what these sessions said, in all copies; with a person also directories, and whose they were."""
    for start in range(0, len(numbers), _PORTION):
        _forget(database, list(numbers[start : start + _PORTION]), reason)
    return len(numbers)


def _forget(database: Database, numbers: list[int], reason: Reason) -> None:
    came = NUMBERS.one()
    known: dict[int, Reason] = dict(database.rows(_KNOWN, numbers=numbers))
    # What was removed with a person stays so when its time is over.
    rows = [(number, _ALL, reason, 0, came, 0, came) for number in numbers if known.get(number) != "person"]
    database.insert(_FORGOTTEN.name, _FORGOTTEN.columns, rows)
    if reason == "person":
        files = [row[0] for row in database.rows(_FILES, numbers=numbers)]
        _change(database, "files", "UPDATE path = '', source = NULL", "file_id", files)
        _change(database, "annotations", "DELETE", "session", numbers)
    for table in _DELETED:
        _change(database, table, "DELETE", "session", numbers)
    _change(database, "events", "UPDATE raw = NULL, span_id = NULL", "session", numbers)
    _change(database, "sessions", f"UPDATE {_EMPTIED[reason]}", "id", numbers)


def _change(database: Database, table: str, change: str, column: str, numbers: Collection[int]) -> None:
    """Change rows in place, on all replicas before this returns."""
    where = f"WHERE {column} IN :numbers SETTINGS mutations_sync = 2"
    database.command(f"ALTER TABLE {table}{database.on_cluster} {change} {where}", numbers=list(numbers))


# -- rows that come later -----------------------------------------------------------------------------------------


class Forgotten:
    """Which sessions of a page have no texts any more, and what may be stored of them."""

    def __init__(self, database: Database, rows: Iterable[Any]) -> None:
        numbers = {_session_of(row) for row in rows} - {None}
        found = database.rows(_KNOWN, numbers=sorted(filter(None, numbers))) if numbers else []
        self._known: dict[int | None, Reason] = dict(found)

    def allowed(self, rows: Sequence[Any]) -> list[Any]:
        """The rows without texts that were removed."""
        if not self._known:
            return list(rows)
        left = [self._emptied(row) for row in rows if isinstance(row, StoredSession) or not self._has(row)]
        files = {row.file_id for row in left if isinstance(row, EventRow)}
        return [row for row in left if not isinstance(row, FileOfLines) or row.file_id in files]

    def _has(self, row: object) -> bool:
        return _session_of(row) in self._known

    def _emptied(self, row: object) -> object:
        if not isinstance(row, StoredSession) or not self._has(row):
            return row
        return msgspec.structs.replace(row, session=_emptied(row.session, self._known[row.session.id]))


def _session_of(row: object) -> int | None:
    """The session whose texts a row may have."""
    if isinstance(row, StoredSession):
        return row.session.id
    texts = (StoredSpan, LinkRow, TotalRow, EventRow, AnnotationRow)
    return row.session if isinstance(row, texts) else None


def _emptied(session: Session, reason: Reason) -> Session:
    nothing = {"title": None, "first_prompt": None, "branch": None, "state": "ended"}
    counts = dict.fromkeys(("turns", "steps", "tools", "errors", "events"), 0)
    whose = {"project": None, "person": None} if reason == "person" else {}
    return msgspec.structs.replace(session, **nothing, **counts, **whose)
