"""What clean-up removes from the store, and what it removed so far."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import msgspec

from agenttrace.store.sqlite import pruning
from agenttrace.store.sqlite.pruning import Pruned

_REPORT = "maintenance"


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

    def measure(self, cutoff: float) -> Pruned:
        """What ``prune`` would remove."""
        return pruning.measure(self._connection, cutoff)

    def prune(self, cutoff: float, *, stop: Callable[[], bool] = lambda: False) -> Pruned:
        """Remove what sessions older than ``cutoff`` said. The search index is the caller's to rebuild."""
        return pruning.prune(self._connection, cutoff, stop=stop)

    def report(self) -> Report:
        """What earlier runs did."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (_REPORT,)).fetchone()
        try:
            return Report() if row is None else msgspec.json.decode(row[0], type=Report)
        except msgspec.MsgspecError:
            return Report()
