"""Makes the state of budgets for hooks anew, from the store; and records a session's log while nothing else records."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agenttrace.config import Settings, SettingsError, load_settings
from agenttrace.locking import LockedError, ProcessLock
from agenttrace.rules import guard, guard_state, state_files
from agenttrace.store import store_path
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.session_state import StateLimits
from agenttrace.store.sqlite.store import SqliteStore

#: How long a hook waits for a store that is locked.
_BUSY_SECONDS = 0.2
#: After how long settings that cannot be used, and a store that cannot be read, are tried again.
_BROKEN_SECONDS, _BUSY_AGAIN_SECONDS = 3_600.0, 30.0


def refreshed(home: str) -> Any:  # noqa: ANN401 - JSON
    """Write the state and read it."""
    try:
        write(load_settings())
    except SettingsError as error:
        file = os.environ.get("AGENTTRACE_CONFIG") or os.path.join(home, "agenttrace.toml")
        _write_failed(home, file, _BROKEN_SECONDS, error)
    except STORE_FAILURES as error:
        _write_failed(home, "", _BUSY_AGAIN_SECONDS, error)
    return guard.read_state(home)


def _write_failed(home: str, file: str, seconds: float, error: Exception) -> None:
    state_files.log(home, f"budgets are not known: {error}")
    guard.write_failed(home, file, seconds, time.time())


def refresh_beside(transcript: str | None) -> None:
    """What the process does that a hook has started: record what the session has written, then write the state."""
    home = state_files.data_directory()
    lock = Path(guard.lock_path(home))
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(LockedError), ProcessLock(lock):
        if transcript:
            with suppress(SettingsError):
                _record(load_settings(), transcript)
        refreshed(home)
        guard_state.forget_warnings(home, time.time())


def write(settings: Settings) -> None:
    """Write the state of now."""
    path = store_path(settings.home)
    if not settings.budgets or not path.exists():
        guard_state.refresh(None, settings)
        return
    limits = StateLimits.of(settings.record)
    with SqliteStore.open(path, limits=limits, busy_seconds=_BUSY_SECONDS) as store:
        guard_state.refresh(store, settings)


def _record(settings: Settings, transcript: str) -> None:
    """Record one log, if nothing records: budgets count what is recorded. Old logs are left to ``record``."""
    from agenttrace.record.lock import AlreadyRecordingError, RecorderLock
    from agenttrace.record.recorder import Recorder

    if not settings.budgets or not store_path(settings.home).exists() or not os.path.isfile(transcript):
        return
    try:
        with RecorderLock(settings.home):
            recorder = Recorder(settings, paths=[transcript])
            try:
                recorder.run_once()
            finally:
                recorder.close()
    except AlreadyRecordingError:
        return
    except Exception as error:
        state_files.log(str(settings.home), f"could not record {transcript}: {error}")
