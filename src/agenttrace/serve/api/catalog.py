"""``/api/v1/catalog``: which applications there are, and what events start."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from agenttrace.run.catalog.catalog import App
from agenttrace.serve.api.answers import answer, shaped
from agenttrace.serve.api.running import engine_of
from agenttrace.serve.api.shapes import AppInfo, Catalog, EventInfo
from agenttrace.serve.context import Context
from agenttrace.serve.problems import documented
from agenttrace.views.run import app_fields, event_fields


def catalog_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["runs"])

    @router.get("/catalog", summary="Applications and events", responses=shaped(Catalog) | documented(401, 503))
    async def show_catalog(request: Request) -> Response:
        engine = engine_of(context)
        known = engine.catalog
        events = [event_fields(name, lanes, known) for name, lanes in known.events.items()]
        catalog = Catalog(
            apps=[_app(app) for app in known.apps.values()],
            events=[EventInfo(event=event["event"], steps=event["steps"]) for event in events],
            missing=list(engine.missing),
            chat_app=None if known.chat is None else known.chat.key,
            chat_missing=[] if known.chat is None else list(known.chat.missing),
        )
        return answer(request, catalog)

    return router


def _app(app: App) -> AppInfo:
    fields = app_fields(app)
    rate, own = fields["rate"], fields["rate_limit"] or {}
    limits = {"rate_scope": rate["scope"], "rate_limit": rate["limit"], "rate_seconds": rate["seconds"]}
    limits |= {"app_limit": own.get("limit"), "app_limit_seconds": own.get("seconds")}
    return AppInfo(**{name: (fields | limits)[name] for name in AppInfo.__struct_fields__})
