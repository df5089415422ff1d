"""Users of the console: viewers and members read, admins may also change things."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from dataclasses import dataclass

from agenttrace.serve.access.database import AccessTable
from agenttrace.serve.api.shapes.settings import Role

#: The user on the machine itself, by the link or where no login is required.
LOCAL = "local"
#: In the audit log: a request without a login.
NOBODY = "nobody"

_NAME = re.compile(r"\w[\w.@+-]{0,63}")


class UserError(Exception):
    """A change of users that is not possible, and why."""


class NoSuchUserError(UserError):
    """There is no user of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no user named {name!r}")
        self.name = name


class NameTakenError(UserError):
    """A user of this name logs in in another way."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the user {name!r} logs in in another way; an admin can remove that user, or rename this one")


@dataclass(frozen=True, slots=True)
class User:
    """A user, without the password; times are microseconds since the epoch."""

    name: str
    role: Role
    #: Without one, the user logs in by OpenID Connect.
    has_password: bool
    created_at: int
    #: When password or role were last set.
    changed_at: int
    #: Logins that are open now, and when one of them was last used.
    logins: int
    seen_at: int | None


def name_of(text: str) -> str | None:
    """A name as it is stored, whatever case it was typed in; None for what cannot be one."""
    name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return name if _NAME.fullmatch(name) and name not in (LOCAL, NOBODY) else None


def checked_name(text: str) -> str:
    """A name as it is stored; raises for what cannot be one."""
    name = name_of(text)
    if name is None:
        raise UserError(
            f"{text!r} cannot be a name: 1 to 64 letters, digits and . _ @ + -, and neither {LOCAL} nor {NOBODY}"
        )
    return name


class Users(AccessTable):
    """The users of an access store."""

    def add(self, text: str, role: Role, password_hash: str | None) -> User:
        """A new user; without a password one who is to log in by OpenID Connect."""
        name, now = checked_name(text), self._now()
        try:
            with self._database.writing() as connection:
                connection.execute(
                    "INSERT INTO users (name, role, password, created_at, changed_at) VALUES (?, ?, ?, ?, ?)",
                    (name, role, password_hash, now, now),
                )
        except sqlite3.IntegrityError:
            raise UserError(f"there is a user named {name!r} already") from None
        return self.get(name)

    def enter(self, subject: str, text: str, role: Role, *, keep_role: bool) -> None:
        """A user whom the provider of OpenID Connect knows: as stored, as added before, or new.

        With ``keep_role`` a known user has the role that is stored.
        """
        name, now = checked_name(text), self._now()
        with self._database.writing() as connection:
            found = connection.execute("SELECT name, role FROM users WHERE subject = ?", (subject,)).fetchone()
            if found is None:
                _link(connection, subject, name, role, now)
                found = connection.execute("SELECT name, role FROM users WHERE subject = ?", (subject,)).fetchone()
            if found[1] != role and not keep_role:
                connection.execute("UPDATE users SET role = ?, changed_at = ? WHERE name = ?", (role, now, found[0]))
                _end_logins(connection, found[0])

    def all(self) -> list[User]:
        """All users by name."""
        with self._database.reading() as connection:
            rows = connection.execute(
                """
                SELECT name, users.role, password IS NOT NULL, users.created_at, changed_at, count(digest), max(seen_at)
                FROM users LEFT JOIN logins ON kind = 'user' AND user = name AND expires_at > ?
                GROUP BY name ORDER BY name
                """,
                (self._now(),),
            ).fetchall()
        return [User(row[0], row[1], bool(row[2]), *row[3:]) for row in rows]

    def get(self, name: str) -> User:
        """One user."""
        known = name_of(name)
        for user in self.all():
            if user.name == known:
                return user
        raise NoSuchUserError(name)

    def exist(self) -> bool:
        """Whether there is a user at all."""
        with self._database.reading() as connection:
            return connection.execute("SELECT 1 FROM users LIMIT 1").fetchone() is not None

    def password_hash(self, name: str | None) -> str | None:
        """The hash of a user's password; None where there is no such user, or it has no password."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT password FROM users WHERE name = ?", (name,)).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def set_password(self, name: str, password_hash: str) -> int:
        """Change the password; returns the number of logins that this ended."""
        return self._change(name, "UPDATE users SET password = ?, changed_at = ? WHERE name = ?", password_hash)

    def set_role(self, name: str, role: Role) -> int:
        """Change the role; returns the number of logins that this ended."""
        return self._change(name, "UPDATE users SET role = ?, changed_at = ? WHERE name = ?", role)

    def remove(self, name: str) -> int:
        """Remove a user and the API tokens that act for it; returns the number of logins that this ended."""
        known = name_of(name)
        with self._database.writing() as connection:
            ended = _end_logins(connection, known)
            if connection.execute("DELETE FROM users WHERE name = ?", (known,)).rowcount == 0:
                raise NoSuchUserError(name)
            connection.execute("DELETE FROM views WHERE owner = ?", (known,))
            _revoke_tokens(connection, known)
        return ended

    def _change(self, name: str, statement: str, value: str) -> int:
        known = name_of(name)
        with self._database.writing() as connection:
            if connection.execute(statement, (value, self._now(), known)).rowcount == 0:
                raise NoSuchUserError(name)
            return _end_logins(connection, known)


def _revoke_tokens(connection: sqlite3.Connection, person: str | None) -> None:
    connection.execute("DELETE FROM logins WHERE kind = 'token' AND person = ?", (person,))


def _link(connection: sqlite3.Connection, subject: str, name: str, role: Role, now: int) -> None:
    """Give the subject the user of this name, who waits for it or is new."""
    known = connection.execute("SELECT password, subject FROM users WHERE name = ?", (name,)).fetchone()
    if known is None:
        values = (name, role, now, now, subject)
        connection.execute(
            "INSERT INTO users (name, role, created_at, changed_at, subject) VALUES (?, ?, ?, ?, ?)", values
        )
    elif known == (None, None):
        connection.execute("UPDATE users SET subject = ?, changed_at = ? WHERE name = ?", (subject, now, name))
    else:
        raise NameTakenError(name)


def _end_logins(connection: sqlite3.Connection, name: str | None) -> int:
    return connection.execute("DELETE FROM logins WHERE kind = 'user' AND user = ?", (name,)).rowcount
