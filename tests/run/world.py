"""An event loop with an open database, and calls to write into its run log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from psycopg import AsyncConnection

from agenttrace.compat import run_log as compat
from agenttrace.run.postgres.pool import Database
from agenttrace.run.postgres.sql_call import SqlCall, values_of
from agenttrace.run.results.run_log import AIRunLogService
from agenttrace.run.upstream.calls import CallOutcome, CallRequest, RateRule

T = TypeVar("T")

SUCCESS = CallOutcome(
    status="success",
    latency_ms=12,
    response_text='{"clues": []}',
    tokens_used=70,
    input_tokens=50,
    output_tokens=20,
    model="qwen-plus",
    request_id="r-1",
)
FAILURE = CallOutcome(status="failed", latency_ms=9, error_message="it said no", tokens_used=5, attempts=4)


@dataclass(frozen=True)
class World:
    """Runs coroutines against one database."""

    database: Database
    runner: asyncio.Runner

    def run(self, work: Awaitable[T]) -> T:
        return self.runner.run(_awaited(work))

    def all(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        return self.run(self.database.all(sql, params or None))

    def one(self, sql: str, *params: object) -> Any:  # noqa: ANN401 - whatever the first column of the first row is
        rows = self.all(sql, *params)
        return rows[0][0] if rows else None

    def do(self, sql: str, *params: object) -> int:
        return self.run(self.database.execute(sql, params or None))


async def _awaited(work: Awaitable[T]) -> T:
    return await work


@contextmanager
def open_world(url: str, size: int = 16) -> Iterator[World]:
    """A loop and a pool, both closed at the end."""
    with asyncio.Runner() as runner:
        database = Database(url, size=size)
        runner.run(database.open())
        try:
            yield World(database, runner)
        finally:
            runner.run(database.close())


async def written(connection: AsyncConnection[Any], call: SqlCall) -> int:
    """Make a call that production joins to a larger statement, alone; the number that it returns."""
    row = await (await connection.execute(call.statement, values_of(call))).fetchone()
    assert row is not None
    return int(row[0])


def call(**changes: Any) -> CallRequest:  # noqa: ANN401 - any field of a request
    """A call of App3 for store 1, with a key of its own."""
    request = CallRequest(
        app_id="app-3",
        app_type="app3_clue",
        trigger_type="event",
        site_id=1,
        prompt="会员的消费记录",
        rate=RateRule(scope="store", limit=100, seconds=3600),
        estimate=100,
    )
    return replace(request, key=uuid.uuid4(), **changes)


async def opened(
    logs: AIRunLogService, request: CallRequest, *, process: uuid.UUID | None = None, at: datetime | None = None
) -> int:
    """A row for a call that is on its way, as an admission leaves it."""
    steps = compat.AIRunLogService(logs.database)
    log_id = await steps.create_log(
        request.site_id,
        request.app_type,
        request.trigger_type,
        request_prompt=request.prompt,
        trigger_job_id=request.job_id,
        step=request.step,
        tokens_reserved=request.estimate,
        call_key=request.key,
        process_id=process,
    )
    if at is not None:
        await logs.database.execute("UPDATE biz.ai_run_logs SET created_at = %s WHERE id = %s", [at, log_id])
    await steps.update_running(log_id)
    return log_id


async def settled(logs: AIRunLogService, log_id: int, request: CallRequest, outcome: CallOutcome = SUCCESS) -> int:
    """Settle in a transaction of its own."""
    async with logs.database.transaction() as connection:
        return await logs.settle(connection, log_id, request, outcome, None)


#: Whether the sums that the trigger keeps are those of the rows.
BOOKS = """
SELECT coalesce(sum(used), 0)::bigint, coalesce(sum(failed), 0)::bigint, coalesce(sum(reserved), 0)::bigint,
    (SELECT coalesce(sum(tokens_used), 0) FROM biz.ai_run_logs WHERE status = 'success')::bigint,
    (SELECT coalesce(sum(tokens_used), 0) FROM biz.ai_run_logs
     WHERE status NOT IN ('success', 'pending', 'running'))::bigint,
    (SELECT coalesce(sum(tokens_reserved), 0) FROM biz.ai_run_logs WHERE status IN ('pending', 'running'))::bigint
FROM biz.ai_budget_days
"""


def books(world: World) -> tuple[int, int, int]:
    """Tokens used, lost to failures and reserved; the same by the budget and by the rows."""
    row = world.all(BOOKS)[0]
    assert row[:3] == row[3:]
    return row[0], row[1], row[2]
