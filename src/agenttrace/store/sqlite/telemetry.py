"""Sessions that are known from an agent's telemetry: what is taken out once the agent's own log is found.

Telemetry and log have no common names for model responses, so a session counts by one of them: the log, if there is
one. A session is folded from telemetry alone until the first line of a log is recorded. In that transaction everything
that telemetry said is removed, so the order in which both are read does not matter. A pruned session has no streams
any more: its mark in ``totals`` says which of them it counts by.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.questions import TELEMETRY
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.revisions import note_removed

_HAS_LOG = """
SELECT 1 FROM streams WHERE session_id = ?1 AND stream <> ?2
UNION ALL SELECT 1 FROM totals WHERE session_id = ?1 AND scope = 'pruned' AND whose <> ?2 LIMIT 1
"""
_HAS_TELEMETRY = """
SELECT 1 FROM streams WHERE session_id = ?1 AND stream = ?2
UNION ALL SELECT 1 FROM totals WHERE session_id = ?1 AND scope = 'pruned' AND whose = ?2 LIMIT 1
"""
#: Of a pruned session the ledger alone knows the responses. Their names have the session in them: no other has them.
_PRUNED_RESPONSES = """
SELECT response FROM responses
WHERE session_id = ?1 AND EXISTS (SELECT 1 FROM totals WHERE session_id = ?1 AND scope = 'pruned')
"""
_SPANS = "SELECT span_id, response FROM spans WHERE session_id = ?"
_DELETE_SPANS = "DELETE FROM spans WHERE session_id = ?"
_DETACH_EVENTS = f"""
UPDATE processed_events SET span_id = NULL, turn_index = -1, step_n = 0
WHERE session_id = ? AND event_type LIKE '{TELEMETRY}/%'
"""
#: Its log is whole: totals in it can be compared with the calls.
_UNMARK = "DELETE FROM totals WHERE session_id = ? AND scope = 'pruned' AND whose = ?"
#: Zeros instead of no rows, because copies of the store learn of changed totals, not of removed ones.
_CLEAR_TOTALS = f"""
UPDATE totals SET {", ".join(f"{name} = 0" for name in USAGE_FIELDS)}, revision = ?
WHERE session_id = ? AND scope IN ('stream', 'meter') AND whose = ?
"""


def has_log(connection: sqlite3.Connection, session: int) -> bool:
    """Whether lines of the session's own log were recorded, if only before it was pruned."""
    return connection.execute(_HAS_LOG, (session, TELEMETRY)).fetchone() is not None


def has_telemetry(connection: sqlite3.Connection, session: int) -> bool:
    """Whether telemetry of the session was recorded; of a pruned one, whether it counted by telemetry."""
    return connection.execute(_HAS_TELEMETRY, (session, TELEMETRY)).fetchone() is not None


def counted_by(connection: sqlite3.Connection, session: int) -> str:
    """What the mark of a pruned session says: by which of the two it counts."""
    return "" if has_log(connection, session) or not has_telemetry(connection, session) else TELEMETRY


def withdraw(connection: sqlite3.Connection, session: int, *, day_of: Callable[[int], str], revision: int) -> None:
    """Remove the spans and tokens of a session that were known from telemetry alone; its lines stay."""
    known = connection.execute(_SPANS, (session,)).fetchall()
    responses = {response for _, response in known if response is not None}
    responses |= {response for (response,) in connection.execute(_PRUNED_RESPONSES, (session,))}
    connection.execute(_DELETE_SPANS, (session,))
    connection.execute(_DETACH_EVENTS, (session,))
    connection.execute(_UNMARK, (session, TELEMETRY))
    connection.execute(_CLEAR_TOTALS, (revision, session, TELEMETRY))
    ledger.replace(connection, responses, (), day_of=day_of, revision=revision)
    note_removed(connection, [("span", session, span_id) for span_id, _ in known], revision)
    note_removed(connection, [("response", 0, response) for response in responses], revision)
