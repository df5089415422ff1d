"""Our count of a session against what its agent says it used: see ``store.agreement``."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from agenttrace.model import USAGE_FIELDS
from agenttrace.store import agreement
from agenttrace.store.questions import Agreement
from agenttrace.store.sqlite.totals import NOT_PRUNED, Totals

_STREAMS = f"""
SELECT whose, max(at), {", ".join(f"sum({field})" for field in USAGE_FIELDS)} FROM totals
WHERE session_id = ? AND scope IN ('stream', 'meter') AND {NOT_PRUNED} GROUP BY whose ORDER BY whose
"""
_WITH_TOTALS = f"SELECT DISTINCT session_id FROM totals WHERE scope IN ('session', 'stream', 'meter') AND {NOT_PRUNED}"
_ESTIMATED = "SELECT estimated FROM responses WHERE response = ?"
_QUARANTINED = """
SELECT count(*) FROM quarantine WHERE file_id IN (
    SELECT DISTINCT file_id FROM raw_blocks WHERE block_id IN
        (SELECT DISTINCT block_id FROM processed_events WHERE session_id = ?)
)
"""


def sessions_with_totals(connection: sqlite3.Connection) -> set[int]:
    """The sessions whose agent told a total."""
    return {row[0] for row in connection.execute(_WITH_TOTALS)}


def check(connection: sqlite3.Connection, session: int) -> Agreement:
    """Compare what we counted of a session with what its agent says."""
    return agreement.check(_Compared(connection), session)


class _Compared(Totals, agreement.Compared):
    def streams(self, session: int) -> list[tuple[Any, ...]]:
        return self._connection.execute(_STREAMS, (session,)).fetchall()

    def estimated(self, responses: Sequence[bytes]) -> int:
        return sum(self._connection.execute(_ESTIMATED, (key,)).fetchone()[0] for key in responses)

    def quarantined(self, session: int) -> int:
        return int(self._connection.execute(_QUARANTINED, (session,)).fetchone()[0])
