"""The destinations of spans as the store knows them: since when each is sent to, and whether it is paused."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from agenttrace.destinations import TEAM, DestinationSettings
from agenttrace.store.exports import DestinationRow
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.team_pushes import TeamPushes, forget_pushes

_COLUMNS = """destination_id, name, kind, address, added_at, since, paused, removed_at,
    last_success_at, last_error, last_error_at, retry_at, requests, sent_bytes, rejected, unusable"""

_ADD = "INSERT INTO export_destinations (name, kind, address, added_at, since) VALUES (?, ?, ?, ?, ?)"

_AGAIN = "UPDATE export_destinations SET kind = ?, address = ?, removed_at = NULL WHERE name = ?"

#: A trace is as old as the last thing that happened in it. One that waits to be looked at already keeps its time.
_TOUCH_SINCE = """
INSERT OR IGNORE INTO export_touched (session_id, trace_id, touched_at)
SELECT session_id, trace_id, 0 FROM spans
GROUP BY session_id, trace_id HAVING max(coalesce("end", start)) >= ?
"""

_TRACES_SINCE = """
SELECT count(*) FROM (
    SELECT 1 FROM spans GROUP BY session_id, trace_id HAVING max(coalesce("end", start)) >= ?
)
"""

_PAUSED = "SELECT paused OR removed_at IS NOT NULL FROM export_destinations WHERE destination_id = ?"

_FORGET = """
DELETE FROM export_spans
WHERE destination_id = (SELECT destination_id FROM export_destinations WHERE name = ?)
"""


class Destinations:
    """All destinations that the settings name or named."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self) -> list[DestinationRow]:
        """Each of them, in the order in which they were added."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM export_destinations ORDER BY destination_id")
        return [DestinationRow._make(row) for row in rows]

    def is_paused(self, number: int) -> bool:
        """Whether nothing is sent to a destination now: paused, removed, or forgotten."""
        row = self._connection.execute(_PAUSED, (number,)).fetchone()
        return row is None or bool(row[0])

    def keep(self, wanted: Sequence[DestinationSettings]) -> None:
        """Make the store know the destinations that the settings name, and no others; the ledger of others is kept."""
        known = {row.name: row for row in self.rows()}
        if not _differs(known.values(), wanted):
            return
        with transaction(self._connection):
            for each in wanted:
                if each.name in known:
                    self._connection.execute(_AGAIN, (each.type, each.address, each.name))
                else:
                    self._add(each)
            gone = known.keys() - {each.name for each in wanted}
            for name in gone:
                self._connection.execute(
                    "UPDATE export_destinations SET removed_at = coalesce(removed_at, ?) WHERE name = ?",
                    (time.time(), name),
                )

    def _add(self, settings: DestinationSettings) -> None:
        now = time.time()
        since = start_of(settings.start, now)
        self._connection.execute(_ADD, (settings.name, settings.type, settings.address, now, since))
        if since < int(now * 1_000_000) and settings.type != TEAM:
            self._connection.execute(_TOUCH_SINCE, (since,))

    def backfill(self, name: str, since: int) -> int:
        """Also send what ended after ``since``, as far as it was not sent yet; what is sealed is queued soon after.

        How many traces are looked at for it comes back; of a team's server, how many sessions are sent.
        """
        row = next((row for row in self.rows() if row.name == name), None)
        with transaction(self._connection):
            query = "UPDATE export_destinations SET since = min(since, ?) WHERE name = ?"
            self._connection.execute(query, (since, name))
            if row is not None and row.kind == TEAM:
                return TeamPushes(self._connection).release(row.destination_id, since)
            self._connection.execute(_TOUCH_SINCE, (since,))
            return int(self._connection.execute(_TRACES_SINCE, (since,)).fetchone()[0])

    def set_paused(self, name: str, paused: bool) -> None:
        """Stop sending to a destination, or go on; what is sealed meanwhile waits."""
        with transaction(self._connection):
            self._connection.execute("UPDATE export_destinations SET paused = ? WHERE name = ?", (paused, name))

    def keep_unusable(self, reasons: Mapping[str, str]) -> None:
        """Store which destinations the exporter cannot use, and why; all others can be used."""
        with transaction(self._connection):
            for row in self.rows():
                self._connection.execute(
                    "UPDATE export_destinations SET unusable = ? WHERE destination_id = ?",
                    (reasons.get(row.name), row.destination_id),
                )

    def forget(self, name: str) -> int:
        """Forget what was sent to a destination, so that it can be sent anew; how many spans that were."""
        with transaction(self._connection):
            forgotten = self._connection.execute(_FORGET, (name,)).rowcount
            forget_pushes(self._connection, name)
            self._connection.execute("DELETE FROM export_destinations WHERE name = ?", (name,))
        return forgotten


def _differs(known: Iterable[DestinationRow], wanted: Sequence[DestinationSettings]) -> bool:
    active = {(row.name, row.kind, row.address) for row in known if row.removed_at is None}
    return active != {(each.name, each.type, each.address) for each in wanted}


def start_of(start: str, now: float) -> int:
    """``now``, ``all`` or a day, as microseconds since the epoch."""
    if start == "all":
        return 0
    return int((now if start == "now" else datetime.fromisoformat(start).timestamp()) * 1_000_000)
