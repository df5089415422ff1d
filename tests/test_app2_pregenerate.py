"""Completed figures of the day make App2 write its insight for all eight time dimensions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from agenttrace.run.catalog.catalog import DIMENSIONS
from agenttrace.run.jobs.jobs import TriggerEvent
from agenttrace.run.simulator import Simulator, faults
from run.crew import APP_IDS, Crew, facts_of, open_crew
from run.world import written

EVENT = TriggerEvent(event_type="dws_completed", site_id=9)


def test_all_eight_dimensions_are_generated_and_kept_until_the_day_ends(database_url: str) -> None:
    """Each dimension is asked for once, and its own answer is the valid cached one until 23:59:59 in Shanghai."""

    async def check() -> None:
        async with Simulator() as simulator, open_crew(database_url, simulator) as crew:
            simulator.answer(APP_IDS["app2"], lambda body: {"for": facts_of(body)["dimension"]})
            before = datetime.now(ZoneInfo("Asia/Shanghai")).date()
            job = await crew.run(EVENT)
            assert (job.status, job.app_chain) == ("completed", "app2×8")
            assert sorted(crew.asked(job)) == sorted(f"app2:{dimension}" for dimension in DIMENSIONS)
            for dimension in DIMENSIONS:
                row = await crew.cache.get("app2_finance", 9, dimension)
                assert row is not None
                assert row["result_json"] == {"for": dimension}
                ends = row["expires_at"].astimezone(ZoneInfo("Asia/Shanghai"))
                assert (ends.hour, ends.minute, ends.second) == (23, 59, 59)
                assert ends.date() in {before, datetime.now(ZoneInfo("Asia/Shanghai")).date()}

    asyncio.run(check())


def test_the_dimensions_are_generated_at_the_same_time(database_url: str) -> None:
    """All eight calls are under way before the first is answered."""

    async def check() -> None:
        async with Simulator() as simulator, open_crew(database_url, simulator) as crew:
            simulator.always(APP_IDS["app2"], faults.hang())
            job_id = (await crew.dispatcher.handle_trigger(EVENT)).job_id
            running = asyncio.create_task(crew.dispatcher.execute(job_id))
            while len(simulator.calls) < len(DIMENSIONS):
                assert not running.done()
                await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert {call.outcome for call in simulator.calls} <= {"running", "hung_up"}

    asyncio.run(check())


@pytest.mark.parametrize("refused", [3, 8])
def test_dimensions_that_fail_leave_the_others_and_their_own_old_results(database_url: str, refused: int) -> None:
    """What fails keeps yesterday's valid result; the job is completed as long as one dimension succeeded."""

    async def check() -> None:
        async with Simulator() as simulator, open_crew(database_url, simulator) as crew:
            await _seed(crew)
            simulator.script(APP_IDS["app2"], *[faults.status(400)] * refused)
            job = await crew.run(EVENT)
            results = [await crew.cache.get("app2_finance", 9, dimension) for dimension in DIMENSIONS]
            assert sum(row is not None and row["result_json"] == {"old": True} for row in results) == refused
            assert job.status == ("completed" if refused < len(DIMENSIONS) else "failed")
            assert (job.error_message or "").count("failed: ") == refused
            assert await crew.cache.list(status="generating") == []

    asyncio.run(check())


async def _seed(crew: Crew) -> None:
    far = datetime.now(UTC).replace(year=2999)
    for dimension in DIMENSIONS:
        async with crew.database.transaction() as connection:
            await written(connection, crew.cache.storing("app2_finance", 9, dimension, {"old": True}, far))
