"""App8's clues: one row a member and day, however often and by however many it is written, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forked
from agenttrace.run.results.clues import RetentionClues
from agenttrace.run.results.run_log import AIRunLogService
from example_counts import COSTLY
from run.world import SUCCESS, World, call, open_world, opened, written

DAY = date(2026, 3, 1)
ROWS = "SELECT summary, clues, trigger_job_id FROM biz.member_retention_clue WHERE member_id = %s AND clue_date = %s"

WRITER = """
import asyncio, sys
from datetime import date
from agenttrace.run.postgres.pool import Database
from agenttrace.run.postgres.sql_call import values_of
from agenttrace.run.results.clues import RetentionClues

async def write(database, clues, text):
    async with database.transaction() as connection:
        call = clues.writing(1, 77, date(2026, 3, 1), text, [{"from": text}], None)
        await connection.execute(call.statement, values_of(call))

async def main(url, name):
    async with Database(url) as database:
        print("ready", flush=True)
        sys.stdin.readline()
        clues = RetentionClues(database)
        await asyncio.gather(*(write(database, clues, f"{name}-{n}") for n in range(40)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with open_world(module_database_url) as world:
        yield world


@pytest.fixture(scope="module")
def clues(world: World) -> RetentionClues:
    return RetentionClues(world.database)


async def write(clues: RetentionClues, member: int, day: date, summary: str, found: list[Any], job: int | None) -> None:
    async with clues.database.transaction() as connection:
        await written(connection, clues.writing(1, member, day, summary, found, job))


# PostgreSQL's jsonb has neither U+0000 nor numbers beyond its own.
plain = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
found_clues = st.lists(
    st.dictionaries(plain, st.one_of(plain, st.booleans(), st.integers(-(10**9), 10**9))), max_size=3
)
runs = st.lists(
    st.tuples(
        st.integers(1, 3), st.dates(DAY, date(2026, 3, 3)), plain, found_clues, st.none() | st.integers(1, 2**40)
    ),
    min_size=1,
    max_size=12,
)


# Feature: P14-ai-dashscope-migration, Property 13: App8 幂等写入
@COSTLY
@given(runs=runs)
def test_a_member_has_one_row_a_day(world: World, clues: RetentionClues, runs: list[tuple[Any, ...]]) -> None:
    """After any number of runs each member and day that was written has one row, the last one written."""
    world.do("TRUNCATE biz.member_retention_clue")
    last: dict[tuple[int, date], tuple[Any, ...]] = {}
    for member, day, *content in runs:
        world.run(write(clues, member, day, *content))
        last[member, day] = tuple(content)
    assert world.one("SELECT count(*) FROM biz.member_retention_clue") == len(last)
    for key, row in last.items():
        assert world.all(ROWS, *key) == [row]


def test_many_writers_at_once_leave_one_row(world: World, clues: RetentionClues) -> None:
    """Sixty tasks that write the same member and day at the same time all succeed and leave one of their rows."""

    async def race() -> None:
        await asyncio.gather(*(write(clues, 5, DAY, f"run {n}", [{"n": n}], n) for n in range(60)))

    world.run(race())
    [(summary, found, job)] = world.all(ROWS, 5, DAY)
    assert (summary, found) == (f"run {job}", [{"n": job}]), "one writer's row, not a mixture"


def test_two_processes_at_once_leave_one_row(world: World, module_database_url: str) -> None:
    """Two processes that write the same member and day at the same time both succeed and leave one row."""
    processes = [
        forked.popen(
            [sys.executable, "-c", WRITER, module_database_url, name],
            late=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0]
    [(summary, found, _)] = world.all(ROWS, 77, DAY)
    assert found == [{"from": summary}]


def test_a_rolled_back_write_leaves_what_was_there(world: World, clues: RetentionClues) -> None:
    """When the transaction fails after the write, the earlier row stands, and of a first write nothing is left."""

    async def fail(member: int) -> None:
        async with clues.database.transaction() as connection:
            await written(connection, clues.writing(1, member, DAY, "new", [{"n": 2}], 2))
            await connection.execute("SELECT 1 / 0")

    world.run(write(clues, 8, DAY, "old", [{"n": 1}], 1))
    for member in (8, 9):
        with pytest.raises(Exception, match="division by zero"):
            world.run(fail(member))
    assert world.all(ROWS, 8, DAY) == [("old", [{"n": 1}], 1)]
    assert world.all(ROWS, 9, DAY) == []


def test_clues_and_their_run_log_stand_or_fall_together(world: World, clues: RetentionClues) -> None:
    """A write in the settling transaction that is rolled back leaves the call open and the clues unwritten."""
    logs = AIRunLogService(world.database)
    request = call(app_type="app8_consolidate")
    log_id = world.run(opened(logs, request))

    async def settle(*, broken: bool) -> None:
        async with world.database.transaction() as connection:
            await logs.settle(connection, log_id, request, SUCCESS, None)
            await written(connection, clues.writing(1, 10, DAY, "found", [], None))
            if broken:
                raise ConnectionError("the power went out")

    with pytest.raises(ConnectionError):
        world.run(settle(broken=True))
    assert world.one("SELECT status FROM biz.ai_run_logs WHERE id = %s", log_id) == "running"
    assert world.all(ROWS, 10, DAY) == []
    world.run(settle(broken=False))
    assert world.one("SELECT status FROM biz.ai_run_logs WHERE id = %s", log_id) == "success"
    assert world.all(ROWS, 10, DAY) == [("found", [], None)]


def test_odd_characters_do_not_lose_the_clues(world: World, clues: RetentionClues) -> None:
    """U+0000 and lone surrogates, which PostgreSQL refuses, are replaced; everything else arrives as it was."""
    found = [{"标题\x00": "a\ud800b", "backslash": "\\u0000", "number": float("nan"), "deep": [{"x": "😀"}]}]
    world.run(write(clues, 11, DAY, "s\x00\udfff", found, None))
    [(summary, stored, _)] = world.all(ROWS, 11, DAY)
    assert summary == "s\ufffd\ufffd"
    assert stored == [{"标题\ufffd": "a\ufffdb", "backslash": "\\u0000", "number": None, "deep": [{"x": "😀"}]}]
    assert json.dumps(world.run(clues.of_member(1, 11))[0]["clues"]) == json.dumps(stored)
