"""The recorder's totals equal the totals that the demo reports."""

from __future__ import annotations

import math
import threading
from pathlib import Path

from agenttrace.config import Settings
from agenttrace.demo import DemoTotals, environment, past, play
from agenttrace.record.recorder import Recorder
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite.sessions import list_sessions
from agenttrace.store.sqlite.usage import usage_rows


def _recorded(recorder: Recorder) -> dict[str, DemoTotals]:
    found: dict[str, DemoTotals] = {}
    for row in usage_rows(recorder.connection, UsageQuery(by="agent")):
        total = found.setdefault(row.group, DemoTotals())
        total.add(row.usage)
        total.requests += row.requests - 1
    return found


def test_every_agent_is_recorded_to_the_token(tmp_path: Path) -> None:
    """All agents, live and past: every total equals the truth, no line is quarantined, nothing is a duplicate."""
    truth = past(tmp_path, days=3, seed=2)
    play(tmp_path, speed=math.inf, seed=2, stop=threading.Event(), sessions=5, truth=truth)
    recorder = Recorder(Settings(home=tmp_path / ".agenttrace"), environ=environment(tmp_path))
    try:
        recorder.scan()
        recorder.drain()
        assert _recorded(recorder) == truth.agents
        assert recorder.summary.quarantined == recorder.summary.duplicate == 0
        assert len(list_sessions(recorder.connection)) == sum(truth.sessions.values())
    finally:
        recorder.close()
