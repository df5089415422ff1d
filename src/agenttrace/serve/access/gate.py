"""The gate before the console: checks the host name, the login, and that a change comes from our own page.

A browser of this machine logs in by the link of ``agenttrace open``, a script by an API token. A request that came from
another machine, or may have, needs a user's login or an API token: another bind address or name, any trace of a proxy.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenttrace.config import ServeSettings
from agenttrace.serve.access import cookie, hosts
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.audit import DONE
from agenttrace.serve.access.hosts import SAFE_METHODS, AllowedHosts, Host, is_loopback_bind
from agenttrace.serve.access.link import PARAMETER, cleaned
from agenttrace.serve.access.logins import PREFIX, Login
from agenttrace.serve.access.paths import API, is_console, is_for_viewers, is_open
from agenttrace.serve.access.users import LOCAL, NOBODY
from agenttrace.serve.access.visitor import NotAdminError, Visit, Visitor
from agenttrace.serve.problems import ProblemError
from agenttrace.store.sight import Sight, seeing

logger = logging.getLogger(__name__)

_PROXY_HEADERS = ("forwarded", "via", "x-real-ip")
_PROXY_PREFIX = "x-forwarded-"
_LONGEST_ADDRESS = 64
_HOUR = 3600
#: Parameters in the address of a page.
_MOST_FIELDS = 100
#: Of the key that forms for a login carry.
_LOGIN_KEY = "login"
_NOT_VALID = "The API token is not known, has expired or was revoked; agenttrace token list shows those there are."
_FIRST_USER = "There is no user yet; on the machine that AgentTrace runs on: agenttrace user add NAME --role admin"
_SCRIPT_FIX = "In a script, send the header Authorization: Bearer TOKEN with a token of: agenttrace token create NAME"
_LINK_FIX = f"In a browser, open the link that agenttrace open prints. {_SCRIPT_FIX}"
_LOGIN_FIX = f"In a browser, log in. {_SCRIPT_FIX}"


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_RAW = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class UnauthorizedError(ProblemError):
    """401, with the scheme that the client has to use."""

    def __init__(self, scheme: str, detail: str) -> None:
        super().__init__(401, detail, headers={"WWW-Authenticate": scheme})


class WrongTokenError(UnauthorizedError):
    """401 for an invalid token: the answer is delayed, and the audit log has it."""


def needs_login(settings: ServeSettings) -> bool:
    """Whether every request needs a login by name, from this machine as well."""
    return settings.login == "always" or not is_loopback_bind(settings.host)


class ConsoleGate:
    """ASGI middleware, without Starlette's helper class, which would delay streams."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: AccessStore,
        bind: str,
        settings: ServeSettings,
        sights: Callable[[Visitor | None], Sight | None] | None = None,
    ) -> None:
        """``sights`` says what each visitor sees; without it, as on one machine, every visitor sees everything."""
        self._app = app
        self._sights = sights
        self._access = access
        self._hosts = AllowedHosts(bind, settings.allowed_hosts)
        self._always = settings.login == "always" or not is_loopback_bind(bind)
        self._open = settings.login == "none"
        self._seconds = settings.login_hours * _HOUR
        # Two for requests without a login: one that may not read yet must not learn the token of those that may.
        self._local_csrf = secrets.token_urlsafe(32)
        # Behind a balancer the page may come from one server, and the login go to another one.
        self._strangers_csrf = access.keys.get(_LOGIN_KEY).hex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or not is_console(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            visit = self._visit_of(scope)
            token = _link_token(scope)
            if token is not None:
                await (await self._by_link(scope, visit, token))(scope, receive, send)
                return
        except ProblemError as error:
            await (await self._refused(scope, error)).response()(scope, receive, send)
            return
        scope.setdefault("state", {}).update(visit=visit, visitor=visit.visitor)
        with self._seeing(visit.visitor):
            if visit.login is None:
                await self._app(scope, receive, send)
            else:
                await self._logged_in(visit.login, scope, receive, send)

    def _seeing(self, visitor: Visitor | None) -> AbstractContextManager[None]:
        """What is asked inside is answered for this visitor."""
        sights = self._sights
        return seeing(None) if sights is None else seeing(sights(visitor), lambda: sights(visitor))

    def _visit_of(self, scope: Scope) -> Visit:
        """Who it is; raises why the request is refused."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        host = self._host(headers)
        visit = self._visit(scope, headers, host)
        if visit.visitor is None and path.startswith(API) and _bearer_token(headers).startswith(PREFIX):
            raise WrongTokenError('Bearer realm="AgentTrace"', _NOT_VALID)
        if visit.visitor is None and not is_open(path):
            raise self._login_first(visit)
        if method not in SAFE_METHODS:
            hosts.check_origin(headers, host)
            if visit.login is None or visit.login.kind != "token":
                # No other site can have a browser send an API token.
                hosts.check_csrf(headers, visit.csrf)
            if visit.visitor and visit.visitor.role != "admin" and not is_for_viewers(path):
                raise NotAdminError(visit.visitor)
        elif path.startswith(API):
            hosts.check_read(headers)
        return visit

    async def _refused(self, scope: Scope, error: ProblemError) -> ProblemError:
        """Record a refusal; a wrong token is answered late, and with 429 where there are too many."""
        address, asked = address_of(scope), f"{scope['method']} {scope['path'][:100]}"
        try:
            if isinstance(error, WrongTokenError):
                await self._access.refusals.wrong(address, "console")
            elif scope["method"] not in SAFE_METHODS and error.status in (401, 403):
                who = error.name if isinstance(error, NotAdminError) else NOBODY
                self._access.refusals.note(who, address, "change", asked)
        except ProblemError as slower:
            return slower
        return error

    async def _by_link(self, scope: Scope, visit: Visit, token: str) -> Response:
        """Log in the browser that has the token, and redirect it to the address without."""
        clean = cleaned(scope["path"], scope["query_string"].decode("latin-1"))
        response = RedirectResponse(clean, 303, {"Cache-Control": "no-store"})
        if visit.by_link and self._access.start_token.matches(token):
            if visit.login is None or visit.login.kind != "local":
                given, _ = await asyncio.to_thread(self._access.logins.begin_local, self._seconds)
                await asyncio.to_thread(self._access.audit.begin, LOCAL, visit.address, "login", "link", DONE)
                cookie.set_token(response, given, visit.host, seconds=self._seconds, secure=visit.secure)
        elif visit.by_link:
            await self._access.refusals.wrong(visit.address, "link", action="link")
            if visit.visitor is None:
                response.headers["Location"] = f"/login?{urlencode({'link': 'old', 'next': clean})}"
        return response

    def _host(self, headers: Headers) -> Host:
        host = hosts.host_of(headers)
        if host is None or not self._hosts.allow(host):
            raise ProblemError(
                421,
                "AgentTrace does not answer to this host name. If it is one of yours, add it to the setting "
                'serve.allowed_hosts, such as allowed_hosts = ["trace.example.com"] under [serve], and restart.',
            )
        return host

    def _visit(self, scope: Scope, headers: Headers, host: Host) -> Visit:
        address, secure = address_of(scope), _is_secure(scope, headers)
        visitor: Visitor | None
        here = not self._always and host.is_loopback and not came_by_proxy(scope, headers)
        nothing_asked = here and self._open
        login = self._token(headers) or (None if nothing_asked else self._login(headers, host, here=here))
        if login is not None:
            visitor = Visitor(name=login.user, role=login.role, address=address, person=login.person)
            csrf = login.csrf
        elif nothing_asked:
            visitor, csrf = Visitor(name=LOCAL, role="admin", address=address), self._local_csrf
        else:
            visitor, csrf = None, self._strangers_csrf
        return Visit(
            visitor=visitor,
            address=address,
            login=login,
            login_required=not nothing_asked,
            by_link=here and not self._open,
            host=host,
            csrf=csrf,
            strangers_csrf=self._strangers_csrf,
            secure=secure,
        )

    def _token(self, headers: Headers) -> Login | None:
        """The API token of a request."""
        given = _bearer_token(headers)
        # Other tokens may be meant for a proxy.
        login = self._access.logins.find(given) if given.startswith(PREFIX) else None
        return login if login is not None and login.kind == "token" else None

    def _login(self, headers: Headers, host: Host, *, here: bool) -> Login | None:
        """The login of a cookie; one by the link is valid on this machine only."""
        kinds = ("user", "local") if here else ("user",)
        found = map(self._access.logins.find, cookie.tokens(headers, host))
        return next((login for login in found if login is not None and login.kind in kinds), None)

    def _login_first(self, visit: Visit) -> ProblemError:
        if visit.by_link:
            fix = _LINK_FIX
        else:
            fix = _LOGIN_FIX if self._access.users.exist() else f"{_FIRST_USER}. {_SCRIPT_FIX}"
        return UnauthorizedError('Cookie realm="AgentTrace", Bearer realm="AgentTrace"', f"Log in first. {fix}")

    async def _logged_in(self, login: Login, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; a stream of events ends when its login does."""
        if self._access.logins.is_stale(login):
            await self._note(login)
        streaming = False

        async def while_open(message: Message) -> None:
            nonlocal streaming
            if message["type"] == "http.response.start":
                types = [value for name, value in message.get("headers", ()) if name.lower() == b"content-type"]
                streaming = any(value.startswith(b"text/event-stream") for value in types)
            elif streaming and message.get("more_body") and not self._access.logins.is_open(login):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                raise _LoginOverError
            await send(message)

        try:
            await self._app(scope, receive, while_open)
        except* _LoginOverError:
            logger.info("a stream ended because its login is over")

    async def _note(self, login: Login) -> None:
        try:
            await asyncio.to_thread(self._access.logins.seen, login)
        except sqlite3.Error as error:
            # A full disk does not lock users out.
            logger.warning("when a login was last used could not be written: %s", error)


class _LoginOverError(Exception):
    """Ends a stream whose login has ended."""


def came_by_proxy(scope: Scope, headers: Headers) -> bool:
    """Whether the connection may be that of a proxy. A browser of this machine shows none of this."""
    # nginx speaks HTTP/1.0 to a server behind it, which may be its only trace.
    return scope.get("http_version") == "1.0" or any(
        name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIX) for name in headers
    )


def authorization(headers: Headers) -> tuple[str, str]:
    """Scheme and credentials of the header Authorization; empty without, or where there are several."""
    given = headers.getlist("authorization")
    scheme, _, credentials = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
    return scheme.lower(), credentials.strip()


def _bearer_token(headers: Headers) -> str:
    scheme, token = authorization(headers)
    return token if scheme == "bearer" else ""


def _link_token(scope: Scope) -> str | None:
    """The token in the address of a page; None where there is none."""
    if scope["method"] != "GET" or scope["path"].startswith(API) or PARAMETER.encode() not in scope["query_string"]:
        return None
    try:
        found = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return None
    given = found.get(PARAMETER)
    return None if given is None else given[0]


def _is_secure(scope: Scope, headers: Headers) -> bool:
    forwarded = headers.get("x-forwarded-proto", "").split(",")[0].strip().lower()
    return scope.get("scheme") == "https" or forwarded == "https"


def address_of(scope: Scope) -> str:
    """The address of the client, as far as trusted proxies tell it."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    return address if 0 < len(address) <= _LONGEST_ADDRESS and address.isprintable() else "unknown"


class SecurityHeaders:
    """ASGI middleware, the outermost: adds headers to every answer of the console, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or not is_console(scope["path"]):
            await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                own = {name.lower() for name, _ in given}
                message = {**message, "headers": given + [each for each in _RAW if each[0] not in own]}
            await send(message)

        await self._app(scope, receive, protected)
