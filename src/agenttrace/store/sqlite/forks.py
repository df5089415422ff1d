"""Which session another one is a copy of."""

from __future__ import annotations

import sqlite3

from agenttrace.model import Session

_PARENT = "SELECT id FROM sessions WHERE agent = ? AND session_id = ?"
#: Those that say so, and copies that do not but begin with responses of this one.
_FORKS = """
SELECT id FROM sessions copy WHERE agent = :agent AND events > 0 AND id <> :number AND (
    parent = :session OR copied AND parent IS NULL AND :number = (
        SELECT responses.session_id FROM spans JOIN responses USING (response)
        WHERE spans.session_id = copy.id AND responses.session_id <> copy.id LIMIT 1
    )
) ORDER BY started_at LIMIT :limit
"""


def parent_number(connection: sqlite3.Connection, session: Session) -> int | None:
    """The number of the session that this one names as its parent."""
    row = connection.execute(_PARENT, (session.agent, session.parent)).fetchone() if session.parent else None
    return None if row is None else int(row[0])


def fork_numbers(connection: sqlite3.Connection, session: Session, limit: int) -> list[int]:
    """The numbers of the sessions that are copies of this one, the oldest first."""
    values = {"agent": session.agent, "number": session.id, "session": session.session_id, "limit": limit}
    return [row[0] for row in connection.execute(_FORKS, values)]
