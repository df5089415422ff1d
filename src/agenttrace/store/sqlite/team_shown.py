"""Rows of the copies that are shown, in the tables that every question is answered from: see ``store.team``."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from agenttrace.model import Session
from agenttrace.store.batch import BLOCK_BITS
from agenttrace.store.rows import EventRow, LinkRow, StoredSession, StoredSpan, TotalRow
from agenttrace.store.sqlite import ledger, merging
from agenttrace.store.sqlite.events import last_event
from agenttrace.store.sqlite.files import Files
from agenttrace.store.sqlite.revisions import note_removed
from agenttrace.store.sqlite.search import SearchIndex
from agenttrace.store.sqlite.team_bag import BagRow
from agenttrace.store.sqlite.team_ledger import responses_of
from agenttrace.store.sqlite.totals import INSERT_TOTALS
from agenttrace.store.sqlite.writing import INSERT_LINK, UPSERT_SESSION, load_session, touch

#: The session of the event that holds the place of removed ones.
_NO_SESSION = 0

_SPAN = (
    "trace_id parent_id stream kind name start end status model turn_index step_n response attributes".split()  # noqa: SIM905
)
_NAMES = ", ".join(f'"{name}"' for name in _SPAN)
#: A row that is the same changes nothing.
_PUT_SPAN = f"""
INSERT INTO spans (span_id, session_id, changed, revision, {_NAMES}) VALUES ({", ".join("?" * (4 + len(_SPAN)))})
ON CONFLICT (session_id, span_id) DO UPDATE SET
    changed = excluded.changed, revision = excluded.revision, {", ".join(f'"{n}" = excluded."{n}"' for n in _SPAN)}
WHERE ({", ".join(f'spans."{name}"' for name in _SPAN)}) IS NOT ({", ".join(f'excluded."{name}"' for name in _SPAN)})
"""
#: Spans that came before their events changed with these, for a reader that follows events.
_CHANGED = "UPDATE spans SET changed = :last WHERE session_id = :session AND changed >= :since"
_REMOVE_SPAN = "DELETE FROM spans WHERE session_id = ? AND span_id = ?"
REMOVE_BLOCKS = """
DELETE FROM raw_blocks WHERE block_id IN (SELECT DISTINCT block_id FROM processed_events WHERE session_id = ?)
"""
#: Lines that come after their session was examined for outcomes: it was examined with fewer than its row tells.
_UNEXAMINED = "UPDATE outcomes SET events = max(1, events - ?) WHERE session_id = ? AND events > 0"
#: A new event must not get the number of a removed one, under which readers may know that.
_HOLD_PLACE = """
INSERT INTO processed_events (event_no, event_id, session_id, turn_index, step_n, event_type, processed_at)
VALUES (?, randomblob(16), ?, -1, 0, '', ?)
"""
_FREE_PLACE = """
DELETE FROM processed_events WHERE session_id = ? AND event_no < (SELECT max(event_no) FROM processed_events)
"""


class Shown:
    """Writes rows inside the caller's transaction, and notes what has to follow from them."""

    def __init__(self, connection: sqlite3.Connection, *, gone: int, revision: int) -> None:
        """``gone`` is the revision of rows that are removed, smaller than that of those that are written."""
        self._connection = connection
        self._gone, self._revision = gone, revision
        #: The number of the last event that there is, or was.
        self.last = last_event(connection)
        #: Which may have another owner or other tokens.
        self.responses: set[bytes] = set()
        self.changed: set[int] = set()

    def write_session(self, session: Session) -> None:
        """Store the session's row."""
        stored = load_session(self._connection, session.id)
        if stored == session:
            return
        moved = ledger.moved_sessions(self._connection, [session])
        for number in {*moved.risen, *moved.fallen, *([] if stored else [session.id])}:
            self.responses |= responses_of(self._connection, number)
        self._connection.execute(UPSERT_SESSION, (*msgspec.structs.astuple(session), self._revision))
        self.changed.add(session.id)

    def write_links(self, rows: Iterable[LinkRow]) -> None:
        """Store links, which never change."""
        self._connection.executemany(INSERT_LINK, map(msgspec.structs.astuple, rows))

    def write_totals(self, rows: Iterable[TotalRow]) -> None:
        """Store what agents say of their usage."""
        own = [msgspec.structs.replace(row, revision=self._revision) for row in rows]
        self._connection.executemany(INSERT_TOTALS, map(merging.total_values, own))
        self.changed |= {row.session for row in own}

    def write_spans(self, rows: Sequence[StoredSpan]) -> None:
        """Store spans; the number of a known one stays, new ones get theirs in this order."""
        self._connection.executemany(
            _PUT_SPAN,
            (
                (row.span_id, row.session, self.last, self._revision, *(getattr(row, name) for name in _SPAN))
                for row in rows
            ),
        )
        touch(self._connection, {(row.session, row.trace_id) for row in rows})
        self.responses |= {row.response for row in rows if row.response is not None}
        self.changed |= {row.session for row in rows}

    def write_events(self, rows: Iterable[EventRow]) -> set[int]:
        """Store the events that are not known yet, with new numbers in their order; the sessions that have any."""
        fresh = sorted(merging.unknown_events(self._connection, list(rows)), key=lambda row: row.number)
        self._insert(fresh, range(self.last + 1, self.last + 1 + len(fresh)))
        counts: dict[int, int] = defaultdict(int)
        for row in fresh:
            counts[row.session] += 1
        self._connection.executemany(_UNEXAMINED, ((count, session) for session, count in counts.items()))
        return set(counts)

    def _insert(self, rows: Sequence[EventRow], numbers: Iterable[int]) -> None:
        """Each block has lines of one session, so that it can go with that."""
        blocks: dict[tuple[int, int, int], list[EventRow]] = defaultdict(list)
        for row, number in zip(rows, numbers, strict=True):
            own = msgspec.structs.replace(row, number=number)
            self.last = max(self.last, number)
            if row.raw:
                blocks[row.session, row.file_id, row.generation].append(own)
            else:
                merging.insert_events(self._connection, None, [own])
        for (_, file_id, generation), lines in blocks.items():
            block = (file_id << BLOCK_BITS) + Files(self._connection).next_block(file_id)
            merging.insert_lines(self._connection, block, file_id, generation, lines)
        SearchIndex(self._connection).note_late(row.number for lines in blocks.values() for row in lines)

    def events_came(self, session: int, since: int) -> None:
        """After spans of the session that were written when ``since`` was the last event."""
        self._connection.execute(_CHANGED, {"session": session, "since": since, "last": self.last})

    # -- removing ---------------------------------------------------------------------------------------------

    def remove_span(self, session: int, span_id: bytes) -> None:
        """A span was removed where it came from."""
        query = "SELECT response FROM spans WHERE session_id = ? AND span_id = ?"
        for (response,) in self._connection.execute(query, (session, span_id)).fetchall():
            self.responses |= set() if response is None else {response}
            self._connection.execute(_REMOVE_SPAN, (session, span_id))
            note_removed(self._connection, [("span", session, span_id)], self._gone)
            self.changed.add(session)

    def remove_contents(self, session: int) -> None:
        """All spans and events of a session, which copies of this store remove as well."""
        self.responses |= responses_of(self._connection, session)
        note_removed(self._connection, [("session", session, b"")], self._gone)
        self._remove_events(session)
        self._delete(session, "spans")
        self.changed.add(session)

    def remove_session(self, session: int) -> None:
        """The session is not there any more."""
        self.remove_contents(session)
        self._delete(session, "links", "totals", "outcomes")
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (session,))

    def _remove_events(self, session: int) -> None:
        self._connection.execute(REMOVE_BLOCKS, (session,))
        self._delete(session, "processed_events")

    def _delete(self, session: int, *tables: str) -> None:
        for table in tables:
            self._connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session,))

    # -- another copy -----------------------------------------------------------------------------------------

    def replace(self, session: int, before: Sequence[BagRow], after: Sequence[BagRow]) -> None:
        """Put the rows of another copy in place of those of a session.

        Where the new copy begins as the old one, what both have keeps its numbers.
        """
        self.responses |= responses_of(self._connection, session)
        old = [row for row in before if isinstance(row, EventRow)]
        new = [row for row in after if isinstance(row, EventRow)]
        if _texts(new[: len(old)]) == _texts(old):
            self._remove_others(session, _spans(before), _spans(after))
            numbers = [row.number for row in old]
        else:
            self.remove_contents(session)
            numbers = []
        self._remove_events(session)
        self._delete(session, "links", "totals", "outcomes")
        numbers += range(self.last + 1, self.last + 1 + len(new) - len(numbers))
        self._insert(new, numbers)
        self._write_others(session, after)

    def _remove_others(self, session: int, before: Sequence[bytes], after: Sequence[bytes]) -> None:
        """Spans that the new copy does not have; where it has others before known ones, these get new numbers too."""
        left = set(after)
        for span in before:
            if span not in left:
                self.remove_span(session, span)
        kept = [span for span in before if span in left]
        if list(after[: len(kept)]) != kept:
            self._delete(session, "spans")

    def _write_others(self, session: int, rows: Sequence[BagRow]) -> None:
        named = [row.session for row in rows if isinstance(row, StoredSession)]
        if not named:
            self._connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
        for each in named:
            self.write_session(each)
        self.write_links(row for row in rows if isinstance(row, LinkRow))
        self.write_totals(row for row in rows if isinstance(row, TotalRow))
        self.write_spans([row for row in rows if isinstance(row, StoredSpan)])

    def hold_place(self) -> None:
        """The last number stays taken, also where its event was removed."""
        if last_event(self._connection) < self.last:
            self._connection.execute(_HOLD_PLACE, (self.last, _NO_SESSION, time.time()))
        self._connection.execute(_FREE_PLACE, (_NO_SESSION,))


def _spans(rows: Iterable[BagRow]) -> list[bytes]:
    return [row.span_id for row in rows if isinstance(row, StoredSpan)]


def _texts(rows: Iterable[EventRow]) -> list[tuple[bytes, bytes]]:
    return [(row.event_id, row.raw) for row in rows]
