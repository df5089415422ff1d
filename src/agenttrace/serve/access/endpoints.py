"""``/api/v1/me``, ``login``, ``logout`` and ``audit``: who is looking, and who changed what."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib.metadata import version

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from agenttrace.config import ServeSettings
from agenttrace.serve.access import cookie
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.audit_log import AuditEntry
from agenttrace.serve.access.entrance import Entrance
from agenttrace.serve.access.passwords import MOST
from agenttrace.serve.access.visitor import Admission, Visitor, admin, admission
from agenttrace.serve.api.answers import Cursor, Limit, answer, shaped
from agenttrace.serve.api.filters import page_of, place_of
from agenttrace.serve.api.shapes import AuditList, AuditRow, Me
from agenttrace.serve.bodies import documented_body, read_body
from agenttrace.serve.problems import documented
from agenttrace.views.times import iso

_HOUR = 3600


class Credentials(BaseModel):
    """What a login takes."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1, max_length=200)
    password: str = Field(min_length=1, max_length=MOST)


def access_router(access: AccessStore, settings: ServeSettings) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["access"])
    seconds = settings.login_hours * _HOUR
    entrance = Entrance(access, seconds)

    @router.get("/me", summary="Who is looking", responses=shaped(Me))
    async def me(request: Request) -> Response:
        return _me(access, admission(request))

    @router.post(
        "/login",
        summary="Log in",
        description="The answer sets the cookie of the login. Five failures are free, then there is a growing pause.",
        responses=shaped(Me) | documented(400, 401, 403, 413, 421, 422, 429),
        openapi_extra=documented_body(Credentials, {"name": "anna", "password": "…"}),
    )
    async def log_in(request: Request) -> Response:
        before = admission(request)
        given = await read_body(request, Credentials)
        token, login = await entrance.log_in(given.name, given.password, before.address)
        if before.login is not None and before.login.kind != "token":
            await asyncio.to_thread(access.logins.end, before.login)
        after = before
        if before.login_required:
            who = Visitor(name=login.user, role=login.role, address=before.address)
            after = replace(before, visitor=who, csrf=login.csrf)
        response = _me(access, after)
        cookie.give(response, token, before.host, seconds=seconds, secure=before.secure)
        return response

    @router.post("/logout", summary="Log out", responses=shaped(Me) | documented(401, 403, 421))
    async def log_out(request: Request) -> Response:
        before = admission(request)
        after = before
        if before.login is not None and before.login.kind != "token":
            async with audited(request, "logout", before.login.user):
                await asyncio.to_thread(access.logins.end, before.login)
            after = replace(before, visitor=None, csrf=before.strangers_csrf)
        response = _me(access, after)
        cookie.take(response, before.host, secure=before.secure)
        return response

    @router.get(
        "/audit",
        summary="Who changed what",
        description="Changes through the console and of users, logins and refused logins; newest first. For admins.",
        responses=shaped(AuditList) | documented(400, 401, 403, 422),
        dependencies=[Depends(admin)],
    )
    async def list_audit(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
        found = access.audit.page(limit + 1, place_of(cursor))
        page, following = page_of(found, limit, lambda entry: entry.id)
        return answer(request, AuditList(items=[audit_row(entry) for entry in page], next=following))

    return router


def audit_row(entry: AuditEntry) -> AuditRow:
    """An entry of the audit log for JSON."""
    return AuditRow(
        id=entry.id,
        at=iso(entry.at) or "",
        user=entry.user,
        address=entry.address,
        action=entry.action,
        target=entry.target,
        outcome=entry.outcome,
    )


def _me(access: AccessStore, found: Admission) -> Response:
    who = found.visitor
    me = Me(
        name=who.name if who else None,
        role=who.role if who else None,
        login_required=found.login_required,
        by_link=found.by_link,
        users_exist=access.users.exist(),
        csrf=found.csrf,
        version=version("agenttrace"),
    )
    # It holds a token: no cache may keep it.
    return Response(msgspec.json.encode(me), 200, {"Cache-Control": "no-store"}, "application/json")
