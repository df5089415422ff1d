"""Rows of other stores, written: see ``store.rows`` for what they mean, and ``store.team`` for pages of machines.

ClickHouse has no transactions. Every row is replaced by key, so that a page that was stored in part is stored again by
the next try; the position of the machine is written last.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from agenttrace.store.clickhouse import copies, ledger, tables
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.numbers import NUMBERS
from agenttrace.store.clickhouse.retention import Forgotten
from agenttrace.store.clickhouse.tables import Stamp, Table, put
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
from agenttrace.store.team import Page

Kinds = dict[type, list[Any]]

#: Between the machine and its store, in an origin.
_OF = "\x1f"

#: Files of ten thousand machines, in what JavaScript reads exactly.
_FILE_BYTES = 6

_LAST_EVENT = "SELECT max(number) FROM events"
_CLEARED = """
SELECT session, ver, last_event FROM removed FINAL
WHERE kind = 'session' AND origin = :origin AND session IN :sessions
"""
_CLEAR_HOLDERS = """
INSERT INTO holders (response, session, origin, span_id, ver, deleted, revision)
SELECT assumeNotNull(response), session, origin, span_id, :ver, 1, :revision FROM spans FINAL
WHERE session = :session AND origin = :origin AND ver < :ver AND response IS NOT NULL
"""
_CLEAR_SPANS = """
INSERT INTO spans (session, origin, span_id, ver, deleted, revision)
SELECT session, origin, span_id, :ver, 1, :revision FROM spans FINAL
WHERE session = :session AND origin = :origin AND ver < :ver
"""
_CLEAR_EVENTS = """
INSERT INTO events (session, origin, event_id, number, ver, deleted, revision)
SELECT session, origin, event_id, number, :ver, 1, :revision FROM events FINAL
WHERE session = :session AND origin = :origin AND ver < :ver
"""
_KNOWN_EVENTS = """
SELECT session, event_id, origin = :origin, number FROM events FINAL
WHERE session IN :sessions AND event_id IN :keys ORDER BY number
"""
_LAST_OWN = """
SELECT session, max(number) FROM events FINAL WHERE origin = :origin AND session IN :sessions GROUP BY session
"""
#: What was derived from the lines of sessions is as of fewer lines.
_EXAMINE = """
INSERT INTO outcomes
SELECT * EXCEPT known REPLACE (known - 1 AS events, :ver AS ver, toUInt8(known <= 1) AS deleted, :ver AS revision)
FROM (SELECT *, events AS known FROM outcomes FINAL WHERE session IN :sessions)
"""
_STORED_SESSIONS = "SELECT id FROM sessions FINAL WHERE id IN :sessions AND origin = :origin"
_OWN_RESPONSES = """
SELECT session, response, intDiv(ver, 2) FROM responses FINAL WHERE session IN :sessions AND origin = :origin
"""
_KNOWN_SPANS = """
SELECT session, span_id, number FROM spans FINAL WHERE origin = :origin AND session IN :sessions AND span_id IN :keys
"""


def last_event(database: Database) -> int:
    """The number of the latest event; 0 where there is none."""
    return int(database.value(_LAST_EVENT) or 0)


def merge(database: Database, rows: Iterable[Row], *, day_of: Callable[[int], str]) -> None:
    """Merge rows, in any order and any number of times."""
    kinds = _by_kind(rows)
    last = max([last_event(database), *(row.number for row in kinds[EventRow])])
    _write(database, kinds, Stamp("", None, last), day_of=day_of, token=None, complete=True)


def take(
    database: Database,
    rows: Iterable[Row],
    page: Page,
    *,
    after: int,
    day_of: Callable[[int], str],
) -> int:
    """Store the rows of a page; the number with which they came, which is larger than ``after``."""
    came = NUMBERS.one(after=after)
    told = [_CHANGES.get(type(row), _unchanged)(row, page, came) for row in rows]
    kinds = _by_kind(Forgotten(database, told).allowed(told))
    origin = f"{page.machine}{_OF}{page.store}"
    kinds[StoredSpan] = _numbered_spans(database, origin, kinds[StoredSpan], came)
    kinds[EventRow] = _numbered_events(database, origin, kinds[EventRow], came)
    token = f"{origin}{_OF}{msgspec.json.encode((page.after, page.until)).decode()}"
    _write(database, kinds, Stamp(origin, came, came), day_of=day_of, token=token, complete=_is_complete(page))
    return came


def _is_complete(page: Page) -> bool:
    """Whether everything of a round came: what happened since then comes in another one."""
    until = page.until
    return not until.kind or (until.kind == "event" and until.place == (until.until[1],))


def _by_kind(rows: Iterable[Row]) -> Kinds:
    kinds: Kinds = defaultdict(list)
    for row in rows:
        kinds[type(row)].append(row)
    return kinds


def _write(
    database: Database, kinds: Kinds, stamp: Stamp, *, day_of: Callable[[int], str], token: str | None, complete: bool
) -> None:
    """Store rows in an order in which what is shown leads to what is there: sessions last."""
    _remove(database, kinds[RemovedRow], stamp)
    cleared = _Cleared(database, stamp.origin, kinds)
    spans = [row for row in kinds[StoredSpan] if cleared.allows_span(row)]
    arrived = NUMBERS.one() if stamp.revision is None else stamp.revision
    writes: list[tuple[Table, list[tuple[Any, ...]]]] = [
        (tables.FILES, [tables.file_values(row, stamp) for row in kinds[FileOfLines]]),
        (tables.LINKS, [tables.link_values(row, stamp) for row in kinds[LinkRow]]),
        (tables.TOTALS, [tables.total_values(row, stamp) for row in kinds[TotalRow]]),
        (tables.SPANS, [tables.span_values(row, stamp) for row in spans]),
        (
            tables.EVENTS,
            [tables.event_values(row, stamp, arrived) for row in kinds[EventRow] if cleared.allows_event(row)],
        ),
        (tables.ANNOTATIONS, [tables.annotation_values(row, stamp) for row in kinds[AnnotationRow]]),
        (tables.SESSIONS, [tables.session_values(row, stamp) for row in kinds[StoredSession]]),
    ]
    removed = [row for row in kinds[RemovedRow] if row.kind == "response"]
    ledger.write_responses(database, kinds[ResponseRow], removed, stamp, day_of=day_of)
    ledger.hold(database, spans, stamp, token=token)
    for table, values in writes:
        put(database, table, values, token=token)
    if sessions := {row.session for row in kinds[EventRow]}:
        database.command(_EXAMINE, sessions=sessions, ver=NUMBERS.one())
    copies.note(database, stamp.origin, [row.session.id for row in kinds[StoredSession]], complete=complete)


# -- rows that were removed ---------------------------------------------------------------------------------------


def _remove(database: Database, rows: Sequence[RemovedRow], stamp: Stamp) -> None:
    """Take out what machines removed, and remember it for rows that come later."""
    put(database, tables.REMOVED, [tables.removed_values(row, stamp) for row in rows])
    spans = [row for row in rows if row.kind == "span"]
    for row in spans:
        ver, _, revision = stamp.of(row.revision, deleted=True)
        place: Values = {"session": row.session, "origin": stamp.origin, "revision": revision, "ver": ver}
        database.command(f"{_CLEAR_HOLDERS} AND span_id = :key", key=row.key, **place)
    gone = [(stamp.origin, row.session, row.key, *stamp.of(row.revision, deleted=True)) for row in spans]
    put(database, tables.REMOVED_SPANS, gone)
    for row in rows:
        if row.kind == "session":
            ver, _, revision = stamp.of(row.revision, deleted=True)
            # A session's row of the same revision says what is left of it.
            gone_session = (stamp.origin, row.session, ver - 2, 1, revision)
            put(database, tables.REMOVED_SESSIONS, [gone_session])
            place = {"session": row.session, "origin": stamp.origin, "revision": revision}
            database.command(_CLEAR_HOLDERS, ver=ver, **place)
            database.command(_CLEAR_SPANS, ver=ver, **place)
            database.command(_CLEAR_EVENTS, ver=2 * row.last_event + 1, **place)


class _Cleared:
    """Which rows belong to sessions that became part of others, and were written before that."""

    def __init__(self, database: Database, origin: str, kinds: Kinds) -> None:
        sessions = {row.session for row in (*kinds[StoredSpan], *kinds[EventRow])}
        found = database.rows(_CLEARED, origin=origin, sessions=sessions) if sessions else []
        self._known: dict[int, tuple[int, int]] = {session: (ver, last) for session, ver, last in found}

    def allows_span(self, row: StoredSpan) -> bool:
        """Whether a span is there."""
        return 2 * row.revision > self._known.get(row.session, (-1, -1))[0]

    def allows_event(self, row: EventRow) -> bool:
        """Whether an event is there."""
        return row.number > self._known.get(row.session, (-1, -1))[1]


def take_back(database: Database, machine: str, store: str, sessions: Sequence[int]) -> None:
    """Take out those of these sessions of which only a part of a page came, and nothing else will."""
    place: Values = {"origin": f"{machine}{_OF}{store}", "sessions": list(sessions)}
    alone = set(sessions) - {number for (number,) in database.rows(_STORED_SESSIONS, **place)}
    if not alone:
        return
    came = NUMBERS.one()
    stamp = Stamp(str(place["origin"]), came, came)
    found = database.rows(_OWN_RESPONSES, origin=stamp.origin, sessions=list(alone))
    removed = [RemovedRow("response", session, key, revision, 0) for session, key, revision in found]
    ledger.write_responses(database, [], removed, stamp, day_of=str)
    _remove(database, [RemovedRow("session", session, b"", came, came) for session in alone], stamp)


# -- rows of a machine as rows of the team ------------------------------------------------------------------------


def file_number(page: Page, file_id: int) -> int:
    """The number of a machine's file."""
    digest = hashlib.sha256(f"{page.machine}{_OF}{page.store}{_OF}{file_id}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:_FILE_BYTES], "big")


def _own_session(row: StoredSession, page: Page, _came: int) -> StoredSession:
    session = msgspec.structs.replace(row.session, machine=page.machine, person=page.person)
    return msgspec.structs.replace(row, session=session)


def _own_file(row: FileOfLines, page: Page, _came: int) -> FileOfLines:
    return msgspec.structs.replace(row, file_id=file_number(page, row.file_id))


def _own_event(row: EventRow, page: Page, _came: int) -> EventRow:
    return msgspec.structs.replace(row, file_id=file_number(page, row.file_id))


def _own_removal(row: RemovedRow, _page: Page, came: int) -> RemovedRow:
    # Everything of the session that came before this page.
    return msgspec.structs.replace(row, last_event=came)


def _unchanged(row: Row, _page: Page, _came: int) -> Row:
    return row


_CHANGES: dict[type, Callable[[Any, Page, int], Any]] = {
    StoredSession: _own_session,
    FileOfLines: _own_file,
    EventRow: _own_event,
    RemovedRow: _own_removal,
}


def _numbered_spans(database: Database, origin: str, rows: Sequence[StoredSpan], came: int) -> list[StoredSpan]:
    """Spans with the numbers that they have, or new ones in the order of the machine's."""
    if not rows:
        return []
    place: Values = {"origin": origin, "sessions": {row.session for row in rows}, "keys": {row.span_id for row in rows}}
    known = {(session, key): number for session, key, number in database.rows(_KNOWN_SPANS, **place)}
    ordered = sorted(rows, key=lambda row: row.number)
    numbers = NUMBERS.take(len(ordered), after=came)
    pairs = zip(ordered, numbers, strict=True)
    return [msgspec.structs.replace(row, number=known.get((row.session, row.span_id), number)) for row, number in pairs]


def _numbered_events(database: Database, origin: str, rows: Sequence[EventRow], came: int) -> list[EventRow]:
    """The events that are not there yet, in the order of the machine's.

    Where the copy of another machine begins alike its numbers are taken, so that a reader who knows the beginning goes
    on with what follows; all others are new.
    """
    if not rows:
        return []
    sessions = {row.session for row in rows}
    found = database.rows(_KNOWN_EVENTS, origin=origin, sessions=sessions, keys={row.event_id for row in rows})
    own = {(session, key) for session, key, mine, _ in found if mine}
    shared = {(session, key): number for session, key, mine, number in found if not mine}
    last: dict[int, int] = dict(database.rows(_LAST_OWN, origin=origin, sessions=sessions)) if shared else {}
    fresh = {(row.session, row.event_id): row for row in rows if (row.session, row.event_id) not in own}
    ordered = sorted(fresh.values(), key=lambda row: row.number)
    numbered = []
    for row, number in zip(ordered, NUMBERS.take(len(ordered), after=came), strict=True):
        known = shared.get((row.session, row.event_id), 0)
        last[row.session] = known if known > last.get(row.session, 0) else number
        numbered.append(msgspec.structs.replace(row, number=last[row.session]))
    return numbered


def now() -> float:
    """Seconds since the epoch."""
    return time.time()
