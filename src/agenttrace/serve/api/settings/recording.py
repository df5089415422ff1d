"""How recording is doing, as the first page and the page of files show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agenttrace.record.health import problem
from agenttrace.record.lock import owner
from agenttrace.serve.api.caching import Kept
from agenttrace.serve.api.shapes import DedupTier, FileRow, LineCounts, RecordingState
from agenttrace.serve.context import Context
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.status import TIERS, collected

#: For as long an answer is good: making one means a look at every directory of the agents.
_SECONDS = 2.0


@dataclass(frozen=True)
class Recording:
    """The state, and the files that it is summed up from, by path."""

    state: RecordingState
    files: list[FileRow]


def kept_recording(context: Context) -> Kept[Recording]:
    """How it is now, or was two seconds ago."""

    async def make() -> Recording:
        return await context.reader.query(lambda store: _read(store, context), empty=lambda: _nothing(context))

    return Kept(make, _SECONDS)


def _read(store: SqliteStore, context: Context) -> Recording:
    found = collected(store, context.settings)
    files = sorted((FileRow(**file) for file in found["files"]), key=lambda file: file.path)
    return Recording(_state(found), files)


def _state(found: dict[str, Any]) -> RecordingState:
    dedup = found["dedup"]
    return RecordingState(
        running=found["recorder"]["running"],
        pid=found["recorder"]["pid"],
        problem=found["recorder"]["problem"],
        restarts=found["recorder"]["restarts"],
        file_count=found["file_count"],
        read_bytes=found["read_bytes"],
        behind_bytes=found["behind_bytes"],
        behind_files=found["behind_files"],
        lost_bytes=found["lost_bytes"],
        lines=LineCounts(**found["lines"]),
        dedup=[DedupTier(tier, dedup[f"{tier}_hits"], dedup[f"{tier}_hit_rate"]) for tier in TIERS],
        new_events=dedup["misses"],
        quarantine_open=found["quarantine"]["open"],
        counted_only=found["quarantine"]["counted_only"],
        links_not_followed=len(found["links_not_followed"]),
        unreadable=len(found["unreadable"]),
        search_backlog=found["search_backlog"],
        database_bytes=found["database_bytes"],
    )


def _nothing(context: Context) -> Recording:
    """Before anything was recorded; somebody may be about to."""
    process, trouble = owner(context.settings.home), problem(context.settings.home)
    state = RecordingState(
        running=process is not None,
        pid=process,
        problem=None if trouble is None else trouble.reason,
        restarts=0 if trouble is None else trouble.restarts,
        file_count=0,
        read_bytes=0,
        behind_bytes=0,
        behind_files=0,
        lost_bytes=0,
        lines=LineCounts(0, 0, 0, 0, 0),
        dedup=[DedupTier(tier, 0, 0.0) for tier in TIERS],
        new_events=0,
        quarantine_open=0,
        counted_only=0,
        links_not_followed=0,
        unreadable=0,
        search_backlog=0,
        database_bytes=0,
    )
    return Recording(state, [])
