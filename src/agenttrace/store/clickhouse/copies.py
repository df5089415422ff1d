"""The copies of sessions that several machines hold, and by what they are compared.

A copy that is on its way is not compared by the events that it will have: the one that was shown stays until the round
of the machine is complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.ledger import contest
from agenttrace.store.clickhouse.numbers import NUMBERS
from agenttrace.store.clickhouse.tables import COPIES, put

_OTHERS = "SELECT DISTINCT id FROM sessions WHERE id IN :sessions AND origin <> :origin"
_ALL = """
SELECT id, origin, events FROM sessions FINAL
WHERE id IN :sessions AND (id, origin) NOT IN (SELECT session, origin FROM copies WHERE session IN :sessions)
"""
_NEWS = """
SELECT s.id, s.origin, s.events FROM (SELECT session, origin, events FROM copies FINAL WHERE origin = :origin) AS c
JOIN (
    SELECT id, origin, events FROM sessions FINAL WHERE id IN (SELECT session FROM copies WHERE origin = :origin)
) AS s ON s.id = c.session AND s.origin = c.origin
WHERE s.events <> c.events
"""


def note(database: Database, origin: str, sessions: Sequence[int], *, complete: bool) -> None:
    """Note which of these sessions other machines have as well, after they were stored: one of two sees the other.

    ``complete``: everything of the machine is stored as its sessions say.
    """
    if sessions and (others := database.rows(_OTHERS, sessions=list(sessions), origin=origin)):
        found = database.rows(_ALL, sessions=[number for (number,) in others])
        contest(database, sorted({number for number, *_ in found}))
        _put(database, [(number, whose, 0 if whose == origin else events) for number, whose, events in found])
    if complete and database.has_rows("copies"):
        _put(database, database.rows(_NEWS, origin=origin))


def _put(database: Database, rows: Sequence[tuple[int, str, int]]) -> None:
    if rows:
        came = NUMBERS.one(after=int(database.value("SELECT max(ver) FROM copies") or 0))
        put(database, COPIES, [(*row, came, 0, came) for row in rows])


def changed_at(database: Database, session: int) -> int:
    """The number after which another copy of a session may be shown; 0 where there is one alone."""
    if not database.has_rows("copies"):
        return 0
    return int(database.value("SELECT max(revision) FROM copies WHERE session = :session", session=session) or 0)


def shown_since(database: Database, number: int) -> list[int]:
    """The sessions of which another copy may be shown since then."""
    if not database.has_rows("copies"):
        return []
    return [row[0] for row in database.rows("SELECT session FROM copies WHERE revision > :number", number=number)]
