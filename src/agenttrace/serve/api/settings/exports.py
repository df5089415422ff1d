"""``/api/v1/exports``: where spans are sent and how far that is, and what users may change about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field

from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import admin
from agenttrace.serve.api.answers import Cursor, Limit, answer, shaped
from agenttrace.serve.api.caching import Kept
from agenttrace.serve.api.filters import page_of, place_of
from agenttrace.serve.api.shapes import (
    Backfill,
    Destination,
    ExportChange,
    Exports,
    ExportSpan,
    ExportSpanList,
    Shape,
)
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.context import Context
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.store import open_store
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.exports import NOTHING, DestinationRow, Listed
from agenttrace.store.sqlite.exports import Exports as StoredExports
from agenttrace.store.sqlite.exports import LedgerReader
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.exports import exports_fields, keys_hidden_of, span_fields
from agenttrace.views.times import NotATimeError, iso, parse_when

T = TypeVar("T")

#: For as long an answer is good.
_SECONDS = 1.0
Name = Annotated[str, Path(max_length=64, description="The NAME of its table `[destinations.NAME]`.")]


class Retry(BaseModel):
    """Which spans to send again. Unknown ones may be there: where a destination keeps repeats, twice then."""

    states: Annotated[list[Literal["refused", "unknown"]], Field(min_length=1, max_length=2)] = ["refused"]


class Since(BaseModel):
    """From when on to look."""

    since: Annotated[str, Field(max_length=100, description="`30d`, `2026-11-01`, an ISO time, or `all`.")]


def kept_exports(context: Context) -> Kept[Exports]:
    """All destinations as they are now, or were a second ago."""
    reader = LedgerReader()

    async def make() -> Exports:
        known = await context.reader.query(reader.read, empty=lambda: NOTHING)
        return msgspec.convert(exports_fields(known, context.settings), Exports)

    return Kept(make, _SECONDS)


def exports_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["exports"])
    exports = kept_exports(context)

    @router.get("/exports", summary="Where spans are sent", responses=shaped(Exports) | documented(401))
    async def show_exports(request: Request) -> Response:
        return answer(request, await exports.get())

    @router.get(
        "/exports/{name}/spans",
        summary="Spans of a destination, the latest first",
        responses=shaped(ExportSpanList) | documented(400, 401, 404, 422),
    )
    async def list_spans(
        request: Request,
        name: Name,
        state: Annotated[Listed, Query(description="What became of them; `late`: changed after they were sent.")],
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        before = place_of(cursor)

        def read(store: SqliteStore) -> ExportSpanList:
            number = _named(store.exports, name).destination_id
            hide = keys_hidden_of(context.settings, name)
            found = store.exports.ledger.listed(number, state, before=before, limit=limit + 1)
            page, following = page_of(found, limit, lambda span: span.number)
            return ExportSpanList([msgspec.convert(span_fields(span, hide), ExportSpan) for span in page], following)

        def nothing() -> ExportSpanList:
            raise _missing(name)

        return answer(request, await context.reader.query(read, empty=nothing))

    async def changed(request: Request, shape: Shape) -> Response:
        await exports.forget()
        return answer(request, shape)

    async def paused(request: Request, name: str, wish: bool) -> Response:
        async with audited(request, "export.pause" if wish else "export.resume", name):
            await _change(context, name, lambda exports, row: exports.destinations.set_paused(row.name, wish))
            await exports.forget()
            found = await exports.get()
            return answer(request, next(each for each in found.destinations if each.name == name))

    @router.post("/exports/{name}/pause", summary="Stop sending to a destination", **_changes(Destination))
    async def pause(request: Request, name: Name) -> Response:
        return await paused(request, name, True)

    @router.post("/exports/{name}/resume", summary="Go on sending to a destination", **_changes(Destination))
    async def resume(request: Request, name: Name) -> Response:
        return await paused(request, name, False)

    @router.post(
        "/exports/{name}/retry",
        summary="Send again what was refused, or of which nobody knows",
        openapi_extra=documented_body(Retry, {"states": ["refused"]}, {"states": ["unknown"]}),
        **_changes(ExportChange),
    )
    async def retry(request: Request, name: Name) -> Response:
        states = (await read_body(request, Retry)).states
        async with audited(request, "export.retry", f"{name}: {', '.join(states)}"):
            number = await _change(context, name, lambda exports, row: exports.ledger.retry(row.destination_id, states))
            return await changed(request, ExportChange(number))

    @router.post("/exports/{name}/accept", summary="What is unknown did arrive", **_changes(ExportChange))
    async def accept(request: Request, name: Name) -> Response:
        async with audited(request, "export.accept", name) as change:
            number = await _change(context, name, lambda exports, row: exports.ledger.accept(row.destination_id))
            change.target = f"{name}: {number} spans"
            return await changed(request, ExportChange(number))

    @router.post(
        "/exports/{name}/backfill",
        summary="Also send what was recorded earlier",
        openapi_extra=documented_body(Since, {"since": "30d"}, {"since": "all"}),
        **_changes(Backfill),
    )
    async def look_back(request: Request, name: Name) -> Response:
        since = (await read_body(request, Since)).since
        moment = _moment(since, context.settings.usage.timezone)
        async with audited(request, "export.backfill", f"{name}: since {since}"):
            traces = await _change(context, name, lambda exports, row: exports.destinations.backfill(row.name, moment))
            return await changed(request, Backfill(traces, iso(moment) if moment else None))

    return router


def _changes(shape: type[Shape]) -> dict[str, Any]:
    """What all endpoints have in common that change something."""
    return {
        "responses": shaped(shape) | documented(400, 401, 403, 404, 422, 503),
        "dependencies": [Depends(admin)],
    }


async def _change(context: Context, name: str, work: Callable[[StoredExports, DestinationRow], T]) -> T:
    """Change the ledger of a destination; whoever sends finds it changed."""
    path = context.reader.path

    def change() -> T:
        if not path.exists():
            raise _missing(name)
        try:
            with open_store(context.settings, read_only=False) as store:
                return work(store.exports, _named(store.exports, name))
        except STORE_FAILURES as error:
            raise ProblemError(503, f"The store cannot be written at the moment: {error}.") from error

    return await asyncio.to_thread(change)


def _named(exports: StoredExports, name: str) -> DestinationRow:
    for row in exports.destinations.rows():
        if row.name == name and row.removed_at is None:
            return row
    raise _missing(name)


def _missing(name: str) -> ProblemError:
    return ProblemError(404, f"There is no destination named {name}, or nothing was recorded since it was added.")


def _moment(since: str, timezone: str) -> int:
    if since.strip().lower() == "all":
        return 0
    try:
        return parse_when(since, timezone)
    except NotATimeError as error:
        raise ProblemError(400, str(error)) from None
