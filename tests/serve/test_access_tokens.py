"""API tokens: scripts that read with them, roles, expiry, and what is stored of them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal

import pytest

from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.database import MIGRATIONS
from agenttrace.serve.access.logins import NoSuchTokenError, digest_of
from agenttrace.serve.access.users import UserError

from .access_rig import Clock, Rig, run_guarded

LOOK, CHANGE, LIVE = "/api/v1/things", "/api/v1/things/a", "/api/v1/live"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("admin", 204)])
@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.5"])
def test_a_script_with_a_token(home: Path, role: Literal["viewer", "admin"], status: int, host: str) -> None:
    """It reads from anywhere; only an admin's changes things, and needs no other token for that."""

    async def body(rig: Rig) -> None:
        token, _ = rig.access.tokens.create("CI", role, None)
        headers = bearer(token) | {"Host": host}
        assert (await rig.ask("GET", LOOK, headers=headers)).body == b"token:ci"
        assert (await rig.ask("POST", CHANGE, headers=headers)).status == status
        if status == 204:
            entry = rig.access.audit.page(1)[0]
            assert (entry.user, entry.action, entry.outcome) == ("token:ci", "thing.change", "done")
        evil = await rig.ask("POST", CHANGE, headers=headers | {"Origin": "http://evil.example"})
        assert (evil.status, evil.json()["reason"]) == (403, "origin")

    run_guarded(home, body)


def test_the_end_of_a_token(home: Path) -> None:
    """Expired and revoked tokens open nothing, at once, and an open stream ends; neither does one in a cookie."""
    clock = Clock()

    async def body(rig: Rig) -> None:
        short, _ = rig.access.tokens.create("short", "viewer", 60)
        long, _ = rig.access.tokens.create("long", "viewer", None)
        assert (await rig.ask("GET", LOOK, token=long)).status == 401
        stream = await rig.http.get(rig.url + LIVE, headers=bearer(long))
        await rig.app.state.events.put(b"one")
        assert await stream.content.readuntil(b"\n\n") == b"data: one\n\n"
        clock.advance(60)
        assert (await rig.ask("GET", LOOK, headers=bearer(short))).status == 401
        assert (await rig.ask("GET", LOOK, headers=bearer(long))).status == 200
        rig.access.tokens.revoke("LONG")
        answer = await rig.ask("GET", LOOK, headers=bearer(long))
        assert answer.status == 401
        assert "agenttrace token list" in answer.detail
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        await rig.app.state.events.put(b"two")
        assert await stream.content.read() == b""
        assert [(token.name, token.expired) for token in rig.access.tokens.all()] == [("short", True)]

    run_guarded(home, body, now=clock)


def test_no_path_tells_a_wrong_token_at_once(home: Path) -> None:
    """An open endpoint refuses a wrong token like all others, so that it is no place to guess."""

    async def body(rig: Rig) -> None:
        for path in ("/api/v1/me", LOOK, "/api/v1/nothing"):
            assert (await rig.ask("GET", path, headers=bearer("agt_made-up"))).status == 401
        assert rig.access.refusals._all.count == 3

    run_guarded(home, body)


def test_a_token_is_noted_as_used(home: Path) -> None:
    """The list says when each was last used, and that one never was."""
    clock = Clock()

    async def body(rig: Rig) -> None:
        token, made = rig.access.tokens.create("ci", "viewer", None)
        assert made.seen_at is None
        await rig.ask("GET", LOOK, headers=bearer(token))
        (kept,) = rig.access.tokens.all()
        assert kept.seen_at == clock.micros

    run_guarded(home, body, now=clock)


def test_logging_in_and_out_with_a_token_revokes_nothing(home: Path) -> None:
    """Those are for browsers; a token ends by its end, or by its owner."""

    async def body(rig: Rig) -> None:
        token, _ = rig.access.tokens.create("ci", "viewer", None)
        assert (await rig.ask("POST", "/api/v1/logout", headers=bearer(token))).status == 200
        assert (await rig.ask("GET", LOOK, headers=bearer(token))).status == 200

    run_guarded(home, body)


def test_a_proxy_that_adds_another_token(home: Path) -> None:
    """A bearer token that is not ours does not stop a login; other schemes are none of our business."""

    async def body(rig: Rig) -> None:
        for header in ("Bearer of-the-proxy", "Basic YTpi"):
            answer = await rig.ask("GET", LOOK, token=rig.local(), headers={"Authorization": header})
            assert answer.status == 200
            assert (await rig.ask("GET", "/api/v1/me", headers={"Authorization": header})).status == 200
            assert (await rig.ask("GET", LOOK, headers={"Authorization": header})).detail.startswith("Log in first.")

    run_guarded(home, body)


def test_names_of_tokens(tmp_path: Path) -> None:
    """One name, one token; what is no name is refused; the token itself is not stored."""
    with AccessStore(tmp_path / "access.db") as store:
        token, _ = store.tokens.create("ci", "viewer", None)
        assert token.startswith("agt_")
        for name in ("ci", "CI", "", "a b", "local"):
            with pytest.raises(UserError):
                store.tokens.create(name, "viewer", None)
        store.users.add("ci", "viewer", "hash")
        assert store.users.remove("ci") == 0
        assert store.tokens.revoke("ci") == "ci"
        with pytest.raises(NoSuchTokenError):
            store.tokens.revoke("ci")
    assert token.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("access.db*"))


def test_logins_of_an_earlier_version_go_on(tmp_path: Path) -> None:
    """A file of the version before is brought up to date with its users and their logins."""
    path = tmp_path / "access.db"
    with sqlite3.connect(path) as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("INSERT INTO users VALUES ('anna', 'admin', 'hash', 1, 1)")
        connection.execute("INSERT INTO logins VALUES (?, 'anna', 'c', 1, 1, ?)", (digest_of("before"), 2**60))
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with AccessStore(path) as store:
        login = store.logins.find("before")
        assert login is not None
        assert (login.kind, login.user, login.role, login.csrf) == ("user", "anna", "admin", "c")
        assert store.users.get("anna").logins == 1
        assert store.users.set_role("anna", "viewer") == 1
        assert store.logins.find("before") is None
