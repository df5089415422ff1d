"""The audit log: who changed what, from where, and how it ended; an entry is there before the change begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agenttrace.serve.access.database import AccessDatabase

DONE = "done"
#: What an entry says while its change is being made, and for ever if the program died over it.
UNDER_WAY = "under way"
#: The outcome of what was refused, and how many entries of each action are kept: anybody can make them.
REFUSED = "refused"
MOST_REFUSED = 10_000
#: Programs with the internal token, and how many of their entries are kept: what they triggered is in its own table.
INTERNAL = "api:internal"
MOST_INTERNAL = 100_000
#: So many entries may be there on top before the oldest are removed.
_TRIM_EVERY = 1_000

_LONGEST = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """A line of the log; ``at`` is microseconds since the epoch."""

    id: int
    at: int
    user: str
    address: str
    action: str
    target: str
    outcome: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Beginning:
    """An entry to be made."""

    user: str
    address: str
    action: str
    target: str
    outcome: str = UNDER_WAY


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How an entry ended, and on what, where that is known better by now."""

    number: int
    outcome: str
    target: str | None = None


class AuditLog:
    """The log of an access store."""

    def __init__(self, database: AccessDatabase, now: Callable[[], int]) -> None:
        self._database, self._now = database, now
        self._untrimmed = 0

    def begin(self, user: str, address: str, action: str, target: str, outcome: str = UNDER_WAY) -> int:
        """A new entry; its number."""
        entry = Beginning(user=user, address=address, action=action, target=target, outcome=outcome)
        return self.write([entry])[0]

    def end(self, number: int, outcome: str, target: str | None = None) -> None:
        """How it ended, and on what, where that is known better by now."""
        self.write([Ending(number=number, outcome=outcome, target=target)])

    def write(self, steps: Iterable[Beginning | Ending]) -> list[int]:
        """Make all of these entries and changes at once; the number of each entry."""
        with self._database.writing() as connection:
            return [
                _ended(connection, step) if isinstance(step, Ending) else self._begun(connection, step)
                for step in steps
            ]

    def _begun(self, connection: sqlite3.Connection, entry: Beginning) -> int:
        fields = (entry.user, entry.address, entry.action, entry.target, entry.outcome)
        row = connection.execute(
            "INSERT INTO audit (at, user, address, action, target, outcome) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
            (self._now(), *map(_stored, fields)),
        ).fetchone()
        if entry.outcome == REFUSED:
            _forget_refused(connection, entry.action)
        if entry.user == INTERNAL:
            self._untrimmed += 1
            if self._untrimmed >= _TRIM_EVERY:
                _forget_internal(connection)
                self._untrimmed = 0
        return int(row[0])

    def page(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The newest entries, or the newest of those before one."""
        with self._database.reading() as connection:
            rows = connection.execute(
                """
                SELECT id, at, user, address, action, target, outcome FROM audit
                WHERE id < ? ORDER BY id DESC LIMIT ?
                """,
                (2**63 - 1 if before is None else before, limit),
            ).fetchall()
        fields = ("id", "at", "user", "address", "action", "target", "outcome")
        return [AuditEntry(**dict(zip(fields, row, strict=True))) for row in rows]


def _ended(connection: sqlite3.Connection, end: Ending) -> int:
    values = (_stored(end.outcome), None if end.target is None else _stored(end.target), end.number)
    connection.execute("UPDATE audit SET outcome = ?, target = coalesce(?, target) WHERE id = ?", values)
    return end.number


def _forget_refused(connection: sqlite3.Connection, action: str) -> None:
    connection.execute(
        """
        DELETE FROM audit WHERE id IN
        (SELECT id FROM audit WHERE action = ? AND outcome = ? ORDER BY id DESC LIMIT -1 OFFSET ?)
        """,
        (action, REFUSED, MOST_REFUSED),
    )


def _forget_internal(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        DELETE FROM audit WHERE user = ? AND id <=
        (SELECT id FROM audit WHERE user = ? ORDER BY id DESC LIMIT 1 OFFSET ?)
        """,
        (INTERNAL, INTERNAL, MOST_INTERNAL),
    )


def _stored(text: str) -> str:
    """A text that can be stored whatever is in it, and has an end."""
    return text.encode("utf-8", "replace").decode()[:_LONGEST]
