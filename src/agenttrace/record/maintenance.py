"""Retention and clean-up in small pieces: the recorder does one piece when it has nothing to read.

A run is a generator that yields after each piece, so recording never waits for more than one of them. An interrupted
run loses nothing: each piece is a transaction of its own, and the next run finds what is left.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agenttrace.config import Settings
from agenttrace.record.files.stored_paths import still_there
from agenttrace.store.sqlite.files import Files
from agenttrace.store.sqlite.retention import Report
from agenttrace.store.sqlite.store import SqliteStore

HOUR = 3_600.0
DAY = 24 * HOUR
#: Between the beginnings of two runs.
RUN_EVERY = HOUR
#: How long the event ids of a deleted file stay in the store, and how long its row does.
IDS_KEPT = DAY
ROWS_KEPT = 7 * DAY
#: The search index finds nothing of a pruned session from then on. The words themselves leave it when it is rebuilt,
#: which takes a while on a large store and so happens once a week at most.
INDEX_REBUILT_AFTER = 7 * DAY
_FILES_IN_A_PIECE = 200


@dataclass(kw_only=True)
class Maintenance:
    """Runs every hour; ``step`` does a piece of the current run."""

    store: SqliteStore
    settings: Settings
    _run: Iterator[bool] | None = None
    _next_run: float = field(default=0.0)

    def step(self, seconds: float) -> bool:
        """Work for about this long; True if recorded data was removed, so that caches of it are stale."""
        if self._run is None:
            if time.monotonic() < self._next_run:
                return False
            self._next_run = time.monotonic() + RUN_EVERY
            self._run = run(self.store, self.settings)
        removed, deadline = False, time.monotonic() + seconds
        for changed in self._run:
            removed = removed or changed
            if time.monotonic() >= deadline:
                return removed
        self._run = None
        return removed

    def interrupted(self) -> None:
        """A piece failed: begin a new run once the cause is gone."""
        self._run = None
        self._next_run = 0.0


def run(
    store: SqliteStore, settings: Settings, *, now: float | None = None, days: float | None = None
) -> Generator[bool, None, None]:
    """One run, piece by piece; each piece says whether it removed recorded data.

    ``days`` stands in for the setting ``retention.days``; 0 keeps everything.
    """
    now = time.time() if now is None else now
    days = settings.retention.days if days is None else days
    report = store.retention.report()
    if days:
        yield from _retention(store, settings, now - days * DAY, now, report)
    yield from _rules(store, settings, now, report)
    yield from _vanished_files(store, now, report)
    yield from _search_index(store, now, min(INDEX_REBUILT_AFTER, days * DAY or INDEX_REBUILT_AFTER))
    report.last_run_at = now
    store.retention.save_report(report)


def _retention(store: SqliteStore, settings: Settings, cutoff: float, now: float, report: Report) -> Iterator[bool]:
    retention = store.retention
    for number in retention.old_sessions(cutoff):
        spans, events = retention.prune_session(number, now)
        report.sessions, report.spans, report.events = report.sessions + 1, report.spans + spans, report.events + events
        store.search_index.mark_stale(now)
        yield True
    retention.forget_quarantined(cutoff)
    yield False
    report.log_files += remove_recorded_logs(store.files, settings.home, cutoff)
    yield False
    for size in retention.sweep():
        report.bytes += size
        yield False
    retention.save_report(report)


def _rules(store: SqliteStore, settings: Settings, now: float, report: Report) -> Iterator[bool]:
    kept = [days for days in (settings.retention.rules_days, settings.retention.days) if days]
    if kept:
        for firings in store.rules.prune(now - min(kept) * DAY, now):
            report.firings += firings
            yield False


def _vanished_files(store: SqliteStore, now: float, report: Report) -> Iterator[bool]:
    files = store.files
    listed = files.present()
    for start in range(0, len(listed), _FILES_IN_A_PIECE):
        part = listed[start : start + _FILES_IN_A_PIECE]
        if gone := [number for number, path in part if not still_there(path)]:
            files.mark_gone(gone, now)
        yield False
    for removed in store.retention.expire_ids(now - IDS_KEPT, still_there):
        report.event_ids += removed
        yield False
    numbers = files.unused(now - ROWS_KEPT)
    for start in range(0, len(numbers), _FILES_IN_A_PIECE):
        report.files += files.forget(numbers[start : start + _FILES_IN_A_PIECE])
        yield False


def _search_index(store: SqliteStore, now: float, after: float) -> Iterator[bool]:
    """Empty the index once it has had words of pruned sessions for long enough; it is refilled in pieces."""
    index = store.search_index
    since = index.stale_since
    if since is not None and since <= now - after:
        index.reset()
        yield False


# -- logs of received spans: AgentTrace wrote them, and retention removes them with what was recorded of them ---------


def recorded_logs(files: Files, home: Path, cutoff: float) -> list[Path]:
    """Logs without a change since ``cutoff`` (seconds since the epoch), of which every byte was read."""
    found = []
    for path in sorted((home / "logs" / "otlp").glob("spans-*.jsonl")):
        now = path.stat()
        read = files.read_up_to(os.path.realpath(path))
        if now.st_mtime < cutoff and read is not None and read >= now.st_size:
            found.append(path)
    return found


def remove_recorded_logs(files: Files, home: Path, cutoff: float) -> int:
    """Remove these logs; how many."""
    found = recorded_logs(files, home, cutoff)
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)
