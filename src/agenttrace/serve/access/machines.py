"""The machines of a team: each joins with the code of an invitation, and gets a token of its own.

A code is used once. Of codes and tokens only hashes are stored.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import unicodedata
from dataclasses import dataclass
from typing import Literal

from agenttrace.serve.access.database import MICROS, AccessTable
from agenttrace.serve.access.logins import SEEN_MICROS, digest_of, new_token
from agenttrace.serve.access.users import UserError, name_of

logger = logging.getLogger(__name__)

#: What every token of a machine begins with.
MACHINE_PREFIX = "atm_"
#: How long a code can be used.
INVITE_SECONDS = 24 * 3600
#: The longest name of a machine or person; the number that makes a name unique comes behind it.
LONGEST = 64
_SPACE = re.compile(r"\s+")
_COLUMNS = "name, person, created_at, seen_at, revoked_at, share"
#: What all members of the team see of a machine's sessions.
Share = Literal["full", "figures"]


class NoSuchMachineError(UserError):
    """There is no machine of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no machine named {name!r}")
        self.name = name


class InviteError(UserError):
    """A code that cannot be used."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, without its token; times are microseconds since the epoch."""

    name: str
    person: str
    created_at: int
    #: When it last sent something; written every minute at most.
    seen_at: int | None
    revoked_at: int | None
    share: Share = "figures"


def shown_name(text: str) -> str:
    """A name of a machine or person as it is stored: printable, without leading and trailing space, not too long."""
    plain = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    printable = "".join(char if char.isprintable() else " " for char in plain)
    return _SPACE.sub(" ", printable).strip()[:LONGEST].strip()


class Machines(AccessTable):
    """The machines and invitations of an access store."""

    # -- invitations ------------------------------------------------------------------------------------------

    def invite(self, person: str | None, seconds: int = INVITE_SECONDS) -> tuple[str, int]:
        """A new code, which is shown only now, and when it expires; ``person``: whose machine it will be."""
        whose = None if person is None else name_of(person) or shown_name(person)
        if whose == "":
            raise UserError(f"{person!r} cannot be a name")
        code, now = new_token(), self._now()
        expires = now + seconds * MICROS
        with self._database.writing() as connection:
            connection.execute("DELETE FROM invites WHERE expires_at <= ?", (now,))
            connection.execute("INSERT INTO invites VALUES (?, ?, ?, ?)", (digest_of(code), whose, now, expires))
        return code, expires

    def join(
        self, code: str, name: str, person: str | None, token: str = "", share: Share = "figures"
    ) -> tuple[str, Machine]:
        """Exchange a code for the token of a machine; one that still has a valid token keeps its name."""
        wanted, now = shown_name(name) or "machine", self._now()
        fresh = MACHINE_PREFIX + new_token()
        with self._database.writing() as connection:
            row = connection.execute(
                "DELETE FROM invites WHERE digest = ? AND expires_at > ? RETURNING person", (digest_of(code), now)
            ).fetchone()
            if row is None:
                raise InviteError("the code is not known, was used already, or has expired")
            known = _machine(connection, token)
            whose = row[0] or shown_name(person or "") or wanted
            if known is None:
                machine = Machine(_free_name(connection, wanted), whose, now, None, None, share)
                connection.execute(
                    "INSERT INTO machines (name, person, digest, created_at, share) VALUES (?, ?, ?, ?, ?)",
                    (machine.name, machine.person, digest_of(fresh), now, share),
                )
            else:
                machine = Machine(known.name, whose, known.created_at, known.seen_at, None, share)
                connection.execute(
                    "UPDATE machines SET digest = ?, person = ?, share = ? WHERE name = ?",
                    (digest_of(fresh), whose, share, known.name),
                )
        return fresh, machine

    # -- machines ---------------------------------------------------------------------------------------------

    def find(self, token: str) -> Machine | None:
        """The machine of this token; None where it is not known, or was revoked."""
        with self._database.reading() as connection:
            return _machine(connection, token)

    def is_stale(self, machine: Machine) -> bool:
        """Whether it is time to write that it was seen."""
        return machine.seen_at is None or self._now() - machine.seen_at >= SEEN_MICROS

    def seen(self, machine: Machine) -> None:
        """Write that it was seen; a full disk keeps no machine from sending."""
        try:
            with self._database.writing() as connection:
                connection.execute("UPDATE machines SET seen_at = ? WHERE name = ?", (self._now(), machine.name))
        except sqlite3.Error as error:
            logger.warning("when a machine was last seen could not be written: %s", error)

    def all(self) -> list[Machine]:
        """All machines by name, revoked ones too."""
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM machines ORDER BY name").fetchall()
        return [Machine(*row) for row in rows]

    def revoke(self, name: str) -> str:
        """Refuse what a machine sends from now on; what it sent stays."""
        with self._database.writing() as connection:
            done = connection.execute(
                "UPDATE machines SET digest = NULL, revoked_at = coalesce(revoked_at, ?) WHERE name = ?",
                (self._now(), name),
            )
        if done.rowcount == 0:
            raise NoSuchMachineError(name)
        return name

    def revoke_of(self, person: str) -> int:
        """The same for all machines of a person; how many sent until now."""
        with self._database.writing() as connection:
            done = connection.execute(
                "UPDATE machines SET digest = NULL, revoked_at = ? WHERE person = ? AND revoked_at IS NULL",
                (self._now(), person),
            )
        return done.rowcount

    def set_share(self, name: str, share: Share) -> None:
        """Change what all members of the team see of a machine's sessions."""
        with self._database.writing() as connection:
            done = connection.execute("UPDATE machines SET share = ? WHERE name = ?", (share, name))
        if done.rowcount == 0:
            raise NoSuchMachineError(name)

    def shared(self) -> frozenset[str]:
        """The machines whose sessions all members see in full."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT name FROM machines WHERE share = 'full'").fetchall()
        return frozenset(row[0] for row in rows)


def _machine(connection: sqlite3.Connection, token: str) -> Machine | None:
    if not token.startswith(MACHINE_PREFIX):
        return None
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM machines WHERE digest = ? AND revoked_at IS NULL", (digest_of(token),)
    ).fetchone()
    return None if row is None else Machine(*row)


def _free_name(connection: sqlite3.Connection, wanted: str) -> str:
    """The name, or the first of NAME-2, NAME-3 and so on that no machine has or had."""
    taken = {row[0].casefold() for row in connection.execute("SELECT name FROM machines")}
    name, number = wanted, 1
    while name.casefold() in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name
