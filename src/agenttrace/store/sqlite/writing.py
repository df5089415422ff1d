"""Writing a batch: events, spans, sessions, usage, offsets and raw lines in one transaction, or none of them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import msgspec

from agenttrace.model import Session
from agenttrace.store.batch import Batch, span_row
from agenttrace.store.sqlite import ledger, unlogged
from agenttrace.store.sqlite.absorbing import absorb
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.files import write_files
from agenttrace.store.sqlite.provider_limits import write_windows
from agenttrace.store.sqlite.revisions import next_revision, revise_sessions
from agenttrace.store.sqlite.rule_events import note_batch
from agenttrace.store.sqlite.span_rows import NOT_IN_LOG
from agenttrace.store.sqlite.telemetry import withdraw
from agenttrace.store.sqlite.totals import INSERT_TOTALS

_SESSION_COLUMNS = tuple(field.name for field in msgspec.structs.fields(Session))

_INSERT_EVENT = """
INSERT INTO processed_events
    (event_id, session_id, turn_index, step_n, event_type, span_id, processed_at, block_id, line_n)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

INSERT_BLOCK = """
INSERT INTO raw_blocks
    (block_id, file_id, generation, lines, raw_bytes, stored_at, offsets, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

_INSERT_QUARANTINE = """
INSERT OR IGNORE INTO quarantine
    (file_id, filepath, generation, offset, length, digest, reason, salvaged, found_at, raw)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_RESOLVE = "UPDATE quarantine SET resolved_at = ? WHERE file_id = ? AND reason = ? AND resolved_at IS NULL"

_UPSERT_SPAN = """
INSERT INTO spans
    (span_id, trace_id, parent_id, session_id, stream, kind, name, start, "end", status, model,
     turn_index, step_n, response, attributes, changed, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id, span_id) DO UPDATE SET
    name = excluded.name, start = min(start, excluded.start), "end" = excluded."end", status = excluded.status,
    model = excluded.model, response = coalesce(excluded.response, response), attributes = excluded.attributes,
    changed = excluded.changed, revision = excluded.revision
"""

_LAST_EVENT = "SELECT coalesce(max(event_no), 0) FROM processed_events"

UPSERT_SESSION = f"""
INSERT OR REPLACE INTO sessions ({", ".join(_SESSION_COLUMNS)}, revision)
VALUES ({", ".join("?" * len(_SESSION_COLUMNS))}, ?)
"""

_UPSERT_STREAM = "INSERT OR REPLACE INTO streams (session_id, stream, state) VALUES (?, ?, ?)"

INSERT_LINK = "INSERT OR IGNORE INTO links (session_id, stream, parent_stream, call) VALUES (?, ?, ?, ?)"

_ADD_COUNTER = """
INSERT INTO counters (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = value + excluded.value
"""

_ANY_DESTINATION = "SELECT 1 FROM export_destinations WHERE removed_at IS NULL"

_TOUCH = "INSERT OR REPLACE INTO export_touched (session_id, trace_id, touched_at) VALUES (?, ?, ?)"

#: Where they stand in a row of a span.
_TRACE, _SESSION = 1, 3

#: What every SQLite takes in one statement.
_MOST_PARAMETERS = 999


def write_batch(connection: sqlite3.Connection, batch: Batch, *, day_of: Callable[[int], str]) -> None:
    """Commit a batch: all of it or nothing."""
    with transaction(connection):
        write_rows(connection, batch, day_of=day_of)


def write_rows(connection: sqlite3.Connection, batch: Batch, *, day_of: Callable[[int], str]) -> None:
    """The rows of a batch, inside a transaction of the caller's."""
    many = connection.executemany
    _insert(connection, _INSERT_EVENT, batch.events)
    many(INSERT_BLOCK, batch.blocks)
    many(_INSERT_QUARANTINE, batch.quarantine)
    many(_RESOLVE, batch.resolved)
    revision = next_revision(connection)
    for part, whole, turn in batch.absorbed:
        absorb(connection, part, whole, turn, revision)
    for session in batch.logged:
        withdraw(connection, session, day_of=day_of, revision=revision)
    (last,) = connection.execute(_LAST_EVENT).fetchone()
    claims = ledger.without_strangers(connection, batch.claims)
    _insert(connection, _UPSERT_SPAN, [(*row, last, revision) for row in batch.spans])
    moved = ledger.moved_sessions(connection, batch.sessions)
    many(UPSERT_SESSION, [(*msgspec.structs.astuple(session), revision) for session in batch.sessions])
    many(_UPSERT_STREAM, batch.streams)
    many(INSERT_LINK, batch.links)
    many(_ADD_COUNTER, batch.counters.items())
    touch(connection, {(row[_SESSION], row[_TRACE]) for row in batch.spans})
    changed: set[bytes] = set()
    if claims or any(moved):
        changed = ledger.settle(connection, claims, day_of=day_of, moved=moved, revision=revision)
    many(INSERT_TOTALS, [(*row, revision) for row in batch.totals])
    write_windows(connection, batch.limits)
    sessions = {session.id for session in batch.sessions}
    if concerned := unlogged.concerned(connection, sessions, changed):
        spans = unlogged.settle(connection, concerned, day_of=day_of, revision=revision)
        rows = [(*span_row(span, session, NOT_IN_LOG), last, revision) for session, span in spans]
        _insert(connection, _UPSERT_SPAN, rows)
        revise_sessions(connection, concerned, revision)
        touch(connection, {(session, span.trace_id) for session, span in spans})
    note_batch(connection, batch)
    write_files(connection, batch.files)


def touch(connection: sqlite3.Connection, traces: Iterable[tuple[int, bytes]]) -> None:
    """Have these traces looked at for what may be sent, if anything is sent at all; with the spans, or not at all."""
    if connection.execute(_ANY_DESTINATION).fetchone() is not None:
        now = time.time()
        connection.executemany(_TOUCH, ((session, trace, now) for session, trace in traces))


def _insert(connection: sqlite3.Connection, statement: str, rows: list[tuple[Any, ...]]) -> None:
    """``executemany`` with many rows a statement: a quarter less time for rows that are many and narrow."""
    width = statement.count("?")
    height = _MOST_PARAMETERS // width
    whole = len(rows) // height * height
    one = f"({', '.join('?' * width)})"
    tall = statement.replace(one, ", ".join([one] * height))
    connection.executemany(
        tall, (list(chain.from_iterable(rows[start : start + height])) for start in range(0, whole, height))
    )
    connection.executemany(statement, rows[whole:])


def keep_days(connection: sqlite3.Connection, zone: str, day_of: Callable[[int], str]) -> None:
    """Make days and sums anew when what they are counted by has changed: the time zone, the steps of prices."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'usage_zone'").fetchone()
    if row is not None and row[0] == zone:
        return
    with transaction(connection):
        if row is not None:
            ledger.rebuild_rollup(connection, day_of=day_of)
        connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('usage_zone', ?)", (zone,))


def load_session(connection: sqlite3.Connection, number: int) -> Session | None:
    """A session's row, to go on with."""
    row = connection.execute(f"SELECT {', '.join(_SESSION_COLUMNS)} FROM sessions WHERE id = ?", (number,)).fetchone()
    if row is None:
        return None
    session = Session(**dict(zip(_SESSION_COLUMNS, row, strict=True)))
    session.copied = bool(session.copied)
    return session


def load_stream(connection: sqlite3.Connection, number: int, stream: str) -> bytes | None:
    """What folding remembered of a stream."""
    row = connection.execute(
        "SELECT state FROM streams WHERE session_id = ? AND stream = ?", (number, stream)
    ).fetchone()
    return None if row is None else bytes(row[0])


def has_events(connection: sqlite3.Connection, number: int) -> bool:
    """Whether ids of a session are known; pruned sessions have ids and no row."""
    query = "SELECT 1 FROM processed_events WHERE session_id = ? LIMIT 1"
    return connection.execute(query, (number,)).fetchone() is not None


def known_event_ids(connection: sqlite3.Connection, session: int, candidates: Iterable[bytes]) -> set[bytes]:
    """Which of these events of a session are recorded already."""
    wanted = list(candidates)
    known: set[bytes] = set()
    for start in range(0, len(wanted), 1000):
        part = wanted[start : start + 1000]
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            f"SELECT event_id FROM processed_events WHERE session_id = ? AND event_id IN ({marks})", (session, *part)
        )
        known.update(row[0] for row in rows)
    return known
