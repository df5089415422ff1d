"""``/api/v1/exports``: the destinations of spans and their progress; pause, resume, retry, accept and backfill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NoReturn, TypeVar

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import Cached, answer, endpoint
from agenttrace.serve.api.lists import Cursor, Limit, micros_of, page_of, place_of
from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.exports import Backfill, Destination, ExportChange, Exports, ExportSpan, ExportSpanList
from agenttrace.serve.api.trace_reader import change_store
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.store.exports import NOTHING, DestinationRow, Listed
from agenttrace.store.sqlite.exports import Exports as StoredExports
from agenttrace.store.sqlite.exports import LedgerReader
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.exports import exports_fields, keys_hidden_of, span_fields
from agenttrace.views.times import iso

T = TypeVar("T")

#: An answer is cached for this long.
_SECONDS = 1.0
#: Of the endpoints that change something.
_ERRORS = (400, 401, 404, 422, 503)
Name = Annotated[str, Path(max_length=64, description="The NAME of its table `[destinations.NAME]`.")]


class ExportRetry(BaseModel):
    """Which spans to send again. Unknown ones may have arrived: a destination that keeps repeats has them twice."""

    states: Annotated[list[Literal["refused", "unknown"]], Field(min_length=1, max_length=2)] = ["refused"]


class BackfillRequest(BaseModel):
    """From when on to send."""

    since: Annotated[str, Field(max_length=100, description="`30d`, `2026-11-01`, an ISO time, or `all`.")]


def cached_exports(context: ServerContext) -> Cached[Exports]:
    """All destinations, at most a second old."""
    reader = LedgerReader()

    async def make() -> Exports:
        known = await context.reader.query_machine(reader.read, empty=lambda: NOTHING)
        return msgspec.convert(exports_fields(known, context.settings), Exports)

    return Cached(make, _SECONDS)


def exports_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["exports"])
    exports = cached_exports(context)

    @router.get("/exports", **endpoint("Where spans are sent", Exports, 401))
    async def show_exports(request: Request) -> Response:
        return answer(request, await exports.get())

    @router.get(
        "/exports/{name}/spans",
        **endpoint("Spans of a destination, the latest first", ExportSpanList, 400, 401, 404, 422),
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

        return answer(request, await context.reader.query_machine(read, empty=lambda: _missing(name)))

    async def changed(request: Request, shape: Shape) -> Response:
        await exports.invalidate()
        return answer(request, shape)

    async def paused(request: Request, name: str, wish: bool) -> Response:
        async with audited(request, "export.pause" if wish else "export.resume", name):
            await _change(context, name, lambda exports, row: exports.destinations.set_paused(row.name, wish))
            await exports.invalidate()
            found = await exports.get()
            return answer(request, next(each for each in found.destinations if each.name == name))

    @router.post(
        "/exports/{name}/pause", **endpoint("Stop sending to a destination", Destination, *_ERRORS, for_admins=True)
    )
    async def pause(request: Request, name: Name) -> Response:
        return await paused(request, name, True)

    @router.post(
        "/exports/{name}/resume", **endpoint("Resume sending to a destination", Destination, *_ERRORS, for_admins=True)
    )
    async def resume(request: Request, name: Name) -> Response:
        return await paused(request, name, False)

    @router.post(
        "/exports/{name}/retry",
        **endpoint("Send refused or unknown spans again", ExportChange, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(ExportRetry, {"states": ["refused"]}, {"states": ["unknown"]}),
    )
    async def retry(request: Request, name: Name) -> Response:
        states = (await read_body(request, ExportRetry)).states
        async with audited(request, "export.retry", f"{name}: {', '.join(states)}"):
            number = await _change(context, name, lambda exports, row: exports.retry(row.destination_id, states))
            return await changed(request, ExportChange(number))

    @router.post(
        "/exports/{name}/accept", **endpoint("Mark unknown spans as arrived", ExportChange, *_ERRORS, for_admins=True)
    )
    async def accept(request: Request, name: Name) -> Response:
        async with audited(request, "export.accept", name) as change:
            number = await _change(context, name, lambda exports, row: exports.ledger.accept(row.destination_id))
            change.target = f"{name}: {number} spans"
            return await changed(request, ExportChange(number))

    @router.post(
        "/exports/{name}/backfill",
        **endpoint("Also send what was recorded earlier", Backfill, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(BackfillRequest, {"since": "30d"}, {"since": "all"}),
    )
    async def look_back(request: Request, name: Name) -> Response:
        since = (await read_body(request, BackfillRequest)).since
        everything = since.strip().lower() == "all"
        moment = 0 if everything else micros_of(since, context.settings) or 0
        async with audited(request, "export.backfill", f"{name}: since {since}"):
            traces = await _change(context, name, lambda exports, row: exports.destinations.backfill(row.name, moment))
            return await changed(request, Backfill(traces, iso(moment) if moment else None))

    return router


async def _change(context: ServerContext, name: str, work: Callable[[StoredExports, DestinationRow], T]) -> T:
    """Change the ledger of a destination; the exporter reads the change."""

    def change(store: SqliteStore) -> T:
        return work(store.exports, _named(store.exports, name))

    return await change_store(context.reader.source, change, empty=lambda: _missing(name))


def _named(exports: StoredExports, name: str) -> DestinationRow:
    for row in exports.destinations.rows():
        if row.name == name and row.removed_at is None:
            return row
    return _missing(name)


def _missing(name: str) -> NoReturn:
    raise ProblemError(404, f"There is no destination named {name}, or nothing was recorded since it was added.")
