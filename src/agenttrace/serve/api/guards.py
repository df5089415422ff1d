"""``/api/v1/guards``: everything that can refuse a call, and opening and closing breakers by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter, Depends, Path, Request, Response

from agenttrace.run.catalog.catalog import App, AppCatalog
from agenttrace.run.engine import Engine
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.visitor import admin
from agenttrace.serve.api.answers import answer, shaped
from agenttrace.serve.api.filters import app_named
from agenttrace.serve.api.running import engine_of
from agenttrace.serve.api.runs import run_row
from agenttrace.serve.api.shapes import BreakerRow, Budget, Guards, LimitRow
from agenttrace.serve.context import Context
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.views.run import Breaker, app_fields, breaker_fields, breakers_of, budget_fields

AppName = Annotated[str, Path(max_length=100, description="Its name (`app3`) or its type (`app3_clue`).")]

#: Of the calls under way; more than anybody looks at.
_RESERVATIONS = 500
_CHANGES: dict[str, Any] = {
    "responses": shaped(BreakerRow) | documented(401, 403, 404, 409, 422, 503),
    "dependencies": [Depends(admin)],
}


def guards_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["guards"])

    @router.get("/guards", summary="Breakers, limits and budget", responses=shaped(Guards) | documented(401, 503))
    async def show_guards(request: Request) -> Response:
        engine = engine_of(context)
        guards = Guards(
            breakers=await breaker_rows(engine),
            limits=await _limits(engine),
            budget=await budget_now(engine),
            reservations=[run_row(row) for row in await engine.run_logs.list(only_open=True, limit=_RESERVATIONS)],
        )
        return answer(request, guards)

    @router.post("/guards/breakers/{app}/open", summary="Call an application no more", **_CHANGES)
    async def open_breaker(request: Request, app: AppName) -> Response:
        async with audited(request, "breaker.open", app):
            engine = engine_of(context)
            found = _with_id(engine.catalog, app)
            await engine.breaker.hold_open(found.app_id)
            return answer(request, await _row(engine, found))

    @router.post("/guards/breakers/{app}/close", summary="Call an application again", **_CHANGES)
    async def close_breaker(request: Request, app: AppName) -> Response:
        async with audited(request, "breaker.close", app):
            engine = engine_of(context)
            found = _with_id(engine.catalog, app)
            await engine.breaker.close(found.app_id)
            return answer(request, await _row(engine, found))

    return router


async def breaker_rows(engine: Engine) -> list[BreakerRow]:
    """The breaker of every application; one that nothing is known of is closed."""
    views = {breaker.app_id: breaker.view for breaker in await breakers_of(engine)}
    return [_breaker(app, Breaker(app, app.app_id, views.get(app.app_id))) for app in engine.catalog.apps.values()]


async def budget_now(engine: Engine) -> Budget:
    """The budget of today and of this month."""
    now = datetime.now(ZoneInfo(engine.settings.run.timezone))
    return msgspec.convert(budget_fields(await engine.budget.check_budget(), now), Budget)


def _breaker(app: App, breaker: Breaker) -> BreakerRow:
    fields = app_fields(app)
    names = ("app", "title", "titles", "provider", "model", "app_id")
    return BreakerRow(**breaker_fields(breaker) | {name: fields[name] for name in names})


async def _row(engine: Engine, app: App) -> BreakerRow:
    return next(row for row in await breaker_rows(engine) if row.app == app.key)


def _with_id(catalog: AppCatalog, name: str) -> App:
    app = app_named(catalog, name)
    if app is None:
        raise ProblemError(404, f"There is no application named {name}.")
    if not app.app_id:
        raise ProblemError(409, f"{app.key} has no id yet, so it has no breaker.")
    return app


async def _limits(engine: Engine) -> list[LimitRow]:
    apps = engine.catalog.apps.values()
    rules = {(app.rate.scope, app.rate.seconds): app.rate.limit for app in apps}
    own = {(app.app_id, app.rate_limit.seconds): (app.key, app.rate_limit.limit) for app in apps if app.rate_limit}
    rows = []
    for window in await engine.limiter.windows():
        key, limit = window.key, rules.get((window.scope, window.seconds))
        if window.scope == "app":
            key, limit = own.get((window.key, window.seconds), (key, None))
        # A window without a rule refuses no call.
        if limit is not None:
            rows.append(LimitRow(scope=window.scope, key=key, seconds=window.seconds, calls=window.calls, limit=limit))
    return rows
