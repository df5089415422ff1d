"""Sessions of a team's store whose texts were removed: what may still be stored of them, so that sums stay."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from agenttrace.model import Session
from agenttrace.store.rows import StoredSession, StoredSpan
from agenttrace.store.sqlite.team_bag import BagRow

_HOLD = "INSERT OR IGNORE INTO team_held (response, session_id, source) VALUES (?, ?, ?)"


class Textless:
    """The sessions whose texts were removed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def has(self, session: int) -> bool:
        """Whether texts of a session were removed."""
        return self._found(session) is not None

    def forgets(self, session: int) -> bool:
        """Whether also whose session it was, and what people said of it, was removed."""
        return bool(self._found(session))

    def _found(self, session: int) -> int | None:
        query = "SELECT forgotten FROM team_textless WHERE session_id = ?"
        row = self._connection.execute(query, (session,)).fetchone()
        return None if row is None else int(row[0])

    def allowed(self, rows: Iterable[BagRow], source: int, session: int) -> Iterator[BagRow]:
        """Of these rows of a session those that may be stored; of others it is noted which responses they held."""
        if not self.has(session):
            yield from rows
            return
        for row in rows:
            if isinstance(row, StoredSession):
                yield msgspec.structs.replace(row, session=self.emptied(row.session))
            elif isinstance(row, StoredSpan) and row.response is not None:
                self._connection.execute(_HOLD, (row.response, session, source))

    def emptied(self, session: Session) -> Session:
        """A session's row without what was removed."""
        found = self._found(session.id)
        if found is None:
            return session
        nothing = {"title": None, "first_prompt": None, "branch": None, "state": "ended"}
        counts = dict.fromkeys(("turns", "steps", "tools", "errors", "events"), 0)
        forgotten = {"project": None, "person": None} if found else {}
        return msgspec.structs.replace(session, **nothing, **counts, **forgotten)
