"""Our count of a session against what its agent says it used: see ``store.agreement``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenttrace.model import USAGE_FIELDS
from agenttrace.store import agreement
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.relations import SPANS, TOTALS, settled
from agenttrace.store.questions import MAIN_STREAM, NOT_IN_LOG, Agreement
from agenttrace.store.totals import Count, CountedCall, calls_of, counts_of

_FIELDS = ", ".join(USAGE_FIELDS)
_COUNTS = f"""
SELECT name, at, since, trace_id, parent_id, turn_index, model, {_FIELDS} FROM {TOTALS}
WHERE session = :session AND scope = 'session' ORDER BY name, at, model
"""
_COUNTED_AS = f"""
SELECT DISTINCT session FROM {TOTALS} WHERE scope = 'session' AND name = :name AND session <> :without ORDER BY session
"""
_STREAMS = f"""
SELECT whose, max(at), {", ".join(f"sum({name})" for name in USAGE_FIELDS)} FROM {TOTALS}
WHERE session = :session AND scope IN ('stream', 'meter') GROUP BY whose ORDER BY whose
"""
_HELD = f"(SELECT response FROM {SPANS} WHERE session = :session AND response IS NOT NULL AND stream {{test}} :stream)"
_CALLS = f"SELECT response, at, model, session, {_FIELDS} FROM {settled(_HELD)} ORDER BY at, response"
_TURNS = f"SELECT start FROM {SPANS} WHERE session = :session AND stream = :stream AND kind = 'turn' ORDER BY start"
_ESTIMATED = f"SELECT response FROM {settled(':keys')} WHERE estimated"
_WITH_TOTALS = f"SELECT DISTINCT session FROM {TOTALS} WHERE scope IN ('session', 'stream', 'meter')"


def sessions_with_totals(database: Database) -> set[int]:
    """The sessions whose agent told a total."""
    return {row[0] for row in database.rows(_WITH_TOTALS)}


def check(database: Database, session: int) -> Agreement:
    """Compare what we counted of a session with what its agent says."""
    return agreement.check(_Compared(database), session)


class _Compared(agreement.Compared):
    def __init__(self, database: Database) -> None:
        self._database = database

    def counts(self, session: int) -> list[Count]:
        return counts_of(self._database.rows(_COUNTS, session=session))

    def counted_as(self, name: str, without: int) -> list[int]:
        return [row[0] for row in self._database.rows(_COUNTED_AS, name=name, without=without)]

    def calls(self, session: int, stream: str | None = None) -> list[CountedCall]:
        test, value = ("<>", NOT_IN_LOG) if stream is None else ("=", stream)
        return calls_of(self._database.rows(_CALLS.format(test=test), session=session, stream=value))

    def turn_starts(self, session: int) -> list[int]:
        return [row[0] for row in self._database.rows(_TURNS, session=session, stream=MAIN_STREAM)]

    def streams(self, session: int) -> list[tuple[Any, ...]]:
        return self._database.rows(_STREAMS, session=session)

    def estimated(self, responses: Sequence[bytes]) -> int:
        known = {row[0] for row in self._database.rows(_ESTIMATED, keys=set(responses))} if responses else set()
        return sum(key in known for key in responses)

    def quarantined(self, session: int) -> int:
        return 0  # lines that could not be understood stay on their machine
