"""Rows that changed since a cursor, in pages: see ``store.rows``.

Rows are found without an index on spans, which would cost every recorded span: sessions are found by their revision,
and the spans of those sessions are looked through.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from agenttrace.model import USAGE_FIELDS, Session, Usage
from agenttrace.store.line_cache import LineCache
from agenttrace.store.rows import (
    AnnotationRow,
    Changes,
    ChangesCursor,
    EventRow,
    FileOfLines,
    LinkRow,
    RemovedRow,
    ResponseRow,
    Row,
    RowPlace,
    StoredSession,
    StoredSpan,
    TotalRow,
)
from agenttrace.store.sqlite.annotations import ANNOTATION_ROWS
from agenttrace.store.sqlite.blocks import StoredBlocks
from agenttrace.store.sqlite.events import last_event
from agenttrace.store.sqlite.revisions import last_revision

#: A page of lines ends after so many bytes.
_PAGE_BYTES = 4 << 20
_CACHED_BYTES = 8 << 20
_TOKENS = ", ".join(USAGE_FIELDS)
_SESSION_COLUMNS = tuple(field.name for field in msgspec.structs.fields(Session))

#: Where reading of each kind begins.
_START: RowPlace = ()

_SESSIONS = f"SELECT {', '.join(_SESSION_COLUMNS)}, revision FROM sessions"
#: A few changed rows are found by their revision, all rows in the order of their keys.
_CHANGED = " WHERE revision > :since AND +{key} > :after ORDER BY +{key}"
_ALL = " WHERE revision > :since AND {key} > :after ORDER BY {key}"
_REMOVED = """
SELECT kind, session_id, key, revision, last_event FROM removed
WHERE revision > ? AND (revision, kind, session_id, key) > (?, ?, ?, ?) ORDER BY revision, kind, session_id, key
"""
_LINKS = "SELECT session_id, stream, parent_stream, call FROM links WHERE session_id = ? AND stream > ? ORDER BY stream"
_TOTALS = f"""
SELECT session_id, scope, whose, name, moment, model, at, since, trace_id, parent_id, turn_index, revision, {_TOKENS}
FROM totals
WHERE session_id = :session AND revision > :since AND scope <> 'pruned'
    AND (scope, whose, name, moment, model) > (:scope, :whose, :name, :moment, :model)
ORDER BY scope, whose, name, moment, model
"""
_SPANS = """
SELECT span_no, span_id, trace_id, parent_id, session_id, stream, kind, name, start, "end", status, model, turn_index,
    step_n, response, attributes, revision
FROM spans WHERE session_id = ? AND revision > ? AND span_no > ? ORDER BY span_no
"""
_RESPONSES = f"SELECT response, session_id, at, model, estimated, copies, terms, revision, {_TOKENS} FROM responses"
_EVENTS = """
SELECT event_no, session_id, event_id, turn_index, step_n, event_type, span_id, processed_at, block_id, line_n
FROM processed_events WHERE event_no > ? AND event_no <= ? AND block_id IS NOT NULL ORDER BY event_no
"""
_FILE = (
    "SELECT file_id, filepath, source, cast(round(last_read_at * 1000) AS INTEGER) FROM file_offsets WHERE file_id = ?"
)


class _Round(NamedTuple):
    """What is read: rows that changed after a revision, and events after a number."""

    connection: sqlite3.Connection
    since: int
    since_event: int
    until_event: int

    def rows(self, query: str, key: str, after: int | bytes) -> sqlite3.Cursor:
        """Rows of a table with revisions that changed, in the order of their key."""
        order = (_ALL if self.since < 0 else _CHANGED).format(key=key)
        return self.connection.execute(query + order, {"since": self.since, "after": after})

    def sessions(self, place: RowPlace) -> Iterator[tuple[int, RowPlace]]:
        """The changed sessions from a place on, and where to go on in the first of them."""
        first = int(place[0]) if place else -1
        for (number,) in self.rows("SELECT id FROM sessions", "id", first - 1).fetchall():
            yield number, place[1:] if number == first else _START


#: Rows after a place, each with its own place.
Placed = Iterator[tuple[Row, RowPlace]]


def _sessions(read: _Round, place: RowPlace) -> Placed:
    for row in read.rows(_SESSIONS, "id", int(place[0]) if place else -1):
        session = Session(**dict(zip(_SESSION_COLUMNS, row[:-1], strict=True)))
        session.copied = bool(session.copied)
        yield StoredSession(session, row[-1]), (session.id,)


def _removed(read: _Round, place: RowPlace) -> Placed:
    revision, kind, session, key = place or (read.since, "", -1, "")
    after = (read.since, revision, kind, session, bytes.fromhex(str(key)))
    for row in read.connection.execute(_REMOVED, after):
        yield RemovedRow(*row), (row[3], row[0], row[1], row[2].hex())


def _links(read: _Round, place: RowPlace) -> Placed:
    for session, after in read.sessions(place):
        for row in read.connection.execute(_LINKS, (session, after[0] if after else "")):
            yield LinkRow(*row), row[:2]


def _totals(read: _Round, place: RowPlace) -> Placed:
    for session, after in read.sessions(place):
        names = dict(zip(("scope", "whose", "name", "moment", "model"), after or ("", "", "", -1, ""), strict=True))
        for row in read.connection.execute(_TOTALS, {"session": session, "since": read.since} | names):
            *fields, revision = row[:12]
            yield TotalRow(*(*fields, _usage(row[12:]), revision)), row[:6]


def _spans(read: _Round, place: RowPlace) -> Placed:
    for session, after in read.sessions(place):
        for row in read.connection.execute(_SPANS, (session, read.since, after[0] if after else -1)):
            yield StoredSpan(*row), (session, row[0])


def _responses(read: _Round, place: RowPlace) -> Placed:
    after = bytes.fromhex(str(place[0])) if place else b""
    for response, session, at, model, estimated, copies, terms, revision, *tokens in read.rows(
        _RESPONSES, "response", after
    ):
        counted = ResponseRow(response, session, at, model, bool(estimated), copies, terms, _usage(tokens), revision)
        yield counted, (response.hex(),)


def _annotations(read: _Round, place: RowPlace) -> Placed:
    after = bytes.fromhex(str(place[0])) if place else b""
    for row in read.rows(ANNOTATION_ROWS, "annotation_id", after):
        yield AnnotationRow(*row), (row[0].hex(),)


def _events(read: _Round, place: RowPlace) -> Placed:
    blocks = StoredBlocks(LineCache(_CACHED_BYTES), read.connection)
    after = int(place[0]) if place else read.since_event
    for *fields, block_id, line_n in read.connection.execute(_EVENTS, (after, read.until_event)):
        block = blocks.get(block_id)
        if block is not None:
            line = (block.file_id, block.generation, block.offsets[line_n], block.lines[line_n])
            yield EventRow(*(*fields, *line)), (fields[0],)


def _usage(tokens: Iterable[int]) -> Usage:
    return Usage(**dict(zip(USAGE_FIELDS, tokens, strict=True)))


#: In the order in which they are read.
_READERS: dict[str, Callable[[_Round, RowPlace], Placed]] = {
    "session": _sessions,
    "removed": _removed,
    "link": _links,
    "total": _totals,
    "span": _spans,
    "response": _responses,
    "annotation": _annotations,
    "event": _events,
}


def changes(connection: sqlite3.Connection, cursor: ChangesCursor, limit: int) -> Changes:
    """About ``limit`` rows that changed after the cursor, and the cursor to go on with."""
    while True:
        if not cursor.kind:
            now = (last_revision(connection), last_event(connection))
            if now == cursor.until:
                return Changes([], cursor)
            cursor = ChangesCursor(cursor.until, now, next(iter(_READERS)))
        rows, cursor = _page(connection, cursor, limit)
        if rows:
            return Changes(_files(connection, rows) + rows, cursor)


def _page(connection: sqlite3.Connection, cursor: ChangesCursor, limit: int) -> tuple[list[Row], ChangesCursor]:
    """The next rows of a round; none where the last page ended with its last row."""
    read = _Round(connection, cursor.since[0], cursor.since[1], cursor.until[1])
    kinds = list(_READERS)
    rows: list[Row] = []
    size = 0
    for kind in kinds[kinds.index(cursor.kind) :]:
        for row, place in _READERS[kind](read, cursor.place if kind == cursor.kind else _START):
            rows.append(row)
            size += _size(row)
            if len(rows) >= limit or size >= _PAGE_BYTES:
                return rows, ChangesCursor(cursor.since, cursor.until, kind, place)
    return rows, ChangesCursor(cursor.until, cursor.until)


def _size(row: Row) -> int:
    """About how many bytes a row takes, where that may be many."""
    if isinstance(row, EventRow):
        return len(row.raw)
    if isinstance(row, AnnotationRow):
        return len(row.text)
    return len(row.attributes or "") if isinstance(row, StoredSpan) else 0


def _files(connection: sqlite3.Connection, rows: list[Row]) -> list[Row]:
    """The files that the lines among these rows came from."""
    numbers = {row.file_id for row in rows if isinstance(row, EventRow)}
    return [FileOfLines(*row) for number in sorted(numbers) for row in connection.execute(_FILE, (number,))]
