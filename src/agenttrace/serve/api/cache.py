"""``/api/v1/cache``: the results that applications have given, and taking some out of use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from agenttrace.run.catalog.catalog import AppCatalog
from agenttrace.run.engine import Engine
from agenttrace.run.states import CacheStatus
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import admin
from agenttrace.serve.api.answers import BIGGEST, Cursor, Limit, answer, shaped
from agenttrace.serve.api.filters import NO_NUL, Id, Name, Number, page_of, place_of
from agenttrace.serve.api.running import engine_of
from agenttrace.serve.api.shapes import CacheDetail, CacheList, CacheRow, Invalidated
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.context import Context
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.views.run import row_fields


class Outdated(BaseModel):
    """Which results are out of use: those that have all of this."""

    model_config = ConfigDict(extra="forbid")

    cache_type: str | None = Field(default=None, min_length=1, max_length=30, pattern=NO_NUL)
    site_id: int | None = Field(default=None, strict=True, ge=0, le=BIGGEST)
    target_id: str | None = Field(default=None, min_length=1, max_length=100, pattern=NO_NUL)


def cache_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["cache"])

    @router.get("/cache", summary="List cached results", responses=shaped(CacheList) | documented(400, 401, 422, 503))
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
        items = [_row(row) for row in page]
        return answer(request, CacheList(items=items, next=following, types=_types(engine.catalog)))

    @router.get(
        "/cache/{result_id}",
        summary="A cached result, whole",
        responses=shaped(CacheDetail) | documented(401, 404, 422, 503),
    )
    async def show_cached(request: Request, result_id: Id) -> Response:
        row = await _found(engine_of(context), result_id)
        fields = row_fields(row) | {"result": row["result_json"]}
        return answer(request, CacheDetail(**{name: fields[name] for name in CacheDetail.__struct_fields__}))

    @router.post(
        "/cache/{result_id}/invalidate",
        summary="Take a result out of use",
        responses=shaped(Invalidated) | documented(401, 403, 404, 409, 422, 503),
        dependencies=[Depends(admin)],
    )
    async def invalidate_one(request: Request, result_id: Id) -> Response:
        async with audited(request, "cache.invalidate", str(result_id)):
            engine = engine_of(context)
            if not await engine.cache.invalidate(result_id):
                row = await _found(engine, result_id)
                raise ProblemError(409, f"Result {result_id} is not in use: {row['status']}.")
            return answer(request, Invalidated(invalidated=1))

    @router.post(
        "/cache/invalidate",
        summary="Take all results out of use that fit",
        responses=shaped(Invalidated) | documented(400, 401, 403, 413, 422, 503),
        dependencies=[Depends(admin)],
        openapi_extra=documented_body(Outdated, {"cache_type": "app3_clue"}, {"site_id": 1, "target_id": "20317"}),
    )
    async def invalidate_some(request: Request) -> Response:
        wanted = (await read_body(request, Outdated)).model_dump(exclude_none=True)
        if not wanted:
            raise ProblemError(400, "Say which results are meant: cache_type, site_id or target_id.")
        async with audited(request, "cache.invalidate", ", ".join(f"{name} {value}" for name, value in wanted.items())):
            count = await engine_of(context).cache.invalidate(**wanted)
            return answer(request, Invalidated(invalidated=count))

    return router


async def _found(engine: Engine, result_id: int) -> dict[str, Any]:
    row = await engine.cache.find(result_id)
    if row is None:
        raise ProblemError(404, f"There is no cached result {result_id}.")
    return row


def _row(row: Mapping[str, Any]) -> CacheRow:
    fields = row_fields(row)
    return CacheRow(**{name: fields[name] for name in CacheRow.__struct_fields__})


def _types(catalog: AppCatalog) -> list[str]:
    return sorted({app.cache.cache_type for app in catalog.apps.values() if app.cache is not None})
