"""The recorder's totals of the demo's logs are those of the logs."""

from __future__ import annotations

import math
import threading
from pathlib import Path

from agenttrace.config import Settings
from agenttrace.demo import environment, past, play
from agenttrace.prices.costing import Cashier
from agenttrace.record.outcomes import session_facts
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.store.questions import UsageQuery
from agenttrace.store.sqlite.sessions import list_sessions
from agenttrace.store.sqlite.usage import usage_rows
from agenttrace.views.findings import findings
from agenttrace.views.insights import KINDS, InsightPeriod
from agenttrace.views.outcomes import outcomes_of

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


def test_history_has_something_of_every_kind(tmp_path: Path) -> None:
    """Two weeks have every kind of finding, and commits of which no two have the same hash."""
    past(tmp_path, days=14)
    settings = Settings(home=tmp_path / ".agenttrace")
    recorder = Recorder(settings, environ=environment(tmp_path))
    try:
        recorder.run_once()
        store = recorder.store
        period = InsightPeriod.of("30d", None, settings.usage.timezone)
        found = findings(store, Cashier.load(settings), SessionTexts(None), period).items
        assert {each.kind for each in found} == set(KINDS)
        commits = [
            commit.hash
            for each in store.sessions()
            for commit in outcomes_of(each, session_facts(store, each), repository=False).commits
        ]
        assert len(set(commits)) == len(commits) > 10
    finally:
        recorder.close()


def test_sessions_of_a_long_demo_do_not_pile_up(tmp_path: Path) -> None:
    """However many stories were played, no agent has more than one session that waits for its user."""
    play(tmp_path, speed=math.inf, stop=threading.Event(), sessions=1, stories=30, rest=40.0)
    recorder = Recorder(Settings(home=tmp_path / ".agenttrace"), environ=environment(tmp_path))
    try:
        recorder.run_once()
        sessions = list(recorder.store.sessions())
        assert sum(each.turns for each in sessions) > 5 * 30
        assert sum(each.state == "waiting" for each in sessions) <= 5
    finally:
        recorder.close()
