"""A whole server for the tests: real engine, real PostgreSQL, real HTTP on 127.0.0.1, and the simulator upstream."""

# ruff: noqa: ANN401 - options are passed through to aiohttp and to the settings

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import msgspec
from fastapi import FastAPI

from agenttrace.config import DatabaseSettings, JwtSettings, RunSettings, ServeSettings, Settings
from agenttrace.run.engine import Engine, open_engine
from agenttrace.run.simulator import Simulator, environment
from agenttrace.serve.app import create_app
from agenttrace.serve.health import Life
from console_login import login_headers

from .servers import Outliving, listening

SECRET = "a secret of the tests that is long enough for HS256"
TOKEN = "sim-internal-token"
CHAT = "/api/xcx/chat/stream"
CHAT_APP = "sim-app1-chat"
#: Less than the server's five seconds: a loop that stood still between two tests closes idle connections late, and a
#: request over one that is being closed fails. The client looks at the clock before it uses a connection again.
CLIENT_IDLE_SECONDS = 2
INTERNAL = {"Authorization": f"Internal-Token {TOKEN}"}


@dataclass(frozen=True)
class SseEvent:
    """One event as a browser would see it."""

    kind: str
    data: Any


@dataclass(frozen=True)
class Heard:
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    events: list[SseEvent] = field(default_factory=list)

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        """What the messages say together."""
        return "".join(event.data["content"] for event in self.events if event.kind == "message")

    @property
    def last(self) -> SseEvent:
        return self.events[-1]


@dataclass
class Stack:
    """Everything that runs."""

    engine: Engine
    sim: Simulator
    url: str
    http: aiohttp.ClientSession
    stop: asyncio.Event
    serving: asyncio.Task[None]
    life: Life
    app: FastAPI

    async def request(self, method: str, path: str, **options: Any) -> Heard:
        async with self.http.request(method, self.url + path, **options) as response:
            body = await response.read()
            events = parse_sse(body) if response.content_type == "text/event-stream" else []
            return Heard(response.status, response.headers, body, events)

    async def chat(self, message: str = "你好", *, user: str = "u1", site: int = 1, **body: Any) -> Heard:
        return await self.request("POST", CHAT, json={"message": message} | body, headers=bearer(user, site))

    @asynccontextmanager
    async def chatting(self, message: str = "你好", **body: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """A chat stream that the caller reads, or hangs up."""
        response = await self.http.post(self.url + CHAT, json={"message": message} | body, headers=bearer())
        try:
            yield response
        finally:
            response.close()

    async def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        return await self.engine.database.all(sql, params)


def bearer(user: str = "u1", site: object = 1, secret: str = SECRET, **claims: Any) -> dict[str, str]:
    given = {"sub": user, "site_id": site, "exp": int(time.time()) + 3600} | claims
    token = jwt.encode(given, secret, algorithm="HS256")
    return {"Authorization": f"Bearer {token}"}


def parse_sse(body: bytes) -> list[SseEvent]:
    """Events as the standard has them; comments are none."""
    events = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            assert set(fields) == {"event", "data"}
            events.append(SseEvent(fields["event"], msgspec.json.decode(fields["data"])))
    return events


def make_settings(home: Path, url: str, **changes: Any) -> Settings:
    """Settings of a server on any free port; ``changes`` by section: ``run={"daily_tokens": 1}``."""
    return Settings(
        home=home,
        database=DatabaseSettings(url=url),
        jwt=JwtSettings(**changes.get("jwt", {"secret": SECRET})),
        run=RunSettings(**changes.get("run", {})),
        serve=ServeSettings(port=0, **changes.get("serve", {})),
        **{name: changes[name] for name in ("catalog", "apps", "events") if name in changes},
    )


async def at_once(_: float) -> None:
    """In place of a delay."""


@asynccontextmanager
async def running(
    home: Path,
    url: str,
    *,
    configured: bool = True,
    drain: float = 5.0,
    environ: Mapping[str, str] | None = None,
    tables: Callable[[Simulator], Mapping[str, Any]] | None = None,
    **changes: Any,
) -> AsyncIterator[Stack]:
    """A server in this loop, with the simulator behind it; ``tables`` makes a catalog that knows its address."""
    async with Simulator() as sim:
        settings = make_settings(home, url, **changes, **(tables(sim) if tables else {}))
        variables = environment(sim.base_url) if configured and environ is None else environ or {}
        async with open_engine(settings, "server", sweep=False, environ=variables) as engine:
            app = create_app(engine, settings)
            # Hypothesis guesses as an attacker does, and would wait as long.
            app.state.access.refusals.sleep = at_once
            async with (
                listening(app, drain_seconds=drain) as server,
                aiohttp.ClientSession(
                    headers=login_headers(settings.home),
                    connector=aiohttp.TCPConnector(keepalive_timeout=CLIENT_IDLE_SECONDS),
                ) as http,
            ):
                life = app.state.life
                yield Stack(engine, sim, server.url, http, server.stopping, server.serving, life, app)


def run_with(
    home: Path, url: str, body: Callable[[Stack], Awaitable[None]], *, drain: float = 5.0, **changes: Any
) -> None:
    """Run the body of a test against a server."""

    async def main() -> None:
        async with running(home, url, drain=drain, **changes) as stack:
            await body(stack)

    asyncio.run(main())


class Running(Outliving[Stack]):
    """A server for all examples of one test."""

    def __init__(self, home: Path, url: str, **changes: Any) -> None:
        super().__init__(running(home, url, **changes))
        self.stack = self.value
