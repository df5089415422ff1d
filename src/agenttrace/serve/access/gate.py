"""The gate before the console: is the request meant for us, who is it, and does a change come from our own page?

This machine's own browser needs no login. Everything that came from elsewhere, or may have, does: another bind address,
another name, or any trace of a proxy.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenttrace.config import ServeSettings
from agenttrace.serve.access import cookie
from agenttrace.serve.access.changes import SAFE_METHODS, check_change, check_question
from agenttrace.serve.access.hosts import AllowedHosts, Host, is_loopback_bind, parse_host
from agenttrace.serve.access.logins import Login
from agenttrace.serve.access.paths import API, LOGIN, LOGOUT, is_console, is_open
from agenttrace.serve.access.store import AccessStore
from agenttrace.serve.access.visitor import Admission, Visitor, local_visitor, not_admin
from agenttrace.serve.problems import ProblemError

logger = logging.getLogger(__name__)

_PROXY_HEADERS = ("forwarded", "via", "x-real-ip")
_PROXY_PREFIX = "x-forwarded-"
_LONGEST_ADDRESS = 64
_FIRST_USER = "Nobody can log in yet; on the machine that AgentTrace runs on: agenttrace user add NAME --role admin"


def needs_login(settings: ServeSettings) -> bool:
    """Whether everybody has to log in, wherever they come from."""
    return settings.login == "always" or not is_loopback_bind(settings.host)


class Gate:
    """ASGI middleware, without Starlette's helper class, which would hold streams back."""

    def __init__(self, app: ASGIApp, *, access: AccessStore, bind: str, settings: ServeSettings) -> None:
        self._app = app
        self._access = access
        self._hosts = AllowedHosts(bind, settings.allowed_hosts)
        self._always = settings.login == "always" or not is_loopback_bind(bind)
        # For those without a login, two: who may not look yet shall not know the token of those who may.
        self._local_csrf, self._strangers_csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or not is_console(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            admission = self._admitted(scope)
        except ProblemError as error:
            await error.response()(scope, receive, send)
            return
        scope.setdefault("state", {}).update(admission=admission, visitor=admission.visitor)
        if admission.login is None:
            await self._app(scope, receive, send)
        else:
            await self._logged_in(admission.login, scope, receive, send)

    def _admitted(self, scope: Scope) -> Admission:
        """Who it is; raises what is in the way."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        host = self._host(headers)
        admission = self._admission(scope, headers, host)
        if admission.visitor is None and not is_open(path):
            raise self._login_first()
        if method not in SAFE_METHODS:
            check_change(headers, host, admission.csrf)
            if admission.visitor and admission.visitor.role != "admin" and path not in (LOGIN, LOGOUT):
                raise not_admin(admission.visitor.name)
        elif path.startswith(API):
            check_question(headers)
        return admission

    def _host(self, headers: Headers) -> Host:
        named = headers.getlist("host")
        host = parse_host(named[0]) if len(named) == 1 else None
        if host is None or not self._hosts.allow(host):
            raise ProblemError(
                421,
                "AgentTrace does not answer to this host name. If it is one of yours, add it to the setting "
                'serve.allowed_hosts, such as allowed_hosts = ["trace.example.com"] under [serve], and restart.',
            )
        return host

    def _admission(self, scope: Scope, headers: Headers, host: Host) -> Admission:
        address, secure = _address(scope), _is_secure(scope, headers)
        visitor: Visitor | None
        login: Login | None
        required = self._always or not host.is_loopback or came_by_proxy(scope, headers)
        if not required:
            visitor, login, csrf = local_visitor(address), None, self._local_csrf
        elif (login := self._login(headers)) is not None:
            visitor, csrf = Visitor(name=login.user, role=login.role, address=address), login.csrf
        else:
            visitor, csrf = None, self._strangers_csrf
        return Admission(
            visitor=visitor,
            address=address,
            login=login,
            login_required=required,
            csrf=csrf,
            strangers_csrf=self._strangers_csrf,
            secure=secure,
        )

    def _login(self, headers: Headers) -> Login | None:
        found = map(self._access.logins.find, cookie.tokens(headers))
        return next((login for login in found if login is not None), None)

    def _login_first(self) -> ProblemError:
        detail = "Log in first." if self._access.users.exist() else _FIRST_USER
        return ProblemError(401, detail, headers={"WWW-Authenticate": 'Cookie realm="AgentTrace"'})

    async def _logged_in(self, login: Login, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; a stream of events ends with the login that it was opened with."""
        if self._access.logins.is_stale(login):
            await self._note(login)
        streaming = False

        async def while_open(message: Message) -> None:
            nonlocal streaming
            if message["type"] == "http.response.start":
                streaming = _is_event_stream(message)
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
            # A full disk is no reason not to let anybody look.
            logger.warning("when a login was last used could not be written: %s", error)


class _LoginOverError(Exception):
    """Ends whatever is still sending."""


def came_by_proxy(scope: Scope, headers: Headers) -> bool:
    """Whether somebody else may be behind the connection. Of a browser that is here, none of this can be seen."""
    # HTTP/1.0 is what nginx speaks to a server behind it, and it may be all that gives it away.
    return scope.get("http_version") == "1.0" or any(
        name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIX) for name in headers
    )


def _is_secure(scope: Scope, headers: Headers) -> bool:
    forwarded = headers.get("x-forwarded-proto", "").split(",")[0].strip().lower()
    return scope.get("scheme") == "https" or forwarded == "https"


def _address(scope: Scope) -> str:
    client = scope.get("client")
    address = str(client[0]) if client else ""
    return address if 0 < len(address) <= _LONGEST_ADDRESS and address.isprintable() else "unknown"


def _is_event_stream(start: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in start.get("headers", ())
    )
