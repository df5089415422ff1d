"""Logins: a random token in a browser's cookie or a script's header, and its hash in the file with its user.

An API token is what a script sends as ``Authorization: Bearer …``, with a name, a role and an expiry time if wanted.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from dataclasses import dataclass
from typing import Literal

from agenttrace.serve.access.database import MICROS, AccessTable
from agenttrace.serve.access.users import LOCAL, NoSuchUserError, UserError, checked_name, name_of
from agenttrace.serve.api.shapes.settings import Role

#: A user with a password, a browser that came by the link, a script with an API token.
Kind = Literal["user", "local", "token"]

#: What every API token begins with, so that it is recognised where it does not belong.
PREFIX = "agt_"
#: Open logins of one user, or by the link; the oldest end first.
MOST = 50
#: The time of last use is written this often, not with every request.
SEEN_MICROS = 60 * MICROS

_TOKEN_BYTES = 32
_INSERT_USER = """
INSERT INTO logins (digest, csrf, created_at, seen_at, expires_at, kind, user, role)
SELECT ?, ?, ?, ?, ?, 'user', name, NULL FROM users WHERE name = ? AND password = ?
"""
_INSERT_SUBJECT = """
INSERT INTO logins (digest, csrf, created_at, seen_at, expires_at, kind, user, role)
SELECT ?, ?, ?, ?, ?, 'user', name, NULL FROM users WHERE subject = ?
"""
_INSERT_LOCAL = """
INSERT INTO logins (digest, csrf, created_at, seen_at, expires_at, kind, user, role)
VALUES (?, ?, ?, ?, ?, 'local', ?, 'admin')
"""
_INSERT_API = """
INSERT INTO logins (digest, kind, user, role, csrf, created_at, expires_at, person)
VALUES (?, 'token', ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """A login that is open."""

    digest: bytes
    kind: Kind
    user: str
    role: Role
    csrf: str
    seen_at: int | None
    #: The person whose sessions are the visitor's own.
    person: str | None = None


class Logins(AccessTable):
    """The logins of an access store."""

    def begin(self, user: str, password_hash: str, seconds: int) -> tuple[str, Login] | None:
        """A new token for a user whose password had this hash; None if it has changed."""
        return self._begin(seconds, _INSERT_USER, (user, password_hash))

    def begin_subject(self, subject: str, seconds: int) -> tuple[str, Login] | None:
        """A new token for a user whom the provider of OpenID Connect knows; None if there is none."""
        return self._begin(seconds, _INSERT_SUBJECT, (subject,))

    def begin_local(self, seconds: int) -> tuple[str, Login]:
        """A new token for a browser that came by the link."""
        begun = self._begin(seconds, _INSERT_LOCAL, (LOCAL,))
        assert begun is not None
        return begun

    def _begin(self, seconds: int, statement: str, values: tuple[str, ...]) -> tuple[str, Login] | None:
        token, csrf, now = new_token(), new_token(), self._now()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM logins WHERE kind != 'token' AND expires_at <= ?", (now,))
            given = (digest_of(token), csrf, now, now, now + seconds * MICROS, *values)
            if connection.execute(statement, given).rowcount == 0:
                return None
            _end_oldest(connection, digest_of(token))
        login = self.find(token)
        return None if login is None else (token, login)

    def find(self, token: str) -> Login | None:
        """The login of this token; None for a token that is unknown or has expired."""
        return self._open(digest_of(token))

    def is_open(self, login: Login) -> bool:
        """Whether a login is still open."""
        return self._open(login.digest) is not None

    def _open(self, digest: bytes) -> Login | None:
        with self._database.reading() as connection:
            row = connection.execute(
                """
                SELECT kind, user, coalesce(users.role, logins.role), csrf, seen_at, coalesce(users.name, person)
                FROM logins LEFT JOIN users ON kind = 'user' AND name = user
                WHERE digest = ? AND (expires_at IS NULL OR expires_at > ?)
                """,
                (digest, self._now()),
            ).fetchone()
        if row is None or row[2] is None:
            return None
        kind, user, role, csrf, seen_at, person = row
        # No user's name has a colon.
        name = f"token:{user}" if kind == "token" else user
        return Login(digest=digest, kind=kind, user=name, role=role, csrf=csrf, seen_at=seen_at, person=person)

    def is_stale(self, login: Login) -> bool:
        """Whether it is time to write the time of last use."""
        return login.seen_at is None or self._now() - login.seen_at >= SEEN_MICROS

    def seen(self, login: Login) -> None:
        """Write the time of last use."""
        with self._database.writing() as connection:
            connection.execute("UPDATE logins SET seen_at = ? WHERE digest = ?", (self._now(), login.digest))

    def end(self, login: Login) -> None:
        """End a login; its token is invalid from now on."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM logins WHERE digest = ?", (login.digest,))


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token, without the token itself; times are microseconds since the epoch."""

    name: str
    role: Role
    #: The user it acts for.
    person: str | None
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


class ApiTokens(AccessTable):
    """The API tokens of an access store."""

    def create(self, text: str, role: Role, seconds: int | None, person: str | None = None) -> tuple[str, ApiToken]:
        """A new token, which is shown only now, and its row; one that acts for a person ends with that user."""
        name, acts_for = checked_name(text), None if person is None else name_of(person)
        token, now = PREFIX + new_token(), self._now()
        expires = None if seconds is None else now + seconds * MICROS
        try:
            with self._database.writing() as connection:
                if person is not None and not _is_user(connection, acts_for):
                    raise NoSuchUserError(person)
                values = (digest_of(token), name, role, new_token(), now, expires, acts_for)
                connection.execute(_INSERT_API, values)
        except sqlite3.IntegrityError:
            raise UserError(f"there is an API token named {name!r} already; revoke it first") from None
        return token, next(each for each in self.all() if each.name == name)

    def all(self) -> list[ApiToken]:
        """All tokens by name, expired ones too."""
        now = self._now()
        with self._database.reading() as connection:
            rows = connection.execute(
                """
                SELECT user, role, person, created_at, seen_at, expires_at FROM logins
                WHERE kind = 'token' ORDER BY user
                """
            ).fetchall()
        return [
            ApiToken(name, role, person, created, seen, expires, expires is not None and expires <= now)
            for name, role, person, created, seen, expires in rows
        ]

    def of_person(self, person: str) -> int:
        """How many tokens act for a user."""
        return sum(each.person == name_of(person) for each in self.all())

    def revoke(self, text: str) -> str:
        """Revoke a token; returns its name as it is stored."""
        name = name_of(text)
        with self._database.writing() as connection:
            done = connection.execute("DELETE FROM logins WHERE kind = 'token' AND user = ?", (name,))
        if name is None or done.rowcount == 0:
            raise NoSuchTokenError(text)
        return name


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(token: str) -> bytes:
    """What is stored of a token: looking it up takes the same time for every wrong one."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _is_user(connection: sqlite3.Connection, name: str | None) -> bool:
    return connection.execute("SELECT 1 FROM users WHERE name = ?", (name,)).fetchone() is not None


def _end_oldest(connection: sqlite3.Connection, newest: bytes) -> None:
    connection.execute(
        """
        DELETE FROM logins WHERE digest IN (
            SELECT digest FROM logins
            WHERE user = (SELECT user FROM logins WHERE digest = ?) AND kind != 'token'
            ORDER BY created_at DESC, digest LIMIT -1 OFFSET ?
        )
        """,
        (newest, MOST),
    )
