"""The audit log: who changed what, from where, and how it ended; an entry is written before the change begins."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from fastapi import Request

from agenttrace.serve.access.database import AccessTable
from agenttrace.serve.access.visitor import visitor
from agenttrace.serve.problems import ProblemError

if TYPE_CHECKING:
    from agenttrace.serve.access.access_store import AccessStore

logger = logging.getLogger(__name__)

DONE = "done"
#: The outcome while the change is being made, and for ever if the program died meanwhile.
UNDER_WAY = "under way"
#: The outcome of what was refused, and how many entries of each action are stored: every client can cause them.
REFUSED = "refused"
MOST_REFUSED = 10_000
#: Programs with the internal token, and how many of their entries are stored: their jobs are in a table as well.
INTERNAL = "api:internal"
MOST_INTERNAL = 100_000
#: So many more entries may be stored before the oldest are removed.
_TRIM_EVERY = 1_000

_LONGEST = 500


@dataclass(frozen=True, slots=True)
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
    """A new entry."""

    user: str
    address: str
    action: str
    target: str
    outcome: str = UNDER_WAY


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """The outcome of an entry, and a more exact target where there is one."""

    number: int
    outcome: str
    target: str | None = None


class AuditLog(AccessTable):
    """The log of an access store."""

    _untrimmed = 0

    def begin(self, user: str, address: str, action: str, target: str, outcome: str = UNDER_WAY) -> int:
        """Write a new entry; returns its number."""
        entry = Beginning(user=user, address=address, action=action, target=target, outcome=outcome)
        return self.write([entry])[0]

    def end(self, number: int, outcome: str, target: str | None = None) -> None:
        """Write the outcome, and a more exact target where there is one."""
        self.write([Ending(number=number, outcome=outcome, target=target)])

    def write(self, steps: Iterable[Beginning | Ending]) -> list[int]:
        """Write all of these in one transaction; returns the number of each entry."""
        with self._database.writing() as connection:
            return [
                _ended(connection, step) if isinstance(step, Ending) else self._begun(connection, step)
                for step in steps
            ]

    def _begun(self, connection: sqlite3.Connection, entry: Beginning) -> int:
        row = connection.execute(
            "INSERT INTO audit (at, user, address, action, target, outcome) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
            (self._now(), *map(_stored, astuple(entry))),
        ).fetchone()
        if entry.outcome == REFUSED:
            _trim_refused(connection, entry.action)
        if entry.user == INTERNAL:
            self._untrimmed += 1
            if self._untrimmed >= _TRIM_EVERY:
                _trim_internal(connection)
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
        return [AuditEntry(*row) for row in rows]


def _ended(connection: sqlite3.Connection, end: Ending) -> int:
    values = (_stored(end.outcome), None if end.target is None else _stored(end.target), end.number)
    connection.execute("UPDATE audit SET outcome = ?, target = coalesce(?, target) WHERE id = ?", values)
    return end.number


def _trim_refused(connection: sqlite3.Connection, action: str) -> None:
    connection.execute(
        """
        DELETE FROM audit WHERE id IN
        (SELECT id FROM audit WHERE action = ? AND outcome = ? ORDER BY id DESC LIMIT -1 OFFSET ?)
        """,
        (action, REFUSED, MOST_REFUSED),
    )


def _trim_internal(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        DELETE FROM audit WHERE user = ? AND id <=
        (SELECT id FROM audit WHERE user = ? ORDER BY id DESC LIMIT 1 OFFSET ?)
        """,
        (INTERNAL, INTERNAL, MOST_INTERNAL),
    )


def _stored(text: str) -> str:
    """A text that can be stored whatever its characters are, cut where it is long."""
    return text.encode("utf-8", "replace").decode()[:_LONGEST]


class AuditWriter:
    """Writes the log from the server's loop: entries that wait at the same time share one transaction in a thread."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._waiting: list[tuple[Beginning | Ending, asyncio.Future[int]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, step: Beginning | Ending) -> int:
        """The number of the entry, once it is on the disk; raises what SQLite says."""
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return await written

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                numbers = await asyncio.to_thread(self._log.write, [step for step, _ in batch])
            except Exception as error:
                for _, written in batch:
                    if not written.done():
                        written.set_exception(error)
                continue
            for (_, written), number in zip(batch, numbers, strict=True):
                if not written.done():
                    written.set_result(number)


# -- changes through the API --------------------------------------------------------------------------------------


@dataclass(slots=True)
class AuditedChange:
    """A change under way; its target may become more exact before it ends."""

    target: str


@asynccontextmanager
async def audited(request: Request, action: str, target: str) -> AsyncIterator[AuditedChange]:
    """Write what happens inside to the audit log: who, when, what, on what, and how it ended.

    The entry is written first: where that fails, nothing is changed either.
    """
    access: AccessStore = request.app.state.access
    writer, who = access.audit_writer, visitor(request)
    number = await writer.write(Beginning(user=who.name, address=who.address, action=action, target=target))
    change = AuditedChange(target)
    try:
        yield change
    except ProblemError as error:
        await _end(writer, number, error.detail, change)
        raise
    except Exception as error:
        await _end(writer, number, type(error).__name__, change)
        raise
    except BaseException as error:
        # Cancelled: waiting for a thread would be cancelled as well.
        with _logged(number):
            access.audit.end(number, type(error).__name__, change.target)
        raise
    await _end(writer, number, DONE, change)


async def _end(writer: AuditWriter, number: int, outcome: str, change: AuditedChange) -> None:
    with _logged(number):
        await writer.write(Ending(number=number, outcome=outcome, target=change.target))


@contextmanager
def _logged(number: int) -> Iterator[None]:
    """The change is made or has failed, whether its outcome can be written or not."""
    try:
        yield
    except sqlite3.Error as error:
        logger.error("the outcome of entry %d of the audit log could not be written: %s", number, error)
