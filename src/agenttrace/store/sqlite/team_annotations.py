"""Annotations that machines sent to a team's store; those that people made there are beside them.

What a machine sends again does not undo what people changed.
"""

from __future__ import annotations

import sqlite3
import time

import msgspec

from agenttrace.store.rows import AnnotationRow
from agenttrace.store.sqlite.annotations import ANNOTATION_ROWS, write_rows
from agenttrace.store.sqlite.team_bag import Copy

_KNOWN = "SELECT row FROM team_annotations WHERE annotation_id = ? AND source = ?"
_PUT = "INSERT OR REPLACE INTO team_annotations (annotation_id, source, session_id, row) VALUES (?, ?, ?, ?)"
_OF_COPY = "SELECT row FROM team_annotations WHERE session_id = ? AND source = ?"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnnotationRow).decode


class TeamAnnotations:
    """Writes annotations inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection, revision: int) -> None:
        self._connection, self._revision = connection, revision

    def put(self, source: int, row: AnnotationRow, *, shown: bool) -> None:
        """Store what a source says of an annotation, if it says something else than before."""
        found = self._connection.execute(_KNOWN, (row.annotation_id, source)).fetchone()
        if found is not None and _decode(found[0]) == row:
            return
        self._connection.execute(_PUT, (row.annotation_id, source, row.session, _encode(row)))
        if shown:
            self._write(row)

    def show(self, copy: Copy) -> None:
        """The copy that they belong to is shown now."""
        for row in self._of_copy(copy):
            self._write(row)

    def hide(self, copy: Copy) -> None:
        """The copy that they belong to is not shown any more."""
        for row in self._of_copy(copy):
            query = f"{ANNOTATION_ROWS} WHERE annotation_id = ? AND removed_at IS NULL"
            if self._connection.execute(query, (row.annotation_id,)).fetchone() is not None:
                self._write(msgspec.structs.replace(row, text="", removed_at=time.time()))

    def remove(self, copy: Copy, *, shown: bool) -> None:
        """There is no such copy any more."""
        if shown:
            self.hide(copy)
        query = "DELETE FROM team_annotations WHERE session_id = ? AND source = ?"
        self._connection.execute(query, copy)

    def _of_copy(self, copy: Copy) -> list[AnnotationRow]:
        return [_decode(row) for (row,) in self._connection.execute(_OF_COPY, copy)]

    def _write(self, row: AnnotationRow) -> None:
        write_rows(self._connection, [msgspec.structs.replace(row, revision=self._revision)])
