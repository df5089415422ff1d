"""Rows that changed since a cursor, in pages: see ``store.rows``.

The revision of a row is that of this store: when a page of a machine came, or what rows that were merged had. Servers
write beside each other, so a round begins some seconds before the last one ended, and rows may come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from agenttrace.model import USAGE_FIELDS, Session, Usage
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.lately import overlapping
from agenttrace.store.clickhouse.relations import (
    ANNOTATIONS,
    COUNTED,
    EVENTS,
    LINKS,
    REMOVED,
    SESSIONS,
    SPANS,
    TOTALS,
)
from agenttrace.store.clickhouse.tables import SESSION_FIELDS, SPAN_FIELDS
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

#: A page of lines ends after so many bytes.
_PAGE_BYTES = 4 << 20
_TOKENS = len(USAGE_FIELDS)
_REVISED = ("sessions", "spans", "links", "totals", "responses", "annotations", "removed")
_LAST = " UNION ALL ".join(f"SELECT max(revision) AS revision FROM {table}" for table in _REVISED)
_FILES = "SELECT file_id, path, source, intDiv(ver, 2) FROM files FINAL WHERE file_id IN :numbers ORDER BY file_id"

Values = Sequence[Any]


class _Kind(NamedTuple):
    """How the rows of a kind are read."""

    relation: str
    columns: tuple[str, ...]
    #: What they are ordered by, and the column among ``columns`` that has it; ids are in hexadecimal digits.
    key: tuple[str, ...]
    made: Callable[[Values], Row]
    #: Which rows changed.
    where: str = "revision > :since AND revision <= :until"
    #: Finds the places in the table where these are, without looking at which copies are shown.
    near: str = ""


def _usage(values: Values) -> Usage:
    return Usage(**dict(zip(USAGE_FIELDS, values, strict=True)))


def _session(values: Values) -> Row:
    session = Session(**dict(zip(SESSION_FIELDS, values[:-1], strict=True)))
    session.copied = bool(session.copied)
    return StoredSession(session, values[-1])


def _response(values: Values) -> Row:
    *fields, revision = values
    response, session, at, model, estimated, copies, terms = fields[:-_TOKENS]
    return ResponseRow(
        response, session, at, model, bool(estimated), copies, terms, _usage(fields[-_TOKENS:]), revision
    )


def _total(values: Values) -> Row:
    *fields, revision = values
    told: Values = (*fields[:-_TOKENS], _usage(fields[-_TOKENS:]), revision)
    return TotalRow(*told)


def _near(table: str) -> str:
    return f"session IN (SELECT session FROM {table} WHERE revision > :since)"


#: In the order in which they are read.
_KINDS: dict[RowKind, _Kind] = {
    "session": _Kind(SESSIONS, (*SESSION_FIELDS, "revision"), ("id",), _session),
    "removed": _Kind(
        REMOVED,
        RemovedRow.__struct_fields__,
        ("revision", "kind", "session", "key"),
        lambda values: RemovedRow(*values),
    ),
    # A link never changes: it is read with its session.
    "link": _Kind(
        LINKS,
        LinkRow.__struct_fields__,
        ("session", "stream"),
        lambda values: LinkRow(*values),
        where=f"(revision > :since OR session IN (SELECT id FROM {SESSIONS} WHERE revision > :since))",
    ),
    "total": _Kind(
        TOTALS,
        (*TotalRow.__struct_fields__[:-2], *USAGE_FIELDS, "revision"),
        ("session", "scope", "whose", "name", "moment", "model"),
        _total,
        near=_near("totals"),
    ),
    "span": _Kind(
        SPANS,
        (*SPAN_FIELDS, "revision"),
        ("session", "number"),
        lambda values: StoredSpan(*values),
        near=_near("spans"),
    ),
    "response": _Kind(
        COUNTED,
        ("response", "session", "at", "model", "estimated", "copies", "terms", *USAGE_FIELDS, "revision"),
        ("response",),
        _response,
    ),
    "annotation": _Kind(
        ANNOTATIONS,
        AnnotationRow.__struct_fields__,
        ("annotation_id",),
        lambda values: AnnotationRow(*values),
    ),
    "event": _Kind(
        EVENTS,
        EventRow.__struct_fields__,
        ("number",),
        lambda values: EventRow(*values),
        where="number > :since_event AND number <= :until_event AND raw IS NOT NULL",
    ),
}
#: Which of them are bytes, whatever they hold.
_RAW = ("raw", "key")


def changes(database: Database, cursor: ChangesCursor, limit: int, kinds: Collection[RowKind] | None = None) -> Changes:
    """About ``limit`` rows that changed after the cursor, and the cursor to go on with."""
    wanted = [kind for kind in _KINDS if kinds is None or kind in kinds]
    while True:
        if not cursor.kind:
            now = _now(database)
            if now == cursor.until:
                return Changes([], cursor)
            since = (overlapping(cursor.until[0]), overlapping(cursor.until[1]))
            cursor = ChangesCursor(since, now, wanted[0])
        rows, cursor = _page(database, cursor, limit, wanted)
        if rows:
            return Changes(_files(database, rows) + rows, cursor)


def changes_end(database: Database) -> ChangesCursor:
    """The cursor after all that is there now."""
    now = _now(database)
    return ChangesCursor(now, now)


def _now(database: Database) -> tuple[int, int]:
    """The last revision and the last event."""
    return _last_revision(database), int(database.value(f"SELECT max(number) FROM {EVENTS}") or 0)


def _last_revision(database: Database) -> int:
    return int(database.value(f"SELECT max(revision) FROM ({_LAST})") or 0)


def _page(
    database: Database, cursor: ChangesCursor, limit: int, kinds: list[RowKind]
) -> tuple[list[Row], ChangesCursor]:
    """The next rows of a round; none where the last page ended with its last row."""
    rows: list[Row] = []
    names: list[str] = [*kinds]
    for kind in kinds[names.index(cursor.kind) :]:
        place = cursor.place if kind == cursor.kind else ()
        left = limit - len(rows)
        found, last = _rows(database, _KINDS[kind], cursor, place, left)
        rows += found
        if last is not None:
            return rows, ChangesCursor(cursor.since, cursor.until, kind, last)
    return rows, ChangesCursor(cursor.until, cursor.until)


def _rows(
    database: Database, kind: _Kind, cursor: ChangesCursor, place: RowPlace, limit: int
) -> tuple[list[Row], RowPlace | None]:
    """Rows after a place, and the place of the last one where there may be more."""
    wanted: dict[str, Any] = {
        "since": cursor.since[0],
        "since_event": cursor.since[1],
        "until": cursor.until[0],
        "until_event": cursor.until[1],
    }
    tests = [kind.where, *filter(None, [kind.near])]
    if place:
        names = [f"after{number}" for number in range(len(place))]
        tests.append(f"({', '.join(map(_ordered, kind.key))},) > ({', '.join(f':{name}' for name in names)},)")
        wanted |= dict(zip(names, place, strict=True))
    # A round has what changed meanwhile in the next one, but a row that was merged with a smaller revision.
    query = f"FROM {kind.relation} WHERE {' AND '.join(tests)}"
    order = f"ORDER BY {', '.join(map(_ordered, kind.key))} LIMIT {limit}"
    if "raw" in kind.columns:
        limit = _within_size(database.rows(f"SELECT length(raw) {query} {order}", **wanted))
        order = f"ORDER BY {', '.join(kind.key)} LIMIT {limit}"
    columns = f"{', '.join(kind.columns)}, ({', '.join(map(_ordered, kind.key))},) AS place"
    raw = [name for name in kind.columns if name in _RAW]
    found = database.rows(f"SELECT {columns} {query} {order}", raw=raw, **wanted)
    rows = [kind.made(row[:-1]) for row in found]
    return rows, tuple(found[-1][-1]) if found and len(found) == limit else None


def _within_size(sizes: Sequence[tuple[Any, ...]]) -> int:
    """How many lines are a page: at least one."""
    total = 0
    for count, (size,) in enumerate(sizes, 1):
        total += size
        if total >= _PAGE_BYTES:
            return count
    return max(1, len(sizes))


def _ordered(name: str) -> str:
    """Ids in an order that a cursor can hold."""
    return f"lower(hex({name}))" if name in ("response", "annotation_id", "key") else name


def _files(database: Database, rows: Sequence[Row]) -> list[Row]:
    """The files that the lines among these rows came from."""
    numbers = sorted({row.file_id for row in rows if isinstance(row, EventRow)})
    found = database.rows(_FILES, raw=("source",), numbers=numbers) if numbers else []
    return [FileOfLines(*row) for row in found]
