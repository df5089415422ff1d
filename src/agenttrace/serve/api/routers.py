"""All endpoints of ``/api/v1`` but those of the login."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from agenttrace.run.availability import is_installed
from agenttrace.serve.api.insights.insights import insights_router
from agenttrace.serve.api.live.hub import live_router
from agenttrace.serve.api.live.overview import overview_router
from agenttrace.serve.api.live.team import team_router
from agenttrace.serve.api.rules.firings import firings_router
from agenttrace.serve.api.rules.rules import rules_router
from agenttrace.serve.api.runs.run_state import engine_of
from agenttrace.serve.api.sessions.annotations import annotations_router
from agenttrace.serve.api.sessions.comparison import comparison_router
from agenttrace.serve.api.sessions.downloads import downloads_router
from agenttrace.serve.api.sessions.events import events_router
from agenttrace.serve.api.sessions.limits import limits_router
from agenttrace.serve.api.sessions.outcomes import outcomes_router
from agenttrace.serve.api.sessions.requests import requests_router
from agenttrace.serve.api.sessions.search import search_router
from agenttrace.serve.api.sessions.session_detail import session_router
from agenttrace.serve.api.sessions.session_list import sessions_router
from agenttrace.serve.api.sessions.spans import spans_router, texts_router
from agenttrace.serve.api.sessions.timeline import timeline_router
from agenttrace.serve.api.sessions.usage import usage_router
from agenttrace.serve.api.settings.demo import demo_router
from agenttrace.serve.api.settings.exports import exports_router
from agenttrace.serve.api.settings.files import files_router
from agenttrace.serve.api.settings.saved_views import saved_views_router
from agenttrace.serve.api.settings.settings import settings_router
from agenttrace.serve.context import ServerContext

Router = Callable[[ServerContext], APIRouter]

#: In the order of the OpenAPI document; fixed paths come before those with a name in them.
_RECORDED: tuple[Router, ...] = (
    overview_router,
    team_router,
    sessions_router,
    session_router,
    annotations_router,
    outcomes_router,
    comparison_router,
    timeline_router,
    requests_router,
    texts_router,
    spans_router,
    events_router,
    downloads_router,
    search_router,
    live_router,
    usage_router,
    limits_router,
    insights_router,
    files_router,
)
_SETTINGS: tuple[Router, ...] = (
    firings_router,
    rules_router,
    exports_router,
    demo_router,
    saved_views_router,
    settings_router,
)
_RUN_PATHS = ("jobs", "runs", "guards", "cache", "catalog", "chat")


def api_routers(context: ServerContext) -> list[APIRouter]:
    """All routers."""
    return [router(context) for router in (*_RECORDED, *_run_routers(), *_SETTINGS)]


def _run_routers() -> tuple[Router, ...]:
    if not is_installed():
        return (_not_installed,)
    from agenttrace.serve.api.runs.applications import catalog_router, guards_router
    from agenttrace.serve.api.runs.cache import cache_router
    from agenttrace.serve.api.runs.jobs import jobs_router
    from agenttrace.serve.api.runs.runs import runs_router
    from agenttrace.serve.chat import chat_trial_router

    return (jobs_router, runs_router, guards_router, cache_router, catalog_router, chat_trial_router)


def _not_installed(context: ServerContext) -> APIRouter:
    """The endpoints that need ``agenttrace[run]``, without it: 503 with what to install."""
    router = APIRouter(prefix="/api/v1", include_in_schema=False)

    async def away() -> Response:
        engine_of(context)
        raise AssertionError("there is no engine without its packages")

    for path in _RUN_PATHS:
        for below in (f"/{path}", f"/{path}/{{below:path}}"):
            router.add_api_route(below, away, methods=["GET", "POST"], response_model=None)
    return router
