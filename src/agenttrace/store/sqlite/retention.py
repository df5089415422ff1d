"""What clean-up removes from the store, in pieces, and what it removed so far."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import msgspec

from agenttrace.store.sqlite import pruning
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.pruning import Pruned

_REPORT = "maintenance"
_UNSWEPT = "maintenance_unswept"

_PRUNED = """
SELECT pruned.session_id, file_offsets.filepath, file_offsets.gone_at FROM pruned
LEFT JOIN file_offsets USING (file_id) WHERE pruned_at < ?
"""
#: The newest event stays: a new one must not get its number, under which the search index may hold words.
_EXPIRED_IDS = """
DELETE FROM processed_events WHERE session_id = ? AND block_id IS NULL AND processed_at < ?
    AND event_no < (SELECT max(event_no) FROM processed_events)
"""
#: Which traces a session had matters as long as anything of it is known.
_FORGET_NOTES = """
DELETE FROM sessions WHERE parent IS NOT NULL AND events = 0 AND started_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM sessions whole JOIN processed_events ON processed_events.session_id = whole.id
    WHERE whole.agent = sessions.agent AND whole.session_id = sessions.parent
)
"""


class Report(msgspec.Struct):
    """What was removed since the store was created, and when the last run ended."""

    last_run_at: float | None = None
    sessions: int = 0
    spans: int = 0
    events: int = 0
    bytes: int = 0
    event_ids: int = 0
    files: int = 0
    log_files: int = 0


class Retention:
    """Removes what is older than it has to be; each piece is a transaction of its own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    # -- sessions ---------------------------------------------------------------------------------------------

    def old_sessions(self, cutoff: float) -> list[int]:
        """Sessions whose last event is older than ``cutoff`` (seconds since the epoch)."""
        return pruning.old_sessions(self._connection, cutoff)

    def measure(self, cutoff: float) -> Pruned:
        """What ``prune`` would remove."""
        return pruning.measure(self._connection, cutoff)

    def prune(self, cutoff: float, *, stop: Callable[[], bool] = lambda: False) -> Pruned:
        """Remove what sessions older than ``cutoff`` said. The search index is the caller's to rebuild."""
        return pruning.prune(self._connection, cutoff, stop=stop)

    def prune_session(self, number: int, now: float) -> tuple[int, int]:
        """Remove what one session said; how many spans and events. Its raw lines go with the next sweep."""
        # Before anything is removed: a run that is interrupted leaves raw lines to be swept by the next one.
        self._note(_UNSWEPT, str(now))
        return pruning.prune_session(self._connection, number)

    def forget_quarantined(self, cutoff: float) -> None:
        """The text of old quarantined lines goes; the entries stay."""
        pruning.forget_quarantined(self._connection, cutoff)

    def sweep(self) -> Iterator[int]:
        """Remove raw lines that pruned sessions left behind, if any; yields the bytes that went with each piece."""
        if self._connection.execute("SELECT 1 FROM meta WHERE key = ?", (_UNSWEPT,)).fetchone() is None:
            return
        for _, size in pruning.sweep(self._connection):
            yield size
        with transaction(self._connection):
            self._connection.execute("DELETE FROM meta WHERE key = ?", (_UNSWEPT,))

    # -- ids --------------------------------------------------------------------------------------------------

    def expire_ids(self, cutoff: float, still_there: Callable[[str], bool]) -> Iterator[int]:
        """Remove the ids of pruned sessions all of whose files are gone since ``cutoff``; how many of each session.

        A session that went on after it was pruned has data again; the ids of that data stay.
        """
        rows = self._connection.execute(_PRUNED, (cutoff,)).fetchall()
        kept = {
            number
            for number, path, gone in rows
            if path is not None and ((gone is not None and gone >= cutoff) or still_there(path))
        }
        for number in sorted({number for number, *_ in rows} - kept):
            with transaction(self._connection):
                removed = self._connection.execute(_EXPIRED_IDS, (number, cutoff)).rowcount
                self._connection.execute("DELETE FROM pruned WHERE session_id = ?", (number,))
            yield removed
        with transaction(self._connection):
            self._connection.execute(_FORGET_NOTES)

    # -- the report -------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """What earlier runs did."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (_REPORT,)).fetchone()
        try:
            return Report() if row is None else msgspec.json.decode(row[0], type=Report)
        except msgspec.MsgspecError:
            return Report()

    def save_report(self, report: Report) -> None:
        """Keep what was done."""
        self._note(_REPORT, msgspec.json.encode(report).decode())

    def _note(self, key: str, value: str) -> None:
        with transaction(self._connection):
            self._connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
