"""A thousand concurrent chats through one server process: errors, CPU and memory per stream."""

from __future__ import annotations

import threading
from pathlib import Path

from benchmarks.run_load import Seen, load, percentile
from benchmarks.run_processes import Meter
from benchmarks.run_stage import Stage, chats, stage
from benchmarks.table import Result, Row

STREAMS = 1000
#: Twenty frames and the end at this pace: long enough for the last stream to begin before the first one ends.
_FRAME_DELAY = 1.0
_WARM_CALLERS = 50


class _Peak:
    """Samples the memory of a process while the block runs."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.before = self.most = meter.resident_mb()

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.25):
            self.most = max(self.most, self._meter.resident_mb())


def measure(work: Path) -> Result:
    """Start all streams at once."""
    with stage(work / "streams", frame_delay=_FRAME_DELAY) as ours, ours.server() as (server, url):
        asks = chats(url, users=STREAMS)
        load(asks, _WARM_CALLERS, calls=_WARM_CALLERS)
        before = server.cpu_seconds(), ours.postgres.cpu_seconds()
        with _Peak(server) as memory:
            seen = load(asks, STREAMS, calls=STREAMS)
        row = _row(seen, memory, server.cpu_seconds() - before[0], ours.postgres.cpu_seconds() - before[1])
        row.figures["unsettled"] = str(_unsettled(ours))
    return Result(f"{STREAMS} chats at once, 20 frames {_FRAME_DELAY:g} s apart, one server process", [row])


def _row(seen: Seen, memory: _Peak, cpu: float, database_cpu: float) -> Row:
    if seen.errors:
        raise RuntimeError(f"{len(seen.errors)} streams went wrong, the first: {seen.errors[0]}")
    figures = {
        "done": str(seen.calls),
        "at once": str(seen.most_open),
        "1st byte p50 s": f"{percentile(seen.first_byte, 0.5):.2f}",
        "p99 s": f"{percentile(seen.first_byte, 0.99):.2f}",
        "wall s": f"{seen.seconds:.1f}",
        "CPU s": f"{cpu:.1f}",
        "PG CPU s": f"{database_cpu:.1f}",
        "KB each": f"{(memory.most - memory.before) / STREAMS * 1000:.0f}",
        "RSS MB": f"{memory.most:.0f}",
    }
    return Row("agenttrace serve", figures)


def _unsettled(ours: Stage) -> int:
    import psycopg

    with psycopg.connect(ours.environ["AGENTTRACE_DATABASE_URL"]) as connection:
        row = connection.execute(
            "SELECT count(*) FROM biz.ai_run_logs WHERE status IN ('pending', 'running')"
        ).fetchone()
    assert row is not None
    return int(row[0])
