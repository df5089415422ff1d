"""``/login/oidc``: to the provider, and back with a login."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from agenttrace.serve.access import cookie
from agenttrace.serve.access.audit import DONE, REFUSED
from agenttrace.serve.access.link import cleaned
from agenttrace.serve.access.logins import Login
from agenttrace.serve.access.oidc import FLOW_SECONDS, Flow, OidcError, OidcProvider, OidcUser
from agenttrace.serve.access.users import NOBODY, NameTakenError, UserError
from agenttrace.serve.access.visitor import Visit, visit

if TYPE_CHECKING:
    from agenttrace.serve.access.access_store import AccessStore

logger = logging.getLogger(__name__)

PATH = "/login/oidc"
CALLBACK = f"{PATH}/callback"
#: The path of the login page.
_LOGIN = "/login"
_KEY = "oidc"
_HOUR = 3600
#: Logins that wait for the provider at a time.
_AT_A_TIME = 16
_LONGEST = 4_096


def oidc_router(access: AccessStore, provider: OidcProvider, login_hours: int) -> APIRouter:
    """The endpoints, which browsers follow and programs do not."""
    router = APIRouter(include_in_schema=False)
    seconds, working = login_hours * _HOUR, asyncio.Semaphore(_AT_A_TIME)

    @router.get(PATH)
    async def begin(request: Request, next: str = "/") -> Response:  # noqa: A002 - its name on the login page
        found, flow = visit(request), Flow.begun(cleaned(*_split(next[:_LONGEST])))
        try:
            async with working:
                address = await provider.address(flow, _callback(found))
        except OidcError as error:
            return await _failed(access, found, error)
        response = _redirect(address)
        _keep(response, flow.sealed(access.keys.get(_KEY)), found)
        return response

    @router.get(CALLBACK)
    async def callback(request: Request, code: str = "", state: str = "", error: str = "") -> Response:
        found = visit(request)
        sealed = request.cookies.get(_cookie(found), "")
        flow = Flow.opened(sealed, access.keys.get(_KEY)) if sealed else None
        try:
            if flow is None or flow.state != state:
                raise OidcError("expired", "the login was begun in another browser, or too long ago")
            if error or not code:
                raise OidcError("denied", f"the provider refused: {error!r:.100}")
            async with working:
                user = await provider.user(code, flow, _callback(found))
            token, login = await asyncio.to_thread(_entered, access, user, seconds)
        except OidcError as problem:
            response = await _failed(access, found, problem)
        else:
            await asyncio.to_thread(access.audit.begin, login.user, found.address, "login", "OpenID Connect", DONE)
            response = _redirect(flow.next)
            cookie.set_token(response, token, found.host, seconds=seconds, secure=found.secure)
        response.delete_cookie(_cookie(found), path=PATH, secure=found.secure, httponly=True, samesite="lax")
        return response

    return router


def _entered(access: AccessStore, user: OidcUser, seconds: int) -> tuple[str, Login]:
    """A login of the user, who may be new."""
    try:
        access.users.enter(user.subject, user.name, user.role, keep_role=not user.by_group)
    except NameTakenError as error:
        raise OidcError("taken", str(error)) from error
    except UserError as error:
        raise OidcError("failed", str(error)) from error
    begun = access.logins.begin_subject(user.subject, seconds)
    if begun is None:
        raise OidcError("failed", "the user was removed meanwhile")
    return begun


async def _failed(access: AccessStore, found: Visit, error: OidcError) -> Response:
    """Back to the login page, which says why; the details are in the server's log."""
    logger.warning("a login by OpenID Connect failed: %s", error)
    target = f"OpenID Connect: {error.reason}"
    await asyncio.to_thread(access.audit.begin, NOBODY, found.address, "login", target, REFUSED)
    return _redirect(f"{_LOGIN}?{urlencode({'sso': error.reason})}")


def _redirect(address: str) -> RedirectResponse:
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


def _split(address: str) -> tuple[str, str]:
    path, _, query = address.partition("?")
    return path, query.partition("#")[0]


def _callback(found: Visit) -> str:
    name = f"[{found.host.name}]" if ":" in found.host.name else found.host.name
    port = f":{found.host.port}" if found.host.port else ""
    return f"{'https' if found.secure else 'http'}://{name}{port}{CALLBACK}"


def _cookie(found: Visit) -> str:
    return f"{cookie.name_for(found.host)}_oidc"


def _keep(response: Response, sealed: str, found: Visit) -> None:
    # Lax: the browser comes back from another site.
    response.set_cookie(
        _cookie(found),
        sealed,
        max_age=FLOW_SECONDS,
        path=PATH,
        secure=found.secure,
        httponly=True,
        samesite="lax",
    )
