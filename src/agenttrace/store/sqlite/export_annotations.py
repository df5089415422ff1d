"""Which notes, scores, labels and stars were sent where: the ledger of annotations.

A row is written as ``sending`` with the revision before anything leaves. An annotation is due at a destination while
it has another revision than its row, and once the destination has acknowledged the span that it stands beside: its own,
or a turn of its session.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection
from typing import Literal, NamedTuple

from agenttrace.store.annotations import Annotation
from agenttrace.store.sqlite.annotations import annotation_by_id
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.revisions import next_revision

AnnotationState = Literal["sending", "acknowledged", "refused"]

#: A removed one is due where it may have arrived.
_DUE = """
SELECT a.annotation_id, a.session_id, a.span_id, a.revision, a.removed_at IS NOT NULL, e.state
FROM annotations a LEFT JOIN export_annotations e
    ON e.destination_id = :destination AND e.annotation_id = a.annotation_id
WHERE (
    iif(a.removed_at IS NULL, e.revision IS NULL, FALSE)
    OR (e.revision IS NOT NULL AND (e.state = 'sending' OR (e.revision < a.revision
        AND (a.removed_at IS NULL OR e.state <> 'refused'))))
) AND {chosen}
ORDER BY a.revision, a.annotation_id
"""
_ACKNOWLEDGED = "SELECT state = 'acknowledged' FROM export_spans WHERE destination_id = ? AND span_id = ?"
_TURN = """
SELECT s.span_id FROM spans s JOIN export_spans x
    ON x.destination_id = ? AND x.span_id = s.span_id AND x.state = 'acknowledged'
WHERE s.session_id = ? AND s.kind = 'turn' AND s.parent_id IS NULL ORDER BY s.start DESC, s.span_id DESC LIMIT 1
"""
_WRITE = """
INSERT OR REPLACE INTO export_annotations (destination_id, annotation_id, revision, state, at, reason)
VALUES (?, ?, ?, ?, ?, ?)
"""


_AGAIN = """
UPDATE annotations SET revision = :revision WHERE removed_at IS NULL AND annotation_id IN (
    SELECT annotation_id FROM export_annotations WHERE destination_id = :destination AND state = 'refused'
)
"""


class DueAnnotation(NamedTuple):
    """An annotation that a destination does not have as it is now."""

    annotation_id: bytes
    session: int
    revision: int
    #: The span of the destination that it stands beside; none for one that is to be removed there.
    span_id: bytes | None
    #: ``None`` where it was removed.
    annotation: Annotation | None
    #: Whether an earlier revision may be there.
    known: bool


class ExportedAnnotations:
    """The ledger, through one connection that may write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def revision(self) -> int:
        """Grows with every change of an annotation."""
        query = "SELECT coalesce(max(revision), 0) FROM annotations"
        return int(self._connection.execute(query).fetchone()[0])

    def due(self, destination: int, limit: int, since: int = -1, sessions: Collection[int] = ()) -> list[DueAnnotation]:
        """Those that can be sent now, the oldest first; of those changed after a revision, or beside these sessions."""
        chosen = "TRUE" if since < 0 else f"(a.revision > {since} OR a.session_id IN ({', '.join(map(str, sessions))}))"
        found: list[DueAnnotation] = []
        turns: dict[int, bytes | None] = {}
        for key, session, span, revision, removed, state in self._connection.execute(
            _DUE.format(chosen=chosen), {"destination": destination}
        ).fetchall():
            if len(found) == limit:
                break
            if removed:
                found.append(DueAnnotation(key, session, revision, None, None, True))
                continue
            place = self._place(destination, session, span, turns)
            annotation = None if place is None else annotation_by_id(self._connection, key)
            if annotation is not None:
                found.append(DueAnnotation(key, session, revision, place, annotation, state is not None))
        return found

    def _place(
        self, destination: int, session: int, span: bytes | None, turns: dict[int, bytes | None]
    ) -> bytes | None:
        """The acknowledged span that an annotation stands beside; ``None`` where there is none yet."""
        if span is not None:
            row = self._connection.execute(_ACKNOWLEDGED, (destination, span)).fetchone()
            return span if row is not None and row[0] else None
        if session not in turns:
            row = self._connection.execute(_TURN, (destination, session)).fetchone()
            turns[session] = None if row is None else row[0]
        return turns[session]

    def mark(self, destination: int, due: DueAnnotation, state: AnnotationState, reason: str | None = None) -> None:
        """What became of an annotation; ``sending`` is committed before it leaves."""
        with transaction(self._connection):
            values = (destination, due.annotation_id, due.revision, state, time.time(), reason)
            self._connection.execute(_WRITE, values)

    def retry(self, destination: int) -> None:
        """Have refused ones sent again: as another revision, which an exporter that runs notices."""
        with transaction(self._connection):
            self._connection.execute(_AGAIN, {"destination": destination, "revision": next_revision(self._connection)})

    def left(self, destination: int) -> int:
        """How many can be sent now, and are not acknowledged as they are."""
        return len(self.due(destination, -1))

    def counts(self, since: float = 0.0) -> dict[int, dict[str, int]]:
        """How many are in which state, since a moment, by destination."""
        found: dict[int, dict[str, int]] = {}
        query = "SELECT destination_id, state, count(*) FROM export_annotations WHERE at >= ? GROUP BY 1, 2"
        for destination, state, count in self._connection.execute(query, (since,)):
            found.setdefault(destination, {})[state] = count
        return found

    def refused(self, destination: int, limit: int = 20) -> list[tuple[bytes, str]]:
        """The latest that a destination refused, and why."""
        query = """
        SELECT annotation_id, coalesce(reason, '') FROM export_annotations
        WHERE destination_id = ? AND state = 'refused' ORDER BY at DESC LIMIT ?
        """
        return [(row[0], row[1]) for row in self._connection.execute(query, (destination, limit))]
