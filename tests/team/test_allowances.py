"""Limits of a machine: what it may send in a minute; it waits, and loses nothing."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.serve.team.allowances import Allowances

from .rig import Machine, contents, team_server

pages = st.lists(st.tuples(st.integers(1, 2_000), st.integers(0, 300)), min_size=1, max_size=60)


class Clock:
    """Goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(pages=pages, limit=st.integers(1, 1_000))
def test_a_machine_sends_its_limit_in_a_minute(pages: list[tuple[int, int]], limit: int) -> None:
    """One that waits as it is told sends every page, and in any time its limit, a minute's worth and one page."""
    clock = Clock()
    allowances = Allowances(rows=limit, size=0, clock=clock)
    sent: list[tuple[float, int]] = []
    for rows, pause in pages:
        clock.now += pause
        while (slowed := allowances.slowed("desk")) is not None:
            assert slowed.what == "rows"
            clock.now += slowed.seconds
        allowances.count("desk", rows=rows)
        sent.append((clock.now, rows))
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            minutes = (sent[last][0] - sent[first][0]) / 60
            before_the_last = sum(rows for _, rows in sent[first:last])
            assert before_the_last <= limit * (1 + minutes) + max(rows for _, rows in sent) + 1


def test_each_machine_has_its_own_limits() -> None:
    """The one that is reached is named; without a limit nothing is counted."""
    clock = Clock()
    allowances = Allowances(rows=10, size=100, clock=clock)
    allowances.count("desk", rows=5, size=200)
    found = allowances.slowed("desk")
    assert found is not None
    assert found.what == "bytes"
    assert allowances.slowed("laptop") is None
    clock.now += found.seconds
    assert allowances.slowed("desk") is None
    free = Allowances(rows=0, size=0, clock=clock)
    free.count("desk", rows=10**9, size=10**12)
    assert free.slowed("desk") is None


def test_a_machine_over_its_limit_waits_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends its history with pauses, as the server says, also what is to be sent once; the server counts them."""
    monkeypatch.setattr("agenttrace.team.pusher.PAGE_ROWS", 40)

    async def main() -> None:
        machine = Machine(tmp_path)
        for number in range(12):
            machine.say(f"s{number}", *(f"text {number} {each}" for each in range(8)))
        machine.record()
        with machine.store() as own:
            limit = len(own.changes_since(limit=100_000).rows) - 60
        async with team_server(tmp_path, {"AGENTTRACE_TEAM_MAX_ROWS_PER_MINUTE": str(limit)}) as server:
            await machine.join(server)
            assert await machine.push() == {}
            with server.store() as team, machine.store() as own:
                assert contents(team) == contents(own)
            async with server.client.get(f"{server.url}/metrics") as answer:
                found = re.search(r'agenttrace_team_slowed_total\{limit="rows"\} (\d+)', await answer.text())
            assert found is not None
            assert int(found[1]) > 0

    asyncio.run(main())
