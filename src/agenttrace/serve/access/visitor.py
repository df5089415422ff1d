"""The visitor of a request, as the gate found out."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from agenttrace.serve.access.hosts import Host
from agenttrace.serve.access.logins import Login
from agenttrace.serve.api.shapes.settings import Role
from agenttrace.serve.problems import ProblemError


class NotAdminError(ProblemError):
    """403 for a viewer or member who asks for a change."""

    def __init__(self, visitor: Visitor) -> None:
        problem = f"Only an admin may do this, and {visitor.name} is a {visitor.role}."
        super().__init__(403, problem, reason="role")
        self.name = visitor.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Visitor:
    """A user, script or browser that may read."""

    name: str
    role: Role
    #: The address of the client, as far as trusted proxies tell it.
    address: str
    #: The person whose sessions are the visitor's own, on a team's server.
    person: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """The result of the gate for a request."""

    #: None before the login.
    visitor: Visitor | None
    address: str
    login: Login | None
    login_required: bool
    #: The link of ``agenttrace open`` is a login here.
    by_link: bool
    #: The name of the console in this request.
    host: Host
    #: The ``X-CSRF-Token`` that every change needs.
    csrf: str
    #: The same for a visitor without a login.
    strangers_csrf: str
    #: The browser came by HTTPS.
    secure: bool


def visit(request: Request) -> Visit:
    """The result of the gate; 401 without a gate."""
    found = request.scope.get("state", {}).get("visit")
    if not isinstance(found, Visit):
        raise ProblemError(401, "Log in first.")
    return found


def visitor(request: Request) -> Visitor:
    """The visitor; 401 before the login."""
    found: Visitor | None = request.scope.get("state", {}).get("visitor")
    if found is None:
        raise ProblemError(401, "Log in first.")
    return found


async def admin(request: Request) -> Visitor:
    """A dependency of endpoints for admins: 403 for viewers and members."""
    found = visitor(request)
    if found.role != "admin":
        raise NotAdminError(found)
    return found
