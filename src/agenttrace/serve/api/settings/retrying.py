"""Another try at lines in quarantine: asked of whoever records, or made at once where nobody does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from agenttrace.config import Settings
from agenttrace.record.ingest.quarantine import requested, retry_requested
from agenttrace.record.lock import AlreadyRecordingError, RecorderLock, owner
from agenttrace.serve.problems import ProblemError
from agenttrace.store import open_store, store_path
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.sqlite.store import SqliteStore


def retry_lines(settings: Settings, ids: Sequence[int] | None) -> int:
    """Have these entries tried again, or all; how many that are comes back. Blocks while it waits for the store."""
    if not store_path(settings.home).exists():
        return 0
    try:
        with open_store(settings, read_only=False) as store:
            number = store.quarantine.request_retry(ids)
            if number and owner(settings.home) is None:
                _retry_now(store, settings)
            return number
    except STORE_FAILURES as error:
        raise ProblemError(503, f"The store cannot be written at the moment: {error}.") from error


def _retry_now(store: SqliteStore, settings: Settings) -> None:
    # Who begins to record at this very moment finds what was asked for, and does it.
    with suppress(AlreadyRecordingError), RecorderLock(settings.home):
        while found := requested(store):
            retry_requested(store, settings, found)
