"""Full text search with FTS5: the question, and the index that is filled after recording.

In the recording transaction it would triple the cost of a batch. SQLite's tokenizer takes a run of Chinese for one
word; every Chinese, Japanese or Korean character is therefore indexed as a word of its own, and a query for several
of them becomes a phrase.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

from agenttrace.store.batch import BLOCK_BITS
from agenttrace.store.questions import SearchQuery
from agenttrace.store.search_terms import SearchTerm, search_terms
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.session_conditions import session_conditions

_LAST = 2**63 - 1
_CJK = re.compile("([\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])")

_MATCHING = """
SELECT search.rowid
FROM search JOIN processed_events e ON e.event_no = search.rowid JOIN sessions s ON s.id = e.session_id
WHERE search MATCH :expression AND search.rowid BETWEEN :first AND :last AND e.block_id IS NOT NULL{where}
ORDER BY search.rowid DESC LIMIT :limit
"""
_TESTS = {
    "session": "e.session_id = :session",
    "since": "s.last_at >= :since",
    "until": "s.started_at < :until",
}
#: The events of a session lie together: looking at no others makes a search in one session quick.
_RANGE = "SELECT coalesce(min(event_no), 0), coalesce(max(event_no), -1) FROM processed_events WHERE session_id = ?"

_APART = "SELECT event_no FROM search_late WHERE event_no > ? AND event_no <= ?"
_NOTE_LATE = f"""
INSERT OR IGNORE INTO search_late (event_no)
SELECT event_no FROM processed_events WHERE event_no = ? AND (
    event_no <= ? OR block_id >> {BLOCK_BITS} NOT IN (SELECT file_id FROM file_offsets)
)
"""
#: The order of the join is given: without statistics SQLite would scan all events, in every idle round.
_LATE = f"""
SELECT event_no FROM search_late CROSS JOIN processed_events USING (event_no)
WHERE block_id >> {BLOCK_BITS} IN (SELECT file_id FROM file_offsets) LIMIT ?
"""


def segmented(text: str) -> str:
    """The text with each CJK character standing alone."""
    return text if text.isascii() else _CJK.sub(r" \1 ", text)


def match_expression(text: str) -> str:
    """What a user typed as an FTS5 expression; empty where there is no word in it."""
    # Signs alone are no word to FTS5, and what has no word matches nothing.
    return " AND ".join(_matched(term) for term in search_terms(text) if term.has_word)


def _matched(term: SearchTerm) -> str:
    words = segmented(term.text).replace('"', " ").split()
    return '"' + " ".join(words) + '"' + ("*" if term.prefix else "")


def search(connection: sqlite3.Connection, query: SearchQuery) -> list[int]:
    """The numbers of the events that match, newest first.

    When an event was written stands in its line, which only its format can read: of ``since`` and ``until`` the
    sessions are asked, so that events of sessions which were active then remain.
    """
    expression = match_expression(query.text)
    if not expression:
        return []
    first, last = 0, _LAST if query.before is None else query.before - 1
    if query.session is not None:
        lowest, highest = connection.execute(_RANGE, (query.session,)).fetchone()
        first, last = lowest, min(last, highest)
    where, values = session_conditions(
        agents=query.agents,
        projects=query.projects,
        project_contains=query.project_contains,
        machines=query.machines,
        persons=query.persons,
    )
    for name, test in _TESTS.items():
        if getattr(query, name) is not None:
            where += f" AND {test}"
            values[name] = getattr(query, name)
    values |= {"expression": expression, "first": first, "last": last, "limit": query.limit}
    return [row[0] for row in connection.execute(_MATCHING.format(where=where), values)]


class SearchIndex:
    """The index of all texts, and up to which event it is filled."""

    _POSITION = "search_event_no"
    #: Since when the index holds words of sessions that were pruned; searching does not find them.
    _STALE = "search_stale_since"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def position(self) -> int:
        """The number of the last event that was indexed."""
        return int(self._value(self._POSITION) or 0)

    @property
    def backlog(self) -> int:
        """How many events wait to be indexed."""
        query = """
        SELECT (SELECT count(*) FROM processed_events WHERE event_no > ? AND block_id IS NOT NULL)
            + (SELECT count(*) FROM search_late)
        """
        return int(self._connection.execute(query, (self.position,)).fetchone()[0])

    def add(self, texts: Iterable[tuple[int, str]], *, after: int, last: int) -> None:
        """Index the texts of the events after one and up to another; nothing where that was done meanwhile."""
        rows = [(number, segmented(text)) for number, text in texts if text]
        with transaction(self._connection):
            if self.position == after:
                apart = {row[0] for row in self._connection.execute(_APART, (after, last))}
                fresh = [row for row in rows if row[0] not in apart] if apart else rows
                self._connection.executemany("INSERT INTO search (rowid, text) VALUES (?, ?)", fresh)
                self._keep(self._POSITION, str(last), "REPLACE")

    def note_late(self, numbers: Iterable[int]) -> None:
        """Have events indexed apart that came after later ones, or before the file that tells how to read them."""
        values = ((number, self.position) for number in numbers)
        self._connection.executemany(_NOTE_LATE, values)

    def late(self, limit: int) -> list[int]:
        """Events to be indexed apart, as far as they can be read."""
        return [row[0] for row in self._connection.execute(_LATE, (limit,))]

    def add_late(self, texts: Iterable[tuple[int, str]], numbers: Iterable[int]) -> None:
        """Index the texts of these late events; nothing of those where that was done meanwhile."""
        rows = {number: segmented(text) for number, text in texts if text}
        with transaction(self._connection):
            for number in numbers:
                waiting = self._connection.execute("DELETE FROM search_late WHERE event_no = ?", (number,)).rowcount
                if waiting and number in rows:
                    self._connection.execute("INSERT INTO search (rowid, text) VALUES (?, ?)", (number, rows[number]))

    def reset(self) -> None:
        """Empty the index, to be filled anew (after pruning)."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM search_late")
            self._connection.execute("INSERT INTO search (search) VALUES ('delete-all')")
            self._connection.execute("DELETE FROM meta WHERE key IN (?, ?)", (self._POSITION, self._STALE))

    def mark_stale(self, at: float) -> None:
        """Something was pruned at that time; an earlier mark stays."""
        with transaction(self._connection):
            self._keep(self._STALE, str(at), "IGNORE")

    @property
    def stale_since(self) -> float | None:
        """When the first session was pruned whose words the index still holds."""
        found = self._value(self._STALE)
        return None if found is None else float(found)

    def _keep(self, key: str, value: str, otherwise: str) -> None:
        self._connection.execute(f"INSERT OR {otherwise} INTO meta (key, value) VALUES (?, ?)", (key, value))

    def _value(self, key: str) -> str | None:
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])
