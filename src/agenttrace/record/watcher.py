"""The long-running recorder: woken when a file changes, with a slow scan as a safety net.

What can fail outside (disk full, store locked, directory read-only) is logged once and retried after a pause; nothing
is lost meanwhile, because nothing counts as read before it is stored.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from watchfiles import watch

from agenttrace.record import health
from agenttrace.record.demo_data import removal_requested
from agenttrace.record.ingest import quarantine
from agenttrace.record.maintenance import Maintenance
from agenttrace.record.outcome_updates import OutcomeUpdates
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts import search_index
from agenttrace.record.texts.contents import Interpreter
from agenttrace.store.errors import STORE_FAILURES, StoreError, is_corruption

logger = logging.getLogger(__name__)

#: How long changes are collected before a round, and the pause that ends collecting, in milliseconds.
_DEBOUNCE_MS = 40
_STEP_MS = 14
_RETRY_SECONDS = (0.5, 1, 2, 5, 10)
#: Between two checks of files that no watch reports: moved away, or ended without a newline.
_WAKE_SECONDS = 0.25
#: Scanning takes at most one part in this many of the time.
_SCAN_SHARE = 250
#: Between two portions of search indexing while lines keep coming.
_INDEX_SECONDS = 5.0
#: So many events at once use memory that is worth freeing, which takes longer than indexing a few.
_BURST_EVENTS = 500
#: One portion of clean-up; new lines wait meanwhile.
_MAINTENANCE_SECONDS = 0.05


class Watcher:
    """Follows the recorder's roots until ``stop`` is set."""

    def __init__(
        self,
        recorder: Recorder,
        stop: threading.Event,
        *,
        on_problem: Callable[[str | None], None] = lambda _: None,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self.recorder = recorder
        self.stop = stop
        self._on_problem = on_problem
        self._on_commit = on_commit
        self._failures = 0
        #: Whether a round has succeeded since the last failure, perhaps in an earlier process.
        self._is_well = False
        self._watched: tuple[Path, ...] = ()
        self._next_scan = self._next_index = 0.0
        self._rested = False
        self._maintenance = Maintenance(store=recorder.store, settings=recorder.settings)
        self._outcomes = OutcomeUpdates(recorder.store)
        #: The version of the store after the last write of another process; -1: not read yet.
        self._others_wrote = -1
        #: Files with lines that are being tried again.
        self._retried: set[int] = set()

    def run(self) -> None:
        """Record until ``stop`` is set."""
        self._round(None)
        self.recorder.store.expect_small_commits()
        while not self.stop.is_set():
            self._watched = self._existing_roots()
            if self._watched:
                self._watch()
            else:
                # No agent has written anything yet; its directory may be created any time.
                self.stop.wait(min(1.0, self.recorder.settings.record.poll_seconds))
                self._round(None)

    def _watch(self) -> None:
        interval = self.recorder.settings.record.poll_seconds
        wake = min(_WAKE_SECONDS, interval)
        for changes in watch(
            *self._watched,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            rust_timeout=int(wake * 1000),
            yield_on_timeout=True,
            stop_event=self.stop,
            watch_filter=None,
            ignore_permission_denied=True,
            raise_interrupt=False,
        ):
            self._round({path for _, path in changes})
            if self._existing_roots() != self._watched:
                # What was written there before it is watched is found by a scan.
                self._next_scan = 0.0
                return

    def _existing_roots(self) -> tuple[Path, ...]:
        """Directories to watch: the roots that exist, and for single files the directory they are in.

        Projects are not watched for the log that an agent writes there: they may have any number of files.
        """
        found = []
        for root in self.recorder.current_roots:
            if root.agent is not None and root.agent.traits.project_log:
                continue
            place = root.path if root.path.is_dir() else root.path.parent
            if place.is_dir() and place not in found:
                found.append(place)
        return tuple(found)

    def _round(self, changed: set[str] | None) -> None:
        """Record what changed, index a little; pause after a failure."""
        recorder = self.recorder
        try:
            if changed is None or time.monotonic() >= self._next_scan or removal_requested(recorder.settings.home):
                self._scan()
            for path in changed or ():
                recorder.see_path(os.path.realpath(path))
            recorder.look_at_open()
            recorder.look_at_projects()
            recorder.look_at_unterminated()
            self._retry()
            if recorder.dirty:
                recorder.drain(stop=self.stop.is_set)
                self._on_commit()
            if not changed or time.monotonic() >= self._next_index:
                self._index()
                self._maintain()
            self._recovered()
        except STORE_FAILURES as error:
            if isinstance(error, StoreError) or is_corruption(error):
                raise
            self._wait_out(str(error))
        except OSError as error:
            self._wait_out(error.strerror or str(error))

    def _scan(self) -> None:
        """The safety net; where a scan takes long because there are many files, it is done less often."""
        began = time.monotonic()
        self.recorder.scan()
        taken = time.monotonic() - began
        pause = max(self.recorder.settings.record.poll_seconds, taken * _SCAN_SHARE)
        self._next_scan = began + taken + pause

    def _retry(self) -> None:
        """Retry lines in quarantine for which a retry is requested, a portion in each round.

        A request is a write of another process to the store, and checking for one costs nothing.
        """
        self._take_over()
        recorder = self.recorder
        wrote = recorder.store.foreign_version()
        if wrote == self._others_wrote:
            return
        asked = quarantine.requested(recorder.store)
        if not asked:
            self._others_wrote = wrote
            return
        self._retried = {entry.file_id for entry in asked}
        quarantine.retry_requested(recorder.store, recorder.settings, asked, self.stop.is_set)
        self._take_over()
        self._on_commit()

    def _take_over(self) -> None:
        """Load what a retry has changed in the store, even if it then failed."""
        if self._retried:
            self.recorder.reload(self._retried)
            self._retried = set()

    def _index(self) -> None:
        """Fill the search index in quiet moments, a portion at a time so that new lines hardly wait for it."""
        self._next_index = time.monotonic() + _INDEX_SECONDS
        store = self.recorder.store
        interpreter = Interpreter(store)
        deadline = time.monotonic() + 0.1
        while time.monotonic() < deadline:
            indexed = search_index.index_portion(store, interpreter)
            if indexed == 0:
                self._outcomes.step(deadline - time.monotonic())
                self._rest()
                return
            self._rested = self._rested and indexed < _BURST_EVENTS

    def _maintain(self) -> None:
        """Retention and clean-up, a piece at a time; what the recorder remembers of removed data is dropped."""
        if self._maintenance.step(_MAINTENANCE_SECONDS):
            self._outcomes.interrupted()
            self.recorder.pipeline.roll_back()
            self._on_commit()

    def _rest(self) -> None:
        """Nothing is left to do: free the memory that a burst of work used."""
        if not self._rested:
            self._rested = True
            self.recorder.store.shrink_memory()
            gc.collect()

    def _wait_out(self, reason: str) -> None:
        delay = _RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS) - 1)]
        self._failures += 1
        if self._failures == 1:
            logger.warning("recording fails: %s; nothing is lost, retrying", reason)
        self._is_well = False
        health.report(self.recorder.settings.home, reason)
        self._on_problem(reason)
        self.recorder.pipeline.roll_back()
        self._maintenance.interrupted()
        self._outcomes.interrupted()
        self.stop.wait(delay)
        self._next_scan = 0.0

    def _recovered(self) -> None:
        if not self._is_well:
            health.clear(self.recorder.settings.home)
            self._is_well = True
        if self._failures:
            logger.warning("recording works again")
            self._failures = 0
            self._on_problem(None)
