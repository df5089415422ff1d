"""Workers: they run what is queued, drain when stopped, and nothing that one of them leaves behind is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agenttrace.run.jobs.jobs import TriggerEvent
from agenttrace.run.jobs.worker import Worker
from agenttrace.run.postgres import EmbeddedPostgres
from agenttrace.run.postgres.pool import migrate
from agenttrace.run.simulator import Simulator, faults
from run.crew import APP_IDS, Crew, new_member, open_crew

JOBS = "agenttrace_queue.procrastinate_jobs"


def with_crew(url: str, test: Callable[[Crew], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Simulator() as simulator, open_crew(url, simulator) as crew:
            await asyncio.wait_for(test(crew), 60)

    asyncio.run(run())


@asynccontextmanager
async def at_work(*workers: Worker) -> AsyncIterator[asyncio.Event]:
    """The workers, working until the end of the block or until the event is set."""
    stop = asyncio.Event()
    running = [asyncio.create_task(worker.run(stop)) for worker in workers]
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.gather(*running)


async def accept(crew: Crew, number: int = 1) -> list[int]:
    events = [TriggerEvent(event_type="consumption", site_id=1, member_id=new_member()) for _ in range(number)]
    return [(await crew.dispatcher.handle_trigger(event)).job_id for event in events]


async def called(crew: Crew, number: int) -> None:
    while len(crew.simulator.calls) < number:
        await asyncio.sleep(0.01)


async def counts(crew: Crew, job_id: int) -> dict[str, int]:
    return {step: len(calls) for step, calls in crew.asked(await crew.job(job_id)).items()}


async def emptied(crew: Crew) -> None:
    while await crew.database.all(f"SELECT 1 FROM {JOBS}"):
        await asyncio.sleep(0.02)


ONCE = {"app3": 1, "app8": 1, "app7": 1}


def test_what_waits_and_what_comes_is_run(database_url: str) -> None:
    """Jobs from before the worker began and those that come later all end, each step called once, entries gone."""

    async def check(crew: Crew) -> None:
        job_ids = await accept(crew, 3)
        async with at_work(crew.worker()):
            job_ids += await accept(crew, 10)
            assert {job.status for job in await crew.ended(*job_ids)} == {"completed"}
            await emptied(crew)
        assert [await counts(crew, job_id) for job_id in job_ids] == [ONCE] * 13

    with_crew(database_url, check)


def test_several_workers_share_the_work(database_url: str) -> None:
    """Three on one database: every job is run by one of them."""

    async def check(crew: Crew) -> None:
        async with (
            open_crew(database_url, crew.simulator) as b,
            open_crew(database_url, crew.simulator) as c,
            at_work(*(each.worker(concurrency=2) for each in (crew, b, c))),
        ):
            job_ids = await accept(crew, 40)
            jobs = await crew.ended(*job_ids)
        assert {(job.status, job.claim) for job in jobs} == {("completed", 1)}
        assert [await counts(crew, job_id) for job_id in job_ids] == [ONCE] * 40

    with_crew(database_url, check)


def test_a_stop_drains(database_url: str) -> None:
    """The running call finishes and is recorded, no step follows, and the next worker does the rest at once."""

    async def check(crew: Crew) -> None:
        crew.simulator.script(APP_IDS["app3"], faults.slow(0.5))
        (job_id,) = await accept(crew)
        async with at_work(crew.worker()):
            await called(crew, 1)
        assert await counts(crew, job_id) == {"app3": 1}
        assert (await crew.job(job_id)).status == "running"
        assert list(await crew.run_logs.finished_steps(job_id)) == ["app3"]
        assert await crew.database.all(f"SELECT status::text, worker_id FROM {JOBS}") == [("todo", None)]
        async with open_crew(database_url, crew.simulator) as other, at_work(other.worker()):
            (job,) = await crew.ended(job_id)
        assert (job.status, job.claim) == ("completed", 2)
        assert await counts(crew, job_id) == ONCE

    with_crew(database_url, check)


def test_a_call_that_outlasts_the_drain_is_cut_off_and_recorded(database_url: str) -> None:
    """Its row says so, nothing is left open, and the next worker calls the step again."""

    async def check(crew: Crew) -> None:
        crew.simulator.script(APP_IDS["app8"], faults.hang())
        (job_id,) = await accept(crew)
        async with at_work(crew.worker(drain_seconds=0.2)):
            await called(crew, 2)
        rows = {row["step"]: row for row in await crew.run_logs.list(job=job_id)}
        assert (rows["app3"]["status"], rows["app8"]["status"]) == ("success", "failed")
        assert rows["app8"]["tokens_used"] > 0
        async with at_work(crew.worker()):
            (job,) = await crew.ended(job_id)
        assert job.status == "completed"
        assert await counts(crew, job_id) == {"app3": 1, "app8": 2, "app7": 1}

    with_crew(database_url, check)


_WORKER = """
import asyncio, json, sys
sys.path[:0] = json.loads(sys.argv[3])
from agenttrace.run.simulator import Simulator
from run.crew import open_crew

class There:
    base_url = sys.argv[2]

async def main():
    async with open_crew(sys.argv[1], There()) as crew:
        await crew.worker().run(asyncio.Event())

asyncio.run(main())
"""


def test_a_killed_workers_job_is_taken_over(database_url: str) -> None:
    """SIGKILL in mid-call: another worker goes on, finished steps are not called again, the lost call is closed."""

    async def check(crew: Crew) -> None:
        crew.simulator.script(APP_IDS["app8"], faults.hang())
        (job_id,) = await accept(crew)
        command = ["-c", _WORKER, database_url, crew.simulator.base_url, json.dumps(sys.path)]
        doomed = await asyncio.create_subprocess_exec(sys.executable, *command)
        await called(crew, 2)
        doomed.send_signal(signal.SIGKILL)
        await doomed.wait()
        async with at_work(crew.worker()):
            (job,) = await crew.ended(job_id)
            await emptied(crew)
        assert (job.status, job.error_message, job.claim) == ("completed", None, 2)
        assert await counts(crew, job_id) == {"app3": 1, "app8": 2, "app7": 1}
        rows = await crew.run_logs.list(job=job_id, status="failed")
        assert [row["error_message"] for row in rows] == ["lost: the worker died in mid-call"]
        assert await crew.cache.get("app8_clue_consolidated", 1, str(job.member_id)) is not None

    with_crew(database_url, check)


def test_a_worker_that_is_alive_keeps_its_job(database_url: str) -> None:
    """A call that lasts longer than the take-over time is not taken over: the worker gives signs of life."""

    async def check(crew: Crew) -> None:
        crew.simulator.script(APP_IDS["app3"], faults.slow(2.5))
        (job_id,) = await accept(crew)
        async with (
            open_crew(database_url, crew.simulator) as other,
            at_work(crew.worker(takeover_seconds=1.0), other.worker(takeover_seconds=1.0)),
        ):
            (job,) = await crew.ended(job_id)
        assert job.claim == 1
        assert await counts(crew, job_id) == ONCE

    with_crew(database_url, check)


def test_entries_without_a_live_worker_go_back(database_url: str) -> None:
    """An entry whose worker vanished, and one that was fetched but whose answer was lost, are run all the same."""

    async def check(crew: Crew) -> None:
        job_ids = await accept(crew, 2)
        manager = crew.queue.app.job_manager
        gone = await manager.register_worker()
        await manager.fetch_job(["agenttrace"], gone)
        await manager.unregister_worker(gone)
        worker = crew.worker(concurrency=1)
        crew.simulator.script(APP_IDS["app3"], faults.slow(0.5))
        async with at_work(worker):
            await called(crew, 1)
            assert worker._inner is not None
            assert worker._inner.worker_id is not None
            # What the worker would have got had the answer arrived.
            job_ids += await accept(crew)
            while await manager.fetch_job(["agenttrace"], worker._inner.worker_id) is None:
                await asyncio.sleep(0.01)
            assert {job.status for job in await crew.ended(*job_ids)} == {"completed"}
        assert [await counts(crew, job_id) for job_id in job_ids] == [ONCE] * 3

    with_crew(database_url, check)


def test_a_worker_that_was_struck_off_comes_back(database_url: str) -> None:
    """Its row deleted, as if it had been taken for dead: it registers anew and goes on with what comes."""

    async def check(crew: Crew) -> None:
        async with at_work(crew.worker()):
            await crew.ended(*await accept(crew))
            await crew.database.execute("DELETE FROM agenttrace_queue.procrastinate_workers")
            jobs = await crew.ended(*await accept(crew, 3))
        assert {job.status for job in jobs} == {"completed"}

    with_crew(database_url, check)


def test_a_job_that_breaks_is_failed_and_the_next_one_runs(database_url: str) -> None:
    """A fault of our own in one job ends that job with its reason, not the worker."""

    async def check(crew: Crew) -> None:
        (broken,) = await accept(crew)
        await crew.database.execute("UPDATE biz.ai_trigger_jobs SET event_type = 'forgotten' WHERE id = %s", [broken])
        (fine,) = await accept(crew)
        async with at_work(crew.worker()):
            first, second = await crew.ended(broken, fine)
            await emptied(crew)
        assert (first.status, second.status) == ("failed", "completed")
        assert "unknown event type 'forgotten'" in (first.error_message or "")

    with_crew(database_url, check)


def test_of_three_workers_one_is_killed_under_load(database_url: str) -> None:
    """Every job ends once, no finished step is called again, and the budget equals the sums of the run log."""

    async def check(crew: Crew) -> None:
        crew.simulator.always(None, faults.slow(0.05))
        command = ["-c", _WORKER, database_url, crew.simulator.base_url, json.dumps(sys.path)]
        doomed = await asyncio.create_subprocess_exec(sys.executable, *command)
        while not await crew.database.all("SELECT 1 FROM agenttrace_queue.procrastinate_workers"):
            await asyncio.sleep(0.02)
        async with open_crew(database_url, crew.simulator) as other, at_work(crew.worker(concurrency=3)):
            job_ids = await accept(crew, 60)
            async with at_work(other.worker(concurrency=3)):
                await taken_by_three(crew)
                doomed.send_signal(signal.SIGKILL)
                await doomed.wait()
                jobs = await crew.ended(*job_ids)
        assert {(job.status, job.error_message) for job in jobs} == {("completed", None)}
        rows = await crew.run_logs.list(limit=1000)
        lost = [(row["trigger_job_id"], row["step"]) for row in rows if row["status"] == "failed"]
        assert len([row for row in rows if row["status"] == "success"]) == 180
        for job_id in job_ids:
            for step, number in (await counts(crew, job_id)).items():
                assert number <= 1 + lost.count((job_id, step)), (job_id, step)
        sums = "SELECT sum(used), sum(failed), sum(reserved) FROM biz.ai_budget_days"
        kinds = [sum(row["tokens_used"] for row in rows if row["status"] == kind) for kind in ("success", "failed")]
        assert await crew.database.one(sums) == (*kinds, 0)

    with_crew(database_url, check)


async def taken_by_three(crew: Crew) -> None:
    """Until three workers have something in hand."""
    sql = f"SELECT count(DISTINCT worker_id) FROM {JOBS} WHERE status = 'doing'"
    while await crew.database.one(sql) != (3,):
        await asyncio.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="the server is not ours to kill there")
def test_a_restart_of_the_database_is_outlived(tmp_path: Path) -> None:
    """The server stops in the middle of calls and comes back: the same worker ends every job, no step called twice."""
    server = EmbeddedPostgres(tmp_path / "home")
    (tmp_path / "home").mkdir(mode=0o700)
    url = server.start()
    try:
        migrate(url)

        async def check(crew: Crew) -> None:
            crew.simulator.always(APP_IDS["app8"], faults.slow(1.0))
            job_ids = await accept(crew, 5)
            async with at_work(crew.worker()):
                await called(crew, 10)
                os.kill(int((server.cluster / "postmaster.pid").read_text().split()[0]), signal.SIGINT)
                while (server.cluster / "postmaster.pid").exists():
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(server.start)
                jobs = await crew.ended(*job_ids)
                later = await crew.ended(*await accept(crew, 2))
            assert {(job.status, job.error_message) for job in jobs + later} == {("completed", None)}
            assert [await counts(crew, job_id) for job_id in job_ids] == [ONCE] * 5

        with_crew(url, check)
    finally:
        server.stop()
