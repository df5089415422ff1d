"""A provider of OpenID Connect on this machine: it signs real tokens, checks what it is sent, and lies on demand."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "agenttrace-tests", "a secret/with:signs"

Claims = dict[str, Any]


def new_key() -> RSAKey:
    """Another key."""
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})


#: Made once, as it takes a moment.
_key = cache(new_key)


@dataclass
class Provider:
    """Its state; ``claims`` are those of the user who logs in next."""

    url: str = ""
    claims: Claims = field(default_factory=dict)
    userinfo: Claims | None = None
    #: Changes the claims of the ID token before it is signed.
    lie: Callable[[Claims], Claims] = dict
    #: Makes the token, in place of a signature with the key of the provider.
    sign: Callable[[Claims], str] | None = None
    issuer: str = ""
    secret: str | None = SECRET
    status: int = 200
    denies: bool = False
    key: RSAKey = field(default_factory=_key)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Tokens that were asked for with a wrong secret, code, verifier or address.
    refused: int = 0

    def rotate(self) -> None:
        """From now on another key signs."""
        self.key = new_key()

    async def discovery(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.issuer or self.url,
                "authorization_endpoint": f"{self.url}/authorize?tenant=1",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                **({} if self.userinfo is None else {"userinfo_endpoint": f"{self.url}/userinfo"}),
            },
            status=self.status,
        )

    async def keys(self, _: web.Request) -> web.Response:
        unknown = {"kty": "XYZ", "kid": "of the future"}
        return web.json_response({"keys": [unknown, self.key.as_dict(private=False) | {"use": "sig"}]})

    async def authorize(self, request: web.Request) -> web.Response:
        """The user is logged in here already."""
        asked = dict(request.query)
        assert asked["client_id"] == CLIENT
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        answer = {"error": "access_denied"} if self.denies else {"code": code}
        raise web.HTTPSeeOther(f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}")

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
            or not self._knows_client(request, form)
        ):
            self.refused += 1
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {"iss": self.url, "sub": "1", "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": asked["nonce"]}
        token = self.lie({**claims, **self.claims})
        signed = self.sign(token) if self.sign else jwt.encode({"alg": "RS256", "kid": self.key.kid}, token, self.key)
        return web.json_response({"token_type": "Bearer", "access_token": "access", "id_token": signed})

    def _knows_client(self, request: web.Request, form: Any) -> bool:  # noqa: ANN401 - a form
        if self.secret is None:
            return bool(form["client_id"] == CLIENT)
        # As RFC 6749 has it: both are encoded before they are joined.
        expected = base64.b64encode(b"agenttrace-tests:a%20secret%2Fwith%3Asigns").decode()
        return request.headers.get("Authorization") == f"Basic {expected}"

    async def info(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer access"
        return web.json_response({"sub": "1", **(self.userinfo or {})})


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """The provider on a free port."""
    made, app = Provider(), web.Application()
    app.router.add_get("/.well-known/openid-configuration", made.discovery)
    app.router.add_get("/authorize", made.authorize)
    app.router.add_get("/keys", made.keys)
    app.router.add_get("/userinfo", made.info)
    app.router.add_post("/token", made.token)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    made.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        await runner.cleanup()
