"""What the test servers share: an answer, a server on a free port, one for many examples, and waiting."""

# ruff: noqa: ANN401 - answers are JSON, and options are those of the server

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from fastapi import FastAPI

from agenttrace.serve.server import serve

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True)
class Answer:
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Listening(NamedTuple):
    """A server that runs in this loop."""

    url: str
    stopping: asyncio.Event
    serving: asyncio.Task[None]

    async def stop(self) -> None:
        self.stopping.set()
        await self.serving


@asynccontextmanager
async def listening(app: FastAPI, **options: Any) -> AsyncIterator[Listening]:
    """A server of this application on a free port."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stopping = asyncio.Event()
    serving = asyncio.create_task(serve(app, "127.0.0.1", 0, stopping, on_listening=address.set_result, **options))
    try:
        yield Listening(await address, stopping, serving)
    finally:
        stopping.set()
        if not serving.done():
            await serving


class Outliving(Generic[V]):
    """A context that outlives the examples of one test: hypothesis calls a plain function many times."""

    def __init__(self, context: AbstractAsyncContextManager[V]) -> None:
        self._runner = asyncio.Runner()
        self._context = context
        self.value = self._runner.run(self._entered())

    async def _entered(self) -> V:
        return await self._context.__aenter__()

    def run(self, body: Awaitable[T]) -> T:
        async def main() -> T:
            return await body

        return self._runner.run(main())

    def close(self) -> None:
        async def leave() -> None:
            await self._context.__aexit__(None, None, None)

        self._runner.run(leave())
        self._runner.close()


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    """Wait until the condition is true."""
    until = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < until, "the condition did not become true"
        await asyncio.sleep(0.02)
