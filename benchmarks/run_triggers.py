"""Rate of triggers over HTTP, and rate of chains of one worker."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg

from benchmarks.run_load import load, percentile
from benchmarks.run_processes import Meter
from benchmarks.run_stage import Stage, stage, triggers
from benchmarks.table import Result, Row

CALLERS = (1, 8, 64)
_SECONDS = 5.0
#: Chains in the queue when the worker starts, and how many it runs before the measurement.
_CHAINS = 600
_WARM_CHAINS = 100
#: Of a consumption with a coach: app3, app8, app7 beside app4, app5.
_STEPS = 5
_PATIENCE = 110.0


def measure_triggers(work: Path) -> Result:
    """Measure accepted triggers: the row of the job and its queue entry are committed."""
    rows = []
    with stage(work / "triggers") as ours, ours.server() as (server, url):
        asks = triggers(url)
        load(asks, CALLERS[1], seconds=1)
        for callers in CALLERS:
            before = server.cpu_seconds(), ours.postgres.cpu_seconds()
            seen = load(asks, callers, seconds=_SECONDS)
            cpu, database = server.cpu_seconds() - before[0], ours.postgres.cpu_seconds() - before[1]
            if seen.errors:
                raise RuntimeError(f"{len(seen.errors)} triggers went wrong, the first: {seen.errors[0]}")
            figures = {
                "accepted/s": f"{seen.per_second:.0f}",
                "p50 ms": f"{percentile(seen.latency, 0.5) * 1000:.1f}",
                "p99 ms": f"{percentile(seen.latency, 0.99) * 1000:.1f}",
                "CPU ms": f"{cpu / seen.calls * 1000:.2f}",
                "PostgreSQL CPU ms": f"{database / seen.calls * 1000:.2f}",
            }
            rows.append(Row(f"{callers} at a time", figures))
    return Result("POST /api/internal/ai/trigger, each another member", rows)


def measure_chains(work: Path) -> Result:
    """Measure one worker on a queue that is never empty; the model answers at once."""
    with stage(work / "chains") as ours:
        with ours.server() as (_, url):
            seen = load(triggers(url), 8, calls=_CHAINS)
        if seen.errors:
            raise RuntimeError(f"triggers went wrong: {seen.errors[0]}")
        with ours.worker() as worker, psycopg.connect(ours.environ["AGENTTRACE_DATABASE_URL"], autocommit=True) as db:
            row = _worked(ours, worker, db)
    return Result(f"Chains of {_STEPS} calls (consumption with coach), one worker process", [row])


def _worked(ours: Stage, worker: Meter, db: psycopg.Connection[tuple[object, ...]]) -> Row:
    until = time.monotonic() + _PATIENCE
    first = _await_done(db, _WARM_CHAINS, until)
    began, before = time.perf_counter(), (worker.cpu_seconds(), ours.postgres.cpu_seconds())
    # The last chains run with less concurrency and are not measured.
    last = _await_done(db, _CHAINS - 20, until)
    seconds, chains = time.perf_counter() - began, last - first
    cpu, database = worker.cpu_seconds() - before[0], ours.postgres.cpu_seconds() - before[1]
    figures = {
        "chains/s": f"{chains / seconds:.1f}",
        "calls/s": f"{chains * _STEPS / seconds:.0f}",
        "CPU ms a chain": f"{cpu / chains * 1000:.1f}",
        "PostgreSQL CPU ms": f"{database / chains * 1000:.1f}",
        "failed": str(_count(db, "failed")),
    }
    return Row("agenttrace worker", figures)


def _await_done(db: psycopg.Connection[tuple[object, ...]], wanted: int, until: float) -> int:
    while (done := _count(db, "completed")) < wanted:
        if time.monotonic() > until:
            raise RuntimeError(f"only {done} chains done, {_count(db, 'failed')} failed")
        time.sleep(0.1)
    return done


def _count(db: psycopg.Connection[tuple[object, ...]], status: str) -> int:
    row = db.execute("SELECT count(*) FROM biz.ai_trigger_jobs WHERE status = %s", [status]).fetchone()
    assert row is not None
    return int(str(row[0]))
