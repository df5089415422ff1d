"""Servers of tests with many examples, and waiting for a condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")


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
