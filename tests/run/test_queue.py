"""The queue: entries live as long as their jobs wait, and go to another worker only when they have none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from procrastinate.exceptions import ConnectorException
from psycopg import OperationalError

from agenttrace.run.jobs.queue import QUEUE, JobQueue, JobUnfinishedError, QueueEntry, _Again, _unwrapped
from agenttrace.run.postgres.pool import Database

JOBS = "agenttrace_queue.procrastinate_jobs"


def with_queue(url: str, test: Callable[[JobQueue], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Database(url) as database, JobQueue(database) as queue:
            await test(queue)

    asyncio.run(run())


async def add(queue: JobQueue, *job_ids: int) -> None:
    async with queue.database.transaction() as connection:
        for job_id in job_ids:
            await queue.defer(connection, job_id)


async def fetch(queue: JobQueue, worker_id: int) -> Any:  # noqa: ANN401 - procrastinate's job
    return await queue.app.job_manager.fetch_job([QUEUE], worker_id)


async def register(queue: JobQueue) -> int:
    return await queue.app.job_manager.register_worker()


async def rows(queue: JobQueue) -> list[tuple[Any, ...]]:
    return await queue.database.all(f"SELECT args->'job_id', status::text, worker_id FROM {JOBS} ORDER BY id")


def test_an_entry_is_part_of_the_callers_transaction(database_url: str) -> None:
    """Rolled back, it never was; committed, it is there."""

    async def check(queue: JobQueue) -> None:
        with contextlib.suppress(ZeroDivisionError):
            async with queue.database.transaction() as connection:
                await queue.defer(connection, 1)
                raise ZeroDivisionError
        assert await rows(queue) == []
        await add(queue, 2)
        assert await rows(queue) == [(2, "todo", None)]

    with_queue(database_url, check)


def test_only_the_worker_that_has_an_entry_can_end_it(database_url: str) -> None:
    """One that was taken for dead neither finishes nor gives back what another has by now; doing it twice is fine."""

    async def check(queue: JobQueue) -> None:
        await add(queue, 1)
        first, second = await register(queue), await register(queue)
        lost = await fetch(queue, first)
        assert await queue.give_back(QueueEntry(lost.id, first))
        taken = await fetch(queue, second)
        manager = queue.app.job_manager
        await manager.finish_job(lost, None, delete_job=True)  # type: ignore[arg-type]
        await manager.retry_job(lost)
        assert not await queue.give_back(QueueEntry(lost.id, first))
        assert await rows(queue) == [(1, "doing", second)]
        for _ in range(2):
            await manager.finish_job(taken, None, delete_job=True)  # type: ignore[arg-type]
        assert await rows(queue) == []

    with_queue(database_url, check)


def test_of_many_that_give_an_entry_back_one_does(database_url: str) -> None:
    """However many find it left behind at the same instant, it goes back once."""

    async def check(queue: JobQueue) -> None:
        await add(queue, 1)
        worker = await register(queue)
        job = await fetch(queue, worker)
        given = await asyncio.gather(*[queue.give_back(QueueEntry(job.id, worker)) for _ in range(10)])
        assert sorted(given) == [False] * 9 + [True]
        assert await rows(queue) == [(1, "todo", None)]

    with_queue(database_url, check)


def test_entries_without_a_live_worker_are_found(database_url: str) -> None:
    """A silent worker's entries, a vanished worker's, and those that one's own worker does not know of."""

    async def check(queue: JobQueue) -> None:
        await add(queue, 1, 2, 3, 4, 5)
        silent, gone, own, lively = [await register(queue) for _ in range(4)]
        entries = {}
        for worker in (silent, gone, own, own, lively):
            job = await fetch(queue, worker)
            entries[job.task_kwargs["job_id"]] = job.id
        await queue.app.job_manager.unregister_worker(gone)
        sql = (
            "UPDATE agenttrace_queue.procrastinate_workers SET last_heartbeat = now() - interval '1 day' WHERE id = %s"
        )
        await queue.database.execute(sql, [silent])
        while (await queue.database.one("SELECT now() - pg_postmaster_start_time() > interval '1 s'")) != (True,):
            await asyncio.sleep(0.05)
        found = await queue.unattended(1.0, own, {entries[3]})
        assert found == {QueueEntry(entries[1], silent), QueueEntry(entries[2], None), QueueEntry(entries[4], own)}

    with_queue(database_url, check)


def test_a_server_that_has_just_started_leaves_everybody_time_for_a_sign_of_life(database_url: str) -> None:
    """Silence is counted from the server's start at the earliest."""

    async def check(queue: JobQueue) -> None:
        await add(queue, 1)
        worker = await register(queue)
        await fetch(queue, worker)
        sql = "UPDATE agenttrace_queue.procrastinate_workers SET last_heartbeat = now() - interval '1 year'"
        await queue.database.execute(sql)
        row = await queue.database.one("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float")
        assert row is not None
        assert await queue.unattended(row[0] + 60, None, []) == set()
        assert await queue.unattended(row[0] / 2, None, []) != set()

    with_queue(database_url, check)


def test_what_breaks_off_goes_back_at_once_and_what_fails_a_little_later() -> None:
    """A stop needs no pause; an error that could not even be recorded does."""
    job: Any = None
    for error in (JobUnfinishedError(), asyncio.CancelledError()):
        assert _Again().get_retry_decision(exception=error, job=job).retry_at is None
    assert _Again().get_retry_decision(exception=OSError(), job=job).retry_at is not None


def test_the_databases_own_errors_come_through() -> None:
    """Procrastinate's wrapping is taken off where the server is away, and left where something is wrong."""

    async def broken(cause: Exception) -> None:
        raise ConnectorException from cause

    with pytest.raises(OperationalError):
        asyncio.run(_unwrapped(broken(OperationalError())))
    with pytest.raises(ConnectorException):
        asyncio.run(_unwrapped(broken(ValueError())))


def test_a_listener_hears_of_entries_that_are_added_or_go_back(database_url: str) -> None:
    """Both wake the workers, also after the connection that listens was cut."""

    async def check(queue: JobQueue) -> None:
        heard = asyncio.Event()

        async def hear(**_: object) -> None:
            heard.set()

        listening = asyncio.create_task(queue.app.job_manager.listen_for_jobs(on_notification=hear, queues=[QUEUE]))
        first = await _listener(queue)
        await add(queue, 1)
        await heard.wait()
        heard.clear()
        worker = await register(queue)
        job = await fetch(queue, worker)
        await queue.give_back(QueueEntry(job.id, worker))
        await heard.wait()
        heard.clear()
        await queue.database.execute("SELECT pg_terminate_backend(%s)", [first])
        await _listener(queue, besides=first)
        await add(queue, 2)
        await heard.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening

    with_queue(database_url, check)


async def _listener(queue: JobQueue, besides: int = 0) -> int:
    """The number of the backend that listens."""
    sql = """
        SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%%' AND state = 'idle' AND pid <> %s"""
    while (row := await queue.database.one(sql, [besides])) is None:
        await asyncio.sleep(0.02)
    return int(row[0])
