"""API tokens: what a script brings as ``Authorization: Bearer …``, with a name, a role and an end if wanted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from agenttrace.serve.access.database import AccessDatabase
from agenttrace.serve.access.logins import digest_of, new_token
from agenttrace.serve.access.users import UserError, name_of
from agenttrace.serve.api.shapes import Role

#: What every token begins with, so that it is recognised where it does not belong.
PREFIX = "agt_"

_MICROS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiToken:
    """A token, without the token itself; times are microseconds since the epoch."""

    name: str
    role: Role
    created_at: int
    #: None: never used.
    seen_at: int | None
    #: None: until it is revoked.
    expires_at: int | None
    expired: bool


class NoSuchTokenError(UserError):
    """There is no API token of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no API token named {name!r}")
        self.name = name


class ApiTokens:
    """The API tokens of an access store."""

    def __init__(self, database: AccessDatabase, now: Callable[[], int]) -> None:
        self._database, self._now = database, now

    def create(self, text: str, role: Role, seconds: int | None) -> tuple[str, ApiToken]:
        """A new token, which is shown this once, and what is kept of it."""
        name = name_of(text)
        if name is None:
            raise UserError(f"{text!r} cannot be a name: 1 to 64 letters, digits and . _ @ + -")
        token, now = PREFIX + new_token(), self._now()
        expires = None if seconds is None else now + seconds * _MICROS
        try:
            with self._database.writing() as connection:
                connection.execute(
                    "INSERT INTO logins VALUES (?, 'token', ?, ?, ?, ?, NULL, ?)",
                    (digest_of(token), name, role, new_token(), now, expires),
                )
        except sqlite3.IntegrityError:
            raise UserError(f"there is an API token named {name!r} already; revoke it first") from None
        return token, self._get(name)

    def all(self) -> list[ApiToken]:
        """All tokens by name, expired ones too."""
        now = self._now()
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT user, role, created_at, seen_at, expires_at FROM logins WHERE kind = 'token' ORDER BY user"
            ).fetchall()
        return [
            ApiToken(
                name=name,
                role=role,
                created_at=created,
                seen_at=seen,
                expires_at=expires,
                expired=expires is not None and expires <= now,
            )
            for name, role, created, seen, expires in rows
        ]

    def revoke(self, text: str) -> str:
        """The token opens nothing any more; its name as it was kept."""
        name = name_of(text)
        with self._database.writing() as connection:
            done = connection.execute("DELETE FROM logins WHERE kind = 'token' AND user = ?", (name,))
        if name is None or done.rowcount == 0:
            raise NoSuchTokenError(text)
        return name

    def _get(self, name: str) -> ApiToken:
        return next(token for token in self.all() if token.name == name)
