"""Logins: a random token in a browser's cookie, and its hash in the file with who it is and until when."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from agenttrace.serve.access.database import AccessDatabase
from agenttrace.serve.api.shapes import Role

#: Open logins of one user; the oldest make room.
MOST = 50
#: A login is noted as seen this often, not with every request.
SEEN_MICROS = 60_000_000

_MICROS = 1_000_000
_TOKEN_BYTES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """Somebody who is logged in."""

    digest: bytes
    user: str
    role: Role
    csrf: str
    seen_at: int


class Logins:
    """The logins of an access store."""

    def __init__(self, database: AccessDatabase, now: Callable[[], int]) -> None:
        self._database, self._now = database, now

    def begin(self, user: str, password_hash: str, seconds: int) -> tuple[str, Login] | None:
        """A new token for a user whose password had this hash; None if it is another one by now."""
        token, csrf, now = secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_urlsafe(_TOKEN_BYTES), self._now()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM logins WHERE expires_at <= ?", (now,))
            inserted = connection.execute(
                """
                INSERT INTO logins (digest, user, csrf, created_at, seen_at, expires_at)
                SELECT ?, name, ?, ?, ?, ? FROM users WHERE name = ? AND password = ?
                """,
                (_digest(token), csrf, now, now, now + seconds * _MICROS, user, password_hash),
            )
            if inserted.rowcount == 0:
                return None
            connection.execute(
                """
                DELETE FROM logins WHERE digest IN
                (SELECT digest FROM logins WHERE user = ? ORDER BY created_at DESC, digest LIMIT -1 OFFSET ?)
                """,
                (user, MOST),
            )
        login = self.find(token)
        return None if login is None else (token, login)

    def find(self, token: str) -> Login | None:
        """Who has this token; None where nobody has, or had it until now."""
        return self._open(_digest(token))

    def is_open(self, login: Login) -> bool:
        """Whether a login still holds."""
        return self._open(login.digest) is not None

    def _open(self, digest: bytes) -> Login | None:
        with self._database.reading() as connection:
            row = connection.execute(
                """
                SELECT user, role, csrf, seen_at FROM logins JOIN users ON name = user
                WHERE digest = ? AND expires_at > ?
                """,
                (digest, self._now()),
            ).fetchone()
        if row is None:
            return None
        return Login(digest=digest, user=row[0], role=row[1], csrf=row[2], seen_at=row[3])

    def is_stale(self, login: Login) -> bool:
        """Whether it is time to note that it is in use."""
        return self._now() - login.seen_at >= SEEN_MICROS

    def seen(self, login: Login) -> None:
        """Note that it is in use."""
        with self._database.writing() as connection:
            connection.execute("UPDATE logins SET seen_at = ? WHERE digest = ?", (self._now(), login.digest))

    def end(self, login: Login) -> None:
        """Its token opens nothing any more."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM logins WHERE digest = ?", (login.digest,))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
