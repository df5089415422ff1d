"""``/api/v1/files`` and ``/quarantine``: how far logs are read, and the lines that could not be understood."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from agenttrace.config import Settings
from agenttrace.record.health import problem
from agenttrace.record.ingest.quarantine import requested, retry_requested
from agenttrace.record.lock import AlreadyRecordingError, RecorderLock, owner
from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import Cached, answer, endpoint, shape_of
from agenttrace.serve.api.lists import BIGGEST, Cursor, Id, Limit, from_cursor, page_of, place_of, to_cursor
from agenttrace.serve.api.shapes.recording import (
    DedupTier,
    FileList,
    FileRow,
    LineCounts,
    QuarantineDetail,
    QuarantineList,
    QuarantineRow,
    RecorderState,
    RecordingState,
    RetryAnswer,
)
from agenttrace.serve.api.trace_reader import change_store
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.store.sqlite.quarantine import QuarantineEntry
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.quarantine import entry_fields
from agenttrace.views.status import TIERS, collected
from agenttrace.views.times import iso

FileState = Literal["all", "behind", "gone", "error"]
Number = Annotated[int, Field(ge=1, le=BIGGEST)]

#: An answer is cached for this long: building one reads every directory of the agents.
_SECONDS = 2.0
#: Characters of a line that are shown.
_SHOWN_CHARS = 200_000


class QuarantineRetry(BaseModel):
    """Which lines to try again; without ids all that were not understood."""

    ids: Annotated[list[Number], Field(max_length=10_000)] | None = None


def files_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["files"])
    recording = cached_recording(context)

    @router.get("/files", **endpoint("Log files by path", FileList, 400, 401, 422))
    async def list_files(
        request: Request,
        state: Annotated[FileState, Query(description="Only those that are behind, gone or unreadable.")] = "all",
        q: Annotated[str, Query(max_length=500, description="The path contains this.")] = "",
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        place = from_cursor(cursor, tuple[str])
        known = await recording.get()
        found = [file for file in known.files if _is_in(file, state) and q.casefold() in file.path.casefold()]
        rest = found if place is None else [file for file in found if file.path > place[0]]
        page = rest[:limit]
        following = to_cursor(page[-1].path) if len(rest) > limit else None
        return answer(request, FileList(items=page, next=following, total=len(found), recording=known.state))

    @router.get(
        "/quarantine", **endpoint("Lines that could not be understood, newest first", QuarantineList, 400, 401, 422)
    )
    async def list_quarantine(
        request: Request,
        resolved: Annotated[bool, Query(description="Also those that were understood since.")] = False,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        before = place_of(cursor)

        def read(store: SqliteStore) -> tuple[list[QuarantineEntry], int, int]:
            found = store.quarantine.entries(resolved=resolved, before=before, lines=False, limit=limit + 1)
            return found, store.quarantine.waiting(), store.status.counted_only()

        found, waiting, counted = await context.reader.query_machine(read, empty=lambda: ([], 0, 0))
        page, following = page_of(found, limit, lambda entry: entry.quarantine_id)
        items = [QuarantineRow(**_fields(entry)) for entry in page]
        return answer(request, QuarantineList(items=items, next=following, open=waiting, counted_only=counted))

    @router.get("/quarantine/{entry_id}", **endpoint("One of them with its line", QuarantineDetail, 401, 404, 422))
    async def show_quarantined(request: Request, entry_id: Id) -> Response:
        found: list[QuarantineEntry] = await context.reader.query_machine(
            lambda store: store.quarantine.entries(only=entry_id), empty=list
        )
        if not found:
            raise ProblemError(404, f"There is no entry {entry_id} in the quarantine.")
        return answer(request, _detail(found[0]))

    @router.post(
        "/quarantine/retry",
        **endpoint("Try lines again", RetryAnswer, 400, 401, 413, 422, 503, for_admins=True),
        description="The recorder does it within a second, and writes the result to each entry.",
        openapi_extra=documented_body(QuarantineRetry, {"ids": [1, 2]}, {"ids": None}),
    )
    async def retry(request: Request) -> Response:
        wanted, settings = (await read_body(request, QuarantineRetry)).ids, context.settings
        async with audited(request, "quarantine.retry", _target(wanted)):
            asked = await change_store(context.reader.source, lambda store: _retry(store, settings, wanted), empty=int)
            return answer(request, RetryAnswer(asked=asked))

    return router


# -- quarantine ---------------------------------------------------------------------------------------------------


def _fields(entry: QuarantineEntry) -> dict[str, Any]:
    asked = entry.retry_asked_at
    return {
        **entry_fields(entry),
        "retry_asked_at": None if asked is None else iso(round(asked * 1e6)),
        "retry_result": entry.retry_result,
    }


def _detail(entry: QuarantineEntry) -> QuarantineDetail:
    kept = entry.kept()
    line = None if kept is None else kept.decode("utf-8", "backslashreplace")
    whole = kept is not None and line is not None and len(kept) == entry.length and len(line) <= _SHOWN_CHARS
    return QuarantineDetail(**_fields(entry), line=None if line is None else line[:_SHOWN_CHARS], cut=not whole)


def _target(ids: list[int] | None) -> str:
    if ids is None:
        return "all"
    named = ", ".join(map(str, ids[:20]))
    return f"{named} and {len(ids) - 20} more" if len(ids) > 20 else named or "none"


def _retry(store: SqliteStore, settings: Settings, ids: Sequence[int] | None) -> int:
    """Request a retry of these entries, or all, from the recorder; without a recorder do it now. Returns how many."""
    number = store.quarantine.request_retry(ids)
    if number and owner(settings.home) is None:
        # A recorder that starts at this moment finds the requests, and carries them out.
        with suppress(AlreadyRecordingError), RecorderLock(settings.home):
            while found := requested(store):
                retry_requested(store, settings, found)
    return number


# -- the state of recording ---------------------------------------------------------------------------------------


class Recording(NamedTuple):
    """The state, and the files that it sums up, by path."""

    state: RecordingState
    files: list[FileRow]


def cached_recording(context: ServerContext) -> Cached[Recording]:
    """The state of recording, at most two seconds old."""
    query = context.reader.query_machine
    return Cached(lambda: query(lambda store: _read(store, context), empty=lambda: _nothing(context)), _SECONDS)


def _read(store: SqliteStore, context: ServerContext) -> Recording:
    found = collected(store, context.settings)
    dedup, quarantine = found["dedup"], found["quarantine"]
    fields = {
        **found,
        **found["recorder"],
        "lines": LineCounts(**found["lines"]),
        "dedup": [DedupTier(tier, dedup[f"{tier}_hits"], dedup[f"{tier}_hit_rate"]) for tier in TIERS],
        "new_events": dedup["misses"],
        "quarantine_open": quarantine["open"],
        "counted_only": quarantine["counted_only"],
        "links_not_followed": len(found["links_not_followed"]),
        "unreadable": len(found["unreadable"]),
    }
    files = sorted((FileRow(**file) for file in found["files"]), key=lambda file: file.path)
    return Recording(shape_of(RecordingState, fields), files)


def _nothing(context: ServerContext) -> Recording:
    """Before anything was recorded; a recorder may be starting."""
    fields: dict[str, Any] = dict.fromkeys(RecordingState.__struct_fields__, 0)
    fields |= msgspec.structs.asdict(recorder_state(None, context.settings))
    fields["dedup"] = [DedupTier(tier, 0, 0.0) for tier in TIERS]
    return Recording(RecordingState(**fields), [])


def recorder_state(store: SqliteStore | None, settings: Settings) -> RecorderState:
    """Whether agents are recorded; no log file is looked at."""
    process, trouble = owner(settings.home), problem(settings.home)
    lines = None if store is None else msgspec.structs.asdict(store.status.lines())
    return RecorderState(
        running=process is not None,
        pid=process,
        problem=None if trouble is None else trouble.reason,
        restarts=0 if trouble is None else trouble.restarts,
        lines=LineCounts(0, 0, 0, 0, 0) if lines is None else LineCounts(**lines),
        quarantine_open=0 if store is None else store.quarantine.waiting(),
    )


def _is_in(file: FileRow, state: FileState) -> bool:
    return {"all": True, "behind": file.behind > 0, "gone": file.gone, "error": file.error is not None}[state]
