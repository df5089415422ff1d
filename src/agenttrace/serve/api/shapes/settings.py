"""Settings, checks, access and the audit log."""

from __future__ import annotations

from typing import Any, Literal

from agenttrace.serve.api.shapes.base import Shape


class SettingRow(Shape):
    """A setting: its value, and where it comes from."""

    name: str
    #: Secrets are masked.
    value: Any
    origin: str
    secret: bool
    description: str


class TeamServer(Shape):
    """The team whose sessions this server has."""

    #: Empty: it has no name.
    name: str


class SettingList(Shape):
    """All settings."""

    home: str
    file: str
    #: Null where this is no team server.
    team: TeamServer | None
    items: list[SettingRow]


class Check(Shape):
    """A finding of the doctor."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    fix: str


class Doctor(Shape):
    """All findings."""

    ok: bool
    checks: list[Check]


Role = Literal["viewer", "member", "admin"]


class Me(Shape):
    """The current user and role."""

    #: Null before the login.
    name: str | None
    role: Role | None
    login_required: bool
    #: The link of ``agenttrace open`` is a login here, without a user.
    by_link: bool
    #: False where a login is not possible, because there is no user yet.
    users_exist: bool
    #: The name of the provider where users can log in by OpenID Connect: at ``/login/oidc?next=…``.
    sso: str | None
    #: The header ``X-CSRF-Token`` of every change.
    csrf: str | None
    #: What commands of AgentTrace begin with in a terminal of its machine.
    program: str
    version: str


class RemovedPerson(Shape):
    """What ended when a person was removed."""

    person: str
    #: Sessions whose texts were removed.
    sessions: int
    machines: int
    logins: int
    tokens: int


class AuditRow(Shape):
    """A change, and who made it."""

    id: int
    at: str
    user: str
    address: str
    action: str
    target: str
    outcome: str


class AuditList(Shape):
    """A page of the audit log, newest first."""

    items: list[AuditRow]
    next: str | None


class DemoData(Shape):
    """Whether there are demo sessions; ``removing`` until the recorder has removed them."""

    state: Literal["absent", "loaded", "removing"]


class SavedView(Shape):
    """A saved view of a page."""

    id: str
    page: Literal["sessions", "usage", "insights"]
    name: str
    #: The part of the page's address after the ``?``.
    search: str
    #: With all users.
    shared: bool
    owner: str
    mine: bool


class SavedViewList(Shape):
    """The saved views of the visitor, and those that others share."""

    items: list[SavedView]
