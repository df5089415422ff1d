"""Login by OpenID Connect, with a provider on this machine: who gets in, as what, and every way to be refused."""

# ruff: noqa: ANN401 - options are settings

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from agenttrace.config import OidcSettings, SettingsError
from agenttrace.serve.access.oidc import OidcProvider, open_provider

from .access_rig import Rig, guarded, password_hash
from .oidc_rig import CLIENT, SECRET, Claims, Provider, provider

LOOK = "/api/v1/things"
AMY = {"sub": "17", "email": "Amy@Example.com", "email_verified": True, "groups": ["engineering", "all"]}


@dataclass
class Scene:
    """The console, its provider, and the browser."""

    rig: Rig
    provider: Provider
    browser: aiohttp.ClientSession

    async def step(self, address: str, cookie: str | None = None) -> str:
        """Where one answer leads."""
        sent = {} if cookie is None else {"Cookie": cookie}
        async with self.browser.get(address, allow_redirects=False, headers=sent) as answer:
            assert answer.status == 303
            return answer.headers["Location"]

    async def log_in(self, following: str = "/sessions?q=1") -> str:
        """Follow the button of the login page; where the browser ends."""
        address = await self.step(f"{self.rig.url}/login/oidc?next={following}")
        for _ in range(2):
            if address.startswith("/"):
                break
            address = await self.step(address)
        return address

    async def me(self) -> Any:
        async with self.browser.get(f"{self.rig.url}/api/v1/me") as answer:
            return await answer.json()

    async def reason(self) -> str:
        """Why the login page says that it failed; nobody is logged in."""
        address = await self.log_in()
        assert urlsplit(address).path == "/login", address
        assert (await self.me())["name"] is None
        return parse_qs(urlsplit(address).query)["sso"][0]


def played(home: Path, body: Callable[[Scene], Awaitable[None]], **options: Any) -> None:
    """Run a test on these settings."""

    async def main() -> None:
        async with provider() as idp:
            settings = OidcSettings(**{"issuer": idp.url, "client_id": CLIENT, "client_secret": SECRET, **options})
            async with (
                guarded(home, bind="0.0.0.0", provider=OidcProvider(settings)) as rig,
                aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
            ):
                idp.claims = dict(AMY)
                await body(Scene(rig, idp, browser))

    asyncio.run(main())


def test_a_new_user_logs_in(home: Path) -> None:
    """The address is the name, the page that was wanted comes next, and the audit log has it."""

    async def body(scene: Scene) -> None:
        before = await scene.me()
        assert (before["sso"], before["users_exist"]) == ("Example SSO", False)
        assert await scene.log_in() == "/sessions?q=1"
        me = await scene.me()
        assert (me["name"], me["role"]) == ("amy@example.com", "member")
        user = scene.rig.access.users.get("amy@example.com")
        assert (user.has_password, user.logins) == (False, 1)
        assert scene.rig.access.users.password_hash("amy@example.com") is None
        entry = scene.rig.access.audit.page(1)[0]
        assert (entry.user, entry.action, entry.target, entry.outcome) == (
            "amy@example.com",
            "login",
            "OpenID Connect",
            "done",
        )
        cookies = {each.key: each for each in scene.browser.cookie_jar}
        assert [each["samesite"] for each in cookies.values()] == ["strict"]

    played(home, body, title="Example SSO")


def test_a_public_client(home: Path) -> None:
    """Without a secret, the verifier alone proves who asks for the token."""

    async def body(scene: Scene) -> None:
        scene.provider.secret = None
        assert await scene.log_in() == "/sessions?q=1"

    played(home, body, client_secret=None)


def test_roles_follow_groups(home: Path) -> None:
    """The highest role of all groups; at the next login it is another one, and earlier logins end."""

    async def body(scene: Scene) -> None:
        for groups, role in ((["engineering", "ops"], "admin"), (["engineering"], "member"), ([], "viewer")):
            scene.provider.claims["groups"] = groups
            assert await scene.log_in("/") == "/"
            assert (await scene.me())["role"] == role
            assert scene.rig.access.users.get("amy@example.com").logins == 1
        # Without a change they stay.
        await scene.log_in("/")
        assert scene.rig.access.users.get("amy@example.com").logins == 2

    played(home, body, roles={"engineering": "member", "ops": "admin"}, default_role="viewer")


def test_a_role_that_an_admin_gave_stays_where_groups_give_none(home: Path) -> None:
    """The default role is one for new users."""

    async def body(scene: Scene) -> None:
        await scene.log_in()
        scene.rig.access.users.set_role("amy@example.com", "admin")
        await scene.log_in()
        assert (await scene.me())["role"] == "admin"

    played(home, body)


def test_claims_of_the_user_info(home: Path) -> None:
    """What the ID token does not tell is asked for there, if it is about the same user."""

    async def body(scene: Scene) -> None:
        scene.provider.claims = {"sub": "17"}
        scene.provider.userinfo = {**AMY, "groups": "ops"}
        assert await scene.log_in("/") == "/"
        assert (await scene.me())["role"] == "admin"
        scene.browser.cookie_jar.clear()
        scene.provider.userinfo["sub"] = "18"
        assert await scene.reason() == "failed"

    played(home, body, roles={"ops": "admin"})


def test_a_user_who_was_added_before(home: Path) -> None:
    """Gets the role that the admin gave; another subject of that name is refused, and so is the name of a password."""

    async def body(scene: Scene) -> None:
        scene.rig.access.users.add("amy@example.com", "admin", None)
        scene.rig.access.users.add("ben@example.com", "admin", password_hash())
        await scene.log_in()
        assert (await scene.me())["role"] == "admin"
        scene.browser.cookie_jar.clear()
        for claims in ({"sub": "18"}, {"sub": "19", "email": "ben@example.com"}):
            scene.provider.claims = {**AMY, **claims}
            assert await scene.reason() == "taken"

    played(home, body)


def test_a_removed_user_is_logged_out(home: Path) -> None:
    """At once; whether the provider lets the user in again is the provider's decision."""

    async def body(scene: Scene) -> None:
        await scene.log_in()
        scene.rig.access.users.remove("amy@example.com")
        assert (await scene.me())["name"] is None

    played(home, body)


def test_new_keys_of_the_provider(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is signed by a key that is not known yet makes the server look for it."""
    monkeypatch.setattr("agenttrace.serve.access.oidc._KEYS_SECONDS", 0.0)

    async def body(scene: Scene) -> None:
        await scene.log_in()
        scene.provider.rotate()
        assert await scene.log_in("/") == "/"

    played(home, body)


# ── refusals ──


def lied(**claims: Any) -> Callable[[Provider], None]:
    """The ID token says something else; None: it does not say it."""

    def change(idp: Provider) -> None:
        idp.lie = lambda token: {name: value for name, value in (token | claims).items() if value is not None}

    return change


def signed(make: Callable[[Provider, Claims], str]) -> Callable[[Provider], None]:
    def change(idp: Provider) -> None:
        idp.sign = lambda token: make(idp, token)

    return change


def by_another_key(idp: Provider, token: Claims) -> str:
    return jwt.encode({"alg": "RS256", "kid": idp.key.kid}, token, RSAKey.generate_key(2048))


def unpadded(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def by_the_public_key(idp: Provider, token: Claims) -> str:
    header = {"alg": "HS256", "kid": idp.key.kid}
    body = ".".join(unpadded(json.dumps(part).encode()) for part in (header, token))
    return f"{body}.{unpadded(hmac.digest(idp.key.as_pem(private=False), body.encode(), 'sha256'))}"


def by_none(_: Provider, token: Claims) -> str:
    return ".".join((unpadded(b'{"alg":"none"}'), unpadded(json.dumps(token).encode()), ""))


@pytest.mark.parametrize(
    "change",
    [
        lied(nonce="another"),
        lied(nonce=None),
        lied(aud="another-client"),
        lied(aud=[CLIENT, "another"], azp="another"),
        lied(iss="https://evil.example"),
        lied(iss=None),
        lied(sub=None),
        lied(sub=17),
        lied(exp=int(time.time()) - 3600),
        lied(exp=None),
        lied(email=None),
        lied(email="a b c"),
        signed(by_another_key),
        signed(by_the_public_key),
        signed(by_none),
        signed(lambda _, __: "no token"),
    ],
)
def test_a_wrong_id_token(home: Path, change: Callable[[Provider], None]) -> None:
    """It is refused, no user is added, and the audit log has it."""

    async def body(scene: Scene) -> None:
        change(scene.provider)
        assert await scene.reason() == "failed"
        assert not scene.rig.access.users.exist()
        entry = scene.rig.access.audit.page(1)[0]
        assert (entry.user, entry.action, entry.outcome) == ("nobody", "login", "refused")

    played(home, body)


@pytest.mark.parametrize(
    ("claims", "options"),
    [
        ({"email_verified": False}, {}),
        ({"email_verified": None}, {}),
        ({"email": "amy@evil.example"}, {"domains": ("example.com",)}),
        ({"email": "amy@example.com.evil.example"}, {"domains": ("example.com",)}),
        ({"groups": ["others"]}, {"roles": {"ops": "admin"}, "default_role": "none"}),
        ({"groups": {"ops": True}}, {"roles": {"ops": "admin"}, "default_role": "none"}),
    ],
)
def test_users_who_may_not_log_in(home: Path, claims: Claims, options: Claims) -> None:
    """An address that is not verified, another domain, no group with a role."""

    async def body(scene: Scene) -> None:
        scene.provider.claims = {**AMY, **claims}
        assert await scene.reason() == "not_allowed"

    played(home, body, **options)


def test_an_address_may_be_trusted(home: Path) -> None:
    """Of providers that verify all addresses, and do not say so."""

    async def body(scene: Scene) -> None:
        del scene.provider.claims["email_verified"]
        assert await scene.log_in("/") == "/"

    played(home, body, trust_email=True, domains=("EXAMPLE.com",))


def test_a_provider_that_refuses_or_is_away(home: Path) -> None:
    """The user cancelled; the secret is wrong; the provider is broken, another one, or not there."""

    async def body(scene: Scene) -> None:
        idp = scene.provider
        idp.issuer = "https://another.example"
        assert await scene.reason() == "unavailable"
        idp.issuer, idp.status = "", 503
        assert await scene.reason() == "unavailable"
        idp.status, idp.denies = 200, True
        assert await scene.reason() == "denied"
        idp.denies, idp.secret = False, None
        scene.provider._knows_client = lambda *_: False  # type: ignore[method-assign]
        assert await scene.reason() == "failed"
        assert idp.refused == 1

    played(home, body)


def test_a_provider_that_is_not_there(home: Path) -> None:
    """Nothing listens at its address."""

    async def body(scene: Scene) -> None:
        assert await scene.reason() == "unavailable"

    played(home, body, issuer="http://127.0.0.1:9")


def test_a_login_that_was_begun_elsewhere(home: Path) -> None:
    """Without the cookie, with a forged one, with another state, and a second time with one code."""

    async def body(scene: Scene) -> None:
        address = await scene.step(f"{scene.rig.url}/login/oidc?next=/")
        callback = await scene.step(address)
        kept = {each.key: each.value for each in scene.browser.cookie_jar}
        name, sealed = next(iter(kept.items()))
        assert "expired" in await scene.step(callback.replace("state=", "state=x"))
        assert "expired" in await scene.step(callback)  # the cookie is gone
        for wrong in ("", "x", f"{sealed}0", f"x{sealed}", "eyJ9.00", sealed.partition(".")[2]):
            assert await scene.step(callback, f"{name}={wrong}") == "/login?sso=expired"
        assert await scene.step(callback, f"{name}={sealed}") == "/"
        scene.browser.cookie_jar.clear()
        assert await scene.step(callback, f"{name}={sealed}") == "/login?sso=failed"
        assert scene.provider.refused == 1

    played(home, body)


@pytest.mark.parametrize(
    "following", ["//evil.example", "https://evil.example/", "/\\evil.example", "%2F%2Fevil.example", "javascript:1"]
)
def test_the_browser_stays_here(home: Path, following: str) -> None:
    """Whatever the address of the login page names as the next one."""

    async def body(scene: Scene) -> None:
        address = await scene.log_in(following)
        assert address.startswith("/")
        assert not address.startswith(("//", "/\\"))

    played(home, body)


def test_settings_that_cannot_work() -> None:
    """Named at the start, with what to do."""
    assert open_provider(OidcSettings()) is None
    with pytest.raises(SettingsError, match=r"team\.oidc\.client_id is missing"):
        open_provider(OidcSettings(issuer="https://login.example.com"))
