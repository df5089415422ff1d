"""Retention and clean-up by themselves, in small pieces: the recorder does one piece when it has nothing to read.

A run is a generator that yields after each piece, so recording never waits for more than one of them. An interrupted
run loses nothing: each piece is a transaction of its own, and the next run finds what is left.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

import msgspec

from agenttrace.config import Settings
from agenttrace.record import own_logs, search_index
from agenttrace.record.dedup import expired_ids
from agenttrace.record.offsets import still_there
from agenttrace.record.pipeline import BLOCK_BITS
from agenttrace.store.sqlite import pruning
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.retention import Report, Retention

HOUR = 3_600.0
DAY = 24 * HOUR
#: Between the beginnings of two runs.
RUN_EVERY = HOUR
#: After a file is gone, its event ids are kept for this long, and its row in ``file_offsets`` for that long.
IDS_KEPT = DAY
ROWS_KEPT = 7 * DAY
#: The search index finds nothing of a pruned session from then on. The words themselves leave it when it is rebuilt,
#: which takes a while on a large store and so happens once a week at most.
INDEX_REBUILT_AFTER = 7 * DAY
_FILES_IN_A_PIECE = 200
_REPORT = "maintenance"
_UNSWEPT = "maintenance_unswept"

_MARK_GONE = "UPDATE file_offsets SET gone_at = ? WHERE file_id = ? AND gone_at IS NULL"
#: A file of which lines are stored or in quarantine keeps its row: the row says what those lines mean.
_FORGOTTEN_FILES = f"""
SELECT file_id FROM file_offsets WHERE gone_at < ?
    AND NOT EXISTS (SELECT 1 FROM raw_blocks
        WHERE block_id BETWEEN file_offsets.file_id << {BLOCK_BITS}
            AND (file_offsets.file_id << {BLOCK_BITS}) + {(1 << BLOCK_BITS) - 1})
    AND file_id NOT IN (SELECT file_id FROM quarantine WHERE resolved_at IS NULL)
"""
#: Lines of forgotten files stay in the totals.
LINE_COUNTS = ("lines", "recorded", "duplicate", "ignored", "quarantined")
_KEEP_COUNT = """
INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value
"""


@dataclass(kw_only=True)
class Maintenance:
    """Runs every hour; ``step`` does a piece of the run that is under way."""

    connection: sqlite3.Connection
    settings: Settings
    _run: Iterator[bool] | None = None
    _next_run: float = field(default=0.0)

    def step(self, seconds: float) -> bool:
        """Work for about this long; True if recorded data was removed, so that caches of it are stale."""
        if self._run is None:
            if time.monotonic() < self._next_run:
                return False
            self._next_run = time.monotonic() + RUN_EVERY
            self._run = run(self.connection, self.settings)
        removed, deadline = False, time.monotonic() + seconds
        for changed in self._run:
            removed = removed or changed
            if time.monotonic() >= deadline:
                return removed
        self._run = None
        return removed

    def interrupted(self) -> None:
        """A piece failed: begin a new run, once what made it fail is over."""
        self._run = None
        self._next_run = 0.0


def run(
    connection: sqlite3.Connection, settings: Settings, *, now: float | None = None, days: float | None = None
) -> Generator[bool, None, None]:
    """One run, piece by piece; each piece says whether it removed recorded data.

    ``days`` stands in for the setting ``retention.days``; 0 keeps everything.
    """
    now = time.time() if now is None else now
    days = settings.retention.days if days is None else days
    report = Retention(connection).report()
    if days:
        yield from _retention(connection, settings, now - days * DAY, now, report)
    yield from _vanished_files(connection, now, report)
    yield from _search_index(connection, now, min(INDEX_REBUILT_AFTER, days * DAY or INDEX_REBUILT_AFTER))
    report.last_run_at = now
    _store(connection, report)


def _store(connection: sqlite3.Connection, report: Report) -> None:
    _note(connection, _REPORT, msgspec.json.encode(report).decode())


def _note(connection: sqlite3.Connection, key: str, value: str) -> None:
    with transaction(connection):
        connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


# -- retention ------------------------------------------------------------------------------------------------


def _retention(
    connection: sqlite3.Connection, settings: Settings, cutoff: float, now: float, report: Report
) -> Iterator[bool]:
    for number in pruning.old_sessions(connection, cutoff):
        # Before anything is removed: a run that is interrupted leaves raw lines to be swept by the next one.
        _note(connection, _UNSWEPT, str(now))
        spans, events = pruning.prune_session(connection, number)
        report.sessions, report.spans, report.events = report.sessions + 1, report.spans + spans, report.events + events
        search_index.mark_stale(connection, now)
        yield True
    pruning.forget_quarantined(connection, cutoff)
    yield False
    report.log_files += own_logs.remove_recorded(connection, settings.home, cutoff)
    yield False
    if connection.execute("SELECT 1 FROM meta WHERE key = ?", (_UNSWEPT,)).fetchone() is not None:
        for _, size in pruning.sweep(connection):
            report.bytes += size
            yield False
        with transaction(connection):
            connection.execute("DELETE FROM meta WHERE key = ?", (_UNSWEPT,))
    _store(connection, report)


# -- files that are gone --------------------------------------------------------------------------------------


def _vanished_files(connection: sqlite3.Connection, now: float, report: Report) -> Iterator[bool]:
    listed = connection.execute("SELECT file_id, filepath FROM file_offsets WHERE gone_at IS NULL").fetchall()
    for start in range(0, len(listed), _FILES_IN_A_PIECE):
        part = listed[start : start + _FILES_IN_A_PIECE]
        gone = [(now, number) for number, path in part if not still_there(path)]
        if gone:
            with transaction(connection):
                connection.executemany(_MARK_GONE, gone)
        yield False
    for removed in expired_ids(connection, now - IDS_KEPT):
        report.event_ids += removed
        yield False
    numbers = [row[0] for row in connection.execute(_FORGOTTEN_FILES, (now - ROWS_KEPT,))]
    for start in range(0, len(numbers), _FILES_IN_A_PIECE):
        report.files += _forget_files(connection, numbers[start : start + _FILES_IN_A_PIECE])
        yield False


def _forget_files(connection: sqlite3.Connection, numbers: list[int]) -> int:
    """Remove rows of ``file_offsets``. Should a file return, its lines are known by their ids."""
    chosen = f"FROM file_offsets WHERE file_id IN ({','.join('?' * len(numbers))})"
    with transaction(connection):
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in LINE_COUNTS)
        counts = connection.execute(f"SELECT {sums} {chosen}", numbers).fetchone()
        named = zip((f"forgotten_{name}" for name in LINE_COUNTS), counts, strict=True)
        connection.executemany(_KEEP_COUNT, [(name, count) for name, count in named if count])
        return connection.execute(f"DELETE {chosen}", numbers).rowcount


# -- search ---------------------------------------------------------------------------------------------------


def _search_index(connection: sqlite3.Connection, now: float, after: float) -> Iterator[bool]:
    """Empty the index once it holds words of sessions that were pruned long enough ago; it is refilled in pieces."""
    since = search_index.stale_since(connection)
    if since is not None and since <= now - after:
        search_index.reset(connection)
        yield False
