"""CPU and added latency of a guarded call, plain and streamed, compared with the LiteLLM proxy.

CPU is that of everything between caller and model: the LiteLLM process; or the AgentTrace process and, separately, all
PostgreSQL processes. Callers and fakes are not counted. Added latency is the additional time compared with a caller who
calls the fake directly, with the same number of callers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import run_fakes, run_litellm, run_stage
from benchmarks.peers import AbsentError
from benchmarks.run_load import Ask, load, percentile
from benchmarks.run_processes import Meter
from benchmarks.run_stage import Stage, stage
from benchmarks.table import Result, Row

CALLERS = (1, 8, 64)
_SECONDS = 3.0
_WARM_SECONDS = 2.0
#: Delay between the frames of a stream: each arrives separately, as from a model.
_FRAME_DELAY = 0.002
#: The number of callers for which programs are compared.
_COMPARED = 8


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one call with one number of callers, in milliseconds."""

    cpu: float
    database_cpu: float = 0.0
    p50: float
    p99: float
    per_second: float

    @property
    def all_cpu(self) -> float:
        """CPU including the database."""
        return self.cpu + self.database_cpu


Costs = dict[int, Cost]


def measure_calls(peers: Path, work: Path) -> Result:
    """Measure calls without streaming."""
    with stage(work / "ours") as ours:
        bare, guarded, cached = (_by_callers(ours, mode) for mode in ("bare", "guarded", "cached"))
    base = guarded[_COMPARED].all_cpu
    rows = [
        *_our_rows("agenttrace: admitted, called, settled, traced", guarded, bare, base),
        *_our_rows("the same, and the result cached", cached, bare, base),
        _row("limit: our client alone, no guards", bare, None, base),
        *_litellm_rows(peers, work, base, stream=False),
    ]
    return Result("One call, answer not streamed: CPU ms and added latency at 1, 8 and 64 callers", rows)


def measure_chat(peers: Path, work: Path) -> Result:
    """Measure calls with answers of twenty frames."""
    with stage(work / "ours", frame_delay=_FRAME_DELAY) as ours:
        direct = _over_http(run_stage.direct_chats(ours.upstream), None, None)
        with ours.server() as (server, url):
            chat = _over_http(run_stage.chats(url), server, ours.postgres)
    base = chat[_COMPARED].all_cpu
    rows = [
        *_our_rows("agenttrace serve: POST /api/xcx/chat/stream", chat, direct, base),
        *_litellm_rows(peers, work, base, stream=True),
    ]
    return Result(f"One chat turn, {run_fakes.FRAMES} frames: CPU ms and added latency at 1, 8 and 64 callers", rows)


# ── ours ──


def _by_callers(ours: Stage, mode: str) -> Costs:
    return {callers: _called(ours, mode, callers) for callers in CALLERS}


def _called(ours: Stage, mode: str, callers: int) -> Cost:
    with ours.process("-m", "benchmarks.run_caller", mode, str(callers), str(_SECONDS)) as caller:
        caller.line()
        before = ours.postgres.cpu_seconds()
        caller.say("begin")
        spent: dict[str, Any] = caller.line()
        database = ours.postgres.cpu_seconds() - before
        caller.say("end")
    calls = spent["calls"]
    return Cost(
        cpu=spent["cpu_seconds"] / calls * 1000,
        database_cpu=database / calls * 1000,
        p50=spent["p50"] * 1000,
        p99=spent["p99"] * 1000,
        per_second=calls / spent["seconds"],
    )


def _our_rows(who: str, costs: Costs, direct: Costs, base: float) -> list[Row]:
    alone = {callers: f"{cost.cpu:.2f}" for callers, cost in costs.items()}
    return [
        _row(f"{who}, with PostgreSQL", costs, direct, base),
        Row(
            "  of it without PostgreSQL",
            {f"CPU ms {callers}": text for callers, text in alone.items()},
            costs[_COMPARED].cpu / base,
        ),
    ]


# ── the peer ──


def _litellm_rows(peers: Path, work: Path, base: float, *, stream: bool) -> list[Row]:
    rows = []
    try:
        with _openai_fake(_FRAME_DELAY if stream else 0.0) as upstream:
            direct = _over_http(run_litellm.asks(upstream.removesuffix("/v1"), stream=stream), None, None)
            for guarded, what in ((False, "nothing but its master key"), (True, "limits a user, a log line a call")):
                name = f"LiteLLM {run_litellm.VERSION}, {what}"
                rows.append(_row(name, _litellm(peers, work, upstream, guarded, stream), direct, base))
    except AbsentError as error:
        rows.append(Row("LiteLLM proxy", {}, note=str(error)))
    return rows


def _litellm(peers: Path, work: Path, upstream: str, guarded: bool, stream: bool) -> Costs:
    with run_litellm.proxy(peers, work / "litellm", upstream, guarded=guarded) as (process, url):
        asks = run_litellm.asks(url, stream=stream)
        return _over_http(asks if guarded else run_litellm.with_master_key(asks), Meter(process.pid), None)


@contextlib.contextmanager
def _openai_fake(frame_delay: float) -> Iterator[str]:
    fake = run_fakes.start("openai", os.environ, frame_delay=frame_delay)
    try:
        yield str(fake.line()["url"])
    finally:
        fake.stop()


# ── both ──


def _over_http(asks: Iterator[Ask], program: Meter | None, database: Meter | None) -> Costs:
    load(asks, _COMPARED, seconds=_WARM_SECONDS)
    return {callers: _asked(asks, callers, program, database) for callers in CALLERS}


def _asked(asks: Iterator[Ask], callers: int, program: Meter | None, database: Meter | None) -> Cost:
    meters = (program, database)
    before = [meter.cpu_seconds() if meter else 0.0 for meter in meters]
    seen = load(asks, callers, seconds=_SECONDS)
    spent = [meter.cpu_seconds() - was if meter else 0.0 for meter, was in zip(meters, before, strict=True)]
    if seen.errors:
        raise RuntimeError(f"{len(seen.errors)} calls went wrong, the first: {seen.errors[0]}")
    return Cost(
        cpu=spent[0] / seen.calls * 1000,
        database_cpu=spent[1] / seen.calls * 1000,
        p50=percentile(seen.latency, 0.5) * 1000,
        p99=percentile(seen.latency, 0.99) * 1000,
        per_second=seen.per_second,
    )


def _row(who: str, costs: Costs, direct: Costs | None, base: float) -> Row:
    figures = {f"CPU ms {callers}": f"{cost.all_cpu:.2f}" for callers, cost in costs.items()}
    if direct is not None:
        figures |= {f"+p50 ms {callers}": f"{cost.p50 - direct[callers].p50:.1f}" for callers, cost in costs.items()}
    figures |= {f"calls/s {CALLERS[-1]}": f"{costs[CALLERS[-1]].per_second:.0f}"}
    return Row(who, figures, costs[_COMPARED].all_cpu / base)
