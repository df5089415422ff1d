"""The console's endpoints about recorded sessions over real HTTP, on a store that the real recorder fills."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec
from fastapi import FastAPI

from agenttrace.config import RecordSettings, ServeSettings, Settings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.record.watcher import Watcher
from agenttrace.serve.api.live.hub import Hub, live_router
from agenttrace.serve.api.sessions.search import search_router
from agenttrace.serve.api.sessions.session_index import SessionIndex
from agenttrace.serve.api.sessions.session_list import sessions_router
from agenttrace.serve.api.trace_reader import TraceReader
from agenttrace.serve.context import ServerContext
from agenttrace.serve.health import Life
from agenttrace.serve.limits import Limits
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import add_handlers
from agenttrace.store.session_state import StateLimits

from .servers import Answer, Outliving, listening

#: The messages of a live stream, as they come.
Stream = AsyncIterator["Message"]

DATA = Path(__file__).resolve().parents[1] / "data"
API = "/api/v1"
SAMPLES = ("claude-code-2.1.197/projects", "codex-0.166.0/sessions", "kimi-cli-1.49.0", "kimi-code-2.1.0", "native")


class Logs:
    """Log files in our own format, and the recorder that reads them into a store."""

    def __init__(
        self, root: Path, *, stale_minutes: int = 15, waiting_hours: int = 12, heartbeat: float = 15.0
    ) -> None:
        self.directory = root / "logs"
        self.directory.mkdir()
        self.settings = Settings(
            home=root / "home",
            record=RecordSettings(stale_minutes=stale_minutes, waiting_hours=waiting_hours, poll_seconds=0.5),
            serve=ServeSettings(heartbeat_seconds=heartbeat),
        )
        ensure_home(self.settings)
        self._counts: dict[str, int] = {}

    @property
    def store(self) -> Path:
        return self.settings.home / "agenttrace.db"

    def use_samples(self) -> None:
        """The logs of several agents, as they wrote them."""
        for sample in SAMPLES:
            shutil.copytree(DATA / sample, self.directory / sample)

    def append(self, session: str, kind: str = "message", **fields: Any) -> None:
        """A line of a session, with a single write as programs do it."""
        number = self._counts[session] = self._counts.get(session, 0) + 1
        line = {"v": 1, "session": session, "type": kind, "id": f"{kind}-{number}", "ts": time.time()} | fields
        with (self.directory / f"{session}.jsonl").open("ab", buffering=0) as file:
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    @contextmanager
    def recorder(self) -> Iterator[Recorder]:
        recorder = Recorder(self.settings, paths=[str(self.directory)], environ={})
        try:
            yield recorder
        finally:
            recorder.close()

    def record(self, *, index: bool = True) -> None:
        """Read everything that is there."""
        with self.recorder() as recorder:
            recorder.run_once()
            if index:
                index_all(recorder.store)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A recorder that follows the files during the test."""
        stop = threading.Event()
        with self.recorder() as recorder:
            thread = threading.Thread(target=Watcher(recorder, stop).run)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[TraceReader, SessionIndex]]:
    """What reads a store, without a server around it."""
    reader = TraceReader(settings.home / "agenttrace.db", limits=StateLimits.of(settings.record))
    index = SessionIndex(reader, settings)
    try:
        yield reader, index
    finally:
        index.close()
        reader.close()


@dataclass(frozen=True)
class Message:
    """A message of the live stream."""

    id: str
    kind: str
    data: Any

    @property
    def cursor(self) -> int:
        return int(self.id.partition("-")[0])


@dataclass(frozen=True)
class Console:
    """A server, and a client of it."""

    url: str
    http: aiohttp.ClientSession
    context: ServerContext
    stop: Callable[[], Awaitable[None]]

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **query: Any) -> Answer:
        async with self.http.get(self.url + API + path, params=query, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def json(self, path: str, **query: Any) -> Any:
        """The JSON of an answer that has to be there."""
        answer = await self.get(path, **query)
        assert answer.status == 200, answer.body
        return answer.json()

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
            assert page["next"] != cursor.get("cursor"), "the list does not end"
            cursor = {"cursor": page["next"]}

    @asynccontextmanager
    async def live(self, headers: Mapping[str, str] | None = None, **query: Any) -> AsyncIterator[Stream]:
        """The messages of a live stream."""
        response = await self.http.get(self.url + API + "/live", params=query, headers=headers)
        try:
            assert response.status == 200, await response.read()
            assert response.content_type == "text/event-stream"
            yield messages(response)
        finally:
            response.close()


async def messages(response: aiohttp.ClientResponse) -> Stream:
    """The stream as a browser would read it."""
    block: list[str] = []
    async for raw in response.content:
        line = raw.decode().removesuffix("\n")
        if line:
            block.append(line)
        else:
            yield _message(block)
            block = []


def parsed(text: bytes) -> list[Message]:
    """Whole messages."""
    return [_message(block.split("\n")) for block in text.decode().removesuffix("\n\n").split("\n\n") if block]


def _message(block: list[str]) -> Message:
    """Comments are messages of kind ``comment``."""
    if block[0].startswith(":"):
        return Message("0", "comment", block[0])
    fields = dict(part.split(": ", 1) for part in block)
    return Message(fields["id"], fields["event"], msgspec.json.decode(fields["data"]))


async def following(stream: Stream, seconds: float = 30.0) -> Message:
    """The next message, which has to come; comments are none."""
    async with asyncio.timeout(seconds):
        while (message := await anext(stream)).kind == "comment":
            pass
    return message


@asynccontextmanager
async def console(settings: Settings) -> AsyncIterator[Console]:
    """The endpoints on a free port."""
    with opened(settings) as (reader, index):
        hub, life = Hub(reader, index), Life()
        context = cast(
            "ServerContext", SimpleNamespace(settings=settings, reader=reader, index=index, hub=hub, life=life)
        )
        app = FastAPI()
        app.state.chat, app.state.context = None, context
        context.close = lambda: None  # type: ignore[method-assign]
        for router in (sessions_router, search_router, live_router):
            app.include_router(router(context))
        add_handlers(app)
        app.add_middleware(Limits, max_body_bytes=settings.serve.max_body_bytes, metrics=Metrics())
        async with listening(app) as server, aiohttp.ClientSession() as http:
            yield Console(server.url, http, context, server.stop)


class Running(Outliving[Console]):
    """A server for all examples of one test."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(console(settings))
        self.console = self.value
