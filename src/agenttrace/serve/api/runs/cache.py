"""``/api/v1/cache``: cached results of applications, and invalidating them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from agenttrace.run.engine import Engine
from agenttrace.run.states import CacheStatus
from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import answer, endpoint, shape_of
from agenttrace.serve.api.lists import BIGGEST, NO_NUL, Cursor, Id, Limit, Name, Number, page_of, place_of
from agenttrace.serve.api.runs.run_state import engine_of
from agenttrace.serve.api.shapes.runs import CacheDetail, CacheList, CacheRow, Invalidated
from agenttrace.serve.bodies import StrictModel, documented_body, read_body
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.views.run import row_fields


class Invalidation(StrictModel):
    """Which results to invalidate: those that have all of these values."""

    cache_type: str | None = Field(default=None, min_length=1, max_length=30, pattern=NO_NUL)
    site_id: int | None = Field(default=None, strict=True, ge=0, le=BIGGEST)
    target_id: str | None = Field(default=None, min_length=1, max_length=100, pattern=NO_NUL)


def cache_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["cache"])

    @router.get("/cache", **endpoint("List cached results", CacheList, 400, 401, 422, 503))
    async def list_cache(
        request: Request,
        type: Name = None,  # noqa: A002 - the parameter's name
        site: Number = None,
        target: Name = None,
        status: CacheStatus | None = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        engine = engine_of(context)
        found = await engine.cache.list(
            cache_type=type,
            site_id=site,
            target_id=target,
            status=status,
            before_id=place_of(cursor),
            limit=limit + 1,
        )
        page, following = page_of(found, limit, lambda row: int(row["id"]))
        items = [shape_of(CacheRow, row_fields(row)) for row in page]
        types = sorted({app.cache.cache_type for app in engine.catalog.apps.values() if app.cache is not None})
        return answer(request, CacheList(items=items, next=following, types=types))

    @router.get("/cache/{result_id}", **endpoint("A cached result, whole", CacheDetail, 401, 404, 422, 503))
    async def show_cached(request: Request, result_id: Id) -> Response:
        row = await _found(engine_of(context), result_id)
        return answer(request, shape_of(CacheDetail, row_fields(row) | {"result": row["result_json"]}))

    @router.post(
        "/cache/{result_id}/invalidate",
        **endpoint("Invalidate a result", Invalidated, 401, 404, 409, 422, 503, for_admins=True),
    )
    async def invalidate_one(request: Request, result_id: Id) -> Response:
        async with audited(request, "cache.invalidate", str(result_id)):
            engine = engine_of(context)
            if not await engine.cache.invalidate(result_id):
                row = await _found(engine, result_id)
                raise ProblemError(409, f"Result {result_id} is not valid: {row['status']}.")
            return answer(request, Invalidated(invalidated=1))

    @router.post(
        "/cache/invalidate",
        **endpoint("Invalidate all results that match", Invalidated, 400, 401, 413, 422, 503, for_admins=True),
        openapi_extra=documented_body(Invalidation, {"cache_type": "app3_clue"}, {"site_id": 1, "target_id": "20317"}),
    )
    async def invalidate_some(request: Request) -> Response:
        wanted = (await read_body(request, Invalidation)).model_dump(exclude_none=True)
        if not wanted:
            raise ProblemError(400, "Name at least one of cache_type, site_id and target_id.")
        async with audited(request, "cache.invalidate", ", ".join(f"{name} {value}" for name, value in wanted.items())):
            count = await engine_of(context).cache.invalidate(**wanted)
            return answer(request, Invalidated(invalidated=count))

    return router


async def _found(engine: Engine, result_id: int) -> dict[str, Any]:
    row = await engine.cache.find(result_id)
    if row is None:
        raise ProblemError(404, f"There is no cached result {result_id}.")
    return row
