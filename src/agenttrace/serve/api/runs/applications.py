"""``/api/v1/catalog`` and ``/guards``: applications and events; breakers, rate limits and budget."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter, Path, Request, Response

from agenttrace.run.catalog.catalog import App
from agenttrace.run.engine import Engine
from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import answer, endpoint, shape_of
from agenttrace.serve.api.runs.run_state import app_named, engine_of
from agenttrace.serve.api.runs.runs import run_row
from agenttrace.serve.api.shapes.runs import AppInfo, BreakerRow, Budget, Catalog, EventInfo, Guards, LimitRow
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.views.run import Breaker, app_fields, breaker_fields, breakers_of, budget_fields, event_fields

AppName = Annotated[str, Path(max_length=100, description="Its name (`app3`) or its type (`app3_clue`).")]

#: Of the calls under way; more than a page shows.
_RESERVATIONS = 500
#: Of the endpoints that change a breaker.
_ERRORS = (401, 404, 409, 422, 503)


def catalog_router(context: ServerContext) -> APIRouter:
    """The endpoint of the catalog."""
    router = APIRouter(prefix="/api/v1", tags=["runs"])

    @router.get("/catalog", **endpoint("Applications and events", Catalog, 401, 503))
    async def show_catalog(request: Request) -> Response:
        engine = engine_of(context)
        known, chat = engine.catalog, engine.catalog.chat
        events = [event_fields(name, lanes, known) for name, lanes in known.events.items()]
        catalog = Catalog(
            apps=[_app_info(app) for app in known.apps.values()],
            events=[EventInfo(event=event["event"], steps=event["steps"]) for event in events],
            missing=list(engine.missing),
            chat_app=None if chat is None else chat.key,
            chat_missing=[] if chat is None else list(chat.missing),
        )
        return answer(request, catalog)

    return router


def _app_info(app: App) -> AppInfo:
    fields = app_fields(app)
    own = fields["rate_limit"] or {}
    limits = {f"rate_{name}": value for name, value in fields["rate"].items()}
    limits |= {"app_limit": own.get("limit"), "app_limit_seconds": own.get("seconds")}
    return shape_of(AppInfo, fields | limits)


def guards_router(context: ServerContext) -> APIRouter:
    """The endpoints of the guards."""
    router = APIRouter(prefix="/api/v1", tags=["guards"])

    @router.get("/guards", **endpoint("Breakers, limits and budget", Guards, 401, 503))
    async def show_guards(request: Request) -> Response:
        engine = engine_of(context)
        guards = Guards(
            breakers=await breaker_rows(engine),
            limits=await _limits(engine),
            budget=await budget_now(engine),
            reservations=[run_row(row) for row in await engine.run_logs.list(only_open=True, limit=_RESERVATIONS)],
        )
        return answer(request, guards)

    async def changed(request: Request, name: str, *, is_open: bool) -> Response:
        async with audited(request, "breaker.open" if is_open else "breaker.close", name):
            engine = engine_of(context)
            app = _with_id(engine, name)
            await (engine.breaker.hold_open if is_open else engine.breaker.close)(app.app_id)
            return answer(request, next(row for row in await breaker_rows(engine) if row.app == app.key))

    @router.post(
        "/guards/breakers/{app}/open", **endpoint("Open a breaker: refuse calls", BreakerRow, *_ERRORS, for_admins=True)
    )
    async def open_breaker(request: Request, app: AppName) -> Response:
        return await changed(request, app, is_open=True)

    @router.post(
        "/guards/breakers/{app}/close",
        **endpoint("Close a breaker: allow calls", BreakerRow, *_ERRORS, for_admins=True),
    )
    async def close_breaker(request: Request, app: AppName) -> Response:
        return await changed(request, app, is_open=False)

    return router


async def breaker_rows(engine: Engine) -> list[BreakerRow]:
    """The breaker of every application; one without a record is closed."""
    views = {breaker.app_id: breaker.view for breaker in await breakers_of(engine)}
    return [_breaker_row(app, Breaker(app, app.app_id, views.get(app.app_id))) for app in engine.catalog.apps.values()]


def _breaker_row(app: App, breaker: Breaker) -> BreakerRow:
    fields = app_fields(app)
    names = ("app", "title", "titles", "provider", "model", "app_id")
    return BreakerRow(**breaker_fields(breaker) | {name: fields[name] for name in names})


async def budget_now(engine: Engine) -> Budget:
    """The budget of today and of this month."""
    now = datetime.now(ZoneInfo(engine.settings.run.timezone))
    return msgspec.convert(budget_fields(await engine.budget.check_budget(), now), Budget)


def _with_id(engine: Engine, name: str) -> App:
    app = app_named(engine.catalog, name)
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
