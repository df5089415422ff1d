"""Twenty machines push to a team's server; machines, server and connection fail at random. In the end the team's store
is the sum of the machines' stores, row for row."""

from __future__ import annotations

import asyncio
import random
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import pytest

import clickhouse_on
import forked
from agenttrace.config import Settings, load_settings
from agenttrace.export.exporter import Exporter
from agenttrace.masking import Mask
from agenttrace.record.formats import FACTS
from agenttrace.store import open_team_store
from agenttrace.team import joining, membership, pusher
from agenttrace.team.levels import Sharing
from faults import store_rig, team_rig
from faults.team_rig import ACCIDENTS, Deck, Expected, Machine, Rounds
from faults.team_server import Connection, TeamServer
from scratch import on_disk

#: An answer that is lost, a request that is cut, the server killed in the middle of one; the pusher stopped between two
#: pages, cancelled anywhere, killed.
_FAULTS = ("lose", "cut", "kill", "stop", "cancel", "killed")


class Pushes(Rounds):
    """Machines that joined a team."""

    kinds = (*ACCIDENTS, *_FAULTS, "restart")

    def __init__(self, root: Path, chance: random.Random, target: str, machines: int = 20) -> None:
        super().__init__(root, chance, machines)
        self.server = TeamServer(root / "server", target)
        self.server.ensure()
        self.connection = Connection(self.server)
        self.connection.happened = self.happened
        #: What names the host of copies of homes; all others are on this one.
        self._hosts: dict[str, str] = {}
        self._faults = Deck(chance, ("", "", *_FAULTS, "lose"))
        for machine in self.machines:
            self._enroll(machine)

    def close(self) -> None:
        """End everything."""
        self.connection.close()
        self.server.end(signal.SIGTERM)

    # -- machines ---------------------------------------------------------------------------------------------

    def _settings(self, machine: Machine) -> Settings:
        return load_settings({"AGENTTRACE_HOME": str(machine.home), "HOME": str(machine.root)})

    def _enroll(self, machine: Machine) -> None:
        self.server.ensure()
        with self._host_of(machine):
            joining.join(
                machine.home,
                self.connection.url,
                self.server.code(machine.person),
                name=machine.name,
                person=None,
                sharing=Sharing(),
                backfill=True,
            )

    @contextmanager
    def _host_of(self, machine: Machine) -> Iterator[None]:
        host = self._hosts.get(machine.name)
        if host is None:
            yield
            return
        with (
            mock.patch.object(membership, "this_host", return_value=host),
            mock.patch.object(joining, "this_host", return_value=host),
        ):
            yield

    def join(self, machine: Machine) -> Machine:
        """A copy of a home sends nothing before it joined by itself."""
        made = super().join(machine)
        self._hosts[made.name] = f"host of {made.name}"
        assert "was copied" in self._pushed(made).get("team", "")
        self._enroll(made)
        return made

    # -- pushing ----------------------------------------------------------------------------------------------

    def push(self, machine: Machine) -> None:
        if not machine.has_store:
            return
        self.server.ensure()
        fault = self._faults.draw()
        if fault in ("lose", "cut", "kill"):
            self.connection.plan = (fault, self.chance.randint(1, 3_000))
        if fault == "killed":
            # A copy of a home is on another host only in this process.
            self._killed(self.chance.choice([each for each in self.machines if each.name not in self._hosts]))
        elif fault == "cancel":
            self._pushed(machine, seconds=self.chance.random() / 4)
        else:
            self._pushed(machine, pages=self.chance.randint(0, 5) if fault == "stop" else None)
        # What was planned for a connection that was not needed happens to nobody else.
        self.connection.plan = None

    def settle(self, machine: Machine) -> None:
        for _ in range(5):
            self.server.ensure()
            self.connection.plan = None
            left = self._pushed(machine)
            if not left:
                return
            time.sleep(0.2)
        raise AssertionError(f"{machine.name}: {left}")

    def _pushed(self, machine: Machine, *, pages: int | None = None, seconds: float | None = None) -> dict[str, str]:
        """Push in this process; why something is left."""
        left = [pages]

        def stop() -> bool:
            if left[0] is not None:
                left[0] -= 1
            if left[0] == -1:
                self.happened.append("stop")
            return left[0] is not None and left[0] < 0

        async def push() -> dict[str, str]:
            exporter = Exporter(self._settings(machine), texts=lambda *_: {}, mask=Mask(), agents=FACTS)
            return await exporter.run_once(quiet_seconds=0.0, stop=stop)

        async def limited() -> dict[str, str]:
            try:
                return await asyncio.wait_for(push(), seconds)
            except TimeoutError:
                self.happened.append("cancel")
                return {"team": "cancelled"}

        with self._host_of(machine), machine.wrong_clock():
            return asyncio.run(limited())

    def _killed(self, machine: Machine) -> None:
        """A process that is killed while it pushes, or has ended before."""
        if not machine.has_store:
            return
        command = [*store_rig.CLI, "export", "run", "--once"]
        environ = store_rig.environ_of(machine.home)
        process = forked.popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(self.chance.random())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.happened.append("killed")

    def restart(self) -> None:
        self.happened.append("restart")
        self.server.end(self.chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))


@pytest.fixture
def root() -> Iterator[Path]:
    with on_disk() as made:
        yield made


def run(root: Path, target: str, seed: int, rounds: int, machines: int = 20) -> None:
    """So many rounds, and what is there in the end."""
    made = Pushes(root, random.Random(seed), target, machines)
    try:
        made.run(rounds)
    finally:
        made.close()
    # In a process of its own: the engine in process has one directory in a process.
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        assert other.submit(_differences, target, made.machines).result() == [], made.happened


def test_the_team_is_the_sum_of_its_machines(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever failed, every session is there once and whole, with its machine, and every response counts once."""
    monkeypatch.setattr(pusher, "PAGE_ROWS", 40)
    run(root, str(root / "team.db"), seed=1, rounds=team_rig.rounds(12))


def _differences(target: str, machines: list[Machine]) -> list[str]:
    with open_team_store(target) as team:
        return Expected(machines).differences(team)


@pytest.mark.team
@pytest.mark.skipif(not clickhouse_on.has_clickhouse(), reason="needs chdb (make test-team), or TEST_CLICKHOUSE_URL")
def test_a_team_in_clickhouse_is_the_sum_of_its_machines(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with ClickHouse behind the server."""
    monkeypatch.setattr(pusher, "PAGE_ROWS", 100)
    target = f"chdb://{root / 'chdb'}"
    if clickhouse_on.SERVER:
        target = clickhouse_on.clickhouse_address(f"agenttrace_test_{secrets.token_hex(8)}")
    run(root, target, seed=2, rounds=team_rig.rounds(3), machines=5)
