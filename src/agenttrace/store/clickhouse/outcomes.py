"""What came of sessions: figures that the team's server derives from their lines, and which sessions wait for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.numbers import NUMBERS
from agenttrace.store.clickhouse.relations import SESSIONS
from agenttrace.store.clickhouse.usage import wanted_sessions
from agenttrace.store.outcomes import AGAIN_SECONDS, QUIET_SECONDS
from agenttrace.store.questions import OutcomeFigures, OutcomeShare, SessionShares, StoredOutcomes, UsageQuery

_FIGURES = OutcomeFigures.__struct_fields__
_COLUMNS = ("session", "events", *_FIGURES, "shares", "examined_at", "ver", "deleted", "revision")
_shares = msgspec.json.Decoder(tuple[OutcomeShare, ...])

_JOINED = f"FROM {SESSIONS} s LEFT JOIN (SELECT * FROM outcomes FINAL) o ON o.session = s.id"
_STORED = f"""
SELECT session, events, {", ".join(_FIGURES)}, shares FROM outcomes FINAL
WHERE session IN :numbers AND session IN (SELECT id FROM {SESSIONS} WHERE id IN :numbers AND events > 0)
"""
_WAITING = f"""
SELECT s.id {_JOINED}
WHERE s.events > 0 AND (o.session IS NULL OR (o.events <> s.events AND (
    o.examined_at < :again OR (o.events > 0 AND ifNull(s.last_at, 0) < :quiet))))
ORDER BY s.last_at DESC NULLS LAST, s.id
"""


def stored_outcomes(database: Database, numbers: Sequence[int]) -> dict[int, StoredOutcomes]:
    """What came of these sessions, as far as they were examined."""
    found: dict[int, StoredOutcomes] = {}
    for number, events, *values, shares in database.rows(_STORED, numbers=list(numbers)) if numbers else ():
        figures = OutcomeFigures(**dict(zip(_FIGURES, values, strict=True)))
        found[number] = StoredOutcomes(events, figures, _shares.decode(shares))
    return found


def outcome_shares(database: Database, query: UsageQuery) -> list[SessionShares]:
    """Lines and commits of the sessions of these agents and projects; days and models are not compared."""
    found = wanted_sessions(query)
    rows = database.rows(
        "SELECT s.id, s.agent, ifNull(s.project, ''), o.shares "
        f"FROM (SELECT id, agent, project FROM {SESSIONS} WHERE events > 0 AND {found.where}) s "
        "JOIN (SELECT session, shares FROM outcomes FINAL WHERE shares <> '[]') o ON o.session = s.id ORDER BY s.id",
        **found.values,
    )
    return [SessionShares(number, agent, project, _shares.decode(shares)) for number, agent, project, shares in rows]


def unexamined(database: Database, query: UsageQuery) -> list[int]:
    """The sessions of these agents and projects with lines that were not examined."""
    found = wanted_sessions(query)
    rows = database.rows(
        f"SELECT s.id FROM (SELECT id, events FROM {SESSIONS} WHERE events > 0 AND {found.where}) s "
        "LEFT JOIN (SELECT session, events FROM outcomes FINAL) o ON o.session = s.id "
        "WHERE s.events <> ifNull(o.events, 0) ORDER BY s.id",
        **found.values,
    )
    return [number for (number,) in rows]


class OutcomeTable:
    """The figures of all sessions, and which of them are out of date."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, now: float) -> list[int]:
        """The numbers of the sessions to be examined, the latest first."""
        quiet = int((now - QUIET_SECONDS) * 1_000_000)
        return [row[0] for row in self._database.rows(_WAITING, again=now - AGAIN_SECONDS, quiet=quiet)]

    def put(self, session: int, found: StoredOutcomes, *, now: float) -> None:
        """Store what came of a session as of so many events; 0: it is to be examined again later."""
        figures = (getattr(found.figures, name) for name in _FIGURES)
        shares = msgspec.json.encode(found.shares).decode()
        number = NUMBERS.one()
        row = (session, found.events, *figures, shares, now, number, 0, number)
        self._database.insert("outcomes", _COLUMNS, [row])
