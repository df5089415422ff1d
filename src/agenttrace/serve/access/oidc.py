"""Login by OpenID Connect: the provider, and what it says of a user.

Authorization code flow with PKCE; the ID token is checked against the provider's keys. What begins at the login page
and ends at the callback is kept in a signed cookie of the browser, so that any server of a team can finish it.
"""

from __future__ import annotations

import base64
import hmac
import logging
import secrets
import ssl
import time
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from agenttrace.config import OidcSettings, SettingsError
from agenttrace.serve.api.shapes.settings import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

#: Why a login failed, as the login page knows it.
Reason = Literal["denied", "expired", "unavailable", "failed", "not_allowed", "taken"]

#: How long the way to the provider and back may take.
FLOW_SECONDS = 600
#: How long what the provider says of itself is cached.
_DISCOVERY_SECONDS = 3600.0
#: A key that is not known is looked for again at most this often.
_KEYS_SECONDS = 30.0
_TIMEOUT_SECONDS = 10.0
_LEEWAY_SECONDS = 60
_LONGEST_ANSWER = 1 << 20
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_RANKS: dict[Role, int] = {"viewer": 0, "member": 1, "admin": 2}
_WELL_KNOWN = "/.well-known/openid-configuration"


@cache
def _authorities() -> ssl.SSLContext:
    """The certificates that are trusted; reading them takes a moment."""
    return ssl.create_default_context()


class OidcError(Exception):
    """A login by the provider that failed; the message is for the log of the server."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A login that has begun."""

    state: str
    nonce: str
    verifier: str
    #: Where the browser goes afterwards.
    next: str
    #: Seconds since the epoch.
    expires_at: int

    @classmethod
    def begun(cls, following: str) -> Flow:
        """A new one."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        expires = int(time.time()) + FLOW_SECONDS
        return cls(state=state, nonce=nonce, verifier=verifier, next=following, expires_at=expires)

    def sealed(self, key: bytes) -> str:
        """As a cookie has it: signed, so that it is one that a server of ours made."""
        body = base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()
        return f"{body}.{_signature(body, key)}"

    @classmethod
    def opened(cls, sealed: str, key: bytes) -> Flow | None:
        """The flow of a cookie; ``None`` where it is not ours, or too old."""
        body, _, signature = sealed.partition(".")
        if not hmac.compare_digest(signature.encode(), _signature(body, key).encode()):
            return None
        flow = msgspec.json.decode(base64.urlsafe_b64decode(body), type=cls)
        return flow if flow.expires_at > time.time() else None


def _signature(body: str, key: bytes) -> str:
    return hmac.digest(key, body.encode("utf-8", "replace"), "sha256").hex()


class OidcUser(msgspec.Struct, frozen=True, kw_only=True):
    """Who the provider says that it is."""

    #: Issuer and subject, which never change.
    subject: str
    name: str
    #: For a user who is new here.
    role: Role
    #: Whether the role is one of a group, and holds for known users too.
    by_group: bool


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider says of itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)

    def addresses(self) -> Iterator[str]:
        """Where the server and the browser are sent to."""
        yield from (self.authorization_endpoint, self.token_endpoint, self.jwks_uri, self.userinfo_endpoint or "")


class _Tokens(msgspec.Struct, frozen=True):
    """The answer of the token endpoint."""

    id_token: str
    access_token: str = ""


class OidcProvider:
    """The provider of the settings."""

    def __init__(self, settings: OidcSettings) -> None:
        assert settings.issuer is not None
        assert settings.client_id is not None
        self.settings, self._issuer, self._client_id = settings, settings.issuer.rstrip("/"), settings.client_id
        self._metadata: tuple[float, _Metadata] | None = None
        self._keys: tuple[float, Any] | None = None

    # -- the way to the provider, and back ---------------------------------------------------------------------

    async def address(self, flow: Flow, callback: str) -> str:
        """Where the browser logs in."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # type: ignore[import-untyped]
        from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]

        metadata = await self._discovered()
        return str(
            prepare_grant_uri(
                metadata.authorization_endpoint,
                self._client_id,
                "code",
                redirect_uri=callback,
                scope=" ".join(dict.fromkeys(("openid", *self.settings.scopes))),
                state=flow.state,
                nonce=flow.nonce,
                code_challenge=create_s256_code_challenge(flow.verifier),
                code_challenge_method="S256",
            )
        )

    async def user(self, code: str, flow: Flow, callback: str) -> OidcUser:
        """Who came back with this code."""
        metadata = await self._discovered()
        tokens = await self._tokens(metadata, code, flow, callback)
        claims = await self._checked(metadata, tokens, flow)
        wanted = {self.settings.name_claim, *((self.settings.groups_claim,) if self.settings.roles else ())}
        if metadata.userinfo_endpoint and tokens.access_token and not wanted <= claims.keys():
            claims = {**await self._userinfo(metadata.userinfo_endpoint, tokens, claims["sub"]), **claims}
        return self._admitted(claims)

    async def _discovered(self) -> _Metadata:
        now = time.monotonic()
        if self._metadata is None or now - self._metadata[0] > _DISCOVERY_SECONDS:
            found = await self._fetched(f"{self._issuer}{_WELL_KNOWN}", _Metadata)
            if found.issuer.rstrip("/") != self._issuer:
                raise OidcError("unavailable", f"the provider calls itself {found.issuer}, and not {self._issuer}")
            schemes = {urlsplit(address).scheme for address in found.addresses() if address}
            if self._issuer.startswith("https:") and schemes != {"https"}:
                raise OidcError("unavailable", "the provider has an endpoint without https")
            self._metadata = now, found
        return self._metadata[1]

    async def _tokens(self, metadata: _Metadata, code: str, flow: Flow, callback: str) -> _Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "code_verifier": flow.verifier,
        }
        secret, auth = self.settings.client_secret, None
        if secret is None:
            form["client_id"] = self._client_id
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": self._client_id, "client_secret": secret}
        found: _Tokens = await self._fetched(metadata.token_endpoint, _Tokens, data=form, auth=auth, refused="failed")
        return found

    async def _userinfo(self, address: str, tokens: _Tokens, subject: object) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {tokens.access_token}"}
        found: dict[str, Any] = await self._fetched(address, dict[str, Any], headers=headers, refused="failed")
        if found.get("sub") != subject:
            raise OidcError("failed", "the user info is about another user than the ID token")
        return found

    async def _fetched(
        self,
        address: str,
        kind: type[Any],
        *,
        data: dict[str, str] | None = None,
        auth: httpx.BasicAuth | None = None,
        headers: dict[str, str] | None = None,
        refused: Reason = "unavailable",
    ) -> Any:  # noqa: ANN401 - of that kind
        """The JSON at an address."""
        method = "GET" if data is None else "POST"
        given = {"Accept": "application/json", **(headers or {})}
        try:
            async with (
                httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=False, verify=_authorities()) as http,
                http.stream(method, address, data=data, auth=auth, headers=given) as answer,
            ):
                body = b""
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > _LONGEST_ANSWER:
                        raise OidcError("unavailable", f"the answer of {address} is too long")
        except httpx.HTTPError as error:
            problem = f"{address} cannot be reached ({type(error).__name__})"
            raise OidcError("unavailable", problem) from error
        if answer.status_code >= 400:
            is_refusal = answer.status_code < 500
            raise OidcError(refused if is_refusal else "unavailable", f"{address} answered {answer.status_code}")
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise OidcError("unavailable", f"the answer of {address} is not what it should be: {error}") from error

    # -- the ID token --------------------------------------------------------------------------------------------

    async def _checked(self, metadata: _Metadata, tokens: _Tokens, flow: Flow) -> dict[str, Any]:
        """The claims of the ID token; signature, issuer, audience, times and nonce are right."""
        from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]
        from joserfc.errors import JoseError

        try:
            token = await self._decoded(metadata, tokens.id_token)
            options = {
                "iss": {"essential": True, "value": metadata.issuer},
                "aud": {"essential": True, "value": self._client_id},
            }
            params = {"nonce": flow.nonce, "client_id": self._client_id, "access_token": tokens.access_token}
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(leeway=_LEEWAY_SECONDS)
        except (JoseError, ValueError) as error:
            raise OidcError("failed", f"the ID token is not valid: {error}") from error
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise OidcError("failed", "the ID token names no subject")
        return dict(claims)

    async def _decoded(self, metadata: _Metadata, text: str) -> Any:  # noqa: ANN401 - a token of joserfc
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError

        keys = await self._key_set(metadata)
        try:
            return jwt.decode(text, keys, algorithms=_ALGORITHMS)
        except (InvalidKeyIdError, ValueError):
            # The provider may have new keys.
            known = keys
            keys = await self._key_set(metadata, again=True)
            if keys is known:
                raise
            return jwt.decode(text, keys, algorithms=_ALGORITHMS)

    async def _key_set(self, metadata: _Metadata, *, again: bool = False) -> Any:  # noqa: ANN401 - keys of joserfc
        from joserfc.jwk import KeySet

        age = None if self._keys is None else time.monotonic() - self._keys[0]
        if self._keys is None or age is None or age > (_KEYS_SECONDS if again else _DISCOVERY_SECONDS):
            found = await self._fetched(metadata.jwks_uri, dict[str, Any])
            try:
                self._keys = time.monotonic(), KeySet.import_key_set(_usable(found))
            except (KeyError, ValueError) as error:
                raise OidcError("unavailable", f"the keys of the provider cannot be read: {error}") from error
        return self._keys[1]

    # -- who may log in ------------------------------------------------------------------------------------------

    def _admitted(self, claims: dict[str, Any]) -> OidcUser:
        settings = self.settings
        name = claims.get(settings.name_claim)
        if not isinstance(name, str) or not name:
            raise OidcError("failed", f"the provider did not tell the claim {settings.name_claim} of the user")
        self._check_email(claims)
        role, by_group = self._role(claims)
        return OidcUser(subject=f"{self._issuer}|{claims['sub']}", name=name, role=role, by_group=by_group)

    def _check_email(self, claims: dict[str, Any]) -> None:
        """An address counts only where the provider has verified it: another user may have typed it."""
        settings, email = self.settings, claims.get("email")
        if not settings.domains and settings.name_claim != "email":
            return
        if not isinstance(email, str):
            raise OidcError("not_allowed", "the provider told no e-mail address of the user")
        if not (settings.trust_email or claims.get("email_verified") in (True, "true")):
            raise OidcError("not_allowed", f"{email} is not verified by the provider (setting team.oidc.trust_email)")
        domain = email.rpartition("@")[2].casefold()
        if settings.domains and domain not in {each.casefold() for each in settings.domains}:
            raise OidcError("not_allowed", f"{email} is of none of the domains in team.oidc.domains")

    def _role(self, claims: dict[str, Any]) -> tuple[Role, bool]:
        """The highest role of the user's groups, else the default one; and whether roles come from groups."""
        settings, groups = self.settings, claims.get(self.settings.groups_claim)
        named = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        roles = [settings.roles[group] for group in named if isinstance(group, str) and group in settings.roles]
        if roles:
            return max(roles, key=_RANKS.__getitem__), True
        if settings.default_role == "none":
            raise OidcError("not_allowed", f"none of the groups of the user has a role: {named!r:.200}")
        return settings.default_role, bool(settings.roles)


def _usable(keys: dict[str, Any]) -> Any:  # noqa: ANN401 - a key set
    """Keys for signatures; those of kinds that are not known are left out, as the standard says."""
    found = [
        key
        for key in keys["keys"]
        if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"
    ]
    return {"keys": found}


def open_provider(settings: OidcSettings) -> OidcProvider | None:
    """The provider of the settings; ``None`` without one. ``SettingsError`` for settings that cannot work."""
    if settings.issuer is None:
        return None
    if settings.client_id is None:
        fix = "Set client_id under [team.oidc] to the client that the provider knows this server as."
        raise SettingsError(where="settings", key="team.oidc.client_id", problem="is missing", fix=fix)
    try:
        import authlib  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        fix = "Install it: pip install 'agenttrace[team]'"
        raise SettingsError(where="settings", key="team.oidc", problem="needs a package", fix=fix) from None
    return OidcProvider(settings)
