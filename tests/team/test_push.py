"""A machine's rows reach the team's store, all of them and once, whatever is lost on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agenttrace.store.rows import EventRow
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team import SqliteTeamStore
from agenttrace.team import pages, wire
from agenttrace.team.levels import Sharing

from .rig import Machine, Server, contents, team_server


def run(root: Path, work: Callable[[Server, Machine], Awaitable[None]]) -> None:
    """Work with a server and a machine that has two sessions."""

    async def main() -> None:
        machine = Machine(root)
        machine.say("s1", "alpha", "beta", project="/projects/shop")
        machine.say("s2", "gamma")
        machine.record()
        async with team_server(root) as server:
            await work(server, machine)

    asyncio.run(main())


def same(server: Server, machine: Machine) -> bool:
    """Whether the team's store says what the machine's does."""
    with server.store() as team, machine.store() as own:
        return contents(team) == contents(own)


def test_a_machine_pushes_everything_once_and_then_only_what_is_new(tmp_path: Path) -> None:
    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server)
        assert await machine.push() == {}
        assert same(server, machine)
        first = server.faults.pages
        assert await machine.push() == {}
        assert server.faults.pages == first
        machine.say("s1", "delta")
        machine.record()
        assert await machine.push() == {}
        assert same(server, machine)
        sessions = await server.get("sessions")
        assert {each["session_id"] for each in sessions["items"]} == {"s1", "s2"}
        with server.store() as team:
            assert {(each.machine, each.person) for each in team.sessions()} == {("laptop", "amy")}

    run(tmp_path, work)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_lost_answers_and_lost_pages_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Also where every process sends one page only, and its answer is lost."""
    monkeypatch.setattr("agenttrace.team.pusher.PAGE_ROWS", rows)

    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server)
        for lost in range(6):
            server.faults.lose_answers = 1
            server.faults.lose_pages = lost % 2
            assert "team" in await machine.push()
        server.faults.lose_answers = server.faults.lose_pages = 0
        assert await machine.push() == {}
        assert same(server, machine)
        with server.store() as team:
            assert [each.events for each in team.machines()] == [sum(each.events for each in team.sessions())]

    run(tmp_path, work)


def test_a_machine_that_was_offline_catches_up(tmp_path: Path) -> None:
    async def offline() -> None:
        machine = Machine(tmp_path)
        machine.say("s1", "alpha")
        machine.record()
        async with team_server(tmp_path) as server:
            await machine.join(server)
            assert await machine.push() == {}
        for number in range(3):
            machine.say("s1", f"offline {number}")
            machine.say(f"new {number}", "hello")
            machine.record()
            left = await machine.push()
            assert "not reached" in left["team"]

    asyncio.run(offline())


def test_a_rebuilt_store_and_a_lost_server_begin_anew(tmp_path: Path) -> None:
    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server)
        await machine.push()
        machine.say("s2", "more")
        machine.rebuild()
        assert await machine.push() == {}
        assert same(server, machine)
        # The server loses what it has: a store of before, restored from a backup, or none.
        with SqliteTeamStore.open(server.path, read_only=False) as team:
            team.connection.execute("DELETE FROM team_machines")
        machine.say("s2", "even more")
        machine.record()
        assert await machine.push() == {}
        assert same(server, machine)

    run(tmp_path, work)


def test_a_store_restored_from_a_backup_goes_on(tmp_path: Path) -> None:
    """The server has more of the machine than the machine has itself, until it records that again."""

    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server)
        await machine.push()
        backup = tmp_path / "backup.db"
        with machine.store(read_only=False) as store:
            store.connection.execute("VACUUM INTO ?", (str(backup),))
        machine.say("s1", "after the backup")
        machine.record()
        await machine.push()
        for path in machine.home.glob("agenttrace.db*"):
            path.unlink()
        backup.rename(machine.home / "agenttrace.db")
        machine.say("s2", "another way")
        machine.record()
        assert await machine.push() == {}
        assert same(server, machine)

    run(tmp_path, work)


def test_without_backfill_a_quiet_session_is_sent_whole_when_it_continues(tmp_path: Path) -> None:
    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server, backfill=False)
        assert await machine.push() == {}
        with server.store() as team:
            assert contents(team) == {}
        machine.say("s2", "it goes on")
        machine.say("s3", "a new one")
        machine.record()
        assert await machine.push() == {}
        with server.store() as team, machine.store() as own:
            assert contents(team) == {name: found for name, found in contents(own).items() if name != "s1"}
        with machine.store(read_only=False) as store:
            assert store.exports.destinations.backfill("team", 0) == 1
        assert await machine.push() == {}
        assert same(server, machine)

    run(tmp_path, work)


def test_many_sessions_of_a_backfill_are_sent_anew_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_DUE", 1)

    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server, backfill=False)
        assert await machine.push() == {}
        with machine.store(read_only=False) as store:
            assert store.exports.destinations.backfill("team", 0) == 2
        assert await machine.push() == {}
        assert same(server, machine)

    run(tmp_path, work)


def test_a_session_whose_project_gets_another_level_is_there_once(tmp_path: Path) -> None:
    """From figures to everything and back: under one number at a time."""

    async def work(server: Server, machine: Machine) -> None:
        for level, names in (("figures", 0), ("full", 2), ("figures", 0), ("masked", 2)):
            await machine.join(server, sharing=Sharing(level=level))  # type: ignore[arg-type]
            machine.say("s1", f"now {level}")
            machine.record()
            assert await machine.push() == {}
            sessions = (await server.get("sessions"))["items"]
            assert len(sessions) == 2
            assert len({each["session_id"] for each in sessions} & {"s1", "s2"}) == names
            with machine.store() as own, server.store() as team:
                assert sum(row.usage.total for row in team.usage()) == sum(row.usage.total for row in own.usage()) > 0

    run(tmp_path, work)


def test_a_paused_team_gets_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server)
        with machine.store(read_only=False) as store:
            store.exports.destinations.keep(machine.settings.destinations)
            store.exports.destinations.set_paused("team", True)
        assert "paused" in (await machine.push())["team"]
        assert server.faults.pages == 0
        with machine.store(read_only=False) as store:
            store.exports.destinations.set_paused("team", False)
        assert await machine.push() == {}
        assert same(server, machine)

    run(tmp_path, work)


def test_forgetting_sends_everything_again(tmp_path: Path) -> None:
    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server)
        await machine.push()
        before = server.faults.pages
        with machine.store(read_only=False) as store:
            store.exports.destinations.forget("team")
        assert await machine.push() == {}
        assert server.faults.pages > before
        assert same(server, machine)

    run(tmp_path, work)


def test_a_revoked_machine_says_what_to_do(tmp_path: Path) -> None:
    async def work(server: Server, machine: Machine) -> None:
        joined = await machine.join(server)
        server.access.machines.revoke(joined.membership.machine)
        assert "team join" in (await machine.push())["team"]
        with server.store() as team:
            assert contents(team) == {}

    run(tmp_path, work)


@pytest.mark.parametrize("at_server", [True, False])
def test_a_row_that_no_server_takes_is_counted_and_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_server: bool
) -> None:
    async def work(server: Server, machine: Machine) -> None:
        machine.say("s4", "x" * 6000)
        machine.record()
        await machine.join(server)
        if at_server:
            monkeypatch.setattr("agenttrace.serve.team.storing.unpacked", refusing)
        else:
            monkeypatch.setattr("agenttrace.team.wire.MOST_UNPACKED", 4000)
        await machine.push()
        with machine.store() as own:
            number = own.exports.destinations.rows()[0].destination_id
            assert 0 < own.exports.teams.counts(number)["refused"] < 20
        with server.store() as team:
            assert {each.session_id for each in team.sessions()} == {"s1", "s2", "s4"}

    run(tmp_path, work)


def refusing(body: bytes) -> wire.ReceivedPage:
    """What a server reads that cannot read one line."""
    found = wire.unpacked(body)
    if any(b"x" * 6000 in row.raw for row in found.page.rows if isinstance(row, EventRow)):
        raise wire.BadPageError("a line that cannot be read")
    return found


def test_lines_that_were_pruned_before_they_were_sent_are_counted(tmp_path: Path) -> None:
    async def work(server: Server, machine: Machine) -> None:
        await machine.join(server)
        await machine.push()
        machine.say("s5", "never sent")
        machine.record()
        with machine.store(read_only=False) as store:
            number = next(each for each in store.sessions() if each.session_id == "s5")
            store.retention.prune_session(number.id, time.time())
        assert await machine.push() == {}
        with machine.store() as own:
            row = own.exports.destinations.rows()[0]
            assert own.exports.teams.counts(row.destination_id)["dropped"] == number.events

    run(tmp_path, work)


def test_a_copied_data_directory_does_not_push_as_the_other_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(server: Server, machine: Machine) -> None:
        monkeypatch.setattr("agenttrace.team.joining.this_host", lambda: "one")
        monkeypatch.setattr("agenttrace.team.membership.this_host", lambda: "one")
        await machine.join(server)
        monkeypatch.setattr("agenttrace.team.membership.this_host", lambda: "two")
        assert "copied from the machine laptop" in (await machine.push())["team"]

    run(tmp_path, work)


_PUSH = "from agenttrace.cli.main import main; main()"


def test_killing_pusher_and_server_again_and_again_ends_in_equal_stores(tmp_path: Path) -> None:
    """Real processes, killed in the middle of sending and storing."""
    machine = Machine(tmp_path)
    for number in range(12):
        machine.say(f"s{number}", *(f"turn {turn} " + "word " * 50 for turn in range(12)))
    machine.record()
    environ = {**os.environ, "AGENTTRACE_HOME": str(machine.home), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", _PUSH, "export", "run", "--once"]

    async def round_of(number: int) -> int:
        async with team_server(tmp_path) as server:
            if number == 0:
                await machine.join(server)
                port = server.url.rpartition(":")[2]
                (tmp_path / "port").write_text(port)
            membership = (machine.home / "team.key").read_text()
            for path in ("team.key", "team.toml"):
                old = (machine.home / path).read_text()
                known = membership.partition('"url":"')[2].partition('"')[0]
                (machine.home / path).write_text(old.replace(known, server.url))
            pusher = await asyncio.create_subprocess_exec(
                *command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            reached = asyncio.Event()
            server.faults.on_page = reached.set
            if number < 3:
                waiting = asyncio.create_task(reached.wait())
                ended = asyncio.create_task(pusher.wait())
                await asyncio.wait((waiting, ended), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if pusher.returncode is None:
                    os.kill(pusher.pid, signal.SIGKILL)
                await ended
                return -1
            await pusher.wait()
            with server.store() as team, machine.store() as own:
                assert contents(team) == contents(own)
            return pusher.returncode or 0

    codes = [asyncio.run(round_of(number)) for number in range(4)]
    assert codes[-1] == 0


def test_stores_are_not_compared_by_chance(tmp_path: Path) -> None:
    """The comparison of these tests sees a line, a span and a token that are missing."""
    machine = Machine(tmp_path)
    machine.say("s1", "alpha")
    machine.record()
    with machine.store(read_only=False) as store:
        before = contents(store)
        for table in ("processed_events", "spans", "usage_rollup"):
            store.connection.execute("SAVEPOINT here")
            store.connection.execute(f"DELETE FROM {table}")
            assert contents(store) != before, table
            store.connection.execute("ROLLBACK TO here")
    assert isinstance(store, SqliteStore)
