"""Who is looking, as the gate found out; for the endpoints that want to know."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from agenttrace.serve.access.hosts import Host
from agenttrace.serve.access.logins import Login
from agenttrace.serve.access.users import LOCAL
from agenttrace.serve.api.shapes import Role
from agenttrace.serve.problems import ProblemError


class NotAdminError(ProblemError):
    """A viewer wanted to change something."""

    def __init__(self, name: str) -> None:
        super().__init__(403, f"Only an admin may do this, and {name} is a viewer.", reason="role")
        self.name = name


@dataclass(frozen=True, kw_only=True, slots=True)
class Visitor:
    """Somebody who may look."""

    name: str
    role: Role
    #: Where the request came from, as far as proxies that we trust tell.
    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """What the gate found out about a request."""

    #: None while somebody has to log in first.
    visitor: Visitor | None
    address: str
    login: Login | None
    login_required: bool
    #: The link of ``agenttrace open`` lets in from here.
    by_link: bool
    #: What the console was called by.
    host: Host
    #: What has to come as ``X-CSRF-Token`` with every change.
    csrf: str
    #: The same for somebody who is not logged in (any more).
    strangers_csrf: str
    #: The browser came by HTTPS.
    secure: bool


def admission(request: Request) -> Admission:
    """What the gate found out; nobody comes in where no gate stands."""
    found = request.scope.get("state", {}).get("admission")
    if not isinstance(found, Admission):
        raise ProblemError(401, "Log in first.")
    return found


def visitor(request: Request) -> Visitor:
    """Who is looking; 401 for nobody."""
    found: Visitor | None = request.scope.get("state", {}).get("visitor")
    if found is None:
        raise ProblemError(401, "Log in first.")
    return found


async def admin(request: Request) -> Visitor:
    """A dependency of everything that only admins may: 403 for viewers."""
    found = visitor(request)
    if found.role != "admin":
        raise NotAdminError(found.name)
    return found


def local_visitor(address: str) -> Visitor:
    """Whoever looks from the machine itself; the files are theirs anyway."""
    return Visitor(name=LOCAL, role="admin", address=address)
