"""The audit log: who changed what, from where, and how it ended; an entry is there before the change begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agenttrace.serve.access.database import AccessDatabase

DONE = "done"
#: What an entry says while its change is being made, and for ever if the program died over it.
UNDER_WAY = "under way"
#: The outcome of a login that failed, and how many of these are kept: anybody can make them.
REFUSED = "refused"
MOST_REFUSED = 10_000

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


class AuditLog:
    """The log of an access store."""

    def __init__(self, database: AccessDatabase, now: Callable[[], int]) -> None:
        self._database, self._now = database, now

    def begin(self, user: str, address: str, action: str, target: str, outcome: str = UNDER_WAY) -> int:
        """A new entry; its number."""
        texts = [_stored(text) for text in (user, address, action, target, outcome)]
        with self._database.writing() as connection:
            row = connection.execute(
                "INSERT INTO audit (at, user, address, action, target, outcome) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
                (self._now(), *texts),
            ).fetchone()
            if outcome == REFUSED:
                connection.execute(
                    """
                    DELETE FROM audit WHERE id IN
                    (SELECT id FROM audit WHERE action = ? AND outcome = ? ORDER BY id DESC LIMIT -1 OFFSET ?)
                    """,
                    (action, REFUSED, MOST_REFUSED),
                )
        return int(row[0])

    def end(self, number: int, outcome: str, target: str | None = None) -> None:
        """How it ended, and on what, where that is known better by now."""
        values = (_stored(outcome), None if target is None else _stored(target), number)
        with self._database.writing() as connection:
            connection.execute("UPDATE audit SET outcome = ?, target = coalesce(?, target) WHERE id = ?", values)

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


def _stored(text: str) -> str:
    """A text that can be stored whatever is in it, and has an end."""
    return text.encode("utf-8", "replace").decode()[:_LONGEST]
