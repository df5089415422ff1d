"""Several servers of one team, with one data directory: what is done at one counts at the others at once."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agenttrace.team import joining, wire
from serve.access_rig import PASSWORD, password_hash
from serve.oidc_rig import CLIENT, SECRET, provider

from .rig import EVERYTHING, Machine, Server, contents, team_server

#: The name under which a balancer is asked.
HOST = "team.example.com"


@dataclass
class Balancer:
    """Passes each request on to the next server, under the name of the team."""

    servers: list[Server]
    cookies: dict[str, str] = field(default_factory=dict)
    asked: int = 0

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, Mapping[str, str], Any]:
        """Status, headers and JSON of the answer of the next server."""
        server = self.servers[self.asked % len(self.servers)]
        self.asked += 1
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Host": HOST, **({"Cookie": cookies} if cookies else {}), **more.pop("headers", {})}
        async with server.client.request(
            method, server.url + path, headers=headers, allow_redirects=False, **more
        ) as answer:
            for name, morsel in answer.cookies.items():
                self.cookies[name] = morsel.value
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, answer.headers, await answer.json(content_type=None) if is_json else None

    async def me(self) -> list[Any]:
        """Who each server says that the browser is."""
        return [(await self.ask("GET", "/api/v1/me"))[2]["name"] for _ in self.servers]


def run(root: Path, work: Callable[[Balancer], Awaitable[None]], **environ: str) -> None:
    """Work with two servers."""

    async def main() -> None:
        given = {"AGENTTRACE_SERVE_LOGIN": "always", "AGENTTRACE_SERVE_ALLOWED_HOSTS": HOST, **environ}
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(team_server(root, given)) for _ in range(2)]
            for server in servers:
                server.client.cookie_jar.clear()
            await work(Balancer(servers))

    asyncio.run(main())


def test_invitations_machines_and_their_revocation(tmp_path: Path) -> None:
    """A code of one server is good at the other one, once; pages go to either; a revoked machine is refused by both."""

    async def work(balancer: Balancer) -> None:
        first, second = balancer.servers
        machine = Machine(tmp_path)
        machine.say("s1", "alpha")
        machine.record()
        code, _ = first.access.machines.invite("amy")
        options: Any = {"name": "laptop", "person": "amy", "sharing": EVERYTHING, "backfill": True}
        await asyncio.to_thread(joining.join, machine.home, second.url, code, **options)
        with pytest.raises(joining.JoinError):
            await asyncio.to_thread(joining.join, tmp_path / "other", first.url, code, **options)
        for number in range(4):
            server, other = balancer.servers[number % 2], balancer.servers[1 - number % 2]
            for name in ("team.toml", "team.key"):
                file = machine.home / name
                file.write_text(file.read_text().replace(other.url, server.url))
            machine.say("s1", f"more {number}")
            machine.record()
            assert await machine.push() == {}
            with other.store() as team, machine.store() as own:
                assert contents(team) == contents(own)
        second.access.machines.revoke("laptop")
        token = _token_of(machine)
        for each in balancer.servers:
            assert (await each.post(wire.ROWS, b"", token))[0] == 401

    run(tmp_path, work)


def _token_of(machine: Machine) -> str:
    from agenttrace.team.membership import membership_of

    return membership_of(machine.home).token


def test_api_tokens_and_users(tmp_path: Path) -> None:
    """A login begins at one server, is used at both, and ends at both; so do tokens."""

    async def work(balancer: Balancer) -> None:
        first, second = balancer.servers
        token, _ = first.access.tokens.create("script", "admin", None)
        authorized = {"Authorization": f"Bearer {token}"}
        for _ in balancer.servers:
            assert (await balancer.ask("GET", "/api/v1/sessions", headers=authorized))[0] == 200
        second.access.tokens.revoke("script")
        for _ in balancer.servers:
            assert (await balancer.ask("GET", "/api/v1/sessions", headers=authorized))[0] == 401
        second.access.users.add("amy", "member", password_hash())
        _, _, me = await balancer.ask("GET", "/api/v1/me")
        body = {"name": "amy", "password": PASSWORD}
        status, _, _ = await balancer.ask("POST", "/api/v1/login", json=body, headers={"X-CSRF-Token": me["csrf"]})
        assert status in (200, 204)
        assert await balancer.me() == ["amy", "amy"]
        _, _, me = await balancer.ask("GET", "/api/v1/me")
        status, _, _ = await balancer.ask("POST", "/api/v1/logout", headers={"X-CSRF-Token": me["csrf"]})
        assert status in (200, 204)
        assert await balancer.me() == [None, None]

    run(tmp_path, work)


def test_a_login_by_openid_connect(tmp_path: Path) -> None:
    """It begins at one server and comes back to the other one; a removed user is logged out of both."""

    async def main() -> None:
        async with provider() as idp:
            idp.claims = {"sub": "17", "email": "amy@example.com", "email_verified": True}
            given = {
                "AGENTTRACE_SERVE_LOGIN": "always",
                "AGENTTRACE_SERVE_ALLOWED_HOSTS": HOST,
                "AGENTTRACE_TEAM_OIDC_ISSUER": idp.url,
                "AGENTTRACE_TEAM_OIDC_CLIENT_ID": CLIENT,
                "AGENTTRACE_TEAM_OIDC_CLIENT_SECRET": SECRET,
            }
            async with team_server(tmp_path, given) as first, team_server(tmp_path, given) as second:
                balancer = Balancer([first, second])
                status, headers, _ = await balancer.ask("GET", "/login/oidc?next=/sessions")
                assert status == 303
                async with first.client.get(headers["Location"], allow_redirects=False) as answer:
                    back = urlsplit(answer.headers["Location"])
                assert back.hostname == HOST
                assert balancer.asked % 2 == 1
                status, headers, _ = await balancer.ask("GET", f"{back.path}?{back.query}")
                assert (status, headers["Location"]) == (303, "/sessions")
                assert await balancer.me() == ["amy@example.com", "amy@example.com"]
                first.access.users.remove("amy@example.com")
                assert await balancer.me() == [None, None]

    asyncio.run(main())
