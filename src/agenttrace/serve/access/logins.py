"""Logins: a random token in a browser's cookie or a script's header, and its hash in the file with who it is."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agenttrace.serve.access.database import AccessDatabase
from agenttrace.serve.access.users import LOCAL
from agenttrace.serve.api.shapes import Role

#: A user with a password, a browser that came by the link, a script with an API token.
Kind = Literal["user", "local", "token"]

#: Open logins of one user, or by the link; the oldest make room.
MOST = 50
#: A login is noted as seen this often, not with every request.
SEEN_MICROS = 60_000_000

_MICROS = 1_000_000
_TOKEN_BYTES = 32
_INSERT_USER = """
INSERT INTO logins (digest, csrf, created_at, seen_at, expires_at, kind, user, role)
SELECT ?, ?, ?, ?, ?, 'user', name, NULL FROM users WHERE name = ? AND password = ?
"""
_INSERT_LOCAL = """
INSERT INTO logins (digest, csrf, created_at, seen_at, expires_at, kind, user, role)
VALUES (?, ?, ?, ?, ?, 'local', ?, 'admin')
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """Somebody who is logged in."""

    digest: bytes
    kind: Kind
    user: str
    role: Role
    csrf: str
    seen_at: int | None


class Logins:
    """The logins of an access store."""

    def __init__(self, database: AccessDatabase, now: Callable[[], int]) -> None:
        self._database, self._now = database, now

    def begin(self, user: str, password_hash: str, seconds: int) -> tuple[str, Login] | None:
        """A new token for a user whose password had this hash; None if it is another one by now."""
        return self._begin(user, seconds, _INSERT_USER, (user, password_hash))

    def begin_local(self, seconds: int) -> tuple[str, Login]:
        """A new token for a browser that came by the link."""
        begun = self._begin(LOCAL, seconds, _INSERT_LOCAL, (LOCAL,))
        assert begun is not None
        return begun

    def _begin(self, user: str, seconds: int, statement: str, values: tuple[str, ...]) -> tuple[str, Login] | None:
        token, csrf, now = new_token(), new_token(), self._now()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM logins WHERE kind != 'token' AND expires_at <= ?", (now,))
            given = (digest_of(token), csrf, now, now, now + seconds * _MICROS, *values)
            if connection.execute(statement, given).rowcount == 0:
                return None
            _make_room(connection, user)
        login = self.find(token)
        return None if login is None else (token, login)

    def find(self, token: str) -> Login | None:
        """Who has this token; None for a token that is unknown or has expired."""
        return self._open(digest_of(token))

    def is_open(self, login: Login) -> bool:
        """Whether a login still holds."""
        return self._open(login.digest) is not None

    def _open(self, digest: bytes) -> Login | None:
        with self._database.reading() as connection:
            row = connection.execute(
                """
                SELECT kind, user, coalesce(users.role, logins.role), csrf, seen_at
                FROM logins LEFT JOIN users ON kind = 'user' AND name = user
                WHERE digest = ? AND (expires_at IS NULL OR expires_at > ?)
                """,
                (digest, self._now()),
            ).fetchone()
        if row is None or row[2] is None:
            return None
        kind, user, role, csrf, seen_at = row
        # No user's name has a colon.
        name = f"token:{user}" if kind == "token" else user
        return Login(digest=digest, kind=kind, user=name, role=role, csrf=csrf, seen_at=seen_at)

    def is_stale(self, login: Login) -> bool:
        """Whether it is time to note that it is in use."""
        return login.seen_at is None or self._now() - login.seen_at >= SEEN_MICROS

    def seen(self, login: Login) -> None:
        """Note that it is in use."""
        with self._database.writing() as connection:
            connection.execute("UPDATE logins SET seen_at = ? WHERE digest = ?", (self._now(), login.digest))

    def end(self, login: Login) -> None:
        """Its token opens nothing any more."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM logins WHERE digest = ?", (login.digest,))


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(token: str) -> bytes:
    """What is kept of a token: looking it up takes the same time for every wrong one."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _make_room(connection: sqlite3.Connection, user: str) -> None:
    connection.execute(
        """
        DELETE FROM logins WHERE digest IN (
            SELECT digest FROM logins WHERE user = ? AND kind != 'token'
            ORDER BY created_at DESC, digest LIMIT -1 OFFSET ?
        )
        """,
        (user, MOST),
    )
