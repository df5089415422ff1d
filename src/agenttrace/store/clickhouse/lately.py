"""What came since a number, where several servers give the numbers.

Servers write beside each other, so a row may be seen after another one with a larger number. Rows of the last seconds
before the number are looked at again, and those that were seen then are left out.
"""

from __future__ import annotations

from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.numbers import SECOND

#: Numbers below this were given by the store that rows were merged from.
_OWN_NUMBERS = SECOND << 10
#: A row may be seen so much later than its number says.
OVERLAP = 10 * SECOND


def overlapping(number: int) -> int:
    """Where to look from, to miss nothing after a number."""
    return number if number < _OWN_NUMBERS else number - OVERLAP


class Lately:
    """The sessions of rows with growing numbers; ``number`` is a column of the relation ``rows`` of a table."""

    def __init__(self, database: Database, table: str, rows: str, number: str) -> None:
        self._database = database
        # Also of rows that are gone: it never goes back.
        self._last = f"SELECT max({number}) FROM {table}"
        self._since = f"SELECT DISTINCT session FROM {rows} WHERE {number} > :since"
        self._window = f"SELECT session, {number} FROM {rows} WHERE {number} > :since AND {number} <= :until"
        self._seen: set[tuple[int, int]] = set()

    def last(self) -> int:
        """The largest number; 0 where there is none. What is there now is known from now on."""
        last = int(self._database.value(self._last) or 0)
        self._seen = self._before(last)
        return last

    def since(self, number: int) -> list[int]:
        """The sessions of the rows after a number, and of those before it that are seen only now."""
        found = {row[0] for row in self._database.rows(self._since, since=number)}
        window = self._before(number)
        found |= {session for session, _ in window - self._seen}
        self._seen |= window
        return sorted(found)

    def _before(self, number: int) -> set[tuple[int, int]]:
        since = overlapping(number)
        return set(self._database.rows(self._window, since=since, until=number)) if since < number else set()
