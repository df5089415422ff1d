"""Another try at lines in quarantine: asked of whoever records, or made at once where nobody does."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress

from agenttrace.config import Settings
from agenttrace.record.lock import AlreadyRecordingError, RecorderLock, owner
from agenttrace.record.quarantine import ask_retry, asked, retry_asked
from agenttrace.serve.problems import ProblemError
from agenttrace.store.errors import StoreError
from agenttrace.store.sqlite.database import connect
from agenttrace.views.places import store_path


def retry_lines(settings: Settings, ids: Sequence[int] | None) -> int:
    """Have these entries tried again, or all; how many that are comes back. Blocks while it waits for the store."""
    path = store_path(settings)
    if not path.exists():
        return 0
    try:
        with closing(connect(path)) as connection:
            number = ask_retry(connection, ids)
            if number and owner(settings.home) is None:
                _retry_now(connection, settings)
            return number
    except (StoreError, sqlite3.OperationalError) as error:
        raise ProblemError(503, f"The store cannot be written at the moment: {error}.") from error


def _retry_now(connection: sqlite3.Connection, settings: Settings) -> None:
    # Who begins to record at this very moment finds what was asked for, and does it.
    with suppress(AlreadyRecordingError), RecorderLock(settings.home):
        while found := asked(connection):
            retry_asked(connection, settings, found)
