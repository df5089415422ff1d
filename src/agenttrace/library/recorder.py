"""Recording in one's own process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agenttrace.config import Settings, ensure_home, load_settings

if TYPE_CHECKING:
    from agenttrace.record.recorder import Summary


class Recorder:
    """Records the logs of agents into the store, each event exactly once.

    One recorder runs on a data directory at a time; the second one raises ``AlreadyRecordingError``.
    """

    def __init__(self, home: str | Path | None = None, *, paths: Sequence[str] = (), agent: str | None = None) -> None:
        self._settings: Settings = load_settings(flags={"home": None if home is None else str(home)})
        self._paths, self._agent = tuple(paths), agent

    def once(self, on_progress: Callable[[int], None] | None = None) -> Summary:
        """Record what is there, and return the counts; ``on_progress`` is called with the bytes read so far."""
        from agenttrace.record.importing import import_all
        from agenttrace.record.lock import RecorderLock

        with RecorderLock(ensure_home(self._settings)) as lock:
            return import_all(
                self._settings, lock, paths=self._paths, agent=self._agent, on_progress=on_progress or (lambda _: None)
            )

    def follow(self, stop: threading.Event, on_commit: Callable[[], None] | None = None) -> Summary:
        """Record until ``stop`` is set; ``on_commit`` is called after each commit."""
        import time

        from agenttrace.record.lock import RecorderLock
        from agenttrace.record.recorder import Recorder as LogRecorder
        from agenttrace.record.watcher import Watcher

        started = time.monotonic()
        with RecorderLock(ensure_home(self._settings)):
            recorder = LogRecorder(self._settings, paths=self._paths, agent=self._agent)
            try:
                Watcher(recorder, stop, on_commit=on_commit or (lambda: None)).run()
                return recorder.finish(started)
            finally:
                recorder.close()
