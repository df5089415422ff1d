"""A team's server on ClickHouse: what machines push is searched and examined there as on one machine."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import clickhouse_on

from .rig import Machine, Server, team_server

pytestmark = [
    pytest.mark.team,
    pytest.mark.xdist_group("clickhouse"),
    pytest.mark.skipif(
        not clickhouse_on.has_clickhouse(), reason="needs chdb (make test-team), or TEST_CLICKHOUSE_URL"
    ),
]
#: A session with one edit of a file.
EDITS = Path(__file__).resolve().parents[1] / "data" / "claude-code-2.1.325" / "projects"
_PATIENCE = 60.0


def address() -> str:
    """A database of its own."""
    return clickhouse_on.clickhouse_address(f"agenttrace_test_{secrets.token_hex(8)}")


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - what is found
    """What is found, as soon as it is something."""
    deadline = time.monotonic() + _PATIENCE
    while not (found := await look()):
        assert time.monotonic() < deadline, "it does not come"
        await asyncio.sleep(0.1)
    return found


async def _pushed(server: Server, machine: Machine) -> None:
    await machine.join(server)
    assert await machine.push() == {}


def test_what_is_pushed_is_found_and_examined(tmp_path: Path) -> None:
    """Words and Chinese texts are found, the backlog is counted down to nothing, and outcomes are shown."""
    machine = Machine(tmp_path)
    machine.say("s1", "the parser fails", "支付服务没有响应")
    shutil.copytree(EDITS, machine.logs / "projects")
    machine.record()

    async def main() -> None:
        async with team_server(tmp_path, database=address()) as server:
            assert (await server.get("search", q="parser"))["backlog"] == 0
            await _pushed(server, machine)

            async def indexed() -> bool:
                return bool((await server.get("search", q="parser"))["backlog"] == 0)

            await eventually(indexed)
            for words in ("parser fails", "没有响应", "支付"):
                found = (await server.get("search", q=words))["items"]
                assert {hit["session"]["session_id"] for hit in found} == {"s1"}, words

            async def changed() -> dict[str, int]:
                sessions = (await server.get("sessions"))["items"]
                return {each["session_id"]: each["outcomes"]["files"] for each in sessions if each["outcomes"]}

            examined = await eventually(lambda: _all_of(changed, len(_ids(EDITS)) + 1))
            assert sum(examined.values()) == 1

    asyncio.run(main())


async def _all_of(look: Callable[[], Awaitable[dict[str, int]]], count: int) -> dict[str, int]:
    found = await look()
    return found if len(found) == count else {}


def _ids(directory: Path) -> set[str]:
    return {path.stem for path in directory.rglob("*.jsonl") if "subagents" not in path.parts}


def test_what_waits_for_the_index_is_told(tmp_path: Path) -> None:
    """Events that are stored and not indexed yet are the backlog that a search tells."""
    from agenttrace.store import open_team_store
    from agenttrace.store.rows import ChangesCursor
    from agenttrace.store.team import Page

    machine, database = Machine(tmp_path), address()
    machine.say("s1", "alpha")
    machine.record()
    with machine.store() as own, open_team_store(database) as team:
        found = own.changes_since(ChangesCursor(), 1000)
        page = Page(machine="m", person="amy", store="x", after=ChangesCursor(), until=found.cursor)
        team.take(found.rows, page, day_of=lambda _: "2026-11-19")
        assert team.search_index.backlog == own.last_event() > 0
