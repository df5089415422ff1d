"""Callers over HTTP: each asks, reads the whole answer, and asks again; only what they see is measured here."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
import msgspec


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request, and how a good answer is told from a bad one."""

    url: str
    headers: dict[str, str]
    body: bytes
    #: Whether the answer is what it has to be.
    good: Callable[[bytes], bool]
    method: str = "POST"


class Seen(msgspec.Struct, kw_only=True):
    """What the callers saw."""

    seconds: float = 0.0
    #: Of each call, until the first byte of the answer and until its last; sorted once all are there.
    first_byte: list[float] = msgspec.field(default_factory=list)
    latency: list[float] = msgspec.field(default_factory=list)
    errors: list[str] = msgspec.field(default_factory=list)
    #: The largest number of answers that were under way at the same time, having begun.
    most_open: int = 0

    @property
    def calls(self) -> int:
        """Those that went well."""
        return len(self.latency)

    @property
    def per_second(self) -> float:
        """Good calls a second."""
        return self.calls / self.seconds


def percentile(values: list[float], share: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def load(asks: Iterator[Ask], callers: int, *, seconds: float = 1e9, calls: int = 1 << 60) -> Seen:
    """So many callers at a time, until the time is up or so many calls are made."""
    import uvloop

    return uvloop.run(_load(asks, callers, seconds, calls))


async def _load(asks: Iterator[Ask], callers: int, seconds: float, calls: int) -> Seen:
    seen, opened = Seen(), [0]
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        began = time.perf_counter()
        turns = itertools.takewhile(lambda _: time.perf_counter() - began < seconds, itertools.islice(asks, calls))

        async def caller() -> None:
            for ask in turns:
                try:
                    await _call(session, ask, seen, opened)
                except (aiohttp.ClientError, TimeoutError) as error:
                    seen.errors.append(repr(error)[:200])

        await asyncio.gather(*(caller() for _ in range(callers)))
        seen.seconds = time.perf_counter() - began
    seen.first_byte.sort()
    seen.latency.sort()
    return seen


async def _call(session: aiohttp.ClientSession, ask: Ask, seen: Seen, opened: list[int]) -> None:
    began = time.perf_counter()
    async with session.request(ask.method, ask.url, data=ask.body, headers=ask.headers) as response:
        first = await response.content.readany()
        heard = time.perf_counter() - began
        with _counted(opened):
            seen.most_open = max(seen.most_open, opened[0])
            body = first + await response.content.read()
        took = time.perf_counter() - began
    if response.status == 200 and ask.good(body):
        seen.first_byte.append(heard)
        seen.latency.append(took)
    else:
        seen.errors.append(f"{response.status} {body[:200]!r}")


@contextmanager
def _counted(opened: list[int]) -> Iterator[None]:
    opened[0] += 1
    try:
        yield
    finally:
        opened[0] -= 1
