"""``/api/v1/files`` and ``/quarantine``: how far logs are read, and the lines that could not be understood."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import admin
from agenttrace.serve.api.answers import BIGGEST, Cursor, Limit, answer, from_cursor, shaped, to_cursor
from agenttrace.serve.api.filters import Id, page_of, place_of
from agenttrace.serve.api.settings.recording import kept_recording
from agenttrace.serve.api.settings.retrying import retry_lines
from agenttrace.serve.api.shapes import (
    FileList,
    FileRow,
    QuarantineDetail,
    QuarantineList,
    QuarantineRow,
    RetryAnswer,
)
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.context import Context
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store.sqlite.quarantine import Entry
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.quarantine import entry_fields
from agenttrace.views.times import iso

FileState = Literal["all", "behind", "gone", "error"]
Number = Annotated[int, Field(ge=1, le=BIGGEST)]

#: Of a line, as much is shown.
_SHOWN_CHARS = 200_000


class Retry(BaseModel):
    """Which lines to try again; none named: all that were not understood."""

    ids: Annotated[list[Number], Field(max_length=10_000)] | None = None


class _Place(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    path: str


def files_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["files"])
    recording = kept_recording(context)

    @router.get("/files", summary="Log files by path", responses=shaped(FileList) | documented(400, 401, 422))
    async def list_files(
        request: Request,
        state: Annotated[FileState, Query(description="Only those that are behind, gone or unreadable.")] = "all",
        q: Annotated[str, Query(max_length=500, description="The path contains this.")] = "",
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        place = from_cursor(cursor, _Place)
        known = await recording.get()
        found = [file for file in known.files if _is_in(file, state) and q.casefold() in file.path.casefold()]
        rest = found if place is None else [file for file in found if file.path > place.path]
        page = rest[:limit]
        following = to_cursor(page[-1].path) if len(rest) > limit else None
        return answer(request, FileList(items=page, next=following, total=len(found), recording=known.state))

    @router.get(
        "/quarantine",
        summary="Lines that could not be understood, newest first",
        responses=shaped(QuarantineList) | documented(400, 401, 422),
    )
    async def list_quarantine(
        request: Request,
        resolved: Annotated[bool, Query(description="Also those that were understood since.")] = False,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        before = place_of(cursor)

        def read(store: SqliteStore) -> tuple[list[Entry], int, int]:
            found = store.quarantine.entries(resolved=resolved, before=before, lines=False, limit=limit + 1)
            return found, store.quarantine.waiting(), store.status.counted_only()

        found, waiting, counted = await context.reader.query(read, empty=lambda: ([], 0, 0))
        page, following = page_of(found, limit, lambda entry: entry.quarantine_id)
        items = [QuarantineRow(**_fields(entry)) for entry in page]
        return answer(request, QuarantineList(items=items, next=following, open=waiting, counted_only=counted))

    @router.get(
        "/quarantine/{entry_id}",
        summary="One of them with its line",
        responses=shaped(QuarantineDetail) | documented(401, 404, 422),
    )
    async def show_quarantined(request: Request, entry_id: Id) -> Response:
        found: list[Entry] = await context.reader.query(
            lambda store: store.quarantine.entries(only=entry_id), empty=list
        )
        if not found:
            raise ProblemError(404, f"There is no entry {entry_id} in the quarantine.")
        return answer(request, _detail(found[0]))

    @router.post(
        "/quarantine/retry",
        summary="Try lines again",
        description="Whoever records does it within a second, and leaves the result with each entry.",
        responses=shaped(RetryAnswer) | documented(400, 401, 403, 413, 422, 503),
        dependencies=[Depends(admin)],
        openapi_extra=documented_body(Retry, {"ids": [1, 2]}, {"ids": None}),
    )
    async def retry(request: Request) -> Response:
        wanted = (await read_body(request, Retry)).ids
        async with audited(request, "quarantine.retry", _target(wanted)):
            asked = await asyncio.to_thread(retry_lines, context.settings, wanted)
            return answer(request, RetryAnswer(asked=asked))

    return router


def _is_in(file: FileRow, state: FileState) -> bool:
    return {"all": True, "behind": file.behind > 0, "gone": file.gone, "error": file.error is not None}[state]


def _fields(entry: Entry) -> dict[str, Any]:
    asked = entry.retry_asked_at
    return {
        **entry_fields(entry),
        "retry_asked_at": None if asked is None else iso(round(asked * 1e6)),
        "retry_result": entry.retry_result,
    }


def _detail(entry: Entry) -> QuarantineDetail:
    kept = entry.kept()
    line = None if kept is None else kept.decode("utf-8", "backslashreplace")
    whole = kept is not None and line is not None and len(kept) == entry.length and len(line) <= _SHOWN_CHARS
    return QuarantineDetail(**_fields(entry), line=None if line is None else line[:_SHOWN_CHARS], cut=not whole)


def _target(ids: list[int] | None) -> str:
    if ids is None:
        return "all"
    named = ", ".join(map(str, ids[:20]))
    return f"{named} and {len(ids) - 20} more" if len(ids) > 20 else named or "none"
