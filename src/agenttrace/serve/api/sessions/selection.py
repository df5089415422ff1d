"""Which sessions a list shows, in what order, and where its pages begin.

What a filter means is said by the store's ``SessionFilter``; what depends on prices, which the store does not know, is
compared here.

A page begins after a place, not after a count: sessions that change while somebody turns pages move, but never make
others vanish or come twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from agenttrace.serve.api.answers import from_cursor, to_cursor
from agenttrace.serve.api.sessions.session_index import Entry
from agenttrace.serve.api.shapes import Facet, SessionFacets, SessionRow
from agenttrace.serve.problems import ProblemError
from agenttrace.store.questions import SessionFilter

Sort = Literal["last", "started", "cost", "tokens", "errors", "turns", "duration"]
Order = Literal["desc", "asc"]
#: Sessions without a value come last in either order; draws are settled by the key.
Place = tuple[bool, int | float, str]


class _Spot(NamedTuple):
    """A place with the list that it is a place in: what a cursor holds."""

    sort: str
    order: str
    missing: bool
    value: int | float
    key: str


def _costs(row: SessionRow, least: float) -> bool:
    """The cost of several currencies is the largest of them; an unknown cost is none."""
    cost = amount(row)
    return cost is not None and cost >= least


def amount(row: SessionRow) -> float | None:
    """The cost that lists compare: the one there is, else the largest of several currencies."""
    return max(row.bill.costs.values(), default=None)


def _tokens(entry: Entry) -> int:
    bill = entry.row.bill
    return bill.input_tokens + bill.output_tokens + bill.cache_read_tokens + bill.cache_write_tokens


def _duration(entry: Entry) -> int | None:
    started, last = entry.session.started_at, entry.session.last_at
    return None if last is None or started is None else last - started


_VALUES: dict[Sort, Callable[[Entry], int | float | None]] = {
    "last": lambda entry: entry.session.last_at,
    "started": lambda entry: entry.session.started_at,
    "cost": lambda entry: amount(entry.row),
    "tokens": _tokens,
    "errors": lambda entry: entry.row.errors,
    "turns": lambda entry: entry.row.turns,
    "duration": _duration,
}


class Sorted:
    """Sessions in an order, cut into pages."""

    def __init__(
        self, entries: Iterable[Entry], wanted: SessionFilter, sort: Sort, order: Order, min_cost: float | None = None
    ) -> None:
        self._sort, self._order = sort, order
        place = self._placer()
        found = [
            (place(entry), entry.row)
            for entry in entries
            if wanted.matches(entry.session, entry.row.models) and (min_cost is None or _costs(entry.row, min_cost))
        ]
        found.sort(key=lambda pair: pair[0])
        self._places = [pair[0] for pair in found]
        self.rows = [pair[1] for pair in found]

    def _placer(self) -> Callable[[Entry], Place]:
        value_of, sign = _VALUES[self._sort], 1 if self._order == "asc" else -1

        def place(entry: Entry) -> Place:
            value = value_of(entry)
            return (True, 0, entry.row.key) if value is None else (False, sign * value, entry.row.key)

        return place

    def page(self, cursor: str | None, limit: int) -> tuple[list[SessionRow], str | None]:
        """The rows after a cursor, and the cursor of what comes after them."""
        start = 0
        spot = from_cursor(cursor, _Spot)
        if spot is not None:
            if (spot.sort, spot.order) != (self._sort, self._order):
                raise ProblemError(400, "The cursor belongs to another order of this list; begin without one.")
            start = bisect_right(self._places, (spot.missing, spot.value, spot.key))
        end = start + limit
        more = end < len(self.rows)
        return self.rows[start:end], to_cursor(self._sort, self._order, *self._places[end - 1]) if more else None


def facets(rows: Iterable[SessionRow]) -> SessionFacets:
    """How many sessions have each value of a filter, the most frequent first."""
    agents: dict[str, int] = {}
    projects: dict[str, int] = {}
    models: dict[str, int] = {}
    states: dict[str, int] = {}
    for row in rows:
        for counts, value in ((agents, row.agent), (projects, row.project or ""), (states, row.state)):
            counts[value] = counts.get(value, 0) + 1
        for model in row.models:
            models[model] = models.get(model, 0) + 1
    return SessionFacets(_facets(agents), _facets(projects), _facets(models), _facets(states))


def _facets(counts: dict[str, int]) -> list[Facet]:
    return [Facet(value, count) for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
