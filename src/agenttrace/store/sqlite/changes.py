"""Rows that changed since a cursor, in pages: see ``store.rows``.

Rows are found without an index on spans, which would cost every recorded span: sessions are found by their revision,
and the spans of those sessions are looked through.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

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
    RowKind,
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
FROM processed_events WHERE {where} ORDER BY event_no
"""
#: Of one session; its responses are found by its spans, or all are looked through where it has none any more.
_OF_SESSION = " WHERE {session} = :session AND {key} > :after ORDER BY {key}"
_BY_SPANS = " WHERE response IN (SELECT response FROM spans WHERE session_id = :session) AND session_id = :session"
#: Events that still have their lines.
_RANGE = "event_no > ? AND event_no <= ? AND block_id IS NOT NULL"
_PRUNED = "SELECT count(*) FROM processed_events WHERE event_no > ? AND event_no <= ? AND block_id IS NULL"
#: The kind of a cursor inside one session.
_WHOLE = "whole"
_FILE = (
    "SELECT file_id, filepath, source, cast(round(last_read_at * 1000) AS INTEGER) FROM file_offsets WHERE file_id = ?"
)


class _Round(NamedTuple):
    """What is read: rows that changed after a revision, and events after a number; or all of one session."""

    connection: sqlite3.Connection
    since: int
    since_event: int
    until_event: int
    session: int | None = None

    def rows(self, query: str, key: str, after: int | bytes) -> sqlite3.Cursor:
        """Rows of a table with revisions that changed, in the order of their key."""
        if self.session is not None:
            order = _OF_SESSION.format(session="id" if key == "id" else "session_id", key=key)
            if key == "response" and self._has_spans():
                order = f"{_BY_SPANS} AND response > :after ORDER BY response"
            return self.connection.execute(query + order, {"session": self.session, "after": after})
        order = (_ALL if self.since < 0 else _CHANGED).format(key=key)
        return self.connection.execute(query + order, {"since": self.since, "after": after})

    def sessions(self, place: RowPlace) -> Iterator[tuple[int, RowPlace]]:
        """The changed sessions from a place on, and where to go on in the first of them."""
        first = int(place[0]) if place else -1
        if self.session is not None:
            yield self.session, place[1:]
            return
        for (number,) in self.rows("SELECT id FROM sessions", "id", first - 1).fetchall():
            yield number, place[1:] if number == first else _START

    def events(self, after: int) -> sqlite3.Cursor:
        """Events with their lines after a number."""
        if self.session is not None:
            query = _EVENTS.format(where=f"session_id = ? AND {_RANGE}")
            return self.connection.execute(query, (self.session, after, self.until_event))
        return self.connection.execute(_EVENTS.format(where=_RANGE), (after, self.until_event))

    def _has_spans(self) -> bool:
        query = "SELECT 1 FROM spans WHERE session_id = ? LIMIT 1"
        return self.connection.execute(query, (self.session,)).fetchone() is not None


#: Rows after a place, each with its own place.
Placed = Iterator[tuple[Row, RowPlace]]


def _sessions(read: _Round, place: RowPlace) -> Placed:
    for row in read.rows(_SESSIONS, "id", int(place[0]) if place else -1):
        yield _stored_session(row), (row[0],)


def _stored_session(row: Sequence[Any]) -> StoredSession:
    session = Session(**dict(zip(_SESSION_COLUMNS, row[:-1], strict=True)))
    session.copied = bool(session.copied)
    return StoredSession(session, row[-1])


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
            yield _total(row), row[:6]


def _total(row: Sequence[Any]) -> TotalRow:
    *fields, revision = row[:12]
    return TotalRow(*(*fields, _usage(row[12:]), revision))


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
    after = int(place[0]) if place else read.since_event
    for event in _with_lines(read.connection, read.events(after)):
        yield event, (event.number,)


def _with_lines(connection: sqlite3.Connection, rows: Iterable[Sequence[Any]]) -> Iterator[EventRow]:
    blocks = StoredBlocks(LineCache(_CACHED_BYTES), connection)
    for *fields, block_id, line_n in rows:
        if block_id is None:
            yield EventRow(*(*fields, 0, 0, 0, b""))
        elif (block := blocks.get(block_id)) is not None:
            line = (block.file_id, block.generation, block.offsets[line_n], block.lines[line_n])
            yield EventRow(*(*fields, *line))


def _usage(tokens: Iterable[int]) -> Usage:
    return Usage(**dict(zip(USAGE_FIELDS, tokens, strict=True)))


_ROWS_AFTER = """
SELECT (SELECT count(*) FROM sessions WHERE revision > :revision)
    + (SELECT count(*) FROM responses WHERE revision > :revision)
    + (SELECT count(*) FROM spans WHERE revision > :revision)
    + (SELECT count(*) FROM processed_events WHERE event_no > :event AND block_id IS NOT NULL)
"""

#: In the order in which they are read.
_READERS: dict[RowKind, Callable[[_Round, RowPlace], Placed]] = {
    "session": _sessions,
    "removed": _removed,
    "link": _links,
    "total": _totals,
    "span": _spans,
    "response": _responses,
    "annotation": _annotations,
    "event": _events,
}


def changes(
    connection: sqlite3.Connection, cursor: ChangesCursor, limit: int, kinds: Collection[RowKind] | None = None
) -> Changes:
    """About ``limit`` rows that changed after the cursor, and the cursor to go on with."""
    wanted = [kind for kind in _READERS if kinds is None or kind in kinds]
    while True:
        if not cursor.kind:
            now = _now(connection)
            if now == cursor.until:
                return Changes([], cursor)
            cursor = ChangesCursor(cursor.until, now, wanted[0])
        rows, cursor = _page(connection, cursor, limit, wanted)
        if rows:
            return Changes([*_files(connection, rows), *rows], cursor)


def changes_end(connection: sqlite3.Connection) -> ChangesCursor:
    """The cursor after all that is there now."""
    now = _now(connection)
    return ChangesCursor(now, now)


def _now(connection: sqlite3.Connection) -> tuple[int, int]:
    """The last revision and the last event."""
    return last_revision(connection), last_event(connection)


def _page(
    connection: sqlite3.Connection, cursor: ChangesCursor, limit: int, kinds: list[RowKind]
) -> tuple[list[Row], ChangesCursor]:
    """The next rows of a round; none where the last page ended with its last row."""
    read = _Round(connection, cursor.since[0], cursor.since[1], cursor.until[1])
    rows, place = _read(read, kinds, cursor.kind, cursor.place, limit)
    if place is None:
        return rows, ChangesCursor(cursor.until, cursor.until)
    return rows, ChangesCursor(cursor.since, cursor.until, place[0], place[1])


def _read(
    read: _Round, kinds: Sequence[RowKind], first: str, after: RowPlace, limit: int
) -> tuple[list[Row], tuple[str, RowPlace] | None]:
    """Rows of these kinds from a place on, and the kind and place to go on after; ``None`` at the end."""
    rows: list[Row] = []
    size = 0
    names: list[str] = [*kinds]
    for kind in kinds[names.index(first) :]:
        for row, place in _READERS[kind](read, after if kind == first else _START):
            rows.append(row)
            size += _size(row)
            if len(rows) >= limit or size >= _PAGE_BYTES:
                return rows, (kind, place)
    return rows, None


def session_cursor(between: ChangesCursor, session: int) -> ChangesCursor:
    """Where all rows of one session begin, between two rounds of reading."""
    return ChangesCursor(between.until, between.until, _WHOLE, (session,))


def whole_session(cursor: ChangesCursor) -> int | None:
    """The session inside which a cursor is, where it is inside one."""
    return int(cursor.place[0]) if cursor.kind == _WHOLE else None


def session_changes(connection: sqlite3.Connection, cursor: ChangesCursor, limit: int) -> Changes:
    """About ``limit`` rows of the session that a cursor is in; after the last one it is between two rounds again."""
    session, *place = cursor.place
    read = _Round(connection, -1, 0, last_event(connection), int(session))
    kinds: list[RowKind] = [kind for kind in _READERS if kind != "removed"]
    rows, found = _read(read, kinds, str(place[0]) if place else kinds[0], tuple(place[1:]), limit)
    if found is None:
        return Changes(_files(connection, rows) + rows, ChangesCursor(cursor.until, cursor.until))
    after = ChangesCursor(cursor.until, cursor.until, _WHOLE, (session, found[0], *found[1]))
    return Changes(_files(connection, rows) + rows, after)


def pruned_events(connection: sqlite3.Connection, after: int, until: int) -> int:
    """How many events in a range have lost their lines."""
    return int(connection.execute(_PRUNED, (after, until)).fetchone()[0])


def rows_of_session(
    connection: sqlite3.Connection, session: int
) -> list[StoredSession | LinkRow | TotalRow | StoredSpan | EventRow | FileOfLines]:
    """The session with its links, totals, spans, events and their files; those of each kind in their order."""
    start = {"session": session, "since": -1, "scope": "", "whose": "", "name": "", "moment": -1, "model": ""}
    ask = connection.execute
    events = list(_with_lines(connection, ask(_EVENTS.format(where="session_id = ?"), (session,))))
    return [
        *map(_stored_session, ask(f"{_SESSIONS} WHERE id = ?", (session,))),
        *(LinkRow(*row) for row in ask(_LINKS, (session, ""))),
        *map(_total, ask(_TOTALS, start)),
        *(StoredSpan(*row) for row in ask(_SPANS, (session, -1, -1))),
        *events,
        *_files(connection, events),
    ]


def rows_after(connection: sqlite3.Connection, cursor: ChangesCursor) -> int:
    """About how many rows changed after the cursor."""
    revision, event = cursor.since if cursor.kind else cursor.until
    return int(connection.execute(_ROWS_AFTER, {"revision": revision, "event": event}).fetchone()[0])


def _size(row: Row) -> int:
    """About how many bytes a row takes, where that may be many."""
    if isinstance(row, EventRow):
        return len(row.raw)
    if isinstance(row, AnnotationRow):
        return len(row.text)
    return len(row.attributes or "") if isinstance(row, StoredSpan) else 0


def _files(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[FileOfLines]:
    """The files that the lines among these rows came from."""
    numbers = {row.file_id for row in rows if isinstance(row, EventRow)}
    return [FileOfLines(*row) for number in sorted(numbers) for row in connection.execute(_FILE, (number,))]
