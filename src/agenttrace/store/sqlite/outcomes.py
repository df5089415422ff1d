"""What came of sessions: figures that are derived from their lines, and which sessions wait for it.

The rows are not copied to other stores: each derives its own from the lines it has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from agenttrace.store.outcomes import AGAIN_SECONDS, QUIET_SECONDS
from agenttrace.store.questions import OutcomeFigures, OutcomeShare, SessionShares, StoredOutcomes, UsageQuery
from agenttrace.store.sqlite.database import marks, portions, transaction
from agenttrace.store.sqlite.usage import session_conditions

_FIGURES = OutcomeFigures.__struct_fields__
OUTCOME_COLUMNS = f"session_id, events, {', '.join(_FIGURES)}, shares"
_shares = msgspec.json.Decoder(tuple[OutcomeShare, ...])

_WAITING = """
SELECT s.id FROM sessions s LEFT JOIN outcomes o ON o.session_id = s.id
WHERE s.events > 0 AND (
    o.session_id IS NULL
    OR (o.events <> s.events AND (
        o.examined_at < :again OR (o.events > 0 AND coalesce(s.last_at, 0) < :quiet)
    ))
)
ORDER BY s.last_at DESC
"""
#: A session may have been pruned meanwhile.
_PUT = f"""
INSERT OR REPLACE INTO outcomes (examined_at, {OUTCOME_COLUMNS})
SELECT :now, :session, :events, {", ".join(f":{name}" for name in _FIGURES)}, :shares
WHERE EXISTS (SELECT 1 FROM sessions WHERE id = :session AND events > 0)
"""


def stored_outcomes(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, StoredOutcomes]:
    """What came of these sessions, as far as they were examined."""
    found: dict[int, StoredOutcomes] = {}
    for part in portions(numbers):
        query = f"SELECT {OUTCOME_COLUMNS} FROM outcomes WHERE session_id IN {marks(part)}"
        for number, events, *values, shares in connection.execute(query, part):
            figures = OutcomeFigures(**dict(zip(_FIGURES, values, strict=True)))
            found[number] = StoredOutcomes(events, figures, _shares.decode(shares))
    return found


def outcome_shares(connection: sqlite3.Connection, query: UsageQuery) -> list[SessionShares]:
    """Lines and commits of the sessions that a query asks for; days and models are not compared."""
    where, values = session_conditions(query)
    rows = connection.execute(
        "SELECT s.id, s.agent, coalesce(s.project, ''), o.shares, coalesce(s.machine, ''), coalesce(s.person, '') "
        "FROM outcomes o JOIN sessions s ON s.id = o.session_id "
        f"WHERE o.shares <> '[]' AND {where} ORDER BY s.id",
        values,
    )
    return [
        SessionShares(number, agent, project, _shares.decode(shares), machine, person)
        for number, agent, project, shares, machine, person in rows
    ]


def unexamined(connection: sqlite3.Connection, query: UsageQuery) -> list[int]:
    """The sessions that a query asks for with lines that were not examined."""
    where, values = session_conditions(query)
    rows = connection.execute(
        "SELECT s.id FROM sessions s LEFT JOIN outcomes o ON o.session_id = s.id "
        f"WHERE s.events > 0 AND s.events <> coalesce(o.events, 0) AND {where} ORDER BY s.id",
        values,
    )
    return [number for (number,) in rows]


class OutcomeTable:
    """The figures of all sessions, and which of them are out of date."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def waiting(self, now: float) -> list[int]:
        """The numbers of the sessions to be examined, the latest first."""
        values = {"again": now - AGAIN_SECONDS, "quiet": (now - QUIET_SECONDS) * 1_000_000}
        return [row[0] for row in self._connection.execute(_WAITING, values)]

    def put(self, session: int, found: StoredOutcomes, *, now: float) -> None:
        """Store what came of a session as of so many events; 0: it is to be examined again later."""
        values = {name: getattr(found.figures, name) for name in _FIGURES}
        shares = msgspec.json.encode(found.shares).decode()
        values |= {"session": session, "events": found.events, "now": now, "shares": shares}
        with transaction(self._connection):
            self._connection.execute(_PUT, values)
