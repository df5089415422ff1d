"""A small application behind the real gate, over real HTTP: something to read, something to change, a stream."""

# ruff: noqa: ANN401 - options are passed through to the settings, answers are JSON

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from agenttrace.config import ServeSettings
from agenttrace.serve.access import passwords
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.cookie import NAME as COOKIE
from agenttrace.serve.access.endpoints import access_router
from agenttrace.serve.access.gate import ConsoleGate, SecurityHeaders
from agenttrace.serve.access.oidc import OidcProvider
from agenttrace.serve.access.oidc_endpoints import oidc_router
from agenttrace.serve.access.visitor import admin, visitor
from agenttrace.serve.api.answers import tagged
from agenttrace.serve.limits import Limits
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import ProblemError, add_handlers

PASSWORD = "correct horse battery staple"
PROGRAM = "/opt/agenttrace/bin/agenttrace"
LARGEST_BODY = 10_000


@cache
def password_hash() -> str:
    """Of PASSWORD; made once, as it takes a moment."""
    return passwords.hashed(PASSWORD)


class Clock:
    """A clock that moves when a test says so."""

    def __init__(self) -> None:
        self.micros = 1_800_000_000_000_000

    def __call__(self) -> int:
        return self.micros

    def advance(self, seconds: float) -> None:
        self.micros += round(seconds * 1_000_000)


def small_app(access: AccessStore, bind: str, settings: ServeSettings, provider: OidcProvider | None = None) -> FastAPI:
    """Put together in the order in which the server has it."""
    app = FastAPI(docs_url=None, redoc_url=None)
    app.state.access, app.state.changes, app.state.events = access, [], asyncio.Queue()
    sso = None if provider is None else provider.settings.title
    app.include_router(access_router(access, settings, sso=sso, program=PROGRAM))
    if provider is not None:
        app.include_router(oidc_router(access, provider, settings.login_hours))
    _add_endpoints(app)
    add_handlers(app)
    app.add_middleware(ConsoleGate, access=access, bind=bind, settings=settings)
    app.add_middleware(Limits, max_body_bytes=LARGEST_BODY, metrics=Metrics())
    app.add_middleware(SecurityHeaders)
    return app


def _add_endpoints(app: FastAPI) -> None:
    @app.get("/")
    async def page() -> Response:
        return HTMLResponse("<!doctype html><title>page</title>")

    @app.get("/api/v1/things")
    async def look(request: Request) -> Response:
        return tagged(request, visitor(request).name.encode(), "one", "text/plain")

    @app.get("/api/v1/broken")
    async def broken() -> Response:
        raise ZeroDivisionError

    @app.get("/api/v1/strict")
    async def strict() -> Response:
        return Response(headers={"Content-Security-Policy": "sandbox"})

    @app.post("/api/v1/things/{name}", dependencies=[Depends(admin)])
    async def change(request: Request, name: str) -> Response:
        async with audited(request, "thing.change", name):
            if name == "missing":
                raise ProblemError(404, "There is no such thing.")
            if name == "bad":
                raise ZeroDivisionError
            app.state.changes.append(name)
            return Response(status_code=204)

    @app.get("/api/v1/live")
    async def live() -> Response:
        async def events() -> AsyncIterator[bytes]:
            while True:
                yield b"data: %s\n\n" % await app.state.events.get()

        return StreamingResponse(events(), media_type="text/event-stream")

    @app.get("/healthz")
    async def healthz() -> str:
        return "alive"

    @app.post("/api/internal/ai/trigger")
    async def trigger() -> str:
        return "triggered"


@dataclass
class Rig:
    """The server, and a client without a memory for cookies."""

    access: AccessStore
    url: str
    http: aiohttp.ClientSession
    app: FastAPI

    async def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        csrf: str | None = None,
        headers: Mapping[str, str] | None = None,
        json: object = None,
    ) -> Answer:
        """Make a request with the token."""
        sent = dict(headers or {})
        if token is not None:
            sent["Cookie"] = f"other=1; {COOKIE}={token}"
        if csrf is not None:
            sent["X-CSRF-Token"] = csrf
        async with self.http.request(method, self.url + path, headers=sent, json=json) as response:
            return Answer(response.status, response.headers.copy(), await response.read())

    async def csrf(self, token: str | None = None, headers: Mapping[str, str] | None = None) -> str:
        """The token for changes, as the page gets it."""
        me = await self.ask("GET", "/api/v1/me", token=token, headers=headers)
        return str(me.json()["csrf"])

    async def log_in(self, name: str, password: str = PASSWORD, headers: Mapping[str, str] | None = None) -> Answer:
        """Log in as the page does."""
        csrf = await self.csrf(headers=headers)
        body = {"name": name, "password": password}
        return await self.ask("POST", "/api/v1/login", csrf=csrf, headers=headers, json=body)

    def user(self, name: str, role: Any = "viewer") -> str:
        """A user who is logged in; the token."""
        self.access.users.add(name, role, password_hash())
        return self.login(name)

    def local(self) -> str:
        """The token of a browser that came by the link."""
        return self.access.logins.begin_local(3600)[0]

    def login(self, name: str, seconds: int = 3600) -> str:
        begun = self.access.logins.begin(name, password_hash(), seconds)
        assert begun is not None
        return begun[0]


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Any
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def detail(self) -> str:
        return str(self.json()["detail"])


@asynccontextmanager
async def guarded(
    home: Path,
    *,
    bind: str = "127.0.0.1",
    now: Callable[[], int] | None = None,
    provider: OidcProvider | None = None,
    **serving: Any,
) -> AsyncIterator[Rig]:
    """The application on a free port of this machine; the gate takes ``bind`` for its address."""
    clock = {} if now is None else {"now": now}
    with AccessStore(home / "access.db", **clock) as access:
        app = small_app(access, bind, ServeSettings(**serving), provider)
        async with _listening(app) as url, aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield Rig(access, url, http, app)


@asynccontextmanager
async def _listening(app: FastAPI) -> AsyncIterator[str]:
    """The application on uvicorn, with the options of the real server that matter here."""
    config = uvicorn.Config(app, loop="none", lifespan="off", ws="none", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                await asyncio.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


def run_guarded(home: Path, body: Callable[[Rig], Awaitable[None]], **options: Any) -> None:
    """Run the body of a test against the application."""

    async def main() -> None:
        async with guarded(home, **options) as rig:
            await body(rig)

    asyncio.run(main())


async def asked(
    app: FastAPI, method: str, path: str, headers: Iterable[tuple[str, str]], http_version: str = "1.1"
) -> Answer:
    """What the application answers to a request that no client library would let through."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": http_version,
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 40_000),
        "server": ("127.0.0.1", 8317),
    }
    answer = Answer(0, {}, b"")

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], dict(message["headers"])
        else:
            answer.body += message["body"]

    await app(scope, receive, send)
    return answer


async def status_of(
    app: FastAPI, method: str, path: str, headers: Iterable[tuple[str, str]], http_version: str = "1.1"
) -> int:
    """Of that answer the status."""
    return (await asked(app, method, path, headers, http_version)).status
