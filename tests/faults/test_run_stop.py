"""SIGTERM under load drains, and SIGSTOP only looks like death: whatever happens, calls are recorded and made once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from agenttrace.run.simulator import Fault, Simulator, faults
from faults.run.audit import audit, calls_by_step, check_trace, check_windows, run_logs
from faults.run.chats import listen
from faults.run.rig import Rig, run_rig, until
from run.crew import APP_IDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the signals are POSIX"),
]


def test_a_stop_under_load_drains(tmp_path: Path, database_url: str) -> None:
    """Worker and server leave with 0: running calls and chats finish, no step is begun, nothing stays open, and the
    next worker does the rest without calling anything again."""

    async def check(rig: Rig) -> None:
        server, worker = await rig.start("serve", "worker")
        jobs = await rig.accepted(server, 12)
        talks = [asyncio.create_task(listen(rig, server, f"问题 {n}", user=f"u{n}")) for n in range(5)]
        await rig.called(20)
        assert {await worker.stop(), await server.stop()} == {0}
        assert [events[-1].kind for events in await asyncio.gather(*talks)] == ["done"] * 5
        drained = await run_logs(rig)
        assert {row.status for row in drained} == {"success"}
        assert len(drained) == len(rig.simulator.calls)
        assert await rig.rows("SELECT role FROM biz.ai_processes") == []
        unfinished = "SELECT count(*) FROM biz.ai_trigger_jobs WHERE status IN ('pending', 'running')"
        assert await rig.rows(unfinished) > [(0,)]
        await rig.start("worker")
        assert set((await rig.ended(jobs)).values()) == {"completed"}
        logs = await audit(rig)
        assert {len(calls) for calls in calls_by_step(rig).values()} == {1}
        assert len(logs) == len(rig.simulator.calls) == 5 * len(jobs) + 5
        await check_windows(rig, logs)
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check, lambda: Simulator(latency=0.2, chunk_delay=0.02))


def test_what_outlasts_the_drain_is_recorded(tmp_path: Path, database_url: str) -> None:
    """A call and a chat that never end are cut off, their rows closed with the reason and an estimate; exit code 0."""

    async def check(rig: Rig) -> None:
        rig.simulator.script(APP_IDS["app8"], faults.hang())
        rig.simulator.always(APP_IDS["app1"], faults.hang(after_chunks=3))
        server, worker = await rig.start("serve", "worker")
        (job,) = await rig.accepted(server, 1, event="note_created")
        talk = asyncio.create_task(listen(rig, server, "你好"))
        await until(lambda: {APP_IDS["app1"], APP_IDS["app8"]} <= {call.app_id for call in rig.simulator.calls})
        assert {await worker.stop(), await server.stop()} == {0}
        assert [event.kind for event in await talk].count("error") == 1
        cut = {row.app_type: row for row in await run_logs(rig) if row.status != "success"}
        assert {name: (row.status, row.error) for name, row in cut.items()} == {
            "app1_chat": ("failed", "the server is stopping"),
            "app8_consolidate": ("failed", "cancelled"),
        }
        assert all(row.tokens > 0 for row in cut.values())
        await rig.start("worker")
        assert await rig.ended([job]) == {job: "completed"}
        await check_trace(rig, await audit(rig))

    run_rig(tmp_path, database_url, check, drain_seconds=0.5)


@pytest.mark.parametrize("fault", [faults.slow(1.0), faults.status(503)], ids=["in mid-call", "between attempts"])
def test_a_frozen_worker_is_turned_away(tmp_path: Path, database_url: str, fault: Fault) -> None:
    """Frozen for longer than the take-over time, it wakes up to find its job done: what it learns late changes nothing
    but the bill, no step is called after its success, and the worker works on."""

    async def check(rig: Rig) -> None:
        rig.simulator.script(APP_IDS["app8"], fault)
        server, frozen = await rig.start("serve", "worker")
        (job,) = await rig.accepted(server, 1, event="note_created")
        await until(lambda: APP_IDS["app8"] in [call.app_id for call in rig.simulator.calls])
        frozen.freeze()
        await rig.start("worker")
        assert await rig.ended([job]) == {job: "completed"}
        frozen.thaw()
        late = "SELECT count(*) FROM biz.ai_run_logs WHERE step = 'app8' AND status = 'failed'"
        await rig.eventually(late, [(2,)])
        more = await rig.accepted(server, 10)
        assert set((await rig.ended(more)).values()) == {"completed"}
        logs = await audit(rig)
        assert [row.is_lost for row in logs if row.step == "app8" and row.status == "failed"] == [True, False]
        again = {step.name: len(calls) for step, calls in calls_by_step(rig).items() if step.mark == logs[0].mark}
        assert again == {"app6": 1, "app8": 2}
        assert frozen.is_running
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check)


def test_a_frozen_worker_keeps_nobody_waiting(tmp_path: Path, database_url: str) -> None:
    """Frozen under load, and so in the middle of transactions whose locks others need: another worker does everything
    while it sleeps, and nothing that it still writes afterwards makes a difference to the books."""

    async def check(rig: Rig) -> None:
        server, frozen = await rig.start("serve", "worker")
        jobs = await rig.accepted(server, 20)
        await rig.called(30)
        frozen.freeze()
        await rig.start("worker")
        assert set((await rig.ended(jobs)).values()) == {"completed"}
        frozen.thaw()
        # It works on, and what it had begun is written before it leaves.
        assert set((await rig.ended(await rig.accepted(server, 5))).values()) == {"completed"}
        assert await frozen.stop() == 0
        logs = await audit(rig, frozen=True)
        assert len([row for row in logs if row.status == "success"]) == 5 * 25
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check)


def test_a_frozen_server_gives_its_answers_all_the_same(tmp_path: Path, database_url: str) -> None:
    """Its chats were closed as lost meanwhile; when it wakes up they end as usual, and the tokens count once."""

    async def check(rig: Rig) -> None:
        frozen, _ = await rig.start("serve", "worker")
        talks = [asyncio.create_task(listen(rig, frozen, f"问题 {n}", user=f"u{n}")) for n in range(3)]
        await rig.called(3)
        await rig.eventually("SELECT count(*) FROM biz.ai_run_logs WHERE status = 'running'", [(3,)])
        frozen.freeze()
        await rig.closed()
        frozen.thaw()
        assert [events[-1].kind for events in await asyncio.gather(*talks)] == ["done"] * 3
        logs = await audit(rig)
        counted = [(row.status, row.tokens > 0, row.is_lost) for row in logs]
        assert sorted(counted) == [("failed", False, True)] * 3 + [("success", True, False)] * 3
        answers = await rig.rows("SELECT content FROM biz.ai_messages WHERE role = 'assistant'")
        assert sorted(answers) == sorted((call.text,) for call in rig.simulator.calls)
        await check_trace(rig, logs)

    run_rig(tmp_path, database_url, check, lambda: Simulator(chunk_delay=0.1))
