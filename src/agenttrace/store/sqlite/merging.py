"""Rows of another store, merged into this one: see ``store.rows``.

Everything is decided by keys and revisions, never by what came first. A number of a span belongs to the row with the
larger revision, because the first store gives the number of a removed span to another one.
"""

from __future__ import annotations

import sqlite3
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import zstandard

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.batch import BLOCK_BITS, COMPRESSION_LEVEL
from agenttrace.store.rows import (
    AnnotationRow,
    EventRow,
    FileOfLines,
    LinkRow,
    RemovedRow,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
    TotalRow,
)
from agenttrace.store.sqlite import annotations as annotation_rows
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.events import last_event
from agenttrace.store.sqlite.files import Files, merge_files
from agenttrace.store.sqlite.search import SearchIndex
from agenttrace.store.sqlite.totals import INSERT_TOTALS
from agenttrace.store.sqlite.writing import INSERT_BLOCK, INSERT_LINK, UPSERT_SESSION, known_event_ids, touch

Revised = TypeVar("Revised", StoredSession, StoredSpan, ResponseRow, TotalRow, FileOfLines, RemovedRow)

#: Less than every revision.
_NEVER = -1

_INSERT_SPAN = f"""
INSERT OR REPLACE INTO spans
    (span_no, span_id, trace_id, parent_id, session_id, stream, kind, name, start, "end", status, model, turn_index,
     step_n, response, attributes, revision, changed)
VALUES ({", ".join("?" * 18)})
"""
_INSERT_REMOVED = "INSERT OR REPLACE INTO removed (kind, session_id, key, revision, last_event) VALUES (?, ?, ?, ?, ?)"
_INSERT_EVENT = """
INSERT INTO processed_events
    (event_no, session_id, event_id, turn_index, step_n, event_type, span_id, processed_at, block_id, line_n)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DELETE_SPAN = "DELETE FROM spans WHERE session_id = :session AND span_id = :key AND revision <= :revision"
#: All of a session that became part of another one.
_DELETE_ALL = (
    "DELETE FROM spans WHERE session_id = :session AND revision <= :revision",
    "DELETE FROM processed_events WHERE session_id = :session AND event_no <= :last_event",
)
_TOTAL_REVISION = """
SELECT revision FROM totals
WHERE session_id = ? AND scope = ? AND whose = ? AND name = ? AND moment = ? AND model = ?
"""


def merge(connection: sqlite3.Connection, rows: Iterable[Row], *, day_of: Callable[[int], str]) -> None:
    """Merge rows, all of them or none."""
    kinds: dict[type, list[Any]] = defaultdict(list)
    for row in rows:
        kinds[type(row)].append(row)
    with transaction(connection):
        gone = _merge_removed(connection, _newest(kinds[RemovedRow], lambda row: (row.kind, row.session, row.key)))
        responses = _newest(kinds[ResponseRow], lambda row: row.response)
        spans = _newest(kinds[StoredSpan], lambda row: (row.session, row.span_id))
        removed = _Removed(connection, responses, spans, kinds[EventRow])
        _merge_sessions(connection, _newest(kinds[StoredSession], lambda row: row.session.id))
        connection.executemany(INSERT_LINK, map(msgspec.structs.astuple, kinds[LinkRow]))
        _merge_totals(connection, _newest(kinds[TotalRow], total_key))
        merge_files(connection, _newest(kinds[FileOfLines], lambda row: row.file_id))
        ledger.merge(connection, filter(removed.allows_response, responses), gone, day_of=day_of)
        _merge_events(connection, list(filter(removed.allows_event, kinds[EventRow])))
        _merge_spans(connection, list(filter(removed.allows_span, spans)))
        annotation_rows.merge(connection, kinds[AnnotationRow])


def _newest(rows: Iterable[Revised], key: Callable[[Revised], Hashable]) -> list[Revised]:
    """Of the rows of each key the one with the largest revision."""
    found: dict[Hashable, Revised] = {}
    for row in rows:
        name = key(row)
        if name not in found or row.revision > found[name].revision:
            found[name] = row
    return list(found.values())


# -- rows that were removed ---------------------------------------------------------------------------------------


class _Removed:
    """Which of these rows were removed after they had been written."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        responses: Iterable[ResponseRow],
        spans: Iterable[StoredSpan],
        events: Iterable[EventRow],
    ) -> None:
        sessions = {span.session for span in spans} | {event.session for event in events}
        wanted = [("response", 0, row.response) for row in responses]
        wanted += [("span", span.session, span.span_id) for span in spans]
        wanted += [("session", session, b"") for session in sessions]
        self._known = _removed(connection, wanted)

    def allows_response(self, row: ResponseRow) -> bool:
        """Whether a response is there."""
        return row.revision > self._at("response", 0, row.response)[0]

    def allows_span(self, row: StoredSpan) -> bool:
        """Whether a span is there, in this session."""
        alone, together = self._at("span", row.session, row.span_id), self._at("session", row.session, b"")
        return row.revision > max(alone[0], together[0])

    def allows_event(self, row: EventRow) -> bool:
        """Whether an event is there, in this session."""
        return row.number > self._at("session", row.session, b"")[1]

    def _at(self, kind: str, session: int, key: bytes) -> tuple[int, int]:
        return self._known.get((kind, session, key), (_NEVER, _NEVER))


def _removed(
    connection: sqlite3.Connection, wanted: Iterable[tuple[str, int, bytes]]
) -> dict[tuple[str, int, bytes], tuple[int, int]]:
    """Revision and last event of these removals, as far as they are known."""
    if connection.execute("SELECT 1 FROM removed LIMIT 1").fetchone() is None:
        return {}
    query = "SELECT revision, last_event FROM removed WHERE kind = ? AND session_id = ? AND key = ?"
    return {key: row for key in wanted for row in connection.execute(query, key)}


def _merge_removed(connection: sqlite3.Connection, rows: Sequence[RemovedRow]) -> list[RemovedRow]:
    """Delete rows; the responses among them come back for the ledger."""
    known = _removed(connection, [(row.kind, row.session, row.key) for row in rows])
    fresh = [row for row in rows if row.revision > known.get((row.kind, row.session, row.key), (_NEVER, 0))[0]]
    connection.executemany(_INSERT_REMOVED, map(msgspec.structs.astuple, fresh))
    for row in fresh:
        statements = {"span": (_DELETE_SPAN,), "session": _DELETE_ALL, "response": ()}[row.kind]
        for statement in statements:
            connection.execute(statement, msgspec.structs.asdict(row))
    return [row for row in fresh if row.kind == "response"]


# -- rows that change ---------------------------------------------------------------------------------------------


def _merge_sessions(connection: sqlite3.Connection, rows: Sequence[StoredSession]) -> None:
    query = "SELECT revision FROM sessions WHERE id = ?"
    fresh = [row for row in rows if row.revision > _revision(connection, query, row.session.id)]
    connection.executemany(UPSERT_SESSION, [(*msgspec.structs.astuple(row.session), row.revision) for row in fresh])


def _merge_totals(connection: sqlite3.Connection, rows: Sequence[TotalRow]) -> None:
    fresh = [row for row in rows if row.revision > _revision(connection, _TOTAL_REVISION, *total_key(row))]
    connection.executemany(INSERT_TOTALS, map(total_values, fresh))


def total_key(row: TotalRow) -> tuple[int, str, str, str, int, str]:
    """What tells a total from others."""
    return row.session, row.scope, row.whose, row.name, row.moment, row.model


def total_values(row: TotalRow) -> tuple[object, ...]:
    """A total as a row of ``INSERT_TOTALS``."""
    place = (row.at, row.since, row.trace_id, row.parent_id, row.turn_index)
    return (*total_key(row), *place, *(getattr(row.usage, name) for name in USAGE_FIELDS), row.revision)


def _revision(connection: sqlite3.Connection, query: str, *key: object) -> int:
    row = connection.execute(query, key).fetchone()
    return _NEVER if row is None else int(row[0])


def _merge_spans(connection: sqlite3.Connection, rows: Sequence[StoredSpan]) -> None:
    by_key = "SELECT revision FROM spans WHERE session_id = ? AND span_id = ?"
    by_number = "SELECT revision FROM spans WHERE span_no = ?"
    fresh = [
        row
        for row in _newest(rows, lambda row: row.number)
        if row.revision > _revision(connection, by_key, row.session, row.span_id)
        and row.revision > _revision(connection, by_number, row.number)
    ]
    changed = last_event(connection)
    connection.executemany(_INSERT_SPAN, [(*msgspec.structs.astuple(row), changed) for row in fresh])
    touch(connection, {(row.session, row.trace_id) for row in fresh})


# -- events -------------------------------------------------------------------------------------------------------


def _merge_events(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    """Store the lines of events that are not known yet, those of one file together."""
    files: dict[tuple[int, int], list[EventRow]] = defaultdict(list)
    fresh = sorted(unknown_events(connection, rows), key=lambda row: row.number)
    for row in fresh:
        files[row.file_id, row.generation].append(row)
    for (file_id, generation), lines in files.items():
        block = (file_id << BLOCK_BITS) + Files(connection).next_block(file_id)
        insert_lines(connection, block, file_id, generation, lines)
    SearchIndex(connection).note_late(row.number for row in fresh)


def unknown_events(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> Iterable[EventRow]:
    """Of these events, each once, those that are not recorded yet."""
    sessions: dict[int, dict[bytes, EventRow]] = defaultdict(dict)
    for row in rows:
        sessions[row.session][row.event_id] = row
    for session, events in sessions.items():
        known = known_event_ids(connection, session, events)
        yield from (row for event_id, row in events.items() if event_id not in known)


def insert_lines(
    connection: sqlite3.Connection, block: int, file_id: int, generation: int, rows: Sequence[EventRow]
) -> None:
    """Store events with their lines, which are of one file, as one block."""
    data = b"\n".join(row.raw for row in rows)
    packed = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL, write_checksum=True).compress(data)
    offsets = array("Q", [row.offset for row in rows]).tobytes()
    connection.execute(INSERT_BLOCK, (block, file_id, generation, len(rows), len(data), time.time(), offsets, packed))
    insert_events(connection, block, rows)


def insert_events(connection: sqlite3.Connection, block: int | None, rows: Sequence[EventRow]) -> None:
    """Store events whose lines are in a block, or whose lines are not there."""
    connection.executemany(
        _INSERT_EVENT,
        [
            (
                row.number,
                row.session,
                row.event_id,
                row.turn_index,
                row.step_n,
                row.event_type,
                row.span_id,
                row.recorded_at,
                block,
                None if block is None else place,
            )
            for place, row in enumerate(rows)
        ],
    )
