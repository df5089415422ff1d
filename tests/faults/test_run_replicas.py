"""Three replicas on one database, one of them killed: every accepted trigger ends exactly once, counters agree."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from agenttrace.client import TriggerError, TriggerResult
from agenttrace.run.simulator import Simulator
from faults.run.audit import ADMITTED, audit, check_trace, check_windows
from faults.run.rig import Member, Rig, new_event, run_rig
from serve.harness import CHAT, bearer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX"),
]

EVENTS = 25
LIMIT = 5


def test_three_replicas_of_which_one_dies(tmp_path: Path, database_url: str) -> None:
    """Each event is reported to all three at once, and a server and a worker are killed at a random moment: each event
    runs once, its duplicates are skipped, no finished step is called again, and windows, budget, run log, trace and
    the simulator's bill agree."""

    async def check(rig: Rig) -> None:
        chance = random.Random(11)
        started = await rig.start("serve", "serve", "serve", "worker", "worker", "worker")
        servers, workers = started[:3], started[3:]
        doomed = servers[0]
        events = [new_event() for _ in range(EVENTS)]
        reports = [asyncio.create_task(_report(rig, server, events)) for server in servers]
        talking = asyncio.create_task(_talk_too_much(rig, servers[1:]))
        await rig.called(chance.randint(10, 40))
        await asyncio.sleep(chance.uniform(0, 0.1))
        await asyncio.gather(doomed.kill(), chance.choice(workers).kill())
        answers = await asyncio.gather(*reports)
        assert [len(answer) for answer in answers[1:]] == [EVENTS, EVENTS]
        assert await talking == {200: LIMIT, 429: 4}
        jobs = await rig.rows("SELECT id, member_id, status FROM biz.ai_trigger_jobs")
        assert {job for answer in answers for job in answer} <= {job for job, _, _ in jobs}
        ended = await rig.ended(job for job, _, _ in jobs)
        assert Counter(ended.values())["completed"] == EVENTS
        assert set(ended.values()) == {"completed", "skipped_duplicate"}
        told = {job: result.status for answer in answers for job, result in answer.items()}
        assert {job for job, status in told.items() if status == "skipped_duplicate"} == {
            job for job in told if ended[job] == "skipped_duplicate"
        }
        # What the dead server had written and not yet answered is there, too.
        assert len(told) <= len(jobs) <= 3 * EVENTS
        await rig.closed()
        logs = await audit(rig)
        assert len([row for row in logs if row.status == "success" and row.job]) == 5 * EVENTS
        assert len([row for row in logs if row.user_id and row.status in ADMITTED]) == LIMIT
        await check_windows(rig, logs)
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check, lambda: Simulator(latency=0.1), user_calls_per_minute=LIMIT)


async def _report(rig: Rig, server: Member, events: list[tuple[int, dict[str, int]]]) -> dict[int, TriggerResult]:
    """Report all events to a server; the answers that came, by job."""
    async with rig.client(server, retries=0) as client:
        results = await asyncio.gather(
            *(client.trigger("consumption", 1, *event) for event in events), return_exceptions=True
        )
    assert all(isinstance(result, TriggerResult | TriggerError) for result in results), results
    return {result.trigger_job_id: result for result in results if isinstance(result, TriggerResult)}


async def _talk_too_much(rig: Rig, servers: list[Member]) -> Counter[int]:
    """One user says more at once, to several servers, than is allowed; how often each status was the answer."""

    async def say(server: Member, number: int) -> int:
        body = {"message": f"问题 {number}"}
        async with rig.http.post(server.url + CHAT, json=body, headers=bearer("talker")) as response:
            await response.read()
            return response.status

    return Counter(await asyncio.gather(*(say(servers[n % len(servers)], n) for n in range(LIMIT + 4))))
