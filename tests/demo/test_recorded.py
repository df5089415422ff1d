"""The recorder's totals of the demo's logs are those of the logs."""

from __future__ import annotations

import math
import threading
from pathlib import Path

from agenttrace.config import Settings
from agenttrace.demo import environment, past, play
from agenttrace.record.recorder import Recorder
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite.sessions import list_sessions
from agenttrace.store.sqlite.usage import usage_rows

from .counting import COUNTERS, LOGS, Totals


def _recorded(recorder: Recorder) -> dict[str, Totals]:
    found: dict[str, Totals] = {}
    for row in usage_rows(recorder.connection, UsageQuery(by="agent")):
        total = found.setdefault(row.group, Totals())
        total.input += row.usage.input_tokens
        total.output += row.usage.output_tokens
        total.cache_read += row.usage.cache_read_tokens
        total.cache_write += row.usage.cache_write_tokens
        total.reasoning += row.usage.reasoning_tokens
        total.requests += row.requests
    return found


def test_every_agent_is_recorded_to_the_token(tmp_path: Path) -> None:
    """All agents, live and past: every total is exact, no line is quarantined, and none is a duplicate."""
    past(tmp_path, days=3, seed=2)
    play(tmp_path, speed=math.inf, seed=2, stop=threading.Event(), sessions=5)
    recorder = Recorder(Settings(home=tmp_path / ".agenttrace"), environ=environment(tmp_path))
    try:
        recorder.scan()
        recorder.drain()
        assert _recorded(recorder) == {agent: count(tmp_path) for agent, count in COUNTERS.items()}
        assert recorder.summary.quarantined == recorder.summary.duplicate == 0
        assert len(list_sessions(recorder.connection)) == sum(len(list(tmp_path.glob(logs))) for logs in LOGS.values())
    finally:
        recorder.close()
