"""Time of an admission (breaker, rate limit, budget and run log row in one round trip), compared with ``SELECT 1``."""

from __future__ import annotations

from pathlib import Path

from benchmarks.run_stage import Stage, stage
from benchmarks.table import Result, Row

CALLERS = (1, 8)
_SECONDS = 5


def measure(work: Path) -> Result:
    """Measure with one caller and with eight."""
    with stage(work / "guards") as ours:
        rows = [
            _row(ours, mode, who, callers)
            for callers in CALLERS
            for mode, who in (("admit", "one admission"), ("select", "limit: SELECT 1 on the same pool"))
        ]
    return Result("Admission of a call by the guards", rows)


def _row(ours: Stage, mode: str, who: str, callers: int) -> Row:
    with ours.process("-m", "benchmarks.run_caller", mode, str(callers), str(_SECONDS)) as caller:
        caller.line()
        before = ours.postgres.cpu_seconds()
        caller.say("begin")
        spent = caller.line()
        database = ours.postgres.cpu_seconds() - before
        caller.say("end")
    calls = spent["calls"]
    figures = {
        "callers": str(callers),
        "p50 ms": f"{spent['p50'] * 1000:.2f}",
        "p99 ms": f"{spent['p99'] * 1000:.2f}",
        "a second": f"{calls / spent['seconds']:.0f}",
        "CPU ms": f"{spent['cpu_seconds'] / calls * 1000:.2f}",
        "PostgreSQL CPU ms": f"{database / calls * 1000:.2f}",
    }
    return Row(who, figures)
