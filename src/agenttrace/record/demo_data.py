"""Demo data in the user's own store: logs in a directory of their own, which the recorder reads like any others.

They are written beside their place and moved there whole, so a program that is killed meanwhile leaves nothing that is
recorded. To remove them, a file is written that says so: the recorder, which alone may change what it records, removes
logs and records and then that file, in this process or a later one.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agenttrace.locking import LockedError, ProcessLock
from agenttrace.projects import DEMO
from agenttrace.record.lock import AlreadyRecordingError, RecorderLock

if TYPE_CHECKING:
    from agenttrace.config import Settings

#: ``removing``: until the recorder has removed everything.
DemoState = Literal["absent", "loaded", "removing"]

_DIRECTORY, _NEW, _REMOVE, _LOCK = "demo", "demo.new", "demo.remove", "demo.lock"
_DAYS = 14
_LOOK_SECONDS = 0.05


class DemoBusyError(Exception):
    """Another process loads or removes demo data at this moment."""


def directory(home: Path) -> Path:
    """Where the demo logs are."""
    return home / _DIRECTORY


def state(home: Path) -> DemoState:
    """Whether there is demo data."""
    if removal_requested(home):
        return "removing"
    return "loaded" if directory(home).is_dir() else "absent"


def load(settings: Settings, *, seconds: float = 10.0) -> bool:
    """Write the logs, and record them where no recorder runs; False where they were there.

    Demo data that is being removed is waited for.
    """
    home = settings.home
    if not _wait_for_removal(home, seconds):
        raise DemoBusyError("The demo data is being removed. Try again in a moment.")
    with _alone(home):
        fresh = not directory(home).is_dir()
        if fresh:
            _write(home)
    _record_here(settings)
    return fresh


def remove(settings: Settings, *, seconds: float = 10.0) -> bool:
    """Have the demo data removed; True once it is, False where the recorder is still at it."""
    home = settings.home
    with _alone(home):
        shutil.rmtree(home / _NEW, ignore_errors=True)
        (home / _REMOVE).touch(mode=0o600)
    _record_here(settings)
    return _wait_for_removal(home, seconds)


def removal_requested(home: Path) -> bool:
    """Whether the demo data is to be removed."""
    return (home / _REMOVE).exists()


def removal_finished(home: Path) -> None:
    """Everything is removed."""
    (home / _REMOVE).unlink(missing_ok=True)


def _wait_for_removal(home: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while removal_requested(home):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _write(home: Path) -> None:
    from agenttrace.demo.writer import past, today

    new = home / _NEW
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    past(new, days=_DAYS, work=DEMO)
    today(new, work=DEMO)
    new.rename(directory(home))


def _record_here(settings: Settings) -> None:
    """Record the demo logs, or remove them, where no recorder does it."""
    from agenttrace.record.recorder import Recorder
    from agenttrace.record.texts.search_index import index_all

    try:
        with RecorderLock(settings.home):
            recorder = Recorder(settings)
            recorder.roots = []
            try:
                recorder.run_once()
                index_all(recorder.store)
            finally:
                recorder.close()
    except AlreadyRecordingError:
        return


def _alone(home: Path) -> ProcessLock:
    try:
        return ProcessLock(home / _LOCK)
    except LockedError:
        raise DemoBusyError("The demo data is being changed by another process. Try again in a moment.") from None
