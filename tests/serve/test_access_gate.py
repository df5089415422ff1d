"""The gate: who needs a login, what a change needs, what every answer carries, and how streams end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import ServeSettings
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.cookie import NAME as COOKIE
from agenttrace.serve.access.gate import SECURITY_HEADERS

from .access_rig import LARGEST_BODY, PROGRAM, Clock, Rig, asked, password_hash, run_guarded, small_app, status_of

AWAY = {"Host": "10.0.0.5"}
LOOK, CHANGE, LIVE = "/api/v1/things", "/api/v1/things/a", "/api/v1/live"


# ── who needs a login ──


ELSEWHERE: list[tuple[str, dict[str, str]]] = [
    # where the server listens, what a request says
    ("0.0.0.0", {}),
    ("::", {"Host": "localhost"}),
    ("10.0.0.5", {"Host": "127.0.0.1"}),
    ("127.0.0.1", {"Host": "10.0.0.5:8317"}),
    ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
    ("127.0.0.1", {"X-Forwarded-Host": "localhost"}),
    ("127.0.0.1", {"x-forwarded-proto": "http"}),
    ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}),
    ("127.0.0.1", {"X-Real-IP": "127.0.0.1"}),
    ("127.0.0.1", {"Via": "1.1 proxy"}),
]
HERE: list[tuple[str, dict[str, str]]] = [
    ("127.0.0.1", {}),
    ("localhost", {"Host": "LOCALHOST.:1"}),
    ("::1", {"Host": "[::1]:8317"}),
]
CASES = [
    *((bind, login, headers, {"user"}) for bind, headers in ELSEWHERE for login in ("auto", "always", "none")),
    *((bind, "always", headers, {"user"}) for bind, headers in HERE),
    *((bind, "auto", headers, {"user", "local"}) for bind, headers in HERE),
    *((bind, "none", headers, {"user", "local", "nobody"}) for bind, headers in HERE),
]


@pytest.mark.parametrize(("bind", "login", "headers", "lets_in"), CASES)
def test_who_is_logged_in(home: Path, bind: str, login: str, headers: dict[str, str], lets_in: set[str]) -> None:
    """By each setting and from everywhere: without anything, with a login by the link, of a user, with an API token."""
    sent = list(({"Host": "127.0.0.1:8317"} | headers).items())

    async def main(access: AccessStore) -> None:
        app = small_app(access, bind, ServeSettings(login=login))  # type: ignore[arg-type]
        access.users.add("anna", "viewer", "hash")
        begun = access.logins.begin("anna", "hash", 60)
        assert begun is not None
        tokens = {"user": begun[0], "local": access.logins.begin_local(60)[0]}
        for who in ("nobody", "user", "local"):
            cookies = [("cookie", f"{COOKIE}={tokens[who]}")] if who in tokens else []
            found = await asked(app, "GET", LOOK, [*sent, *cookies])
            assert found.status == (200 if who in lets_in else 401), who
            me = (await asked(app, "GET", "/api/v1/me", [*sent, *cookies])).json()
            name = "local" if "nobody" in lets_in or who == "local" else "anna"
            assert (me["name"] or "") == (name if who in lets_in else "")
            assert me["login_required"] is ("nobody" not in lets_in)
            assert me["by_link"] is (lets_in == {"user", "local"})
            # Where the program is: only for users, and those who run it to get in.
            assert me["program"] == (PROGRAM if who in lets_in or me["by_link"] else "agenttrace")
        assert await status_of(app, "GET", "/", sent) == 200
        api, _ = access.tokens.create("ci", "viewer", None)
        found = await asked(app, "GET", LOOK, [*sent, ("authorization", f"Bearer {api}")])
        assert (found.status, found.body) == (200, b"token:ci")

    with AccessStore(home / "access.db") as access:
        asyncio.run(main(access))


def test_a_proxy_that_only_its_old_protocol_gives_away(home: Path) -> None:
    """nginx by default sends HTTP/1.0 and our address as Host: no login by the link is valid."""

    async def body(rig: Rig) -> None:
        host = [("host", "127.0.0.1:8317"), ("cookie", f"{COOKIE}={rig.local()}")]
        assert await status_of(rig.app, "GET", LOOK, host, http_version="1.0") == 401
        assert await status_of(rig.app, "GET", LOOK, host, http_version="1.1") == 200

    run_guarded(home, body)


def test_without_users_the_answer_says_how_to_add_one(home: Path) -> None:
    """Without users, the answer says how to add the first one."""

    async def body(rig: Rig) -> None:
        assert "agenttrace user add" in (await rig.ask("GET", LOOK)).detail
        assert not (await rig.ask("GET", "/api/v1/me")).json()["users_exist"]
        rig.user("anna")
        answer = await rig.ask("GET", LOOK)
        assert answer.detail.startswith("Log in first. In a browser, log in.")
        assert "agenttrace token create" in answer.detail
        assert answer.headers["WWW-Authenticate"].startswith("Cookie")
        assert (await rig.ask("GET", "/api/v1/me")).json()["users_exist"]

    run_guarded(home, body, bind="0.0.0.0")


def test_paths_of_programs_stay_as_they_are(home: Path) -> None:
    """Triggers, health and the like have other tokens: no host, login or token of the console is needed."""

    async def body(rig: Rig) -> None:
        for method, path in (("GET", "/healthz"), ("POST", "/api/internal/ai/trigger"), ("GET", "/openapi.json")):
            answer = await rig.ask(method, path, headers={"Host": "anything.example", "Origin": "http://evil.example"})
            assert answer.status == 200
            assert "Content-Security-Policy" not in answer.headers

    run_guarded(home, body, bind="0.0.0.0")


def test_wrong_tokens_open_nothing(home: Path) -> None:
    """Made-up, truncated, ended and foreign tokens are no login; the right one among others is."""

    async def body(rig: Rig) -> None:
        token = rig.user("anna")
        for wrong in ("", "x", token[:-1], token + "x", token.swapcase(), '"', "a" * 5000):
            assert (await rig.ask("GET", LOOK, token=wrong)).status == 401
        two = {"Cookie": f"{COOKIE}=stale; {COOKIE}={token}"}
        assert (await rig.ask("GET", LOOK, headers=two)).status == 200
        assert (await rig.ask("GET", LOOK, headers={"Cookie": f"x{COOKIE}={token}"})).status == 401

    run_guarded(home, body, bind="0.0.0.0")


# ── roles ──

_ROLES = {
    # path: the status without a login, for a viewer, for an admin, and on the machine itself
    ("GET", "/"): (200, 200, 200, 200),
    ("GET", "/api/v1/me"): (200, 200, 200, 200),
    ("GET", LOOK): (401, 200, 200, 200),
    ("GET", "/api/v1/audit"): (401, 403, 200, 200),
    ("POST", CHANGE): (401, 403, 204, 204),
    ("PUT", LOOK): (401, 403, 405, 405),
    ("DELETE", "/api/v1/nothing"): (401, 403, 404, 404),
    ("POST", "/api/v1/login"): (422, 422, 422, 422),
    ("POST", "/api/v1/logout"): (401, 200, 200, 200),
}


def test_roles(home: Path) -> None:
    """Without a login nothing is shown, viewers read and log out, admins and local users may do everything."""
    everybody: dict[str, dict[str, str]] = {"nobody": AWAY, "viewer": AWAY, "admin": AWAY, "local": {}}

    async def status(rig: Rig, method: str, path: str, who: str) -> int:
        token = rig.login(who) if who in ("viewer", "admin") else rig.local() if who == "local" else None
        csrf = None if method == "GET" else await rig.csrf(token, everybody[who])
        sent: object = {} if path.endswith("login") else None
        return (await rig.ask(method, path, token=token, csrf=csrf, headers=everybody[who], json=sent)).status

    async def body(rig: Rig) -> None:
        rig.user("viewer", "viewer")
        rig.user("admin", "admin")
        found = {key: tuple([await status(rig, *key, who) for who in everybody]) for key in _ROLES}
        assert found == _ROLES

    run_guarded(home, body)


# ── changes ──


@dataclass
class Caller:
    """A visitor who may change things."""

    app: FastAPI
    host: str
    cookie: list[tuple[str, str]]
    csrf: str
    #: A token of another user.
    foreign: str


@pytest.fixture(scope="module", params=["local", "logged in"])
def caller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with AccessStore(tmp_path_factory.mktemp("gate") / "access.db") as access:
        access.users.add("adam", "admin", password_hash())
        mine, other = (access.logins.begin("adam", password_hash(), 3600) for _ in range(2))
        assert mine is not None
        assert other is not None
        app = small_app(access, "127.0.0.1", ServeSettings())
        by_link, login = access.logins.begin_local(3600)
        if request.param == "local":
            yield Caller(app, "localhost:8317", [("cookie", f"{COOKIE}_8317={by_link}")], login.csrf, other[1].csrf)
        else:
            yield Caller(app, "10.0.0.5:8317", [("cookie", f"{COOKIE}={mine[0]}")], mine[1].csrf, other[1].csrf)


def _origins(host: str) -> dict[str, bool]:
    """Origins, and whether they are ours."""
    name, _, port = host.partition(":")
    return {
        f"http://{host}": True,
        f"HTTP://{host.upper()}": True,
        f"https://{host}": True,
        f"http://{name}": False,
        f"http://{name}:1{port}": False,
        f"http://evil.example:{port}": False,
        f"http://evil.example/{host}": False,
        f"http://{host}@evil.example": False,
        f"http://{host}.evil.example": False,
        f"file://{host}": False,
        "null": False,
        "": False,
        host: False,
        "http://[": False,
    }


_SITES = {"same-origin": True, "none": True, "same-site": False, "cross-site": False, "": False, "Same-Origin ": False}


@given(data=st.data())
def test_a_change_passes_only_when_all_is_right(caller: Caller, data: st.DataObject) -> None:
    """For any method, token, Origin and Sec-Fetch-Site: it passes with the right token, sent once, from our origin."""
    method = data.draw(st.sampled_from(("POST", "PUT", "PATCH", "DELETE", "PROPFIND")))
    wrong = st.one_of(
        st.sampled_from((caller.foreign, caller.csrf[:-1], caller.csrf + " x", caller.csrf.swapcase(), "")),
        st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=50),
    )
    tokens = data.draw(st.lists(st.one_of(st.just(caller.csrf), wrong), max_size=2))
    origins = data.draw(st.lists(st.sampled_from(list(_origins(caller.host))), max_size=2))
    sites = data.draw(st.lists(st.sampled_from(list(_SITES)), max_size=2))
    headers = [
        ("host", caller.host),
        *caller.cookie,
        *(("x-csrf-token", token) for token in tokens),
        *(("origin", origin) for origin in origins),
        *(("sec-fetch-site", site) for site in sites),
    ]
    caller.app.state.changes.clear()
    status = asyncio.run(status_of(caller.app, method, CHANGE, headers))
    is_right = (
        tokens == [caller.csrf]
        and all(_origins(caller.host)[origin] for origin in origins)
        and all(_SITES[site] for site in sites)
    )
    assert status == ((204 if method == "POST" else 405) if is_right else 403)
    assert caller.app.state.changes == (["a"] if is_right and method == "POST" else [])


@given(sites=st.lists(st.sampled_from(list(_SITES)), max_size=2), mode=st.sampled_from(("cors", "no-cors", "navigate")))
def test_other_sites_cannot_even_ask(caller: Caller, sites: Sequence[str], mode: str) -> None:
    """A question that another site makes in the background is refused; a link that is followed is not."""
    sent = [("sec-fetch-site", site) for site in sites]
    headers = [("host", caller.host), *caller.cookie, *sent, ("sec-fetch-mode", mode)]
    allowed = all(_SITES[site] for site in sites) or mode == "navigate"
    assert asyncio.run(status_of(caller.app, "GET", LOOK, headers)) == (200 if allowed else 403)


def test_origins_on_the_ports_of_their_schemes(home: Path) -> None:
    """Behind HTTPS neither the Host nor the Origin names a port, or the one that is meant anyway."""

    async def body(rig: Rig) -> None:
        token = rig.user("adam", "admin")
        for host in ("trace.example.com", "trace.example.com:443"):
            headers = {"Host": host, "Origin": "https://trace.example.com"}
            csrf = await rig.csrf(token, headers)
            assert (await rig.ask("POST", CHANGE, token=token, csrf=csrf, headers=headers)).status == 204
            headers["Origin"] = "http://trace.example.com:8080"
            assert (await rig.ask("POST", CHANGE, token=token, csrf=csrf, headers=headers)).status == 403

    run_guarded(home, body, allowed_hosts=("trace.example.com",))


def test_those_without_a_login_do_not_learn_the_token_of_those_who_need_none(home: Path) -> None:
    """Requests without a login, local ones and each login have different tokens; refusals say how to get one."""

    async def body(rig: Rig) -> None:
        tokens = [rig.user("adam", "admin"), rig.login("adam")]
        found = {await rig.csrf(), await rig.csrf(headers=AWAY), *[await rig.csrf(each, AWAY) for each in tokens]}
        assert len(found) == 4
        answer = await rig.ask("POST", CHANGE, csrf=await rig.csrf(headers=AWAY))
        assert (answer.status, answer.json()["reason"]) == (403, "csrf")
        assert "/api/v1/me" in answer.detail

    run_guarded(home, body, login="none")


# ── what every answer carries ──


def test_security_headers_are_on_every_answer(home: Path) -> None:
    """Pages, data, nothing changed, streams, and every kind of error."""

    async def body(rig: Rig) -> None:
        csrf = await rig.csrf()
        tag = (await rig.ask("GET", LOOK)).headers["ETag"]
        large = "x" * (LARGEST_BODY + 1)
        asked = {
            200: ("GET", "/", {}),
            204: ("POST", CHANGE, {"csrf": csrf}),
            304: ("GET", LOOK, {"headers": {"If-None-Match": tag}}),
            400: ("GET", "/api/v1/audit?cursor=x", {}),
            401: ("GET", LOOK, {"headers": {"Host": "10.0.0.5"}}),
            403: ("POST", CHANGE, {}),
            404: ("GET", "/api/v1/nothing", {}),
            405: ("POST", "/", {"csrf": csrf}),
            413: ("POST", CHANGE, {"csrf": csrf, "json": large}),
            421: ("GET", "/", {"headers": {"Host": "evil.example"}}),
            422: ("GET", "/api/v1/audit?limit=0", {}),
            500: ("GET", "/api/v1/broken", {}),
        }
        for status, (method, path, options) in asked.items():
            answer = await rig.ask(method, path, **options)  # type: ignore[arg-type]
            assert answer.status == status
            assert {name: answer.headers.getall(name) for name in SECURITY_HEADERS} == {
                name: [value] for name, value in SECURITY_HEADERS.items()
            }

    run_guarded(home, body, login="none")


def test_an_answer_may_be_stricter(home: Path) -> None:
    """A policy of the endpoint replaces ours; the other headers are added all the same."""

    async def body(rig: Rig) -> None:
        headers = (await rig.ask("GET", "/api/v1/strict")).headers
        assert headers.getall("Content-Security-Policy") == ["sandbox"]
        assert headers.getall("X-Content-Type-Options") == ["nosniff"]

    run_guarded(home, body, login="none")


def test_the_policy_allows_nothing_of_other_sites() -> None:
    """Scripts, styles, fonts and connections only from ourselves, never inline; no frames, no other base."""
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert not {"unsafe-inline", "unsafe-eval", "http:", "https:", "*"} & set(policy.replace("'", "").split())


# ── streams ──


async def _stream(rig: Rig, headers: dict[str, str]) -> aiohttp.ClientResponse:
    response = await rig.http.get(rig.url + LIVE, headers=headers)
    assert response.status == 200
    assert response.headers["Content-Security-Policy"]
    return response


async def _say(rig: Rig, text: bytes) -> None:
    await rig.app.state.events.put(text)


def test_streams_pass_event_by_event(home: Path) -> None:
    """Each event arrives before the next one is made, with each kind of login and without any."""

    async def body(rig: Rig) -> None:
        logged_in = {"Cookie": f"{COOKIE}={rig.user('anna')}", "Host": "10.0.0.5"}
        script = {"Authorization": f"Bearer {rig.access.tokens.create('ci', 'viewer', None)[0]}"}
        for headers in ({}, logged_in, {"Cookie": f"{COOKIE}={rig.local()}"}, script):
            response = await _stream(rig, headers)
            for text in (b"one", b"two"):
                await _say(rig, text)
                assert await response.content.readuntil(b"\n\n") == b"data: %s\n\n" % text
            response.close()

    run_guarded(home, body, login="none")


_ENDS: dict[str, Callable[[Rig, Clock], object]] = {
    "expired": lambda rig, clock: clock.advance(3600),
    "another password": lambda rig, clock: rig.access.users.set_password("anna", "other"),
    "another role": lambda rig, clock: rig.access.users.set_role("anna", "admin"),
    "removed": lambda rig, clock: rig.access.users.remove("anna"),
}


@pytest.mark.parametrize("how", _ENDS)
def test_a_stream_ends_with_its_login(home: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """After the end of a login no event is sent, the stream ends properly, and there is no error."""
    clock = Clock()

    async def body(rig: Rig) -> None:
        token = rig.user("anna")
        response = await _stream(rig, {"Cookie": f"{COOKIE}={token}"})
        await _say(rig, b"one")
        assert await response.content.readuntil(b"\n\n") == b"data: one\n\n"
        _ENDS[how](rig, clock)
        await _say(rig, b"secret")
        assert await response.content.readany() == b""
        assert response.content.at_eof()
        assert (await rig.ask("GET", LIVE, token=token)).status == 401

    with caplog.at_level(logging.WARNING):
        run_guarded(home, body, bind="0.0.0.0", now=clock)
    assert caplog.records == []


def test_a_login_is_noted_as_used(home: Path) -> None:
    """A minute later, with the next request, the list of users shows when it was."""
    clock = Clock()

    async def body(rig: Rig) -> None:
        token = rig.user("anna")
        clock.advance(61)
        await rig.ask("GET", LOOK, token=token)
        assert rig.access.users.get("anna").seen_at == clock()

    run_guarded(home, body, bind="0.0.0.0", now=clock)
