"""``/api/v1/me``, ``login``, ``logout`` and ``audit``: who is logged in, and who changed what."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from importlib.metadata import version

import msgspec
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from agenttrace.config import ServeSettings
from agenttrace.serve.access import cookie, passwords
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.audit import DONE, REFUSED, audited
from agenttrace.serve.access.logins import Login
from agenttrace.serve.access.users import NOBODY, name_of
from agenttrace.serve.access.visitor import Visit, Visitor, visit
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.lists import Cursor, Limit, page_of, place_of
from agenttrace.serve.api.shapes.settings import AuditList, AuditRow, Me
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.problems import ProblemError
from agenttrace.views.times import iso

WRONG = "The name or the password is wrong."
#: In the audit log where there is no such user: what was typed may have been a password.
UNKNOWN_NAME = "(unknown name)"

_HOUR = 3600
#: Each check takes 64 MiB for a moment.
_AT_A_TIME = 2


class Credentials(BaseModel):
    """Name and password."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=200)
    password: str = Field(min_length=1, max_length=passwords.MOST)


class Entrance:
    """Checks passwords: the same work and the same answer for a wrong name and a wrong password."""

    def __init__(self, access: AccessStore, seconds: int) -> None:
        self._access, self._seconds = access, seconds
        self._checking = asyncio.Semaphore(_AT_A_TIME)

    async def log_in(self, typed_name: str, password: str, address: str) -> tuple[str, Login]:
        """A token and the login it opens; raises 401 for what is wrong, 429 for too many attempts."""
        name = name_of(typed_name)
        attempt = await asyncio.to_thread(self._access.failed_logins.begin, name or typed_name, address)
        kept = self._access.users.password_hash(name)
        async with self._checking:
            is_right = await asyncio.to_thread(passwords.matches, kept or passwords.NOBODYS, password)
        begun = None
        if name is not None and kept is not None and is_right:
            begun = await asyncio.to_thread(self._access.logins.begin, name, kept, self._seconds)
        if begun is None:
            await self._note(NOBODY, address, UNKNOWN_NAME if kept is None else str(name), REFUSED)
            raise ProblemError(401, WRONG)
        await asyncio.to_thread(self._access.failed_logins.succeeded, attempt)
        await self._note(begun[1].user, address, begun[1].user, DONE)
        return begun

    async def _note(self, user: str, address: str, target: str, outcome: str) -> None:
        await asyncio.to_thread(self._access.audit.begin, user, address, "login", target, outcome)


def access_router(
    access: AccessStore, settings: ServeSettings, *, sso: str | None = None, program: str = "agenttrace"
) -> APIRouter:
    """The endpoints; ``sso`` names the provider of logins by OpenID Connect, ``program`` is the command to advise."""
    router = APIRouter(prefix="/api/v1", tags=["access"])
    seconds = settings.login_hours * _HOUR
    entrance = Entrance(access, seconds)

    @router.get("/me", **endpoint("The current user", Me))
    async def me(request: Request) -> Response:
        return _me(access, visit(request), sso, program)

    @router.post(
        "/login",
        **endpoint("Log in", Me, 400, 401, 403, 413, 421, 422, 429),
        description="The answer sets the cookie of the login. Five failures are free, then there is a growing pause.",
        openapi_extra=documented_body(Credentials, {"name": "anna", "password": "…"}),
    )
    async def log_in(request: Request) -> Response:
        before = visit(request)
        given = await read_body(request, Credentials)
        token, login = await entrance.log_in(given.name, given.password, before.address)
        if before.login is not None and before.login.kind != "token":
            await asyncio.to_thread(access.logins.end, before.login)
        after = before
        if before.login_required:
            who = Visitor(name=login.user, role=login.role, address=before.address, person=login.person)
            after = replace(before, visitor=who, csrf=login.csrf)
        response = _me(access, after, sso, program)
        cookie.set_token(response, token, before.host, seconds=seconds, secure=before.secure)
        return response

    @router.post("/logout", **endpoint("Log out", Me, 401, 403, 421))
    async def log_out(request: Request) -> Response:
        before = visit(request)
        after = before
        if before.login is not None and before.login.kind != "token":
            async with audited(request, "logout", before.login.user):
                await asyncio.to_thread(access.logins.end, before.login)
            after = replace(before, visitor=None, csrf=before.strangers_csrf)
        response = _me(access, after, sso, program)
        cookie.delete_token(response, before.host, secure=before.secure)
        return response

    @router.get(
        "/audit",
        **endpoint("Who changed what", AuditList, 400, 401, 422, for_admins=True),
        description="Changes through the console and of users, logins and refused logins; newest first. For admins.",
    )
    async def list_audit(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
        found = access.audit.page(limit + 1, place_of(cursor))
        page, following = page_of(found, limit, lambda entry: entry.id)
        items = [AuditRow(**asdict(entry) | {"at": iso(entry.at) or ""}) for entry in page]
        return answer(request, AuditList(items=items, next=following))

    return router


def _me(access: AccessStore, found: Visit, sso: str | None, program: str) -> Response:
    who = found.visitor
    # Strangers from other machines need not know where it is.
    is_known = who is not None or found.by_link
    me = Me(
        name=who.name if who else None,
        role=who.role if who else None,
        login_required=found.login_required,
        by_link=found.by_link,
        users_exist=access.users.exist(),
        sso=sso,
        csrf=found.csrf,
        program=program if is_known else "agenttrace",
        version=version("agenttrace"),
    )
    # It has a token: no cache may store it.
    return Response(msgspec.json.encode(me), 200, {"Cache-Control": "no-store"}, "application/json")
