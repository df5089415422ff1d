"""SIGKILL of a worker or a server under load: others go on, nothing is lost, and nothing finished is done again."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from agenttrace.run.simulator import ReceivedCall, Simulator, faults
from faults.run.audit import audit, calls_by_step, check_trace, check_windows
from faults.run.chats import listen
from faults.run.rig import Rig, new_event, run_rig, until
from run.crew import APP_IDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX"),
]

LATENCY = 0.1
LOST_CALL = "lost: the process of this call has died"
#: Whoever comes first closes the call of a dead worker: the next worker of its job, or a process that sweeps.
LOST_BY_WORKER = ("lost: the worker died in mid-call", LOST_CALL)


def test_a_worker_killed_in_mid_call(tmp_path: Path, database_url: str) -> None:
    """Another worker goes on: only the call in flight is made again, and its lost row says why it failed."""

    async def check(rig: Rig) -> None:
        rig.simulator.script(APP_IDS["app8"], faults.hang())
        server, doomed = await rig.start("serve", "worker")
        (job,) = await rig.accepted(server, 1)
        await until(lambda: APP_IDS["app8"] in [call.app_id for call in rig.simulator.calls])
        await rig.eventually("SELECT count(*) FROM biz.ai_run_logs WHERE status = 'success'", [(3,)])
        await doomed.kill()
        await rig.start("worker")
        assert await rig.ended([job]) == {job: "completed"}
        logs = await audit(rig)
        again = {step.name: len(calls) for step, calls in calls_by_step(rig).items()}
        assert again == {"app3": 1, "app8": 2, "app7": 1, "app4": 1, "app5": 1}
        (lost,) = [row for row in logs if row.status != "success"]
        assert (lost.step, lost.status, lost.error in LOST_BY_WORKER) == ("app8", "failed", True)
        await check_windows(rig, logs)
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check)


def test_workers_killed_at_random_instants(tmp_path: Path, database_url: str) -> None:
    """One of two workers dies again and again in the middle of chains: each job ends once, no finished step is called
    again, the open calls of the dead are closed with their reason, and budget, windows and trace agree."""

    async def check(rig: Rig) -> None:
        chance = random.Random(3)
        server, *workers = await rig.start("serve", "worker", "worker")
        jobs: list[int] = []
        for _ in range(3):
            seen = len(rig.simulator.calls)
            jobs += await rig.accepted(server, 8)
            await rig.called(seen + chance.randint(1, 25))
            await asyncio.sleep(chance.uniform(0, LATENCY))
            await workers.pop(chance.randrange(2)).kill()
            workers += await rig.start("worker")
        assert set((await rig.ended(jobs)).values()) == {"completed"}
        logs = await audit(rig)
        assert len([row for row in logs if row.status == "success"]) == 5 * len(jobs)
        assert {(row.status, row.error) for row in logs} <= {
            ("success", ""),
            *(("failed", why) for why in LOST_BY_WORKER),
        }
        await check_windows(rig, logs)
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check, lambda: Simulator(latency=LATENCY), worker_concurrency=4)


def test_a_server_killed_under_load(tmp_path: Path, database_url: str) -> None:
    """Triggers that were answered end exactly once; chats that were open are closed as failed by another process, and
    their reservations are freed."""

    async def check(rig: Rig) -> None:
        doomed, other, _ = await rig.start("serve", "serve", "worker")
        whole = [asyncio.create_task(listen(rig, other, f"问题 {n}", user=f"v{n}")) for n in range(3)]
        await rig.called(3)
        rig.simulator.always(APP_IDS["app1"], faults.hang(after_chunks=3))
        talks = [asyncio.create_task(listen(rig, doomed, f"问题 {n}", user=f"u{n}")) for n in range(12)]
        answered: list[int] = []

        async def trigger() -> None:
            async with rig.client(doomed, retries=0) as client:
                for _ in range(1000):
                    result = await client.trigger("task_assigned", 1, *new_event())
                    answered.append(result.trigger_job_id)

        triggers = [asyncio.create_task(trigger()) for _ in range(3)]
        await until(lambda: len(answered) >= 20 and len(_chats(rig)) == 15)
        await doomed.kill()
        outcomes = await asyncio.gather(*triggers, return_exceptions=True)
        assert all(isinstance(outcome, Exception) for outcome in outcomes)
        heard = await asyncio.gather(*talks)
        assert not [events for events in heard if events and events[-1].kind != "message"]
        await rig.closed()
        assert [events[-1].kind for events in await asyncio.gather(*whole)] == ["done"] * 3
        accepted = [row[0] for row in await rig.rows("SELECT id FROM biz.ai_trigger_jobs")]
        assert set(answered) <= set(accepted)
        assert set((await rig.ended(accepted)).values()) == {"completed"}
        logs = await audit(rig)
        chats = [row for row in logs if row.step is None]
        assert len(chats) == 15
        lost = [row for row in chats if row.status != "success"]
        assert len(lost) == 12
        assert {row.error for row in lost} == {LOST_CALL}
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check, lambda: Simulator(latency=0.02, chunk_delay=0.02))


def _chats(rig: Rig) -> list[ReceivedCall]:
    return [call for call in rig.simulator.calls if call.stream]
