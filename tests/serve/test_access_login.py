"""Logging in and out over HTTP: cookies, guesses, and answers."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from agenttrace.serve.access import passwords
from agenttrace.serve.access.cookie import NAME as COOKIE
from agenttrace.serve.access.endpoints import WRONG

from .access_rig import PASSWORD, Answer, Clock, Rig, password_hash, run_guarded

LOOK = "/api/v1/things"


def cookie_of(answer: Answer) -> dict[str, str]:
    """The one cookie that an answer sets: its value and its attributes as they were sent."""
    header = answer.headers.getall("Set-Cookie")[0]
    first, *rest = header.split("; ")
    name, _, value = first.partition("=")
    assert re.fullmatch(rf"{COOKIE}_[0-9]+", name)
    return {"value": value} | {part.partition("=")[0].lower(): part.partition("=")[2] for part in rest}


def test_log_in_read_log_out(home: Path) -> None:
    """The cookie is valid until the logout; then it is invalid, and the browser deletes it."""

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "admin", password_hash())
        answer = await rig.log_in("Anna")
        assert answer.status == 200
        me, token = answer.json(), cookie_of(answer)["value"]
        assert (me["name"], me["role"], me["login_required"], me["users_exist"]) == ("anna", "admin", True, True)
        assert (await rig.ask("GET", "/api/v1/me", token=token)).json() == me
        assert (await rig.ask("GET", LOOK, token=token)).body == b"anna"
        assert (await rig.ask("POST", f"{LOOK}/a", token=token, csrf=me["csrf"])).status == 204
        out = await rig.ask("POST", "/api/v1/logout", token=token, csrf=me["csrf"])
        assert (out.json()["name"], out.json()["login_required"]) == (None, True)
        assert out.json()["csrf"] == await rig.csrf()
        assert cookie_of(out)["max-age"] == "0"
        assert (await rig.ask("GET", LOOK, token=token)).status == 401

    run_guarded(home, body, bind="0.0.0.0")


@pytest.mark.parametrize(("proto", "secure"), [(None, False), ("http", False), ("https", True), ("HTTPS, http", True)])
def test_the_cookie(home: Path, proto: str | None, secure: bool) -> None:
    """Out of reach of scripts and other sites, for this host alone, as long as the login; by HTTPS alone if it is."""

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        headers = {} if proto is None else {"X-Forwarded-Proto": proto}
        cookie = cookie_of(await rig.log_in("anna", headers=headers))
        assert re.fullmatch(r"[A-Za-z0-9_-]{43}", cookie.pop("value"))
        expected = {"httponly": "", "samesite": "strict", "path": "/", "max-age": str(12 * 3600)}
        assert cookie == expected | ({"secure": ""} if secure else {})

    run_guarded(home, body, bind="0.0.0.0", login_hours=12)


def test_caches_do_not_store_the_current_user(home: Path) -> None:
    """The answers that hold a token say so."""

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        for answer in (await rig.ask("GET", "/api/v1/me"), await rig.log_in("anna")):
            assert answer.headers["Cache-Control"] == "no-store"

    run_guarded(home, body, bind="0.0.0.0")


def test_names_cannot_be_probed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong name and a wrong password get the same answer after the same work, and the log has no typed name."""
    work: list[list[str]] = []
    matches = passwords.matches

    def counted(kept: str, password: str) -> bool:
        work.append(kept.split("$")[:4])
        return matches(kept, password)

    monkeypatch.setattr(passwords, "matches", counted)

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        answers = [await rig.log_in(name, "not the password") for name in ("anna", "otto", "my secret, typed here")]
        assert {(answer.status, answer.body) for answer in answers} == {(401, answers[0].body)}
        assert answers[0].detail == WRONG
        assert work == [work[0]] * 3
        log = [(entry.user, entry.target, entry.outcome) for entry in rig.access.audit.page(10)]
        unknown = ("nobody", "(unknown name)", "refused")
        assert log == [unknown, unknown, ("nobody", "anna", "refused")]

    run_guarded(home, body, bind="0.0.0.0")


def test_brute_force(home: Path) -> None:
    """After five guesses even the right password has to wait, also after a restart; then it opens."""
    clock = Clock()

    async def guess(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        assert [(await rig.log_in("anna", f"guess number {number}")).status for number in range(5)] == [401] * 5
        answer = await rig.log_in("anna")
        assert (answer.status, answer.headers["Retry-After"]) == (429, "15")
        assert answer.detail == "Too many failed logins; try again in 15 seconds."
        assert "Set-Cookie" not in answer.headers

    async def wait(rig: Rig) -> None:
        assert (await rig.log_in("anna")).status == 429
        clock.advance(14.5)
        assert (await rig.log_in("anna")).headers["Retry-After"] == "1"
        clock.advance(0.5)
        assert (await rig.log_in("anna")).status == 200
        assert (await rig.log_in("anna")).status == 200

    run_guarded(home, guess, bind="0.0.0.0", now=clock)
    run_guarded(home, wait, bind="0.0.0.0", now=clock)


def test_guesses_at_the_same_moment(home: Path) -> None:
    """Of thirty at once, five are checked and the others refused without work."""

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        answers = await asyncio.gather(*(rig.log_in("anna", f"guess number {number}") for number in range(30)))
        assert sorted(answer.status for answer in answers) == [401] * 5 + [429] * 25

    run_guarded(home, body, bind="0.0.0.0")


def test_guesses_count_by_the_address_that_a_proxy_tells(home: Path) -> None:
    """Behind a proxy of this machine, one who guesses does not stop the others; the log has the real address."""

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        guesser, other = {"X-Forwarded-For": "203.0.113.7"}, {"X-Forwarded-For": "203.0.113.8"}
        statuses = [(await rig.log_in(f"user{number}", "x", headers=guesser)).status for number in range(6)]
        assert statuses == [401] * 5 + [429]
        assert (await rig.log_in("anna", headers=other)).status == 200
        assert [entry.address for entry in rig.access.audit.page(2)] == ["203.0.113.8", "203.0.113.7"]

    run_guarded(home, body)


def test_a_login_needs_the_token_of_the_page(home: Path) -> None:
    """Another site cannot log a browser in."""

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        body = {"name": "anna", "password": PASSWORD}
        assert (await rig.ask("POST", "/api/v1/login", json=body)).status == 403
        headers = {"Origin": "http://evil.example"}
        answer = await rig.ask("POST", "/api/v1/login", json=body, csrf=await rig.csrf(), headers=headers)
        assert (answer.status, answer.json()["reason"]) == (403, "origin")

    run_guarded(home, body, bind="0.0.0.0")


def test_logging_in_again_ends_the_login_before(home: Path) -> None:
    """A browser has one login: a planted token is invalid afterwards."""

    async def body(rig: Rig) -> None:
        planted = rig.user("mallory")
        rig.access.users.add("anna", "viewer", password_hash())
        csrf = await rig.csrf(planted)
        sent = {"name": "anna", "password": PASSWORD}
        answer = await rig.ask("POST", "/api/v1/login", token=planted, csrf=csrf, json=sent)
        assert cookie_of(answer)["value"] != planted
        assert (await rig.ask("GET", LOOK, token=planted)).status == 401

    run_guarded(home, body, bind="0.0.0.0")


def test_where_no_login_is_needed(home: Path) -> None:
    """A local user stays the same, with or without a login."""

    async def body(rig: Rig) -> None:
        rig.access.users.add("anna", "viewer", password_hash())
        me = (await rig.ask("GET", "/api/v1/me")).json()
        assert (await rig.log_in("anna")).json() == me
        assert (await rig.ask("POST", "/api/v1/logout", csrf=me["csrf"])).json() == me

    run_guarded(home, body, login="none")


_BODIES: list[object] = [
    {},
    {"name": "anna"},
    {"name": "", "password": "x"},
    {"name": "anna", "password": 1},
    {"name": "anna", "password": "secret word", "role": "admin"},
    {"name": "anna", "password": "secret word" * 200},
    [],
    "secret word",
]


def test_bodies_that_are_no_login(home: Path) -> None:
    """They are refused in words that do not repeat what was sent; letters that are none are no error of the server."""

    async def body(rig: Rig) -> None:
        csrf = await rig.csrf()
        for sent in _BODIES:
            answer = await rig.ask("POST", "/api/v1/login", csrf=csrf, json=sent)
            assert answer.status == 422
            assert b"secret word" not in answer.body
        odd = await rig.ask("POST", "/api/v1/login", csrf=csrf, json={"name": "\ud800", "password": "\udfff\x00"})
        assert 400 <= odd.status < 500

    run_guarded(home, body, bind="0.0.0.0")
