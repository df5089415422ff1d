"""Which copies of a session a team's store has, from which sources, and which of them is shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from agenttrace.store.sqlite.team_bag import Copy

_TELL = """
INSERT INTO team_copies (session_id, source, told, revision) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET told = excluded.told, revision = excluded.revision
"""
#: The best first.
_OF_SESSION = """
SELECT session_id, source, machine, shown, revision, spans_at FROM team_copies JOIN team_sources USING (source)
WHERE session_id = ? ORDER BY events DESC, machine, source DESC
"""


class StoredCopy(NamedTuple):
    """A copy of a session."""

    session: int
    source: int
    machine: str
    shown: bool
    #: Of the session's row.
    revision: int
    #: See the table.
    spans_at: int | None

    @property
    def name(self) -> Copy:
        """Which one it is."""
        return Copy(self.session, self.source)


def source_of(connection: sqlite3.Connection, machine: str, store: str) -> int:
    """The number of a source, which is given to it at its first page."""
    connection.execute("INSERT OR IGNORE INTO team_sources (machine, store) VALUES (?, ?)", (machine, store))
    query = "SELECT source FROM team_sources WHERE machine = ? AND store = ?"
    return int(connection.execute(query, (machine, store)).fetchone()[0])


class Copies:
    """The copies of sessions, inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def of_session(self, session: int) -> list[StoredCopy]:
        """All copies of a session, the one that is to be shown first."""
        return [StoredCopy(*row) for row in self._connection.execute(_OF_SESSION, (session,))]

    def shown(self, session: int) -> StoredCopy | None:
        """The copy that is shown."""
        return next((copy for copy in self.of_session(session) if copy.shown), None)

    def tell(self, copy: Copy, events: int, revision: int) -> None:
        """The session's row of a copy says so."""
        self._connection.execute(_TELL, (*copy, events, revision))

    def add(self, copy: Copy) -> None:
        """There is such a copy, whose row did not come yet."""
        self._connection.execute("INSERT OR IGNORE INTO team_copies (session_id, source) VALUES (?, ?)", copy)

    def compare_anew(self, source: int) -> list[int]:
        """From now on compare the copies of a source by what was told; the sessions of which that is news."""
        query = "SELECT session_id FROM team_copies WHERE source = ? AND events <> told"
        news = [row[0] for row in self._connection.execute(query, (source,))]
        self._connection.execute("UPDATE team_copies SET events = told WHERE source = ? AND events <> told", (source,))
        return news

    def show(self, copy: Copy) -> None:
        """This one is shown."""
        query = "UPDATE team_copies SET shown = (source = ?), spans_at = NULL WHERE session_id = ?"
        self._connection.execute(query, (copy.source, copy.session))

    def expect_events(self, copies: Iterable[Copy], last: int) -> None:
        """Spans came without events, which will come after this one."""
        query = "UPDATE team_copies SET spans_at = coalesce(spans_at, ?) WHERE session_id = ? AND source = ?"
        self._connection.executemany(query, ((last, *copy) for copy in copies))

    def expect_no_events(self, copy: Copy) -> None:
        """Events came."""
        query = "UPDATE team_copies SET spans_at = NULL WHERE session_id = ? AND source = ?"
        self._connection.execute(query, copy)

    def remove(self, copy: Copy) -> None:
        """There is no such copy any more."""
        self._connection.execute("DELETE FROM team_copies WHERE session_id = ? AND source = ?", copy)
