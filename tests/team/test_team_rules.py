"""Rules of a team's server: each event fires once for the team, whichever server sees it and whichever is killed."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clickhouse_on
from agenttrace.serve.access.access_store import open_access
from agenttrace.team import joining
from faults.team_server import TeamServer
from rules.receiver import Receiver

from . import rig
from .rig import EVERYTHING, Machine

RULES = """
[actions.hook]
type = "webhook"
url = "{url}"
allow_private = true

[rules.over]
on = "session.ended"
start = "all"
settle = 0
max_per_day = 1000
do = ["hook"]
"""
ENGINES = (
    "sqlite",
    pytest.param(
        "chdb",
        marks=[
            pytest.mark.team,
            pytest.mark.xdist_group("clickhouse"),
            pytest.mark.skipif(not clickhouse_on.has_clickhouse(), reason="needs chdb (make test-team)"),
        ],
    ),
)


class Team:
    """Servers with one data directory and one store, machines that push to them, and what webhooks bring."""

    def __init__(self, root: Path, receiver: Receiver, engine: str = "sqlite") -> None:
        self.root, self.receiver = root, receiver
        self.home = root / "server"
        target = str(self.home / "team.db") if engine == "sqlite" else f"chdb://{root / 'chdb'}"
        self.servers = [TeamServer(self.home, target) for _ in range(2)]
        self.write(RULES)

    def write(self, text: str) -> None:
        """The settings of the servers."""
        (self.home / "agenttrace.toml").write_text(text.format(url=self.receiver.url))

    def machine(self, name: str, server: int = 0) -> Machine:
        """A machine that is a member, through one of the servers."""
        made = Machine(self.root, name)
        code = self.started(server).code(f"{name}s")
        url = self.url(server)
        joining.join(made.home, url, code, name=name, person="any", sharing=EVERYTHING, backfill=True)
        return made

    def started(self, server: int) -> TeamServer:
        """One of the servers, which runs."""
        self.servers[server].ensure()
        return self.servers[server]

    def url(self, server: int) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.servers[server].port}"

    def restart(self, server: int, *machines: Machine) -> None:
        """Kill a server and start it again, at another port; these machines send to it."""
        before = self.url(server)
        self.servers[server].end()
        self.started(server)
        for machine in machines:
            for name in ("team.toml", "team.key"):
                file = machine.home / name
                file.write_text(file.read_text().replace(before, self.url(server)))

    def push(self, machine: Machine, *sessions: str) -> None:
        """New turns of these sessions are recorded and pushed."""
        for session in sessions:
            machine.say(session, f"do {session}", project="/projects/shop")
        machine.record()
        assert asyncio.run(machine.push()) == {}

    def fired(self) -> Counter[str]:
        """For how many keys each session fired; a request that is repeated after a crash has the key of before."""
        keys = {
            each.key: event["session"]["id"]
            for each in self.receiver.deliveries()
            for event in each.body["events"]
            if "session" in event
        }
        return Counter(keys.values())

    def api(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        """What the API of the first server answers to an admin."""
        with open_access(self.servers[0].settings) as access:
            token, _ = access.tokens.create(f"admin-{time.time_ns()}", "admin", None)
        asked = urllib.request.Request(f"{self.url(0)}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked) as answer:
            return json.load(answer)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something has fired; what must not fire is looked for afterwards."""
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, self.fired()
            time.sleep(0.05)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    """It notes every request."""
    found = Receiver(tmp_path)
    found.start()
    yield found
    found.kill()


@pytest.fixture
def make_team(tmp_path: Path, receiver: Receiver) -> Iterator[Callable[..., Team]]:
    """Teams whose servers end with the test."""
    made: list[Team] = []

    def make(engine: str = "sqlite") -> Team:
        made.append(Team(tmp_path, receiver, engine))
        return made[-1]

    yield make
    for team in made:
        for server in team.servers:
            server.end()


def once(*sessions: str) -> Counter[str]:
    """Each of them fired once."""
    return Counter(sessions)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_session_fires_once_for_the_team(make_team: Callable[..., Team], engine: str) -> None:
    """Of two machines, one of which has a copy of a session of the other; and after the server was killed."""
    team = make_team(engine)
    desk, laptop = team.machine("desk"), team.machine("laptop")
    team.push(desk, "a", "b")
    team.push(laptop, "c", "a")
    team.until(lambda: team.fired() == once("a", "b", "c"))
    team.restart(0, desk, laptop)
    team.push(desk, "a", "d")
    team.push(laptop, "e")
    team.until(lambda: {"d", "e"} <= {*team.fired()})
    assert team.fired() == once("a", "b", "c", "d", "e")
    machines = {each.body["events"][0]["session"]["machine"] for each in team.receiver.deliveries()}
    assert machines == {"desk", "laptop"}
    shown = team.api("rules/firings?state=done")["items"]
    assert Counter(each["session_id"] for each in shown) == once("a", "b", "c", "d", "e")
    (rule,) = (each for each in team.api("rules")["items"] if each["name"] == "over")
    assert rule["fired_today"] == 5


def test_two_servers_fire_once_and_the_other_one_takes_over(make_team: Callable[..., Team]) -> None:
    team = make_team()
    desk, laptop = team.machine("desk", 0), team.machine("laptop", 1)
    team.push(desk, "a", "b")
    team.push(laptop, "c", "d")
    team.until(lambda: team.fired() == once("a", "b", "c", "d"))
    assert len(team.receiver.deliveries()) == 4
    team.servers[0].end()
    team.push(laptop, "e")
    team.until(lambda: "e" in team.fired())
    team.restart(0, desk)
    team.servers[1].end()
    team.push(desk, "f", "a")
    team.until(lambda: "f" in team.fired())
    assert team.fired() == once("a", "b", "c", "d", "e", "f")


def test_servers_that_are_killed_again_and_again_lose_no_event(make_team: Callable[..., Team]) -> None:
    """Also while requests are on their way: a repeated one has the same key."""
    team = make_team()
    desk = team.machine("desk")
    for number in range(6):
        team.push(desk, *(f"{number}-{each}" for each in range(4)))
        team.until(lambda wanted=number * 4 + number % 3: len(team.fired()) >= wanted)  # type: ignore[misc]
        team.restart(0, desk)
    expected = once(*(f"{number}-{each}" for number in range(6) for each in range(4)))
    team.until(lambda: team.fired() == expected)


def test_machine_and_person_are_filters(make_team: Callable[..., Team], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rules and of budgets; a rule that begins now fires for what machines send from now on."""
    team = make_team()
    team.write(
        """
[actions.hook]
type = "webhook"
url = "{url}"
allow_private = true

[budgets.desks]
period = "day"
tokens = 10
where = {{ person = "desks" }}

[rules.over]
on = "session.waiting"
where = {{ machine = ["lap*"] }}
do = ["hook"]

[rules.spent]
on = "budget.crossed"
where = {{ at_least = 1.0 }}
do = ["hook"]
"""
    )
    desk = team.machine("desk")
    team.push(desk, "before")
    monkeypatch.setattr(rig, "BASE", time.time())
    laptop = team.machine("laptop")
    team.push(laptop, "l")
    team.until(lambda: "l" in team.fired())
    assert [each.body["rule"] for each in team.receiver.deliveries()] == ["over"]
    team.push(desk, "d")
    team.until(lambda: any(each.body["rule"] == "spent" for each in team.receiver.deliveries()))
    assert team.fired() == once("l")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_command_gets_the_text_of_a_session(make_team: Callable[..., Team], tmp_path: Path, engine: str) -> None:
    """It runs where the server does, with what the machines sent."""
    team, said = make_team(engine), tmp_path / "said.txt"
    script = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    team.write(
        f"""
[actions.say]
type = "command"
argv = {json.dumps([sys.executable, "-c", script, str(said)])}
stdin = "transcript"
input = "conversation"

[rules.over]
on = "session.ended"
start = "all"
settle = 0
do = ["say"]
"""
    )
    desk = team.machine("desk")
    team.push(desk, "needle")
    team.until(lambda: said.exists() and "answer to do needle" in said.read_text())
    team.until(lambda: len(team.api("rules/firings?state=done")["items"]) == 1)
