"""The sweeper: everything that is left behind is dealt with, by one process at a time, and harmlessly by many."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agenttrace.compat.rate_limit import RateLimiter
from agenttrace.run.jobs.sweeper import Sweeper, SweepReport
from agenttrace.run.presence import Presence
from agenttrace.run.results.cache import AICacheService
from agenttrace.run.results.run_log import AIRunLogService
from agenttrace.run.results.trace_log import TraceLog
from run.world import World, books, call, open_world, opened, settled

OLD = datetime.now(UTC) - timedelta(days=90)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    with open_world(database_url) as world:
        yield world


def sweeper(world: World, **options: Any) -> Sweeper:  # noqa: ANN401 - any option of the sweeper
    return Sweeper(
        run_logs=AIRunLogService(world.database),
        cache=AICacheService(world.database),
        limiter=RateLimiter(world.database),
        **{"lost_after": 0, "cache_rows": 2, "log_days": 30, **options},
    )


def leave_a_mess(world: World) -> int:
    """One of everything that a sweep deals with (two cached rows too many); the id of the lost call."""
    logs = AIRunLogService(world.database)
    old = call()
    world.run(settled(logs, world.run(opened(logs, old, at=OLD)), old))
    lost = world.run(opened(logs, call(), process=uuid.uuid4()))
    world.do(
        "INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, expires_at)"
        " SELECT 'app3_clue', 1, n::text, '{}', CASE n WHEN 1 THEN now() END FROM generate_series(1, 4) AS n"
    )
    world.run(Presence(world.database, "worker").beat())
    world.do("UPDATE biz.ai_processes SET seen_at = %s", OLD)
    world.run(RateLimiter(world.database).check_user_rate("u"))
    world.do("UPDATE biz.ai_rate_windows SET hits = '{}', last_at = %s", OLD)
    return lost


def test_one_sweep_deals_with_everything(world: World) -> None:
    """Lost calls, results that ran out, too many rows, idle windows, dead processes, old logs: all in one sweep."""
    lost = leave_a_mess(world)
    report = world.run(sweeper(world).sweep())
    assert [one["id"] for one in report.lost] == [lost]
    numbers = (report.expired, report.trimmed, report.idle_windows, report.gone_processes, report.old_logs)
    assert numbers == (1, 2, 1, 1, 1)
    assert report.done
    assert world.run(sweeper(world).sweep()) == SweepReport()
    assert world.all("SELECT id, status FROM biz.ai_run_logs") == [(lost, "failed")]
    assert world.one("SELECT count(*) FROM biz.ai_cache WHERE status = 'valid'") == 2
    books(world)


def test_a_lost_call_ends_in_the_trace_too(world: World, tmp_path: Path) -> None:
    """The call of a process that died is written to the trace as the run log has it, begun and failed."""
    trace = TraceLog(tmp_path)
    lost = world.run(opened(AIRunLogService(world.database), call(), process=uuid.uuid4()))
    world.do("UPDATE biz.ai_run_logs SET session_id = 'conv_1_2'")
    world.run(sweeper(world, trace=trace).sweep())
    trace.close()
    [file] = tmp_path.iterdir()
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    told = {line["type"]: line for line in lines if line["id"] == str(lost)}
    assert told.keys() >= {"turn.begin", "step.begin", "step.end", "turn.end"}
    assert told["step.end"]["status"] == "error"
    assert told["step.end"]["error"].startswith("lost: ")


def test_the_slower_chores_wait_for_their_time(world: World) -> None:
    """Lost calls and expired results are dealt with at each sweep, the rest once in its interval."""
    now = [0.0]
    sweeping = sweeper(world, clock=lambda: now[0], chores_every=60)
    world.run(sweeping.sweep())
    leave_a_mess(world)
    report = world.run(sweeping.sweep())
    assert (len(report.lost), report.expired) == (1, 1)
    assert (report.trimmed, report.idle_windows, report.gone_processes, report.old_logs) == (0, 0, 0, 0)
    now[0] = 60
    report = world.run(sweeping.sweep())
    assert (report.trimmed, report.idle_windows, report.gone_processes, report.old_logs) == (2, 1, 1, 1)


def test_run_logs_are_never_deleted_by_default(world: World) -> None:
    """With ``log_days`` 0 no run log is deleted, however old."""
    leave_a_mess(world)
    assert world.run(sweeper(world, log_days=0).sweep()).old_logs == 0
    assert world.one("SELECT count(*) FROM biz.ai_run_logs WHERE status = 'success'") == 1


def test_only_one_sweeps_at_a_time(world: World) -> None:
    """While another process sweeps nothing is done; when it has ended, or died, the next sweep is whole."""
    leave_a_mess(world)

    entered, leave = asyncio.Event(), asyncio.Event()

    class Slow(AIRunLogService):
        async def close_lost(self, *, lost_after: float) -> list[Any]:
            entered.set()
            await leave.wait()
            return await super().close_lost(lost_after=3600)

    async def scene() -> SweepReport:
        slow = Sweeper(
            run_logs=Slow(world.database), cache=AICacheService(world.database), limiter=RateLimiter(world.database)
        )
        other = asyncio.create_task(slow.sweep())
        await entered.wait()
        report = await sweeper(world).sweep()
        leave.set()
        await other
        return report

    assert world.run(scene()) == SweepReport(done=False)
    assert world.one("SELECT count(*) FROM biz.ai_run_logs WHERE status = 'running'") == 1
    assert len(world.run(sweeper(world).sweep()).lost) == 1


def test_many_sweepers_at_once_do_the_work_once(world: World) -> None:
    """However many processes sweep at the same moment, what is there is dealt with once."""
    leave_a_mess(world)

    async def race() -> list[SweepReport]:
        return await asyncio.gather(*(sweeper(world).sweep() for _ in range(7)))

    reports = world.run(race())
    assert sum(len(report.lost) for report in reports) == 1
    assert sum(report.expired for report in reports) == 1
    assert sum(report.trimmed for report in reports) == 2
    assert any(report.done for report in reports)
    books(world)
