"""Lines that were set aside because they could not be recorded, and requests to try them again."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import zstandard

from agenttrace.store.sqlite.database import transaction

_COLUMNS = (
    "quarantine_id, file_id, filepath, offset, length, digest, reason, salvaged, found_at, resolved_at, "
    "retry_asked_at, retry_result"
)
_ASK = "UPDATE quarantine SET retry_asked_at = ?, retry_result = NULL WHERE resolved_at IS NULL"


class QuarantineEntry(NamedTuple):
    """A line that was set aside."""

    quarantine_id: int
    file_id: int
    filepath: str
    offset: int
    length: int
    digest: bytes
    reason: str
    #: Whole events that could be cut out of it; they are recorded.
    salvaged: int
    found_at: float
    resolved_at: float | None
    #: When another try was requested, and its result; ``None`` while it is pending.
    retry_asked_at: float | None
    retry_result: str | None
    #: The line, compressed, up to a limit; ``None`` where nothing of it was kept, or where it was not asked for.
    packed: bytes | None

    def kept(self) -> bytes | None:
        """What was kept of the line."""
        return None if self.packed is None else zstandard.decompress(self.packed)


class Quarantine:
    """The lines that were set aside."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def entries(
        self,
        *,
        resolved: bool = False,
        only: int | None = None,
        before: int | None = None,
        lines: bool = True,
        limit: int = -1,
    ) -> list[QuarantineEntry]:
        """Lines that were set aside, newest first; ``resolved`` with those that were read since.

        ``before`` begins behind an entry. Without ``lines`` what was kept of them is not loaded.
        """
        where = ["1"] if resolved or only is not None else ["resolved_at IS NULL"]
        values: list[int] = []
        for test, number in (("quarantine_id = ?", only), ("quarantine_id < ?", before)):
            if number is not None:
                where.append(test)
                values.append(number)
        return self._selected(" AND ".join(where), values, lines=lines, limit=limit)

    def _selected(self, where: str, values: Sequence[int], *, lines: bool = True, limit: int) -> list[QuarantineEntry]:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS}, {'raw' if lines else 'NULL'} FROM quarantine "
            f"WHERE {where} ORDER BY quarantine_id DESC LIMIT ?",
            [*values, limit],
        )
        return [QuarantineEntry(*row) for row in rows]

    def of_file(self, number: int) -> list[tuple[int, bytes, str, bool]]:
        """Offset, digest and reason of each line of a file, and whether it waits for another try."""
        query = "SELECT offset, digest, reason, resolved_at IS NULL FROM quarantine WHERE file_id = ?"
        return self._connection.execute(query, (number,)).fetchall()

    def waiting(self) -> int:
        """How many lines wait for another try."""
        query = "SELECT count(*) FROM quarantine WHERE resolved_at IS NULL"
        return int(self._connection.execute(query).fetchone()[0])

    def resolve(self, number: int) -> None:
        """An entry was read after all."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE quarantine SET resolved_at = ? WHERE quarantine_id = ?", (time.time(), number)
            )

    # -- requests for another try -----------------------------------------------------------------------------

    def request_retry(self, ids: Iterable[int] | None) -> int:
        """Request another try at these entries, or at all; how many will be tried."""
        now = time.time()
        with transaction(self._connection):
            if ids is None:
                return self._connection.execute(_ASK, (now,)).rowcount
            chosen = [(now, number) for number in set(ids)]
            return self._connection.executemany(f"{_ASK} AND quarantine_id = ?", chosen).rowcount

    def requested(self, limit: int) -> list[QuarantineEntry]:
        """Entries for which another try is pending."""
        return self._selected("retry_asked_at IS NOT NULL AND retry_result IS NULL", (), limit=limit)

    def note_results(self, results: Iterable[tuple[int, str]]) -> None:
        """Store what the tries came to, by entry."""
        with transaction(self._connection):
            self._connection.executemany(
                "UPDATE quarantine SET retry_result = ? WHERE quarantine_id = ?",
                [(result, number) for number, result in results],
            )
