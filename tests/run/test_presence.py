"""Signs of life: a process is seen while it lives, signs off when it ends, and is forgotten when it just vanished."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from agenttrace.run.postgres.pool import Database
from agenttrace.run.presence import Presence, forget_gone
from run.fixtures import execute
from run.world import World, open_world

SEEN = "SELECT seen_at FROM biz.ai_processes WHERE id = %s"


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    with open_world(database_url) as world:
        yield world


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition; the test's own timeout is the limit."""
    while not await condition():
        await asyncio.sleep(0.01)


async def seen(database: Database, presence: Presence) -> datetime | None:
    row = await database.one(SEEN, [presence.process_id])
    return None if row is None else row[0]


def test_a_process_is_there_while_it_lives(world: World) -> None:
    """Entering writes the row, signs of life follow each other, and leaving removes it."""

    async def life() -> tuple[Any, ...] | None:
        async with Presence(world.database, "worker", every=0.01) as presence:
            first = await seen(world.database, presence)
            assert first is not None

            async def seen_again() -> bool:
                last = await seen(world.database, presence)
                return last is not None and last > first

            await until(seen_again)
            return await world.database.one("SELECT role, pid, started_at < seen_at FROM biz.ai_processes")

    assert world.run(life()) == ("worker", os.getpid(), True)
    assert world.one("SELECT count(*) FROM biz.ai_processes") == 0


def test_a_failure_inside_signs_off_as_well(world: World) -> None:
    """However the process ends its work, an ordinary end removes the row."""

    async def fail() -> None:
        async with Presence(world.database, "server"):
            raise KeyError("anything")

    with pytest.raises(KeyError):
        world.run(fail())
    assert world.one("SELECT count(*) FROM biz.ai_processes") == 0


def test_who_was_taken_for_dead_comes_back(world: World) -> None:
    """A row that was removed is there again with the next heartbeat."""

    async def scene() -> None:
        async with Presence(world.database, "worker", every=0.01) as presence:
            await world.database.execute("DELETE FROM biz.ai_processes")

            async def is_back() -> bool:
                return await seen(world.database, presence) is not None

            await until(is_back)

    world.run(scene())


def test_signs_of_life_go_on_after_the_database_was_away(database_url: str, postgres_url: str) -> None:
    """Cut connections cost signs of life, not the process: they go on as soon as the database takes them again."""

    async def scene() -> None:
        async with Database(database_url) as database, Presence(database, "worker", every=0.01) as presence:
            name = await database.one("SELECT current_database()")
            assert name is not None
            cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
            for _ in range(5):
                await asyncio.to_thread(execute, postgres_url, cut, name[0])
            before = await asyncio.to_thread(execute, database_url, "SELECT clock_timestamp()")

            async def seen_since() -> bool:
                rows = await asyncio.to_thread(execute, database_url, SEEN, presence.process_id)
                return bool(rows[0][0] > before[0][0])

            await until(seen_since)

    asyncio.run(scene())


def test_leaving_works_while_the_database_is_away(database_url: str) -> None:
    """Who cannot sign off leaves all the same; the row stays for the others to forget."""

    async def scene() -> None:
        database = Database(database_url)
        await database.open()
        async with Presence(database, "worker"):
            await database.close()

    asyncio.run(scene())
    assert execute(database_url, "SELECT role FROM biz.ai_processes") == [("worker",)]


def test_processes_that_vanished_are_forgotten(world: World) -> None:
    """Only rows without a sign of life for long enough are removed."""
    alive, vanished = Presence(world.database, "worker"), Presence(world.database, "server")
    for presence in (alive, vanished):
        world.run(presence.beat())
    world.do("UPDATE biz.ai_processes SET seen_at = now() - interval '2 days' WHERE id = %s", vanished.process_id)
    assert world.run(forget_gone(world.database, 86_400)) == 1
    assert world.one("SELECT id FROM biz.ai_processes") == alive.process_id
