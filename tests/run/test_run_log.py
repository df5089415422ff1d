"""The run log: settling once and in any weather, closing what the dead left open, and reading it page by page."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.compat.run_log import AIRunLogService
from agenttrace.run.postgres.sql_call import SqlCall
from agenttrace.run.presence import Presence
from agenttrace.run.results.clues import RetentionClues
from agenttrace.run.results.run_log import RunLogTransitionError, StepDoneError
from agenttrace.run.upstream.calls import CallOutcome
from run.world import FAILURE, SUCCESS, World, books, call, open_world, opened, settled

SHANGHAI = ZoneInfo("Asia/Shanghai")


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    with open_world(database_url) as world:
        yield world


@pytest.fixture
def logs(world: World) -> AIRunLogService:
    return AIRunLogService(world.database)


@pytest.fixture(scope="module")
def shared(module_database_url: str) -> Iterator[World]:
    with open_world(module_database_url) as world:
        yield world


def statuses(world: World) -> list[tuple[str, int]]:
    return world.all("SELECT status, tokens_used FROM biz.ai_run_logs ORDER BY id")


class Counting:
    """A connection that counts the statements it is given."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self.count = 0

    async def execute(self, *args: Any) -> Any:  # noqa: ANN401 - passed through
        self.count += 1
        return await self._connection.execute(*args)


# -- settling -----------------------------------------------------------------------------------------------------


def test_settling_is_one_statement(world: World, logs: AIRunLogService) -> None:
    """In the usual case settling costs one statement, and everything that is known stands in the row."""
    request = call(member_id=7)
    log_id = world.run(opened(logs, request))

    async def settle() -> int:
        async with world.database.transaction() as connection:
            counting: Any = Counting(connection)
            assert await logs.settle(counting, log_id, request, SUCCESS, None) == log_id
            return int(counting.count)

    assert world.run(settle()) == 1
    row = world.run(logs.get(log_id))
    assert row is not None
    for name in ("status", "latency_ms", "response_text", "tokens_used", "input_tokens", "output_tokens", "model"):
        assert row[name] == getattr(SUCCESS, name), name
    assert (row["request_id"], row["attempts"], row["tokens_estimated"]) == ("r-1", 1, False)
    assert row["finished_at"] >= row["created_at"]
    assert books(world) == (70, 0, 0)


def _clue(world: World) -> SqlCall:
    return RetentionClues(world.database).writing(1, 7, date(2026, 5, 1), "爱打斯诺克", ["斯诺克"], 3)


@pytest.mark.parametrize("row", ["open", "lost", "missing"])
def test_what_belongs_to_a_result_is_written_with_it_once(world: World, logs: AIRunLogService, row: str) -> None:
    """Settled in its own row or in another, however often, what belongs to the result is written with it, once."""
    request = call()
    log_id = 2**60 if row == "missing" else world.run(opened(logs, request, process=uuid.uuid4()))
    if row == "lost":
        world.run(logs.close_lost(lost_after=0))

    async def settle() -> int:
        async with world.database.pool.connection() as connection:
            return await logs.settle(connection, log_id, request, SUCCESS, None, writes=[_clue(world)])

    numbers = {world.run(settle()) for _ in range(3)}
    assert len(numbers) == 1
    assert (log_id in numbers) == (row == "open")
    assert world.all("SELECT summary, updated_at = created_at FROM biz.member_retention_clue") == [("爱打斯诺克", True)]
    assert books(world) == (70, 0, 0)


def test_a_result_that_belongs_to_nothing_writable_leaves_no_trace(world: World, logs: AIRunLogService) -> None:
    """When what belongs to a result is refused, the result is not settled either: both or neither."""
    request = call()
    log_id = world.run(opened(logs, request))
    broken = SqlCall(function="ai_clue_write", arguments=(None,) * 6)

    async def settle() -> None:
        async with world.database.pool.connection() as connection:
            await logs.settle(connection, log_id, request, SUCCESS, None, writes=[_clue(world), broken])

    with pytest.raises(psycopg.errors.NotNullViolation):
        world.run(settle())
    assert statuses(world) == [("running", 0)]
    assert world.all("SELECT FROM biz.member_retention_clue") == []


@pytest.mark.parametrize("row", ["open", "lost", "missing"])
@pytest.mark.parametrize("heals", [True, False])
def test_settling_tells_the_breaker_and_still_waits_for_the_disk(
    world: World, logs: AIRunLogService, row: str, heals: bool
) -> None:
    """An answered probe closes its circuit with the settling, at the time given; the commit is no less safe for it."""
    request, at = call(), datetime(2026, 5, 1, tzinfo=UTC)
    log_id = 2**60 if row == "missing" else world.run(opened(logs, request, process=uuid.uuid4()))
    if row == "lost":
        world.run(logs.close_lost(lost_after=0))
    world.do(
        "INSERT INTO biz.ai_breakers (app_id, state, failure_count, probe_key, probe_until)"
        " SELECT app, 'half_open', 5, %s, now() + interval '1 hour' FROM unnest(ARRAY[%s, 'another']) AS app",
        request.key,
        request.app_id,
    )

    async def settle() -> tuple[Any, ...] | None:
        async with world.database.transaction() as connection:
            await connection.execute("SET LOCAL synchronous_commit TO on")
            await logs.settle(connection, log_id, request, SUCCESS, None, heals=heals, now=at)
            return await (await connection.execute("SHOW synchronous_commit")).fetchone()

    assert world.run(settle()) == ("on",)
    closed = world.all("SELECT app_id, failure_count, changed_at FROM biz.ai_breakers WHERE state = 'closed'")
    assert closed == ([(request.app_id, 0, at)] if heals else [])


@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE])
def test_settling_again_after_a_lost_acknowledgement_changes_nothing(
    world: World, logs: AIRunLogService, outcome: CallOutcome
) -> None:
    """Who does not know whether the commit went through may settle again: one row, its tokens once."""
    request = call()
    log_id = world.run(opened(logs, request))
    for _ in range(3):
        assert world.run(settled(logs, log_id, request, outcome)) == log_id
    assert statuses(world) == [(outcome.status, outcome.tokens_used)]
    assert sum(books(world)) == outcome.tokens_used


def test_a_result_that_comes_after_its_call_was_closed_is_stored(world: World, logs: AIRunLogService) -> None:
    """A call closed as lost stays closed; the late result gets a row of its own, once, and the tokens count once."""
    request = call(member_id=7, job_id=3, step="app3")
    log_id = world.run(opened(logs, request, process=uuid.uuid4()))
    assert [lost["id"] for lost in world.run(logs.close_lost(lost_after=0))] == [log_id]
    assert books(world) == (0, request.estimate, 0), "what it has cost is unknown: the estimate counts"
    late = {world.run(settled(logs, log_id, request)) for _ in range(3)}
    assert late.isdisjoint({log_id})
    assert len(late) == 1
    assert statuses(world) == [("failed", 0), ("success", 70)]
    assert books(world) == (70, 0, 0)
    first, second = (world.run(logs.get(number)) for number in (log_id, *late))
    assert first is not None
    assert second is not None
    for name in ("site_id", "app_type", "trigger_type", "member_id", "request_prompt", "trigger_job_id", "step"):
        assert second[name] == getattr(
            request, {"request_prompt": "prompt", "trigger_job_id": "job_id"}.get(name, name)
        )
    assert second["created_at"] == first["created_at"], "it counts on the day on which the call began"


def test_a_row_that_a_crash_of_the_server_lost_is_written_anew(world: World, logs: AIRunLogService) -> None:
    """A call whose row is not there is recorded all the same, and another call that got its id is not changed."""
    lost, other = call(), call()
    log_id = world.run(opened(logs, other))
    anew = {world.run(settled(logs, log_id, lost)) for _ in range(2)}
    assert len(anew) == 1
    assert anew != {log_id}
    assert statuses(world) == [("running", 0), ("success", 70)]
    assert books(world) == (70, 0, other.estimate)


def test_a_settled_call_does_not_end_another_way(world: World, logs: AIRunLogService) -> None:
    """An outcome that contradicts the recorded one is refused, also when the recorded one is a refusal."""
    request = call()
    log_id = world.run(opened(logs, request))
    world.run(settled(logs, log_id, request))
    with pytest.raises(RunLogTransitionError):
        world.run(settled(logs, log_id, request, FAILURE))
    refused = call()
    refused_id = world.run(logs.create_log(1, "app3_clue", "event", status="rate_limited", call_key=refused.key))
    with pytest.raises(RunLogTransitionError):
        world.run(settled(logs, refused_id, refused))
    assert statuses(world) == [("success", 70), ("rate_limited", 0)]


def test_a_step_succeeds_once(world: World, logs: AIRunLogService) -> None:
    """A second success of the same step of a job is refused, however it comes; other steps and failures are not."""
    first, second, vanished = (call(job_id=5, step="app3") for _ in range(3))
    ids = [world.run(opened(logs, request)) for request in (first, second)]
    world.run(settled(logs, ids[0], first))
    with pytest.raises(StepDoneError):
        world.run(settled(logs, ids[1], second))
    with pytest.raises(StepDoneError):
        world.run(settled(logs, 2**60, vanished))
    world.run(settled(logs, ids[1], second, FAILURE))
    for request in (call(job_id=5, step="app8"), call(job_id=6, step="app3"), call(), call()):
        world.run(settled(logs, world.run(opened(logs, request)), request))
    assert [status for status, _ in statuses(world)] == ["success", "failed"] + ["success"] * 4


def test_two_workers_at_once_give_one_success_of_a_step(world: World, logs: AIRunLogService) -> None:
    """Of many callers that finish the same step at the same instant exactly one settles as success."""
    requests = [call(job_id=5, step="app3") for _ in range(12)]

    async def race() -> list[int | BaseException]:
        ids = [await opened(logs, request) for request in requests]
        tasks = (settled(logs, *pair) for pair in zip(ids, requests, strict=True))
        return await asyncio.gather(*tasks, return_exceptions=True)

    ends = world.run(race())
    assert sorted(type(end).__name__ for end in ends) == ["StepDoneError"] * 11 + ["int"]
    assert books(world) == (70, 0, 11 * 100)


def test_odd_characters_do_not_lose_a_result(world: World, logs: AIRunLogService) -> None:
    """U+0000 and lone surrogates, which PostgreSQL refuses, are replaced; names too long for their column are cut."""
    request = call(prompt="p\x00\ud800")
    odd = replace(SUCCESS, response_text="a\x00b\udfffc😀", model="m" * 300, request_id="\x00" * 300)
    row = world.run(logs.get(world.run(settled(logs, world.run(opened(logs, request)), request, odd))))
    assert row is not None
    assert row["response_text"] == "a\ufffdb\ufffdc😀"
    assert row["request_prompt"] == "p\ufffd\ufffd"
    assert row["model"] == "m" * 100
    failed = replace(FAILURE, error_message="no\x00")
    request = call()
    log_id = world.run(opened(logs, request))
    assert {world.run(settled(logs, log_id, request, failed)) for _ in range(2)} == {log_id}


# -- what the dead left open --------------------------------------------------------------------------------------


SEEN = "UPDATE biz.ai_processes SET seen_at = now() + make_interval(secs => %s) WHERE id = %s"


def test_only_calls_of_dead_processes_are_closed(world: World, logs: AIRunLogService) -> None:
    """Calls of a process that gives signs of life stay open; those of one that stopped, or never was, are closed."""
    alive, dead = Presence(world.database, "worker"), Presence(world.database, "worker")
    for process, seen in ((alive, 3600), (dead, -1)):
        world.run(process.beat())
        world.do(SEEN, seen, process.process_id)
    ago = [datetime.now(UTC) - timedelta(seconds=seconds) for seconds in (5, 7200)]
    stay = [
        world.run(opened(logs, call(), process=alive.process_id, at=ago[1])),
        world.run(opened(logs, call(), at=ago[0])),
    ]
    close = [
        world.run(opened(logs, call(job_id=4, step="app3"), process=dead.process_id, at=ago[0])),
        world.run(opened(logs, call(), process=uuid.uuid4(), at=ago[0])),
        world.run(opened(logs, call(), at=ago[1])),
    ]
    lost = world.run(logs.close_lost(lost_after=0.01))
    assert sorted(one["id"] for one in lost) == close
    assert {(one["process_id"], one["trigger_job_id"], one["step"]) for one in lost if one["id"] == close[0]} == {
        (dead.process_id, 4, "app3")
    }
    for log_id in close:
        row = world.run(logs.get(log_id))
        assert row is not None
        assert (row["status"], row["tokens_used"], row["tokens_estimated"]) == ("failed", 100, True)
        assert row["error_message"] == "lost: the process of this call has died"
        assert row["finished_at"] is not None
    assert world.all("SELECT id FROM biz.ai_run_logs WHERE status = 'running' ORDER BY id") == [(n,) for n in stay]
    assert books(world) == (0, 300, 200)
    assert world.run(logs.close_lost(lost_after=0.01)) == []


def test_no_process_is_taken_for_dead_while_the_server_was_away(world: World, logs: AIRunLogService) -> None:
    """Right after a start of the server, when no process could have given a sign of life, nothing is closed."""
    patience = 1_000_000
    world.run(opened(logs, call(), process=uuid.uuid4(), at=datetime.now(UTC) - timedelta(seconds=2 * patience)))
    assert world.one("SELECT now() - pg_postmaster_start_time()") < timedelta(seconds=patience)
    assert world.run(logs.close_lost(lost_after=patience)) == []
    assert len(world.run(logs.close_lost(lost_after=0))) == 1


def test_more_calls_than_one_transaction_closes_are_all_closed(world: World, logs: AIRunLogService) -> None:
    """However many calls a dead process left, they are closed in one go."""
    world.do(
        "INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, status, tokens_reserved, process_id, created_at)"
        " SELECT 1, 'app1_chat', 'user', 'running', 2, gen_random_uuid(), now() - n * interval '1 minute'"
        " FROM generate_series(1, 2500) AS n"
    )
    assert len(world.run(logs.close_lost(lost_after=1))) == 2500
    assert books(world) == (0, 5000, 0)


def test_a_row_that_is_just_being_settled_is_not_waited_for(world: World, logs: AIRunLogService) -> None:
    """Closing passes a row by that an open transaction has settled, and does not turn its success into a loss."""
    requests = [call(job_id=9, step=f"app{n}") for n in (3, 8)]

    async def scene() -> tuple[list[int], int]:
        ids = [await opened(logs, request, process=uuid.uuid4()) for request in requests]
        async with world.database.transaction() as settling:
            # The budget's row is locked, too: whoever closes on this day has to wait for it, so only look.
            await settling.execute("SELECT FROM biz.ai_run_logs WHERE id = %s FOR UPDATE", [ids[0]])
            lost = await logs.close_lost(lost_after=0)
            async with world.database.transaction() as claiming:
                closed = await logs.close_open_of_job(claiming, 9)
            await logs.settle(settling, ids[0], requests[0], SUCCESS, None)
        return [one["id"] - ids[0] for one in lost], closed

    assert world.run(scene()) == ([1], 0)
    assert [status for status, _ in statuses(world)] == ["success", "failed"]


def test_closing_and_settling_at_once_neither_block_nor_lose_anything(world: World, logs: AIRunLogService) -> None:
    """While several sweepers close calls as lost, their live processes settle them: each counts once, no deadlock."""
    days = [datetime.now(UTC) - timedelta(days=n) for n in (0, 1, 2)]
    requests = [call(job_id=number // 4, step=f"s{number}") for number in range(120)]
    ids = [
        world.run(opened(logs, request, process=uuid.uuid4(), at=days[number % 3]))
        for number, request in enumerate(requests)
    ]

    async def settle_some(part: int) -> None:
        for log_id, request in list(zip(ids, requests, strict=True))[part::6]:
            await settled(logs, log_id, request)

    async def sweep() -> int:
        return sum([len(await logs.close_lost(lost_after=0)) for _ in range(10)])

    async def claim(part: int) -> int:
        closed = 0
        for job in range(29, part, -1):
            async with world.database.transaction() as connection:
                closed += await logs.close_open_of_job(connection, job)
        return closed

    async def race() -> int:
        settlers = [settle_some(part) for part in range(6)]
        _, *closed = await asyncio.gather(asyncio.gather(*settlers), sweep(), sweep(), claim(0), claim(5))
        return sum(closed)

    closed = world.run(race())
    counts = dict(world.all("SELECT status, count(*) FROM biz.ai_run_logs GROUP BY 1"))
    assert counts == {"success": 120} | ({"failed": closed} if closed else {})
    assert books(world) == (120 * 70, 0, 0)
    assert (
        world.one("SELECT count(DISTINCT (trigger_job_id, step)) FROM biz.ai_run_logs WHERE status = 'success'") == 120
    )


def test_workers_that_close_calls_of_several_days_do_not_wait_in_a_circle(world: World, logs: AIRunLogService) -> None:
    """Many workers at once close calls of the same days, every other job's in the other order, and all get through."""
    world.do(
        "INSERT INTO biz.ai_run_logs"
        " (site_id, app_type, trigger_type, status, tokens_reserved, trigger_job_id, created_at)"
        " SELECT 1, 'app3_clue', 'event', 'running', 1, job,"
        " now() - CASE job % 2 WHEN 0 THEN n ELSE 40 - n END * interval '1 day'"
        " FROM generate_series(0, 47) AS job, generate_series(1, 39) AS n ORDER BY job, n"
    )

    async def close(job: int, all_written: asyncio.Barrier) -> int:
        async with world.database.transaction() as connection:
            closed = await logs.close_open_of_job(connection, job)
            await all_written.wait()
        return closed

    async def race(jobs: range) -> list[int]:
        all_written = asyncio.Barrier(len(jobs))
        return await asyncio.gather(*(close(job, all_written) for job in jobs))

    for first in range(0, 48, 12):
        assert world.run(race(range(first, first + 12))) == [39] * 12
    assert books(world) == (0, 48 * 39, 0)


def test_what_an_earlier_worker_left_open_is_closed(world: World, logs: AIRunLogService) -> None:
    """Claiming a job closes what an earlier worker of that job left open, and nothing else."""
    requests = [call(job_id=1, step="app3"), call(job_id=1, step="app8"), call(job_id=2, step="app3"), call()]
    ids = [world.run(opened(logs, request)) for request in requests]
    world.run(settled(logs, ids[0], requests[0]))

    async def close() -> int:
        async with world.database.transaction() as connection:
            return await logs.close_open_of_job(connection, 1)

    assert world.run(close()) == 1
    rows = world.all("SELECT status, error_message FROM biz.ai_run_logs ORDER BY id")
    assert [status for status, _ in rows] == ["success", "failed", "running", "running"]
    assert rows[1][1] == "lost: the worker died in mid-call"
    assert world.run(close()) == 0


def test_old_logs_are_forgotten_but_none_of_this_month(world: World, logs: AIRunLogService) -> None:
    """Only ended calls that are old enough and of an earlier month are deleted: the month's budget is their sum."""
    month = datetime.now(SHANGHAI).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for at in (month, month - timedelta(seconds=1), month - timedelta(days=100)):
        request = call()
        world.run(settled(logs, world.run(opened(logs, request, at=at)), request))
    world.run(opened(logs, call(), at=month - timedelta(days=100)))
    used = world.run(logs.get_monthly_token_usage())
    days_in = (datetime.now(SHANGHAI) - month).days
    assert world.run(logs.forget_old(days_in + 50)) == 1
    assert world.run(logs.forget_old(0)) == 1
    assert world.all("SELECT created_at, status FROM biz.ai_run_logs ORDER BY id") == [
        (month, "success"),
        (month - timedelta(days=100), "running"),
    ]
    assert world.run(logs.get_monthly_token_usage()) == used == 70
    books(world)


# -- reading ------------------------------------------------------------------------------------------------------

#: Around midnight of Shanghai, at the end of a month and of a year.
CENTRE = datetime(2026, 1, 1, tzinfo=SHANGHAI)
instants = st.one_of(
    st.integers(-3, 3).map(lambda seconds: CENTRE + timedelta(seconds=seconds)),
    st.integers(-60, 60).map(lambda hours: CENTRE + timedelta(hours=hours)),
    st.integers(-40, 40).map(lambda days: CENTRE + timedelta(days=days)),
)


@given(
    calls=st.lists(st.tuples(instants, st.sampled_from(("success", "failed", "running")), st.integers(0, 10**6))),
    at=instants,
)
def test_usage_is_the_sum_of_the_successes_of_day_and_month(
    shared: World, calls: list[tuple[datetime, str, int]], at: datetime
) -> None:
    """Daily and monthly usage are the tokens of the successful calls of that day and month in the business zone."""
    logs = AIRunLogService(shared.database)
    for created_at, status, tokens in calls:
        shared.do(
            "INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, status, tokens_used, created_at,"
            " response_text, error_message, latency_ms, finished_at)"
            " VALUES (1, 'usage', 'user', %s, %s, %s, '', '', 1, now())",
            status,
            tokens,
            created_at,
        )
    day = [t for c, s, t in calls if s == "success" and c.date() == at.date()]
    month = [t for c, s, t in calls if s == "success" and (c.year, c.month) == (at.year, at.month)]
    found = shared.run(logs.get_daily_token_usage(at)), shared.run(logs.get_monthly_token_usage(at))
    shared.do("DELETE FROM biz.ai_run_logs WHERE app_type = 'usage'")
    assert found == (sum(day), sum(month))


def test_usage_without_a_time_is_that_of_today(world: World, logs: AIRunLogService) -> None:
    """A call that has just succeeded counts for today and for this month."""
    request = call()
    world.run(settled(logs, world.run(opened(logs, request)), request))
    assert world.run(logs.get_daily_token_usage()) == 70
    assert world.run(logs.get_monthly_token_usage()) == 70


def test_finished_steps_are_the_parsed_results_of_successes(world: World, logs: AIRunLogService) -> None:
    """Who takes a job over gets the result of each step that succeeded, and of no other."""
    for step, outcome in (("app3", SUCCESS), ("app8", FAILURE), ("app7", replace(SUCCESS, response_text='{"分": 1}'))):
        request = call(job_id=1, step=step)
        world.run(settled(logs, world.run(opened(logs, request)), request, outcome))
    world.run(opened(logs, call(job_id=1, step="app4")))
    other = call(job_id=2, step="app5")
    world.run(settled(logs, world.run(opened(logs, other)), other))
    assert world.run(logs.finished_steps(1)) == {"app3": {"clues": []}, "app7": {"分": 1}}
    assert world.run(logs.finished_steps(3)) == {}


@pytest.fixture(scope="module")
def crowd(shared: World) -> list[dict[str, Any]]:
    """Sixty rows that differ in everything that can be asked for."""
    shared.do(
        "INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, status, member_id, trigger_job_id,"
        " conversation_id, created_at, request_prompt, error_message)"
        " SELECT n %% 2, 'app' || n %% 3, 'user', (ARRAY['pending', 'failed', 'timeout'])[1 + n %% 3],"
        " nullif(n %% 4, 0), nullif(n %% 5, 0), nullif(n %% 2, 0), %s::timestamptz + n * interval '1 hour', 'p', 'e'"
        " FROM generate_series(1, 60) AS n",
        CENTRE,
    )
    return shared.run(shared.database.rows("SELECT * FROM biz.ai_run_logs ORDER BY id DESC"))


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


hours = optional(st.integers(0, 62).map(lambda hours: CENTRE + timedelta(hours=hours)))


@given(
    status=optional(st.sampled_from(("pending", "failed", "timeout", "success"))),
    app=optional(st.sampled_from(("app0", "app1", "app9"))),
    site=optional(st.integers(0, 2)),
    member=optional(st.integers(1, 4)),
    job=optional(st.integers(1, 5)),
    conversation=optional(st.integers(1, 2)),
    since=hours,
    until=hours,
    limit=st.integers(1, 25),
)
def test_pages_together_are_the_rows_that_match(
    shared: World,
    crowd: list[dict[str, Any]],
    limit: int,
    **filters: Any,  # noqa: ANN401 - one of each kind
) -> None:
    """Page after page, newest first, a list gives each row that matches all filters, and gives it once."""
    logs = AIRunLogService(shared.database)
    names = {"app": "app_type", "site": "site_id", "member": "member_id", "job": "trigger_job_id"}
    names |= {"conversation": "conversation_id", "status": "status"}

    def matches(row: dict[str, Any]) -> bool:
        since, until = filters["since"], filters["until"]
        return (
            all(filters[name] in (None, row[column]) for name, column in names.items())
            and (since is None or row["created_at"] >= since)
            and (until is None or row["created_at"] < until)
        )

    found: list[int] = []
    while page := shared.run(logs.list(**filters, limit=limit, before_id=found[-1] if found else None)):
        assert len(page) <= limit
        found += [row["id"] for row in page]
    assert found == [row["id"] for row in crowd if matches(row)]


def test_lists_carry_bodies_only_when_asked(shared: World, crowd: list[dict[str, Any]]) -> None:
    """Rows of a list have every column but prompt and answer; with ``bodies``, and one by one, they have those too."""
    logs = AIRunLogService(shared.database)
    columns = set(crowd[0])
    assert set(shared.run(logs.list(limit=1))[0]) == columns - {"request_prompt", "response_text"}
    assert shared.run(logs.list(limit=3, bodies=True)) == crowd[:3]
    assert shared.run(logs.get(crowd[0]["id"])) == crowd[0]
    assert shared.run(logs.get(2**60)) is None
