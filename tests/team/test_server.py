"""What the server of a team takes, and what it refuses: codes, tokens, hostile bodies, pages at the wrong place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from agenttrace.config import load_settings
from agenttrace.model import Session
from agenttrace.store.rows import ChangesCursor, LinkRow, StoredSession
from agenttrace.team import joining, wire
from agenttrace.team.levels import Sharing
from agenttrace.team.membership import stored_membership

from .rig import Machine, Server, contents, team_server

START = ChangesCursor()
ONE, TWO = ChangesCursor((1, 1), (1, 1)), ChangesCursor((2, 2), (2, 2))


def run(root: Path, work: Callable[[Server], Awaitable[None]]) -> None:
    async def main() -> None:
        async with team_server(root) as server:
            await work(server)

    asyncio.run(main())


def page(after: ChangesCursor = START, until: ChangesCursor = ONE, store: str = "s", **changes: Any) -> bytes:  # noqa: ANN401 - fields of a page
    """A page with a session and a link."""
    rows = [StoredSession(Session(id=7, agent="codex", session_id="seven", events=1), 1), LinkRow(7, "a", "b", "c")]
    fields: dict[str, Any] = {"protocol": wire.PROTOCOL, "store": store, "after": after, "until": until, "rows": rows}
    return wire.packed(wire.SentPage(**(fields | changes)))


async def joined(server: Server, name: str = "laptop", person: str | None = "amy") -> str:
    """The token of a new machine."""
    code, _ = server.access.machines.invite(person)
    status, answer = await server.post(wire.JOIN, msgspec.json.encode(wire.JoinRequest(code=code, name=name)))
    assert status == 200
    return str(answer["token"])


def test_a_code_is_used_once_and_expires(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        code, _ = server.access.machines.invite("amy")
        late, _ = server.access.machines.invite("amy", seconds=0)
        request = msgspec.json.encode(wire.JoinRequest(code=code, name="laptop"))
        assert (await server.post(wire.JOIN, request))[0] == 200
        for used in (code, late, "guessed", ""):
            body = msgspec.json.encode(wire.JoinRequest(code=used, name="laptop"))
            status, answer = await server.post(wire.JOIN, body)
            assert status == 403
            assert "new one" in answer["detail"]

    run(tmp_path, work)


def test_names_are_unique_and_persons_are_those_of_the_invitation(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        for _ in range(3):
            await joined(server, " Lap\ttop\u202e ", "Amy")
        await joined(server, "", None)
        found = [(each.name, each.person) for each in server.access.machines.all()]
        assert found == [("Lap top", "amy"), ("Lap top-2", "amy"), ("Lap top-3", "amy"), ("machine", "machine")]

    run(tmp_path, work)


def test_a_machine_that_joins_again_keeps_its_name_and_gets_another_token(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        machine = Machine(tmp_path)
        first = await machine.join(server)
        second = await machine.join(server)
        assert (first.membership.machine, first.is_new, second.is_new) == (second.membership.machine, True, False)
        assert first.membership.key == second.membership.key
        assert server.access.machines.find(first.membership.token) is None
        assert server.access.machines.find(second.membership.token) is not None

    run(tmp_path, work)


def test_leaving_revokes_the_token_and_removes_settings_and_key(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        machine = Machine(tmp_path)
        token = (await machine.join(server)).membership.token
        assert [each.name for each in machine.settings.destinations] == ["team"]
        assert (machine.home / "team.key").stat().st_mode & 0o077 == 0
        assert token not in (machine.home / "team.toml").read_text()
        assert await asyncio.to_thread(joining.leave, machine.home)
        assert machine.settings.destinations == ()
        assert stored_membership(machine.home) is None
        assert server.access.machines.find(token) is None

    run(tmp_path, work)


@pytest.mark.parametrize("token", ["", "atm_wrong", "agt_wrong", "é"])
def test_a_wrong_token_gets_401_and_stores_nothing(tmp_path: Path, token: str) -> None:
    async def work(server: Server) -> None:
        status, _ = await server.post(wire.ROWS, page(), token)
        assert status == 401
        async with server.client.get(server.url + wire.POSITION) as answer:
            assert answer.status == 401
        with server.store() as store:
            assert store.machines() == []

    run(tmp_path, work)


def test_a_token_of_the_api_is_none_of_a_machine_and_the_other_way_round(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        token = await joined(server)
        assert (await server.post(wire.ROWS, page(), server.admin))[0] == 401
        headers = {"Authorization": f"Bearer {token}"}
        async with server.client.get(f"{server.url}/api/v1/sessions", headers=headers) as answer:
            assert answer.status == 401

    run(tmp_path, work)


def test_pages_continue_one_another(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        token = await joined(server)
        assert (await server.post(wire.ROWS, page(), token))[0] == 200
        # Again: it arrived already.
        assert (await server.post(wire.ROWS, page(), token))[0] == 200
        for wrong in (page(TWO, TWO), page(ONE, TWO, store="other")):
            status, answer = await server.post(wire.ROWS, wrong, token)
            assert status == 409
            assert answer["position"]["store"] == "s"
        assert (await server.post(wire.ROWS, page(ONE, TWO), token))[0] == 200
        # A store that was rebuilt begins anew.
        assert (await server.post(wire.ROWS, page(START, ONE, store="other"), token))[0] == 200

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"\x28\xb5\x2f\xfd", 422),
        (zstandard.compress(b"\0" * (wire.MOST_UNPACKED + 1)), 413),
        (zstandard.compress(b"\xdf\xff\xff\xff\xff"), 422),
        (page(protocol=wire.PROTOCOL + 1), 426),
        (page(rows=[StoredSession(Session(id=2**62, agent="a", session_id="b", turns=2**63), 1)]), 422),
        (page(store="x" * 1000), 422),
    ],
    ids=["empty", "cut", "bomb", "map", "newer", "number", "name"],
)
def test_hostile_bodies_are_refused_and_change_nothing(tmp_path: Path, body: bytes, status: int) -> None:
    async def work(server: Server) -> None:
        token = await joined(server)
        found, answer = await server.post(wire.ROWS, body, token)
        assert found == status
        assert answer["detail"]
        assert (status == 426) == ("protocols" in answer and answer["protocols"] is not None)
        assert (await server.post(wire.ROWS, page(), token))[0] == 200

    run(tmp_path, work)


def test_a_body_that_is_too_large_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_SENT", 1000)

    async def work(server: Server) -> None:
        token = await joined(server)
        assert (await server.post(wire.ROWS, b"x" * 1001, token))[0] == 413
        assert (await server.post(wire.JOIN, b"x" * 100_000))[0] == 413
        assert (await server.post(wire.JOIN, b"{"))[0] == 400

    run(tmp_path, work)


def test_one_page_of_a_machine_at_a_time(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        token = await joined(server)
        statuses = [
            each[0] for each in await asyncio.gather(*(server.post(wire.ROWS, page(), token) for _ in range(6)))
        ]
        assert set(statuses) <= {200, 429}
        assert 200 in statuses

    run(tmp_path, work)


def test_search_finds_what_machines_sent_and_outcomes_are_examined(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        machine = Machine(tmp_path)
        machine.say("s1", "a needle in the haystack")
        machine.record()
        await machine.join(server)
        assert await machine.push() == {}
        for _ in range(200):
            found = await server.get("search", q="needle")
            if found["items"]:
                break
            await asyncio.sleep(0.05)
        assert "needle" in str(found["items"][0])

    run(tmp_path, work)


def test_a_running_session_is_in_the_live_stream(tmp_path: Path) -> None:
    """Also that of a machine which sends figures only, whose rows come without events."""

    async def work(server: Server) -> None:
        machine = Machine(tmp_path)
        machine.say("s1", "begin")
        machine.record()
        await machine.join(server, sharing=Sharing(level="figures"))
        assert await machine.push() == {}
        await server.get("sessions")
        stop = asyncio.Event()
        pushing = asyncio.create_task(machine.exporter().run(stop))
        headers = {"Authorization": f"Bearer {server.admin}"}
        try:
            async with server.client.get(f"{server.url}/api/v1/live", headers=headers) as stream:
                await asyncio.wait_for(_until(stream, b"event: hello"), 60)
                machine.say("s1", "go on")
                await asyncio.to_thread(machine.record)
                await asyncio.wait_for(_until(stream, b'"turns":2'), 60)
        finally:
            stop.set()
            await pushing

    run(tmp_path, work)


async def _until(stream: Any, wanted: bytes) -> None:  # noqa: ANN401 - an answer of aiohttp
    seen = b""
    while wanted not in seen:
        seen += await stream.content.readany()


def test_pages_of_one_machine_are_empty_and_intake_is_not_there(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        for path in ("exports", "recording", "overview", "rules", "settings", "usage", "insights/tools"):
            headers = {"Authorization": f"Bearer {server.admin}"}
            async with server.client.get(f"{server.url}/api/v1/{path}", headers=headers) as answer:
                assert answer.status in (200, 404), path
        async with server.client.post(f"{server.url}/v1/traces", json={}) as answer:
            assert answer.status in (404, 405)

    run(tmp_path, work)


def test_a_server_that_starts_again_goes_on_with_what_it_has(tmp_path: Path) -> None:
    async def once(first: bool) -> None:
        machine = Machine(tmp_path) if first else again(tmp_path)
        async with team_server(tmp_path) as server:
            if first:
                machine.say("s1", "alpha")
                machine.record()
                await machine.join(server)
            else:
                known = stored_membership(machine.home)
                assert known is not None
                for name in ("team.key", "team.toml"):
                    text = (machine.home / name).read_text()
                    (machine.home / name).write_text(text.replace(known.url, server.url))
            assert await machine.push() == {}
            with server.store() as team, machine.store() as own:
                assert contents(team) == contents(own)
                assert len(contents(team)) == 1
            assert server.faults.pages == (1 if first else 0)

    asyncio.run(once(True))
    asyncio.run(once(False))


def again(root: Path) -> Machine:
    """The machine as it was."""
    machine = Machine.__new__(Machine)
    machine.name, machine.logs, machine.home = "laptop", root / "laptop" / "logs", root / "laptop" / "home"
    machine._counts = {"s1": 1}
    return machine


@pytest.mark.parametrize(
    ("url", "insecure", "fits"),
    [
        ("http://127.0.0.1:8317", False, True),
        ("http://localhost:8317/", False, True),
        ("http://[::1]:8317", False, True),
        ("https://team.example.com", False, True),
        ("https://team.example.com/agents/", False, True),
        ("http://team.example.com", False, False),
        ("http://127.evil.example.com", False, False),
        ("http://team.example.com", True, True),
        ("ftp://team.example.com", True, False),
        ("https://amy:secret@team.example.com", True, False),
        ("team.example.com", True, False),
    ],
)
def test_other_machines_need_https(url: str, insecure: bool, fits: bool) -> None:
    if fits:
        assert joining.checked_url(url, insecure=insecure) == url.rstrip("/")
    else:
        with pytest.raises(joining.JoinError):
            joining.checked_url(url, insecure=insecure)


def test_the_settings_of_the_user_count_before_those_that_join_wrote(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "team.toml").write_text('[destinations.team]\ntype = "team"\nurl = "https://a.example.com"\n')
    (home / "agenttrace.toml").write_text(
        '[destinations.team]\ntype = "team"\nurl = "https://b.example.com"\nlevel = "figures"\n'
    )
    (found,) = load_settings({"AGENTTRACE_HOME": str(home)}).destinations
    assert (found.url, found.level) == ("https://b.example.com", "figures")
