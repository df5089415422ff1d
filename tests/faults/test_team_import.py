"""A team's store that is filled by imports which end anywhere holds what the stores of the machines do, in the end."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

import clickhouse_on
from agenttrace.calendar import day_finder
from agenttrace.store import open_team_store
from agenttrace.store.rows import Row
from agenttrace.store.team import Page, TeamStore
from agenttrace.team import importing
from agenttrace.team.importing import Source, import_store
from faults import team_rig
from faults.team_rig import Expected, Machine, Rounds

_DAY_OF = day_finder("UTC")


class LostError(Exception):
    """The connection ended."""


class Unreliable:
    """A team's store behind a connection that ends before or after a page is stored; pages may come twice."""

    def __init__(self, store: TeamStore, chance: random.Random) -> None:
        self._store, self._chance = store, chance

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def take(self, rows: Iterable[Row], page: Page, *, day_of: Callable[[int], str]) -> None:
        """Store a page, perhaps."""
        kept, luck = list(rows), self._chance.random()
        if luck < 0.1:
            raise LostError
        self._store.take(kept, page, day_of=day_of)
        if luck < 0.2:
            raise LostError
        if luck < 0.3:
            self._store.take(kept, page, day_of=day_of)


class Imports(Rounds):
    """Machines whose stores are imported again and again."""

    def __init__(self, root: Path, chance: random.Random, target: str, machines: int = 20) -> None:
        super().__init__(root, chance, machines)
        self._target = target
        self.team = open_team_store(target)

    def push(self, machine: Machine) -> None:
        pages = self.chance.randint(0, 20)

        def stop() -> bool:
            nonlocal pages
            pages -= 1
            return pages < 0

        with suppress(LostError):
            self._import(cast("TeamStore", Unreliable(self.team, self.chance)), machine, stop)

    def settle(self, machine: Machine) -> None:
        self._import(self.team, machine, lambda: False)

    def _import(self, team: TeamStore, machine: Machine, stop: Callable[[], bool]) -> None:
        if machine.has_store:
            source = Source(path=machine.home / "agenttrace.db", machine=machine.name)
            import_store(team, source, person=machine.person, day_of=_DAY_OF, stop=stop)

    def restart(self) -> None:
        self.team.close()
        self.team = open_team_store(self._target)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "PAGE_ROWS", 25)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seed", range(2))
def test_the_store_of_a_team_is_the_sum_of_its_machines(tmp_path: Path, seed: int) -> None:
    """Whatever happened before, in the end every session is there once and whole, and every response counts once."""
    made = Imports(tmp_path, random.Random(seed), str(tmp_path / "team.db"))
    made.run(team_rig.rounds(12))
    assert Expected(made.machines).differences(made.team) == []
    before = made.team.last_event()
    made.finish()
    assert made.team.last_event() == before
    made.team.close()


@pytest.mark.team
@pytest.mark.xdist_group("clickhouse")
@pytest.mark.skipif(not clickhouse_on.has_clickhouse(), reason="needs chdb (make test-team), or TEST_CLICKHOUSE_URL")
@pytest.mark.usefixtures("small_pages")
def test_a_team_in_clickhouse_is_the_sum_of_its_machines(tmp_path: Path) -> None:
    """The same in ClickHouse."""
    address = clickhouse_on.clickhouse_address(f"agenttrace_test_{secrets.token_hex(8)}")
    made = Imports(tmp_path, random.Random(3), address, machines=6)
    made.run(team_rig.rounds(4))
    assert Expected(made.machines).differences(made.team) == []
    made.team.close()
