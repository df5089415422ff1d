"""Full text search, and the words of events that it looks through, which are written after events came.

Candidates are found by an index of pairs of characters, and then looked up among the events that are shown: words may
be of an event that is gone by now. The newest texts are looked through first: a word that is in many of them is found
there, and costs as much in a store of any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from agenttrace.store.clickhouse.connection import Database, Row
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.numbers import SECOND
from agenttrace.store.clickhouse.relations import EVENTS, NUMBERED_EVENTS, SESSIONS
from agenttrace.store.clickhouse.session_conditions import session_conditions
from agenttrace.store.clickhouse.tables import Table
from agenttrace.store.clickhouse.words import parts_of, words_of
from agenttrace.store.questions import SearchQuery

_TEXTS = Table.of("texts", "number", "session", "origin", "arrived", "words")
#: More than every number of an event: events are indexed as they came, in no order of their numbers.
_NO_NUMBER = 2**62
#: Servers write beside each other: an event may be seen so much later than its arrival says.
_OVERLAP = 60 * SECOND
_MOST_CANDIDATES = 5_000
#: Texts that are looked through first; each further look takes so many times more.
_FIRST_LOOK, _MORE = 50_000, 4
#: Events that are found by one look for those that wait.
_MOST_PENDING = 50_000

_CANDIDATES = "SELECT DISTINCT number FROM texts WHERE {where} ORDER BY number DESC LIMIT {limit}"
_PRESENT = f"""
SELECT number, session FROM {NUMBERED_EVENTS} WHERE raw IS NOT NULL AND number IN :numbers
"""
_WAITING = f"""
FROM {EVENTS}
WHERE raw IS NOT NULL AND {{where}}
    AND (session, origin, number) NOT IN (SELECT session, origin, number FROM texts FINAL WHERE {{where}})
"""
#: With when the oldest of all came.
_PENDING = f"""
SELECT number, session, origin, arrived, file_id IN (SELECT file_id FROM files) AS readable, min(arrived) OVER ()
{_WAITING}
ORDER BY readable DESC, arrived, number LIMIT {{limit}}
"""
_BACKLOG = f"SELECT count() {_WAITING}"
_SINCE = "arrived >= :since"
#: Which copy is shown may change at any time.
_BEFORE = "session IN (SELECT session FROM copies) AND arrived < :since"


class Search:
    """Searches through one connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: How many texts there were, and where looks end.
        self._texts, self._ends = 0, list[int]()

    def __call__(self, query: SearchQuery) -> list[int]:
        """The numbers of the events that match, newest first.

        When an event was written stands in its line, which only its format can read: of ``since`` and ``until`` the
        sessions are asked, so that events of sessions which were active then remain.
        """
        found: list[int] = []
        for numbers in self._candidates(query):
            found += _present(self._database, numbers)
            if len(found) >= query.limit:
                break
        return found[: query.limit]

    def _candidates(self, query: SearchQuery) -> Iterator[list[int]]:
        """Numbers of words that match, in portions, newest first."""
        parts = parts_of(query.text)
        if not parts:
            return
        tests, values = _tests(query)
        for number, part in enumerate(parts):
            tests.append(f"words LIKE :part{number}")
            values[f"part{number}"] = f"%{part}%"
        before, limit = _NO_NUMBER if query.before is None else query.before, max(query.limit, 1)
        where = " AND ".join((*tests, "number >= :end", "number < :before"))
        for end in (0,) if query.session is not None else (*self._looks(), 0):
            while before > end:
                asked = _CANDIDATES.format(where=where, limit=limit)
                rows = self._database.rows(asked, before=before, end=end, **values)
                if rows:
                    yield [row[0] for row in rows]
                if len(rows) < limit:
                    before = end
                else:
                    before, limit = rows[-1][0], min(4 * limit, _MOST_CANDIDATES)

    def _looks(self) -> list[int]:
        """The numbers at which looks end, newest first; about, and anew when there are many more texts."""
        texts = int(self._database.value("SELECT count() FROM texts") or 0)
        if not self._texts * 0.9 <= texts <= self._texts * 1.1:
            sizes, size = list[int](), _FIRST_LOOK
            while size < texts:
                sizes.append(size)
                size *= 1 + _MORE
            levels = ", ".join(str(1 - size / texts) for size in sizes)
            found = self._database.value(f"SELECT quantiles({levels})(number) FROM texts") if sizes else []
            self._texts, self._ends = texts, [int(number) for number in found]
        return self._ends


def _tests(query: SearchQuery) -> tuple[list[str], Values]:
    found = session_conditions(query)
    values = found.values
    tests = list[str]()
    if query.session is not None:
        tests.append("session = :session")
        values["session"] = query.session
    for name, test in (("since", "last_at >= :since"), ("until", "started_at < :until")):
        if getattr(query, name) is not None:
            found.tests.append(test)
            values[name] = getattr(query, name)
    if found.tests:
        tests.append(f"session IN (SELECT id FROM {SESSIONS} WHERE {' AND '.join(found.tests)})")
    return tests, values


def _present(database: Database, numbers: Sequence[int]) -> list[int]:
    place: Values = {"numbers": list(numbers), "first": min(numbers), "last": max(numbers)}
    return sorted({row[0] for row in database.rows(_PRESENT, **place)}, reverse=True)


class SearchIndex:
    """The words of all texts, and which events wait for theirs.

    Events come from many machines and servers, so none of them is the last one that was indexed: all are told apart by
    whether they have a row of words, and only those that came lately are looked through.
    """

    _SINCE = "search_since"
    #: Events that came before this one have their words.
    position = _NO_NUMBER
    stale_since: float | None = None

    def __init__(self, database: Database) -> None:
        self._database = database
        #: Events that wait, by number, as the last look found them.
        self._places: dict[int, Row] = {}

    @property
    def backlog(self) -> int:
        """How many events wait to be indexed."""
        since = self._since()
        return sum(int(self._database.value(_BACKLOG.format(where=where), since=since)) for where in (_SINCE, _BEFORE))

    def late(self, limit: int) -> list[int]:
        """Events to be indexed, as far as they can be read."""
        if not self._places:
            self._places = {row[0]: row for row in self._pending() if row[4]}
        return list(islice(self._places, limit))

    def _pending(self) -> list[Row]:
        newest = int(self._database.value("SELECT max(arrived) FROM events") or 0)
        since = self._since()
        found = [
            self._database.rows(_PENDING.format(where=where, limit=_MOST_PENDING), since=since)
            for where in (_SINCE, _BEFORE)
        ]
        # A look passes over what has its words.
        self._keep_since((found[0][0][5] if found[0] else newest) - _OVERLAP)
        return found[0] + found[1]

    def add(self, texts: Iterable[tuple[int, str]], *, after: int, last: int) -> None:
        """Nothing is indexed in the order of numbers."""

    def add_late(self, texts: Iterable[tuple[int, str]], numbers: Iterable[int]) -> None:
        """Write the words of these events; of those without words that there are none."""
        found = dict(texts)
        places = [self._places[number] for number in numbers if number in self._places]
        rows = [(*row[:4], words_of(found.get(row[0], "")), 1, 0, row[3]) for row in places]
        self._database.insert(_TEXTS.name, _TEXTS.columns, rows)
        for row in places:
            del self._places[row[0]]

    def reset(self) -> None:
        """Empty the index, to be filled anew."""
        self._database.command(f"TRUNCATE TABLE texts{self._database.on_cluster}")
        self._places.clear()
        self._keep(0)

    def mark_stale(self, at: float) -> None:
        """Words of what is removed are removed with it."""

    def _since(self) -> int:
        return int(self._database.value("SELECT value FROM meta FINAL WHERE key = :key", key=self._SINCE) or 0)

    def _keep_since(self, since: int) -> None:
        # Not with every look: each write is a part.
        if since > self._since() + _OVERLAP:
            self._keep(since)

    def _keep(self, since: int) -> None:
        row = (self._SINCE, str(since), self._database.value("SELECT max(ver) + 1 FROM meta"), 0, 0)
        table = Table.of("meta", "key", "value")
        self._database.insert(table.name, table.columns, [row])
