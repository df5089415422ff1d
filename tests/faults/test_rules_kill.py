"""SIGKILL of the engine of rules and of workers in the middle of chains: each step is paid once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import forked
from agenttrace.config import Settings, load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.run.simulator import BUILTIN_APP_IDS, Simulator, faults
from agenttrace.store import open_store
from agenttrace.store.questions import SessionFilter
from faults.run.rig import Rig, run_rig, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX"),
]

APPS = ("session-review", "session-score")
SCORE = BUILTIN_APP_IDS["session_score"]
RULES = """
[rules.review]
on = "session.waiting"
start = "all"
do = ["review"]

[actions.review]
type = "chain"
apps = ["session-review", "session-score"]
keep = ["note", "score"]
"""
_BUSY = """
SELECT p.pid FROM biz.ai_run_logs AS l JOIN biz.ai_processes AS p ON p.id = l.process_id
    WHERE l.status IN ('pending', 'running')
"""
_PAID = (
    "SELECT trigger_job_id, step, count(*) FROM biz.ai_run_logs WHERE status = 'success' GROUP BY 1, 2 ORDER BY 1, 2"
)


class Engines:
    """The process of rules over one home, started again and again, and a log that is recorded here."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.running: list[subprocess.Popen[bytes]] = []
        self.log = rig.home.parent / "rules.log"
        self.logs = rig.home.parent / "logs"
        self.logs.mkdir()
        (rig.home / "agenttrace.toml").write_text(RULES)
        self.settings: Settings = load_settings(rig.environ)

    async def start(self) -> None:
        """A new engine, which has the rules registered."""
        with self.log.open("ab") as errors:
            command = [sys.executable, "-m", "agenttrace.cli.main", "rules", "run"]
            self.running.append(forked.popen(command, env=self.rig.environ, stdout=errors, stderr=errors))
        await until(self._is_registered, self.log.read_text)

    def _is_registered(self) -> bool:
        assert self.running[-1].poll() is None, self.log.read_text()
        with open_store(self.settings, read_only=False) as store:
            return any(state.kinds for state in store.rules.states().values())

    async def kill(self) -> None:
        process = self.running[-1]
        process.kill()
        await asyncio.to_thread(process.wait)

    def record(self, sessions: int) -> None:
        """So many sessions, each of which waits for the user."""
        for number in range(sessions):
            base = {"v": 1, "session": f"s{number}", "turn": 1, "ts": time.time() - 600 + number}
            lines = [base | {"type": "turn.begin", "id": "t", "prompt": f"Question {number}."}]
            lines.append(base | {"type": "turn.end", "id": "e", "status": "ok"})
            (self.logs / f"s{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with closing(Recorder(self.settings, paths=[str(self.logs)])) as recorder:
            recorder.scan()
            recorder.drain()

    async def ended(self, firings: int) -> None:
        """Until all firings are done; each with one answer, and its notes written once."""
        await until(lambda: self._states() == ["done"] * firings, lambda: f"{self._states()} {self.log.read_text()}")
        with open_store(self.settings) as store:
            found = store.rules.firings()
            actions = store.rules.actions([firing.number for firing in found])
            assert all(firing.tokens > 0 for firing in found)
            assert [len(planned) for planned in actions.values()] == [1] * firings
            answers = [json.loads(planned[0].answer or "{}") for planned in actions.values()]
            assert all(set(event["answers"]) == set(APPS) for answer in answers for event in answer["events"])
            numbers = [each.id for each in store.sessions(SessionFilter()) if not each.session_id.startswith("rule-")]
            kept = store.annotations(numbers)
            kinds = [sorted(each.kind for each in kept[number]) for number in numbers]
            assert kinds == [["note", "score"]] * firings

    def _states(self) -> list[str]:
        with open_store(self.settings) as store:
            return [firing.state for firing in store.rules.firings()]

    async def paid_once(self, jobs: int) -> None:
        """One job for each firing, and one success of each of its steps; the tokens are those of the firings."""
        rows = await self.rig.rows(_PAID)
        assert len({job for job, _, _ in rows}) == jobs
        assert [(step, number) for _, step, number in rows] == [(app, 1) for app in APPS] * jobs
        assert await self.rig.rows("SELECT count(*) FROM biz.ai_trigger_jobs") == [(jobs,)]
        (used,) = (await self.rig.rows("SELECT sum(tokens_used) FROM biz.ai_run_logs"))[0]
        with open_store(self.settings) as store:
            assert sum(firing.tokens for firing in store.rules.firings()) == used

    async def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            await asyncio.to_thread(process.wait)


def run_engines(tmp_path: Path, url: str, body: Any, simulator: Any = Simulator) -> None:  # noqa: ANN401 - a test and its provider
    async def check(rig: Rig) -> None:
        engines = Engines(rig)
        try:
            await body(engines)
        finally:
            await engines.end()

    run_rig(tmp_path, url, check, simulator)


def test_an_engine_killed_in_mid_call(tmp_path: Path, database_url: str) -> None:
    """The next engine finds the job, and only the call in flight is made again."""

    async def body(engines: Engines) -> None:
        rig = engines.rig
        rig.simulator.script(SCORE, faults.hang())
        await engines.start()
        engines.record(1)
        await until(lambda: SCORE in [call.app_id for call in rig.simulator.calls], engines.log.read_text)
        await engines.kill()
        await engines.start()
        await engines.ended(1)
        assert [call.app_id for call in rig.simulator.calls] == [BUILTIN_APP_IDS["session_review"], SCORE, SCORE]
        await engines.paid_once(1)

    run_engines(tmp_path, database_url, body)


def test_a_worker_killed_in_mid_call(tmp_path: Path, database_url: str) -> None:
    """The process that makes the call dies, worker or engine; what is left goes on with it."""

    async def body(engines: Engines) -> None:
        rig = engines.rig
        rig.simulator.script(SCORE, faults.hang())
        (worker,) = await rig.start("worker")
        await engines.start()
        engines.record(1)
        await until(lambda: SCORE in [call.app_id for call in rig.simulator.calls], engines.log.read_text)
        await rig.eventually("SELECT count(*) FROM biz.ai_run_logs WHERE status = 'success'", [(1,)])
        ((busy,),) = await rig.rows(_BUSY)
        if busy == worker.process.pid:
            await worker.kill()
        else:
            await engines.kill()
            await engines.start()
        await engines.ended(1)
        assert len(rig.simulator.calls) == 3
        await engines.paid_once(1)

    run_engines(tmp_path, database_url, body)


def test_engines_and_workers_killed_at_random_instants(tmp_path: Path, database_url: str) -> None:
    """Again and again, at any moment of several chains: each is run to its end, and no step is paid twice."""

    async def body(engines: Engines) -> None:
        rig, chance = engines.rig, random.Random(14)
        workers = await rig.start("worker")
        await engines.start()
        engines.record(6)
        for _ in range(4):
            await asyncio.sleep(chance.uniform(0, 1.5))
            await engines.kill()
            if chance.random() < 0.5:
                os.kill(workers[-1].process.pid, signal.SIGKILL)
                workers += await rig.start("worker")
            await engines.start()
        await engines.ended(6)
        await rig.closed()
        await engines.paid_once(6)

    run_engines(tmp_path, database_url, body, lambda: Simulator(latency=0.2))
