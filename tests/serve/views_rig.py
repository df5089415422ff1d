"""The console's endpoints about usage, files and settings behind the real gate, on a store that is really recorded."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from fastapi import FastAPI

from agenttrace.config import RecordSettings, Settings
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.endpoints import access_router
from agenttrace.serve.access.gate import ConsoleGate
from agenttrace.serve.api.insights.insights import insights_router
from agenttrace.serve.api.live.hub import Hub, live_router
from agenttrace.serve.api.live.overview import overview_router
from agenttrace.serve.api.live.team import team_router
from agenttrace.serve.api.rules.firings import firings_router
from agenttrace.serve.api.rules.rules import rules_router
from agenttrace.serve.api.sessions.annotations import annotations_router
from agenttrace.serve.api.sessions.limits import limits_router
from agenttrace.serve.api.sessions.session_list import sessions_router
from agenttrace.serve.api.sessions.spans import spans_router
from agenttrace.serve.api.sessions.usage import usage_router
from agenttrace.serve.api.settings.demo import demo_router
from agenttrace.serve.api.settings.exports import exports_router
from agenttrace.serve.api.settings.files import files_router
from agenttrace.serve.api.settings.saved_views import saved_views_router
from agenttrace.serve.api.settings.settings import settings_router
from agenttrace.serve.context import RunHalf, ServerContext
from agenttrace.serve.health import Life
from agenttrace.serve.intake.span_log import SpanLog, SpanWriter, log_directory
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import add_handlers
from console_login import login_headers

from .servers import Answer, listening
from .trace_rig import API, Console, Logs, opened

T = TypeVar("T")


def found_logs(root: Path, **record: Any) -> Logs:
    """Logs in a directory that the settings name."""
    logs = Logs(root)
    own = RecordSettings(paths=(str(logs.directory),), poll_seconds=0.5, **record)
    logs.settings = msgspec.structs.replace(logs.settings, record=own)
    return logs


class Client(Console):
    """A client on this machine that is logged in."""

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """A change, as the page makes it."""
        return await self.send("POST", path, body, headers)

    async def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The same with another method."""
        token = {"X-CSRF-Token": (await self.json("/me"))["csrf"]} if headers is None else headers
        async with self.http.request(method, self.url + API + path, json=body, headers=token) as response:
            return Answer(response.status, response.headers, await response.read())


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Client]:
    """The endpoints on a free port; the run half is not there."""
    with opened(settings) as (reader, index), AccessStore(settings.home / "access.db") as access:
        context = ServerContext(
            settings=settings,
            reader=reader,
            index=index,
            hub=Hub(reader, index),
            run_half=RunHalf(problem="The run half is away."),
            life=Life(),
            metrics=Metrics(),
            access=access,
            intake=SpanWriter(SpanLog(log_directory(settings.home))),
            bind="127.0.0.1",
        )
        try:
            async with (
                listening(_app(context)) as server,
                aiohttp.ClientSession(headers=login_headers(settings.home)) as http,
            ):
                yield Client(server.url, http, context, server.stop)
        finally:
            context.intake.close()


def _app(context: ServerContext) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)
    app.state.life, app.state.chat, app.state.access, app.state.context = context.life, None, context.access, context
    app.include_router(access_router(context.access, context.settings.serve))
    for router in (
        usage_router,
        limits_router,
        insights_router,
        spans_router,
        overview_router,
        team_router,
        files_router,
        firings_router,
        rules_router,
        exports_router,
        settings_router,
        demo_router,
        saved_views_router,
        live_router,
        sessions_router,
        annotations_router,
    ):
        app.include_router(router(context))
    add_handlers(app)
    app.add_middleware(ConsoleGate, access=context.access, bind=context.bind, settings=context.settings.serve)
    return app


def ask(settings: Settings, body: Callable[[Client], Awaitable[T]]) -> T:
    """What the body of a test finds out from a server."""

    async def main() -> T:
        async with serving(settings) as client:
            return await body(client)

    return asyncio.run(main())
