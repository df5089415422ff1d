"""A client that records every byte, for the tests of the simulator."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from agenttrace.run.simulator import API_KEY, BUILTIN_APP_IDS, Simulator

CHAT = BUILTIN_APP_IDS["app1_chat"]
CLUE = BUILTIN_APP_IDS["app3_clue"]
INCREMENTAL = {"incremental_output": True}

_FRAME = re.compile(rb"id:(\d+)\nevent:(result|error)\n:HTTP_STATUS/(\d+)\ndata:([^\n]*)\n\n")


@dataclass
class Seen:
    """One answer as a client sees it."""

    status: int
    headers: dict[str, str]
    body: bytes
    #: Whether the answer ended as HTTP requires.
    complete: bool

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def frames(self) -> list[dict[str, Any]]:
        return parsed(self.body)


def parsed(stream: bytes) -> list[dict[str, Any]]:
    """The data of all frames; every byte of the stream has to belong to one, numbered from 1."""
    found = _FRAME.findall(stream)
    assert sum(len(match.group()) for match in _FRAME.finditer(stream)) == len(stream)
    assert [int(number) for number, *_ in found] == list(range(1, len(found) + 1))
    return [json.loads(data) for *_, data in found]


class User:
    """A client that records the bytes and checks nothing."""

    def __init__(self, simulator: Simulator, http: aiohttp.ClientSession) -> None:
        self.simulator, self.http = simulator, http

    async def call(
        self,
        app_id: str = CHAT,
        prompt: str | None = "你好",
        *,
        stream: bool = False,
        key: str = API_KEY,
        parameters: dict[str, Any] | None = None,
        **given: Any,  # noqa: ANN401 - more fields of the input
    ) -> Seen:
        body = {"input": {"prompt": prompt, **given}, "parameters": parameters or {}}
        headers = {"Authorization": f"Bearer {key}", **({"X-DashScope-SSE": "enable"} if stream else {})}
        return await self.send(f"/api/v1/apps/{app_id}/completion", json.dumps(body).encode(), headers)

    async def send(
        self, path: str, body: bytes = b"", headers: dict[str, str] | None = None, method: str = "POST"
    ) -> Seen:
        url = self.simulator.base_url.removesuffix("/api/v1") + path
        async with self.http.request(method, url, data=body, headers=headers) as response:
            received, complete = bytearray(), True
            try:
                async for piece in response.content.iter_any():
                    received += piece
            except aiohttp.ClientPayloadError:
                complete = False
            return Seen(response.status, dict(response.headers), bytes(received), complete)

    async def order(self, **order: Any) -> Seen:  # noqa: ANN401 - whatever JSON can hold
        return await self.send("/__control", json.dumps(order).encode())


def with_user(test: Callable[[Simulator, User], Awaitable[None]], **settings: Any) -> None:  # noqa: ANN401
    """Run the test against a new simulator."""

    async def run() -> None:
        async with Simulator(**settings) as simulator, aiohttp.ClientSession() as http:
            await test(simulator, User(simulator, http))

    asyncio.run(run())
