"""All endpoints of ``/api/v1`` but those of the login."""

from __future__ import annotations

from fastapi import APIRouter

from agenttrace.serve.api.cached import cache_router
from agenttrace.serve.api.catalog import catalog_router
from agenttrace.serve.api.downloads import downloads_router
from agenttrace.serve.api.events import events_router
from agenttrace.serve.api.exports import exports_router
from agenttrace.serve.api.files import files_router
from agenttrace.serve.api.guards import guards_router
from agenttrace.serve.api.jobs import jobs_router
from agenttrace.serve.api.live import live_router
from agenttrace.serve.api.overview import overview_router
from agenttrace.serve.api.runs import runs_router
from agenttrace.serve.api.search import search_router
from agenttrace.serve.api.session import session_router
from agenttrace.serve.api.sessions import sessions_router
from agenttrace.serve.api.settings import settings_router
from agenttrace.serve.api.spans import spans_router
from agenttrace.serve.api.texts import texts_router
from agenttrace.serve.api.timeline import timeline_router
from agenttrace.serve.api.trying import chat_router
from agenttrace.serve.api.usage import usage_router
from agenttrace.serve.context import Context

#: In the order of the OpenAPI document; fixed paths come before those with a name in them.
_ROUTERS = (
    overview_router,
    sessions_router,
    session_router,
    timeline_router,
    texts_router,
    spans_router,
    events_router,
    downloads_router,
    search_router,
    live_router,
    usage_router,
    files_router,
    jobs_router,
    runs_router,
    guards_router,
    cache_router,
    catalog_router,
    chat_router,
    exports_router,
    settings_router,
)


def api_routers(context: Context) -> list[APIRouter]:
    """The routers, each with what it works with."""
    return [router(context) for router in _ROUTERS]
