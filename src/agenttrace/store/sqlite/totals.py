"""What agents say of their own usage, in the rows of the store: see ``store.totals``."""

# ruff: noqa: D102 - described in store.totals

from __future__ import annotations

import sqlite3

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.questions import MAIN_STREAM, NOT_IN_LOG
from agenttrace.store.totals import Count, CountedBy, CountedCall, calls_of, counts_of

_FIELDS = ", ".join(USAGE_FIELDS)

INSERT_TOTALS = f"""
INSERT OR REPLACE INTO totals
    (session_id, scope, whose, name, moment, model, at, since, trace_id, parent_id, turn_index, {_FIELDS},
    revision)
VALUES ({", ".join("?" * (12 + len(USAGE_FIELDS)))})
"""

_COUNTS = f"""
SELECT name, at, since, trace_id, parent_id, turn_index, model, {_FIELDS} FROM totals
WHERE session_id = ?1 AND scope = ?2
    AND NOT EXISTS (SELECT 1 FROM totals WHERE session_id = ?1 AND scope = 'pruned')
ORDER BY name, at, model
"""

#: Calls that lines tell; those made up from totals must not explain totals.
_CALLS = f"""
SELECT DISTINCT responses.response, responses.at, responses.model, responses.session_id,
    {", ".join(f"responses.{f}" for f in USAGE_FIELDS)}
FROM spans JOIN responses USING (response)
WHERE spans.session_id = ? AND spans.stream {{stream}} ORDER BY responses.at, responses.response
"""

_HAS_CALLS = "SELECT 1 FROM spans WHERE session_id = ? AND stream <> ? AND response IS NOT NULL LIMIT 1"
_TURNS = "SELECT start FROM spans WHERE session_id = ? AND stream = ? AND kind = 'turn' ORDER BY start"

#: Of a session that was pruned the calls are gone, so no total can be compared with them, then and later. ``whose`` is
#: what it counts by: see ``store/sqlite/telemetry.py``.
FORGET_TOTALS = "DELETE FROM totals WHERE session_id = ?"
MARK_PRUNED = f"""
INSERT INTO totals (session_id, scope, whose, name, moment, model, at, since, trace_id, turn_index, {_FIELDS})
VALUES (?, 'pruned', ?, '', 0, '', 0, 0, x'', -1{", 0" * len(USAGE_FIELDS)})
"""
NOT_PRUNED = "session_id NOT IN (SELECT session_id FROM totals WHERE scope = 'pruned')"
_COUNTED_AS = "SELECT DISTINCT session_id FROM totals WHERE scope = 'session' AND name = ? AND session_id <> ?"


class Totals(CountedBy):
    """The calls and counts of a file's sessions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def counts(self, session: int) -> list[Count]:
        return counts_of(self._connection.execute(_COUNTS, (session, "session")))

    def meters(self, session: int) -> list[Count]:
        """What meters say of a session, in order of name and time; of a pruned one nothing."""
        return counts_of(self._connection.execute(_COUNTS, (session, "meter")))

    def counted_as(self, name: str, without: int) -> list[int]:
        return [row[0] for row in self._connection.execute(_COUNTED_AS, (name, without))]

    def calls(self, session: int, stream: str | None = None) -> list[CountedCall]:
        test, value = ("<> ?", NOT_IN_LOG) if stream is None else ("= ?", stream)
        return calls_of(self._connection.execute(_CALLS.format(stream=test), (session, value)))

    def has_calls(self, session: int) -> bool:
        """Whether lines of a session tell any call."""
        return self._connection.execute(_HAS_CALLS, (session, NOT_IN_LOG)).fetchone() is not None

    def turn_starts(self, session: int) -> list[int]:
        return [row[0] for row in self._connection.execute(_TURNS, (session, MAIN_STREAM))]
