"""``store.exports``: destinations, the ledger of what was sent to them, and traces that wait to be sealed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from agenttrace.destinations import TEAM
from agenttrace.store.exports import Ledgers, Queue, State, Touched
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.destinations import Destinations
from agenttrace.store.sqlite.export_annotations import ExportedAnnotations
from agenttrace.store.sqlite.export_ledger import ExportLedger
from agenttrace.store.sqlite.team_pushes import TeamPushes

if TYPE_CHECKING:
    from agenttrace.store.sqlite.store import SqliteStore

_QUIET = """
SELECT session_id, trace_id, touched_at FROM export_touched
WHERE session_id > ? AND touched_at <= ? ORDER BY session_id LIMIT ?
"""
_BUSY = "SELECT trace_id FROM export_touched WHERE session_id = ? AND touched_at > ?"
_LOOKED_AT = "DELETE FROM export_touched WHERE session_id = ? AND trace_id = ? AND touched_at = ?"


class Exports:
    """The bookkeeping of exports, through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @cached_property
    def destinations(self) -> Destinations:
        """Since when each destination is sent to, and how it does."""
        return Destinations(self._connection)

    @cached_property
    def ledger(self) -> ExportLedger:
        """Which span was sent where, and what became of it."""
        return ExportLedger(self._connection)

    @cached_property
    def annotations(self) -> ExportedAnnotations:
        """Which annotation was sent where."""
        return ExportedAnnotations(self._connection)

    @cached_property
    def teams(self) -> TeamPushes:
        """How far the rows of the store were sent to the server of a team."""
        return TeamPushes(self._connection)

    def ledgers(self) -> Ledgers:
        """Count everything that was sent and is to be sent."""
        rows = self.destinations.rows()
        oldest = {row.destination_id: self.ledger.oldest(row.destination_id) for row in rows}
        annotations = self.annotations.counts()
        refusals = {
            number: self.annotations.refused(number, 1)[0][1]
            for number, states in annotations.items()
            if states.get("refused")
        }
        return Ledgers(rows, self.counts(), self.ledger.late(), oldest, annotations, refusals)

    def counts(self) -> dict[int, dict[State, int]]:
        """Spans of each destination by state; of a team's server rows, of which at least so many are queued."""
        return self.ledger.counts() | {
            row.destination_id: self.teams.counts(row.destination_id)
            for row in self.destinations.rows()
            if row.kind == TEAM and row.removed_at is None
        }

    def retry(self, destination: int, states: Sequence[State]) -> int:
        """Queue refused or unknown spans again, how many; with the refused ones, refused annotations too."""
        if "refused" in states:
            self.annotations.retry(destination)
        return self.ledger.retry(destination, states)

    # -- sealing ----------------------------------------------------------------------------------------------

    def quiet(self, before: float, *, after_session: int, limit: int) -> list[Touched]:
        """Traces that wait to be sealed and were last touched before a time, by session; from the next session on."""
        return list(map(Touched._make, self._connection.execute(_QUIET, (after_session, before, limit))))

    def busy(self, session: int, since: float) -> set[bytes]:
        """The traces of a session that were touched since a time."""
        return {row[0] for row in self._connection.execute(_BUSY, (session, since))}

    def waiting(self) -> int:
        """How many traces wait to be sealed."""
        return int(self._connection.execute("SELECT count(*) FROM export_touched").fetchone()[0])

    def seal(self, session: int, looked_at: Iterable[Touched], queues: Sequence[Queue]) -> None:
        """Queue spans of a session, and take traces off those that wait; one touched meanwhile keeps its newer mark."""
        with transaction(self._connection):
            for queue in queues:
                self.ledger.enqueue(queue.destination, session, queue.fresh)
                self.ledger.mark_late(queue.destination, queue.late)
            self._connection.executemany(_LOOKED_AT, looked_at)


class LedgerReader:
    """Counts the ledgers once for each commit: of millions of spans that takes a moment."""

    def __init__(self) -> None:
        #: By connection, each of which has a thread of its own and its own count of commits.
        self._known: dict[int, tuple[sqlite3.Connection, int, Ledgers]] = {}

    def read(self, store: SqliteStore) -> Ledgers:
        """The ledgers as they are."""
        connection = store.connection
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        known = self._known.get(id(connection))
        if known is not None and known[0] is connection and known[1] == version:
            return known[2]
        found = store.exports.ledgers()
        self._known[id(connection)] = (connection, version, found)
        return found
