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
from agenttrace.serve.api.live.hub import Hub
from agenttrace.serve.api.live.overview import overview_router
from agenttrace.serve.api.sessions.usage import usage_router
from agenttrace.serve.api.settings.exports import exports_router
from agenttrace.serve.api.settings.files import files_router
from agenttrace.serve.api.settings.settings import settings_router
from agenttrace.serve.context import RunHalf, ServerContext
from agenttrace.serve.health import Life
from agenttrace.serve.intake.span_log import SpanLog, SpanWriter, log_directory
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import add_handlers
from agenttrace.serve.server import serve
from console_login import login_headers

from .trace_rig import API, Answer, Logs, opened

T = TypeVar("T")


def found_logs(root: Path, **record: Any) -> Logs:
    """Logs in a directory that the settings name."""
    logs = Logs(root)
    own = RecordSettings(paths=(str(logs.directory),), poll_seconds=0.5, **record)
    logs.settings = msgspec.structs.replace(logs.settings, record=own)
    return logs


class Client:
    """A client on this machine."""

    def __init__(self, url: str, http: aiohttp.ClientSession, context: ServerContext) -> None:
        self._url, self._http, self.context = url, http, context

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **query: Any) -> Answer:
        async with self._http.get(self._url + API + path, params=query, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def json(self, path: str, **query: Any) -> Any:
        """The JSON of an answer that has to be there."""
        answer = await self.get(path, **query)
        assert answer.status == 200, answer.body
        return answer.json()

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """A change, as the page makes it."""
        token = {"X-CSRF-Token": (await self.json("/me"))["csrf"]} if headers is None else headers
        async with self._http.post(self._url + API + path, json=body, headers=token) as response:
            return Answer(response.status, response.headers, await response.read())

    async def pages(self, path: str, limit: int, **query: Any) -> list[Any]:
        """All items of a list, page by page."""
        items: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = await self.json(path, limit=limit, **query, **cursor)
            items += page["items"]
            if page["next"] is None:
                return items
            assert len(page["items"]) == limit
            cursor = {"cursor": page["next"]}


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
        listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        task = asyncio.create_task(serve(_app(context), "127.0.0.1", 0, stop, on_listening=listening.set_result))
        try:
            async with aiohttp.ClientSession(headers=login_headers(settings.home)) as http:
                yield Client(await listening, http, context)
        finally:
            stop.set()
            await task
            context.intake.close()


def _app(context: ServerContext) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)
    app.state.life, app.state.chat, app.state.access, app.state.context = context.life, None, context.access, context
    app.include_router(access_router(context.access, context.settings.serve))
    for router in (usage_router, overview_router, files_router, exports_router, settings_router):
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
