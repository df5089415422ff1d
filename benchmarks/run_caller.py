"""A process that makes calls like a worker for a step of a chain, and measures itself.

``python -m benchmarks.run_caller MODE CALLERS SECONDS``: prints that it is ready, waits for a line, runs, prints the
result. Modes: ``bare`` (the client alone), ``guarded`` (admission, call, settlement, trace), ``cached`` (the same, and
the result becomes the valid row of the cache in the same statement), ``admit`` (the admission alone) and ``select``
(``SELECT 1``: what the database and the pool need at least).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec
import uvloop

from agenttrace.config import load_settings
from agenttrace.run.engine import Engine, open_engine
from agenttrace.run.guards.admission import Admissions
from agenttrace.run.upstream.calls import CallRequest, RateRule
from agenttrace.run.upstream.client import DashScopeClient
from benchmarks.run_fakes import PLAIN_APP
from benchmarks.run_load import percentile

_SITES = 500
_RULE = RateRule(scope="store", limit=1_000_000, seconds=3600)
_PROMPT = (
    '请根据该会员的最新消费提取客户线索,只返回一个 JSON 对象。\n\n{"event":"consumption","payload":{"amount":168}}'
)
Turn = Callable[[int], Awaitable[object]]


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    calls: int
    seconds: float
    #: Of this process.
    cpu_seconds: float
    p50: float
    p99: float


def _request(number: int) -> CallRequest:
    return CallRequest(
        app_id=PLAIN_APP,
        app_type="app3_clue",
        trigger_type="event",
        site_id=1 + number % _SITES,
        prompt=_PROMPT,
        rate=_RULE,
        estimate=300,
        member_id=number,
        session_id=f"job_{number}",
    )


def _turn(mode: str, engine: Engine, bare: DashScopeClient) -> Turn:
    calls = engine.calls
    assert calls is not None
    run = engine.settings.run
    admissions = Admissions(
        engine.database,
        process_id=engine.presence.process_id,
        daily_limit=run.daily_tokens,
        monthly_limit=run.monthly_tokens,
    )

    async def cached(number: int) -> object:
        request = _request(number)
        target = ("app3_clue", request.site_id, str(number))
        return await calls.call(
            request, writes=lambda _, data: [engine.cache.storing(*target, data or {}, None, "benchmark")]
        )

    turns: dict[str, Turn] = {
        "bare": lambda _: bare.complete(PLAIN_APP, _PROMPT),
        "guarded": lambda number: calls.call(_request(number)),
        "cached": cached,
        "admit": lambda number: admissions.admit(_request(number)),
        "select": lambda _: engine.database.one("SELECT 1"),
    }
    return turns[mode]


async def _spend(turn: Turn, callers: int, seconds: float, numbers: itertools.count[int]) -> Spent:
    took: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()

    async def caller() -> None:
        while (start := time.perf_counter()) - began < seconds:
            await turn(next(numbers))
            took.append(time.perf_counter() - start)

    await asyncio.gather(*(caller() for _ in range(callers)))
    wall, spent = time.perf_counter() - began, time.process_time() - cpu
    took.sort()
    return Spent(
        calls=len(took), seconds=wall, cpu_seconds=spent, p50=percentile(took, 0.5), p99=percentile(took, 0.99)
    )


async def _main(mode: str, callers: int, seconds: float) -> None:
    async with open_engine(load_settings(), "worker") as engine:
        environ = engine.environ
        async with DashScopeClient(environ["DASHSCOPE_API_KEY"], base_url=environ["DASHSCOPE_BASE_URL"]) as bare:
            turn, numbers = _turn(mode, engine, bare), itertools.count(os.getpid() * 1_000_000)
            await _spend(turn, callers, 1.0, numbers)  # warm
            _say({"ready": True})
            await asyncio.to_thread(sys.stdin.readline)
            _say(await _spend(turn, callers, seconds, numbers))
            await asyncio.to_thread(sys.stdin.readline)


def _say(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
