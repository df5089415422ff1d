"""Guarded calls and streams: admitted once and settled once, whatever happens to application, caller or database."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agenttrace.run.errors import (
    BudgetExceededError,
    CircuitOpenError,
    DashScopeApiError,
    DashScopeAuthError,
    DashScopeError,
    DashScopeJsonParseError,
    DashScopeTimeoutError,
    RateLimitExceededError,
)
from agenttrace.run.guards.admission import Admissions
from agenttrace.run.guards.breaker import CircuitBreaker, CircuitState
from agenttrace.run.guards.budget import BudgetStatus, BudgetTracker
from agenttrace.run.guards.guarded import HUNG_UP, EffectError, GuardedClient
from agenttrace.run.postgres.pool import Database
from agenttrace.run.postgres.sql_call import SqlCall
from agenttrace.run.results.run_log import AIRunLogService, StepDoneError
from agenttrace.run.results.trace_log import TraceLog
from agenttrace.run.simulator import BUILTIN_APP_IDS, Fault, Simulator, faults
from agenttrace.run.upstream.calls import CallRequest, RateRule
from agenttrace.run.upstream.client import DashScopeClient
from agenttrace.run.upstream.wire import AppAnswer

CLUE, CHAT = BUILTIN_APP_IDS["app3_clue"], BUILTIN_APP_IDS["app1_chat"]
LONG = "一二三四五六七八九十" * 20
#: What a call may write for its row, and can be found again.
NOTE = """
CREATE OR REPLACE FUNCTION biz.note(p_log BIGINT, p_result TEXT) RETURNS void LANGUAGE sql AS $$
    INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, status)
    VALUES ('note', p_log, 'any', p_result::jsonb, 'expired')
$$
"""


async def _no_wait(_: float) -> None:
    await asyncio.sleep(0)


class World:
    """A guarded client between a simulated DashScope and a real database."""

    def __init__(self, database: Database, simulator: Simulator, client: DashScopeClient, logs: Path) -> None:
        self.database = database
        self.simulator = simulator
        self.logs = logs
        self.breaker = CircuitBreaker(database)
        self.run_logs = AIRunLogService(database)
        self.admissions = Admissions(database, process_id=uuid.uuid4(), daily_limit=100_000)
        self.trace = TraceLog(logs)
        self.calls = GuardedClient(client, self.admissions, self.breaker, self.run_logs, self.trace)

    async def row(self) -> dict[str, Any]:
        (row,) = await self.database.rows("SELECT * FROM biz.ai_run_logs")
        return row

    async def budget(self) -> BudgetStatus:
        return await BudgetTracker(self.database).check_budget()

    def lines(self) -> list[dict[str, Any]]:
        text = "".join(path.read_text("utf-8") for path in sorted(self.logs.glob("*.jsonl")))
        return [json.loads(line) for line in text.splitlines()]

    async def half_open(self) -> None:
        """The circuit of both applications has waited long enough: the next call is the probe."""
        await self.database.execute(
            "INSERT INTO biz.ai_breakers (app_id, state, failure_count, changed_at)"
            " SELECT unnest(%s::text[]), 'open', 5, now() - interval '1 hour'",
            [[CLUE, CHAT]],
        )

    async def state(self, app_id: str) -> CircuitState:
        return next((view.state for view in await self.breaker.states() if view.app_id == app_id), CircuitState.CLOSED)


@asynccontextmanager
async def _world(url: str, logs: Path, *, deadline: float = 120.0) -> AsyncIterator[World]:
    async with (
        Simulator() as simulator,
        DashScopeClient("sim-key", base_url=simulator.base_url, deadline=deadline, sleep=_no_wait) as client,
        Database(url, size=8) as database,
    ):
        world = World(database, simulator, client, logs)
        await database.execute(NOTE)
        try:
            yield world
        finally:
            world.trace.close()


def _request(**changes: Any) -> CallRequest:  # noqa: ANN401 - any field of a request
    request = CallRequest(
        app_id=CLUE,
        app_type="app3_clue",
        trigger_type="event",
        site_id=42,
        prompt="这位会员最近怎么样？",
        rate=RateRule(scope="store", limit=100, seconds=3600),
        estimate=3000,
        session_id="job_1",
    )
    return replace(request, **changes)


def _chat(**changes: Any) -> CallRequest:  # noqa: ANN401 - any field of a request
    return _request(app_id=CHAT, app_type="app1_chat", trigger_type="user", session_id="conv_5_1", **changes)


def _note(answer: AppAnswer, data: dict[str, Any] | None) -> list[SqlCall]:
    """What belongs to an answer: a note of it with the number of its row."""
    told = json.dumps({"text": answer.text, "data": data})
    return [SqlCall(function="note", arguments=(told,), takes_row=True)]


def _store(_: AppAnswer, data: dict[str, Any] | None, target: str = "7") -> list[SqlCall]:
    """What belongs to an answer: its row of the cache, which waits for another writer of the same target."""
    return [SqlCall(function="ai_cache_store", arguments=("note", 42, target, json.dumps(data), "x", None))]


async def _notes(world: World) -> list[tuple[int, dict[str, Any]]]:
    rows = await world.database.all("SELECT site_id, result_json FROM biz.ai_cache")
    return [(log_id, result) for log_id, result in rows]


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


# ── calls ──


def test_a_call_is_settled_with_its_answer_and_what_belongs_to_it(database_url: str, tmp_path: Path) -> None:
    """A good call leaves a success row with what the provider billed, what belongs to it, its trace, no reservation."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.answer(CLUE, {"clues": ["爱打斯诺克"]})
            answer, data, log_id = await world.calls.call(_request(), biz_params={"a": "b"}, writes=_note)
            row, budget = await world.row(), await world.budget()
            assert data == {"clues": ["爱打斯诺克"]}
            assert (row["id"], row["status"], row["response_text"]) == (log_id, "success", answer.text)
            assert row["tokens_used"] == answer.tokens_used == budget.daily_used > 0
            assert row["input_tokens"] + row["output_tokens"] == answer.usage.total
            assert (row["request_id"], row["attempts"]) == (answer.request_id, 1)
            assert row["model"] == ",".join(answer.usage.models)
            assert (budget.daily_reserved, budget.daily_failed) == (0, 0)
            assert await _notes(world) == [(log_id, {"text": answer.text, "data": data})]
            assert world.simulator.calls[0].body["input"]["biz_params"] == {"a": "b"}
            assert await world.database.all("SELECT app_type, largest FROM biz.ai_app_sizes") == [
                ("app3_clue", answer.tokens_used)
            ]
            ends = [line for line in world.lines() if line["type"] == "step.end"]
            assert [(line["status"], line["usage"]["input_tokens"]) for line in ends] == [
                ("ok", answer.usage.input_tokens)
            ]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "kind", "status", "attempts"),
    [
        (faults.status(500), DashScopeApiError, "failed", 4),
        (faults.status(401), DashScopeAuthError, "failed", 1),
        (faults.status(429), DashScopeApiError, "failed", 1),
        (faults.reset(), DashScopeApiError, "failed", 4),
        (faults.status("RequestTimeOut", 504), DashScopeTimeoutError, "timeout", 4),
        (faults.bad_json(), DashScopeJsonParseError, "failed", 4),
    ],
)
def test_a_failed_call_is_settled_with_its_error(
    database_url: str, tmp_path: Path, fault: Fault, kind: type[DashScopeError], status: str, attempts: int
) -> None:
    """A call that fails leaves a row with its error, its attempts and what they cost; nothing stays reserved."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.always(CLUE, fault)
            with pytest.raises(kind) as failure:
                await world.calls.call(_request(), writes=_note)
            row, budget = await world.row(), await world.budget()
            assert (row["status"], row["attempts"]) == (status, attempts)
            assert str(failure.value) in row["error_message"]
            assert row["tokens_used"] == failure.value.tokens_used == budget.daily_failed
            assert (row["tokens_used"] > 0) == (fault.kind == "bad_json")
            assert (budget.daily_used, budget.daily_reserved) == (0, 0)
            assert await _notes(world) == []
            assert [line["status"] for line in world.lines() if line["type"] == "step.end"] == ["error"]

    asyncio.run(run())


def test_tokens_of_attempts_that_brought_nothing_are_counted(database_url: str, tmp_path: Path) -> None:
    """What answers that were no JSON have cost is part of what the call used."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.script(CLUE, faults.bad_json())
            answer, _, _ = await world.calls.call(_request())
            row = await world.row()
            assert answer.burnt_tokens > 0
            assert row["tokens_used"] == answer.usage.total + answer.burnt_tokens
            assert row["attempts"] == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("circuit_open", CircuitOpenError),
        ("rate_limited", RateLimitExceededError),
        ("budget_exceeded", BudgetExceededError),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_a_refused_call_never_reaches_the_application(
    database_url: str, tmp_path: Path, status: str, kind: type[DashScopeError], streaming: bool
) -> None:
    """A refusal is raised before anything is sent, and is a row and a trace of its own."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            request = _chat() if streaming else _request()
            if status == "circuit_open":
                await world.breaker.hold_open(request.app_id)
            elif status == "rate_limited":
                request = replace(request, rate=replace(request.rate, limit=0))
            else:
                request = replace(request, estimate=100_001)
            with pytest.raises(kind):
                await (world.calls.open_stream(request) if streaming else world.calls.call(request))
            row = await world.row()
            assert (row["status"], row["call_key"]) == (status, request.key)
            assert world.simulator.calls == []
            (end,) = [line for line in world.lines() if line["type"] == "step.end"]
            assert end["status"] == "error"
            assert status in end["error"]

    asyncio.run(run())


def test_five_failures_open_the_circuit_for_everybody(database_url: str, tmp_path: Path) -> None:
    """Attempts that fail are counted: the fifth opens the circuit, no attempt and no call follow."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.always(CLUE, faults.status(500))
            for _ in range(2):
                with pytest.raises(DashScopeApiError):
                    await world.calls.call(_request())
            assert len(world.simulator.calls) == 5
            with pytest.raises(CircuitOpenError):
                await world.calls.call(_request())
            assert len(world.simulator.calls) == 5
            messages = await world.database.all("SELECT status, error_message FROM biz.ai_run_logs ORDER BY id")
            assert [status for status, _ in messages] == ["failed", "failed", "circuit_open"]
            assert "not tried again" in messages[1][1]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (None, CircuitState.CLOSED),
        (faults.status(500), CircuitState.OPEN),
        # A wrong request says nothing about the application: the next caller probes.
        (faults.status(400), CircuitState.HALF_OPEN),
    ],
)
def test_twenty_calls_at_half_open_are_one_probe(
    database_url: str, tmp_path: Path, fault: Fault | None, state: CircuitState
) -> None:
    """Of twenty calls at once one reaches the application; given up, the next one tries, and its outcome decides."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            await world.half_open()
            world.simulator.always(CLUE, fault)
            world.simulator.script(CLUE, faults.hang())
            calls = {asyncio.create_task(world.calls.call(_request())) for _ in range(20)}
            while len(calls) > 1:
                refused, calls = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                assert {type(call.exception()) for call in refused} == {CircuitOpenError}
            (probe,) = calls
            await _until(lambda: len(world.simulator.calls) == 1)
            assert await world.state(CLUE) is CircuitState.HALF_OPEN
            probe.cancel()
            await asyncio.wait([probe])
            await asyncio.gather(world.calls.call(_request()), return_exceptions=True)
            assert len(world.simulator.calls) == 2
            assert await world.state(CLUE) is state

    asyncio.run(run())


def test_a_cancelled_call_is_settled_and_frees_the_probe(database_url: str, tmp_path: Path) -> None:
    """A call that is cancelled while the application works is settled as failed, and another may probe at once."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            await world.half_open()
            world.simulator.script(CLUE, faults.hang())
            calling = asyncio.create_task(world.calls.call(_request(), writes=_note))
            await _until(lambda: len(world.simulator.calls) == 1)
            calling.cancel("the worker stops")
            with pytest.raises(asyncio.CancelledError):
                await calling
            row, budget = await world.row(), await world.budget()
            assert (row["status"], row["error_message"]) == ("failed", "the worker stops")
            assert (row["tokens_used"], row["tokens_estimated"]) == (3000, True)
            assert (budget.daily_failed, budget.daily_reserved) == (3000, 0)
            await world.calls.call(_request())
            assert await world.state(CLUE) is CircuitState.CLOSED

    asyncio.run(run())


def test_a_caller_cancelled_while_it_waits_for_admission_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    """A call that is cancelled before its admission is known reserves nothing, calls nothing and holds no probe."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            await world.half_open()
            async with world.database.transaction() as connection:
                # Whoever holds this makes admissions wait.
                await connection.execute("SELECT FROM biz.ai_breakers FOR UPDATE")
                calling = asyncio.create_task(world.calls.call(_request()))
                waiting = "SELECT FROM pg_stat_activity WHERE query LIKE '%ai_admit(%' AND wait_event_type = 'Lock'"
                while not await world.database.all(waiting):
                    await asyncio.sleep(0.005)
                calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            row, budget = await world.row(), await world.budget()
            assert (row["status"], row["tokens_used"], row["attempts"]) == ("failed", 0, 0)
            assert (budget.daily_failed, budget.daily_reserved) == (0, 0)
            assert world.simulator.calls == []
            await world.calls.call(_request())

    asyncio.run(run())


# ── what belongs to an answer, and a database that goes away ──


async def _cut_while_settling(world: World, *, cancel: bool = False) -> asyncio.Task[Any]:
    """A call whose settling statement has died on the way, its caller cancelled meanwhile or not."""
    waits = "query LIKE '%ai_cache_store(%' AND wait_event = 'advisory'"
    async with world.database.transaction() as connection:
        await connection.execute("SELECT biz.ai_cache_lock('note', 42, '7')")
        calling = asyncio.create_task(world.calls.call(_request(), writes=_store))
        while not (found := await world.database.all(f"SELECT pid FROM pg_stat_activity WHERE {waits}")):
            await asyncio.sleep(0.005)
        if cancel:
            calling.cancel()
        await world.database.execute("SELECT pg_terminate_backend(%s)", found[0])
    return calling


def test_a_settling_statement_that_is_cut_is_done_again(database_url: str, tmp_path: Path) -> None:
    """A call whose settling statement dies on the way is settled by the next one, with what belongs to it once."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            _, data, log_id = await (await _cut_while_settling(world))
            assert await _notes(world) == [(42, data)]
            row = await world.row()
            assert (row["id"], row["status"]) == (log_id, "success")
            assert (await world.budget()).daily_reserved == 0

    asyncio.run(run())


def test_a_settling_statement_whose_answer_was_lost_is_not_repeated(database_url: str, tmp_path: Path) -> None:
    """A call that was settled, only the acknowledgement was lost, stays so, with what belongs to it once."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            acknowledged: list[object] = []

            def lose(acknowledgement: object) -> None:
                acknowledged.append(acknowledgement)
                if len(acknowledged) == 1:
                    raise psycopg.OperationalError("the connection is lost")

            def write(answer: AppAnswer, data: dict[str, Any] | None) -> list[SqlCall]:
                heard = SqlCall(
                    function="ai_business_day", arguments=(datetime(2026, 5, 1, tzinfo=UTC),), on_result=lose
                )
                return [*_note(answer, data), heard]

            answer, data, log_id = await world.calls.call(_request(), writes=write)
            assert acknowledged == [date(2026, 5, 1)] * 2
            assert await _notes(world) == [(log_id, {"text": answer.text, "data": data})]
            row, budget = await world.row(), await world.budget()
            assert (row["id"], row["status"]) == (log_id, "success")
            assert (budget.daily_used, budget.daily_reserved) == (answer.tokens_used, 0)

    asyncio.run(run())


def test_a_write_that_is_refused_does_not_cost_the_answer(database_url: str, tmp_path: Path) -> None:
    """When a part of what belongs to an answer is refused, the answer is recorded alone, and comes with the error."""

    async def run() -> None:
        def write(answer: AppAnswer, data: dict[str, Any] | None) -> list[SqlCall]:
            return [*_note(answer, data), *_store(answer, data, "x" * 101)]

        async with _world(database_url, tmp_path) as world:
            await world.half_open()
            with pytest.raises(EffectError) as failure:
                await world.calls.call(_request(), writes=write)
            assert isinstance(failure.value.__cause__, psycopg.errors.StringDataRightTruncation)
            row = await world.row()
            assert (row["status"], row["response_text"]) == ("success", failure.value.answer.text)
            assert failure.value.data == json.loads(row["response_text"])
            assert failure.value.log_id == row["id"]
            assert await _notes(world) == []
            assert await world.state(CLUE) is CircuitState.CLOSED

    asyncio.run(run())


def test_an_answer_whose_call_was_closed_as_lost_is_stored(database_url: str, tmp_path: Path) -> None:
    """An answer to a call that was closed as lost gets a row of its own, its writes, and its tokens count once."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:

            def close_as_lost(_: dict[str, Any]) -> dict[str, Any]:
                with psycopg.connect(database_url, autocommit=True) as connection:
                    connection.execute(
                        "UPDATE biz.ai_run_logs SET status = 'failed', error_message = 'lost: x', tokens_used = 3000"
                    )
                return {"late": True}

            world.simulator.answer(CLUE, close_as_lost)
            answer, _, log_id = await world.calls.call(_request(), writes=_note)
            rows = await world.database.all("SELECT id, status FROM biz.ai_run_logs ORDER BY id")
            assert [status for _, status in rows] == ["failed", "success"]
            assert rows[1][0] == log_id
            assert [noted for noted, _ in await _notes(world)] == [log_id]
            budget = await world.budget()
            assert (budget.daily_used, budget.daily_failed, budget.daily_reserved) == (answer.tokens_used, 0, 0)

    asyncio.run(run())


def test_the_second_success_of_a_step_is_paid_but_not_used(database_url: str, tmp_path: Path) -> None:
    """When another worker finished the step first, the later answer writes nothing, but its tokens are counted."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            row = await world.database.one(
                "INSERT INTO biz.ai_trigger_jobs (site_id, event_type, event_date, status, claim)"
                " VALUES (1, 'consumption', now(), 'running', 1) RETURNING id"
            )
            assert row is not None
            request = _request(job_id=row[0], step="app3", claim=1)
            first, _, _ = await world.calls.call(request)
            await world.half_open()
            with pytest.raises(StepDoneError):
                await world.calls.call(replace(request, key=uuid.uuid4()), writes=_note)
            assert await _notes(world) == []
            budget = await world.budget()
            assert (budget.daily_used, budget.daily_failed) == (first.tokens_used, first.tokens_used)
            assert budget.daily_reserved == 0
            # The application has answered, whoever was first.
            assert await world.state(CLUE) is CircuitState.CLOSED

    asyncio.run(run())


def test_a_cancellation_while_settling_comes_after_it(database_url: str, tmp_path: Path) -> None:
    """A caller that is cancelled while its answer is being written is cancelled, and the answer is written."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            calling = await _cut_while_settling(world, cancel=True)
            with pytest.raises(asyncio.CancelledError):
                await calling
            assert (await world.row())["status"] == "success"
            assert len(await _notes(world)) == 1

    asyncio.run(run())


# ── streams ──


def test_a_stream_is_settled_when_it_ends(database_url: str, tmp_path: Path) -> None:
    """A stream that is read to its end is a success with the whole text, its writes, and the provider's usage."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.answer(CHAT, LONG)
            stream = await world.calls.open_stream(_chat(), writes=_note)
            assert (await world.row())["status"] == stream.status == "running"
            assert "".join([text async for text in stream]) == LONG
            await stream.aclose()
            row, budget = await world.row(), await world.budget()
            assert (stream.status, stream.text, stream.log_id) == ("success", LONG, row["id"])
            assert stream.answer is not None
            assert (row["status"], row["response_text"]) == ("success", LONG)
            assert row["tokens_used"] == stream.answer.tokens_used == budget.daily_used
            assert budget.daily_reserved == 0
            assert await _notes(world) == [(row["id"], {"text": LONG, "data": None})]

    asyncio.run(run())


@pytest.mark.parametrize("way", ["close", "cancel", "cancel with a reason"])
def test_a_stream_that_is_cut_is_settled_with_what_arrived(database_url: str, tmp_path: Path, way: str) -> None:
    """A hang-up stops the application, and leaves a failed row with the reason, the partial text and an estimate."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.answer(CHAT, LONG)
            world.simulator.script(CHAT, faults.hang(after_chunks=3))
            stream = await world.calls.open_stream(_chat(), writes=_note)
            heard: list[str] = []

            async def listen() -> None:
                async for text in stream:
                    heard.append(text)

            if way == "close":
                heard.append(await anext(stream))
                await stream.aclose()
            else:
                listening = asyncio.create_task(listen())
                await _until(lambda: len(heard) >= 3)
                listening.cancel(*(["the server is stopping"] if "reason" in way else []))
                with pytest.raises(asyncio.CancelledError):
                    await listening
            await stream.aclose()
            reason = "the server is stopping" if "reason" in way else HUNG_UP
            row, budget = await world.row(), await world.budget()
            assert (row["status"], row["error_message"], stream.status) == ("failed", reason, "failed")
            assert row["response_text"] == stream.text
            assert stream.text.startswith("".join(heard))
            assert row["tokens_estimated"]
            assert row["tokens_used"] == budget.daily_failed > 0
            assert (budget.daily_used, budget.daily_reserved) == (0, 0)
            assert await _notes(world) == [(row["id"], {"text": stream.text, "data": None})]
            await _until(lambda: world.simulator.calls[0].outcome != "running")

    asyncio.run(run())


@pytest.mark.parametrize("fault", [faults.cut_after(2), faults.error_frame(after_chunks=2), faults.status(500)])
def test_a_stream_that_fails_is_settled_with_its_error(database_url: str, tmp_path: Path, fault: Fault) -> None:
    """A stream that the application breaks off raises its error, and is a failed row with what had arrived."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.answer(CHAT, LONG)
            world.simulator.always(CHAT, fault)
            stream = await world.calls.open_stream(_chat(), writes=_note)
            with pytest.raises(DashScopeApiError) as failure:
                async for _ in stream:
                    pass
            row, budget = await world.row(), await world.budget()
            assert (row["status"], stream.status) == ("failed", "failed")
            assert str(failure.value) in row["error_message"]
            assert (row["response_text"] or "") == stream.text
            assert row["tokens_used"] == failure.value.tokens_used == budget.daily_failed
            assert (row["tokens_used"] > 0) == bool(stream.text) == (fault.kind != "status")
            assert budget.daily_reserved == 0
            assert len(await _notes(world)) == 1

    asyncio.run(run())


def test_a_stream_without_a_listener_costs_nothing(database_url: str, tmp_path: Path) -> None:
    """A stream that is closed before it began calls no application, costs nothing, and gives a probe's slot back."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            await world.half_open()
            stream = await world.calls.open_stream(_chat())
            await asyncio.gather(*(stream.aclose() for _ in range(3)))
            row = await world.row()
            assert (row["status"], row["tokens_used"], row["attempts"]) == ("failed", 0, 0)
            assert world.simulator.calls == []
            assert [text async for text in await world.calls.open_stream(_chat())]
            assert await world.state(CHAT) is CircuitState.CLOSED

    asyncio.run(run())


def test_a_write_that_fails_does_not_hide_why_a_stream_ended(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The listener of a failed stream gets the stream's own error; that nothing could be written is logged."""

    async def run() -> None:
        def refuse(*_: object) -> list[SqlCall]:
            raise ValueError("no")

        async with _world(database_url, tmp_path) as world:
            world.simulator.script(CHAT, faults.status(400), faults.empty_usage())
            stream = await world.calls.open_stream(_chat(), writes=refuse)
            with pytest.raises(DashScopeApiError):
                await anext(stream)
            assert "ValueError" in caplog.text
            good = await world.calls.open_stream(_chat(), writes=refuse)
            with pytest.raises(EffectError):
                async for _ in good:
                    pass
            rows = await world.database.all("SELECT status, tokens_estimated FROM biz.ai_run_logs ORDER BY id")
            assert rows == [("failed", False), ("success", True)]

    asyncio.run(run())


# ── many callers, large answers ──


def test_fifty_callers_with_huge_answers_pass_the_budget_by_one_error(database_url: str, tmp_path: Path) -> None:
    """The application answers 20,000 tokens where 700 are expected; fifty callers in three processes, so to speak,
    with a budget of 20,000: the first one teaches the others, and they are refused."""

    async def run() -> None:
        async with (
            Simulator(latency=0.05) as simulator,
            DashScopeClient("sim-key", base_url=simulator.base_url, sleep=_no_wait) as client,
            Database(database_url, size=6) as one,
            Database(database_url, size=6) as two,
            Database(database_url, size=6) as three,
        ):
            simulator.answer(CLUE, {"clues": ["x" * 80_000]})
            clients = []
            for database in (one, two, three):
                world = World(database, simulator, client, tmp_path)
                world.admissions = Admissions(database, process_id=uuid.uuid4(), daily_limit=20_000)
                clients.append(GuardedClient(client, world.admissions, world.breaker, world.run_logs, TraceLog(None)))
            calls = (
                clients[number % 3].call(_request(estimate=700, ceiling=20_000, patience=30.0)) for number in range(50)
            )
            results = await asyncio.gather(*calls, return_exceptions=True)
            answers = [result for result in results if isinstance(result, tuple)]
            assert {type(result) for result in results} == {tuple, BudgetExceededError}
            assert len(answers) == len(simulator.calls) == 1
            error = answers[0][0].tokens_used - 700
            status = await BudgetTracker(one, daily_limit=20_000).check_budget()
            assert 20_000 <= status.daily_used <= 20_000 + error
            refused = await one.all("SELECT count(*) FROM biz.ai_run_logs WHERE status = 'budget_exceeded'")
            assert refused == [(49,)]

    asyncio.run(run())


def test_who_waits_for_a_turn_can_be_cancelled(database_url: str, tmp_path: Path) -> None:
    """A call that waits behind another ends at once when its caller is cancelled, and leaves nothing behind."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.simulator.script(CLUE, faults.hang())
            first = asyncio.create_task(world.calls.call(_request(ceiling=90_000)))
            await _until(lambda: len(world.simulator.calls) == 1)
            second = asyncio.create_task(world.calls.call(_request(ceiling=90_000, patience=600.0)))
            await asyncio.sleep(0.1)
            assert not second.done()
            second.cancel()
            await asyncio.wait([second])
            first.cancel()
            await asyncio.wait([first])
            assert second.cancelled()
            assert len(world.simulator.calls) == 1
            assert (await world.row())["error_message"] == "cancelled"

    asyncio.run(run())


def test_an_answer_that_is_no_json_is_asked_for_again_only_within_the_budget(database_url: str, tmp_path: Path) -> None:
    """Each bad answer is billed; once another one does not fit, the call fails with what it has cost."""

    async def run() -> None:
        async with _world(database_url, tmp_path) as world:
            world.admissions = Admissions(world.database, process_id=uuid.uuid4(), daily_limit=3100)
            world.simulator.always(CLUE, faults.bad_json())
            world.calls._admissions = world.admissions
            with pytest.raises(DashScopeError) as failure:
                await world.calls.call(_request())
            assert "daily_exceeded" in str(failure.value.__notes__)
            assert len(world.simulator.calls) < 4

    asyncio.run(run())
