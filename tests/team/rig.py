"""Machines that record real logs, and a team's server over real HTTP whose answers a test can lose."""

# ruff: noqa: ANN401 - options are those of the settings, answers are JSON

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import zstandard
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.export.exporter import Exporter
from agenttrace.masking import Mask
from agenttrace.record.formats import FACTS
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.serve.access.access_store import AccessStore, open_access
from agenttrace.serve.app import create_app
from agenttrace.serve.context import RunHalf
from agenttrace.store import open_team_store
from agenttrace.store.current import StoreSource
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team import SqliteTeamStore
from agenttrace.team import joining, wire
from agenttrace.team.levels import Sharing
from serve.servers import listening

#: Lines are of a time long ago, so that sessions are over.
BASE = 1_700_000_000.0
EVERYTHING = Sharing()


# -- a machine ------------------------------------------------------------------------------------------------------


class Machine:
    """A data directory with logs in our own format."""

    def __init__(self, root: Path, name: str = "laptop") -> None:
        self.name = name
        self.logs = root / name / "logs"
        self.home = root / name / "home"
        self.logs.mkdir(parents=True)
        self._counts: dict[str, int] = {}
        ensure_home(self.settings)

    @property
    def settings(self) -> Settings:
        """The settings as they are on disk."""
        return load_settings({"AGENTTRACE_HOME": str(self.home), "HOME": str(self.home.parent)})

    def say(self, session: str, *texts: str, project: str | None = None) -> None:
        """A turn with a model call for each text, in the log of a session."""
        for text in texts:
            number = self._counts[session] = self._counts.get(session, 0) + 1
            place = {"turn": number, "step": 1}
            begin = [{"type": "session.begin", "project": project}] if number == 1 and project is not None else []
            lines: list[dict[str, Any]] = [
                *begin,
                {"type": "turn.begin", "turn": number, "prompt": text},
                {"type": "step.begin", "model": "qwen-max", **place},
                {"type": "message", "role": "assistant", "text": f"answer to {text}", **place},
                {"type": "usage", "usage": {"input_tokens": 10 * number, "output_tokens": 3}, **place},
                {"type": "step.end", **place},
                {"type": "turn.end", "turn": number},
            ]
            self._append(session, number, lines)

    def _append(self, session: str, number: int, lines: list[dict[str, Any]]) -> None:
        with (self.logs / f"{session}.jsonl").open("a", encoding="utf-8") as file:
            for place, line in enumerate(lines):
                more = {"v": 1, "session": session, "id": f"{session}-{number}-{place}", "ts": BASE + number}
                file.write(json.dumps({**more, **line}) + "\n")

    def record(self) -> None:
        """Record what is in the logs."""
        recorder = Recorder(self.settings, paths=[str(self.logs)], environ={})
        try:
            recorder.run_once()
            index_all(recorder.store)
        finally:
            recorder.close()

    def rebuild(self) -> None:
        """Lose the store, and record all logs anew."""
        for path in self.home.glob("agenttrace.db*"):
            path.unlink()
        self.record()

    @contextmanager
    def store(self, *, read_only: bool = True) -> Iterator[SqliteStore]:
        """Its own store."""
        with SqliteStore.open(self.home / "agenttrace.db", read_only=read_only) as store:
            yield store

    async def join(
        self, server: Server, *, sharing: Sharing = EVERYTHING, backfill: bool = True, person: str | None = None
    ) -> joining.Joined:
        """Join with a new code."""
        code, _ = server.access.machines.invite(person)
        return await asyncio.to_thread(
            joining.join,
            self.home,
            server.url,
            code,
            name=self.name,
            person="amy",
            sharing=sharing,
            backfill=backfill,
        )

    def exporter(self) -> Exporter:
        """Its exporter."""
        return Exporter(self.settings, texts=lambda *_: {}, mask=Mask(), agents=FACTS)

    async def push(self) -> dict[str, str]:
        """Send what is there; why something is left, by destination."""
        return await self.exporter().run_once(quiet_seconds=0.0)


# -- the server -----------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """A team's server that runs in this loop."""

    url: str
    home: Path
    path: Path
    access: AccessStore
    faults: Faults
    client: aiohttp.ClientSession

    async def get(self, path: str, token: str = "", **params: str) -> Any:
        """The answer of the API to an admin."""
        headers = {"Authorization": f"Bearer {token or self.admin}"}
        async with self.client.get(f"{self.url}/api/v1/{path}", params=params, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json(content_type=None)

    @property
    def admin(self) -> str:
        """The token of an admin."""
        if not self.faults.admin:
            self.faults.admin, _ = self.access.tokens.create("admin", "admin", None)
        return self.faults.admin

    async def change(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        """Status and answer of a change by an admin."""
        headers = {"Authorization": f"Bearer {self.admin}"}
        url = f"{self.url}/api/v1/{path}"
        async with self.client.request(method, url, json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async def post(self, path: str, body: bytes, token: str = "", **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and answer of a request of a machine."""
        sent = {"Authorization": f"Bearer {token}", "Content-Encoding": "zstd", **headers}
        async with self.client.post(self.url + path, data=body, headers=sent) as answer:
            return answer.status, await answer.json(content_type=None)

    @contextmanager
    def store(self) -> Iterator[SqliteTeamStore]:
        """The store of the team."""
        with open_team_store(self.path, read_only=True) as store:
            assert isinstance(store, SqliteTeamStore)
            yield store


@dataclass
class Faults:
    """Stands before the server: notes all that comes, and loses answers."""

    #: Everything that was sent: addresses, headers, and bodies as they came and unpacked.
    heard: list[bytes] = field(default_factory=list)
    #: How many answers to pages are lost after they were stored, and how many pages never reach the server.
    lose_answers: int = 0
    lose_pages: int = 0
    #: Called with each page before it is stored.
    on_page: Callable[[], None] = lambda: None
    pages: int = 0
    admin: str = ""

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application behind these faults."""

        async def faulty(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or not scope["path"].startswith(wire.PREFIX):
                await app(scope, receive, send)
                return
            body = await _whole(receive)
            self._note(scope, body)
            is_page = scope["path"] == wire.ROWS
            if is_page:
                self.pages += 1
                self.on_page()
                if self.lose_pages:
                    self.lose_pages -= 1
                    raise ConnectionResetError
            lost = is_page and self.lose_answers > 0

            async def answered(message: Message) -> None:
                if lost:
                    self.lose_answers -= 1
                    raise ConnectionResetError
                await send(message)

            await app(scope, _given(body), answered)

        return faulty

    def _note(self, scope: Scope, body: bytes) -> None:
        self.heard += [scope["path"].encode(), scope["query_string"], body]
        self.heard += [part for header in scope["headers"] for part in header]
        if body[:4] == zstandard.MAGIC_NUMBER.to_bytes(4, "little"):
            self.heard.append(zstandard.ZstdDecompressor().decompressobj().decompress(body))


async def _whole(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body


def _given(body: bytes) -> Receive:
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


@asynccontextmanager
async def team_server(
    root: Path, environ: Mapping[str, str] | None = None, *, database: str | None = None
) -> AsyncIterator[Server]:
    """A server whose data directory is below a directory, new or from before; so is its store without a database."""
    home = root / "server"
    settings = load_settings({"AGENTTRACE_HOME": str(home), **(environ or {})})
    ensure_home(settings)
    path, faults = home / "team.db", Faults()
    app = create_app(None, settings, run_half=RunHalf(used=False), team=StoreSource(database or path, is_team=True))
    inner = app.build_middleware_stack()
    app.middleware_stack = faults.around(inner)
    with open_access(settings) as access:
        async with listening(app) as server, aiohttp.ClientSession() as client:
            yield Server(server.url, home, path, access, faults, client)


# -- comparing ------------------------------------------------------------------------------------------------------


def contents(store: SqliteStore) -> dict[str, list[Any]]:
    """What a store says of its sessions: counts, spans, lines and usage, without numbers of its own."""
    found: dict[str, list[Any]] = {}
    for session in store.sessions():
        fields = (session.title, session.first_prompt, session.project, session.turns, session.steps, session.events)
        spans = sorted((span.span_id, span.name, span.status, span.start) for span in store.span_rows(session))
        lines = sorted(line.raw for line in store.lines(session=session.id))
        usage = [(row.model, row.usage) for row in store.usage_by_session([session.id]).get(session.id, [])]
        found[session.session_id] = [fields, spans, lines, usage]
    return found
