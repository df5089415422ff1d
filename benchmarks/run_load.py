"""HTTP callers: each sends a request, reads the whole answer, and repeats; measures what callers see."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
import msgspec


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request, and the check of its answer."""

    url: str
    headers: dict[str, str]
    body: bytes
    #: Whether the answer is correct.
    good: Callable[[bytes], bool]
    method: str = "POST"


class Seen(msgspec.Struct, kw_only=True):
    """The measurements of the callers."""

    seconds: float = 0.0
    #: Time of each call until the first and the last byte of the answer; sorted at the end.
    first_byte: list[float] = msgspec.field(default_factory=list)
    latency: list[float] = msgspec.field(default_factory=list)
    errors: list[str] = msgspec.field(default_factory=list)
    #: The largest number of answers that were streaming at the same time.
    most_open: int = 0

    @property
    def calls(self) -> int:
        """The number of successful calls."""
        return len(self.latency)

    @property
    def per_second(self) -> float:
        """Successful calls per second."""
        return self.calls / self.seconds


def percentile(values: list[float], share: float) -> float:
    """A percentile of sorted values."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def load(asks: Iterator[Ask], callers: int, *, seconds: float = 1e9, calls: int = 1 << 60) -> Seen:
    """Run this many callers until the time is over or this many calls are made."""
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
