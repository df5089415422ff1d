"""``GET /api/v1/sessions``: all sessions, filtered, sorted and in pages, and what they can be filtered by.

The store's ``SessionFilter`` defines what a filter means; what depends on prices, which the store does not know, is
compared here.

A page begins after a place, not after a count: sessions that change while a user turns pages move, but never make
others vanish or appear twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from agenttrace.serve.api.answers import answer, endpoint, tag_of, unchanged
from agenttrace.serve.api.lists import Cursor, Limit, Machines, Persons, from_cursor, micros_of, to_cursor
from agenttrace.serve.api.sessions.session_index import SessionEntry, SessionIndex
from agenttrace.serve.api.shapes.sessions import Facet, SessionFacets, SessionList, SessionRow, State
from agenttrace.serve.problems import ProblemError
from agenttrace.store.questions import OutcomeFigures, OutcomeKind, SessionFilter
from agenttrace.store.sight import current_sight
from agenttrace.views.annotations import NotAScoreTestError, score_tests
from agenttrace.views.times import MICROS, iso

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.annotations import ScoreTest

Sort = Literal["last", "started", "cost", "tokens", "errors", "turns", "duration", "changes", "commits"]
Order = Literal["desc", "asc"]
_MOST_WORDS = 20
#: Sessions without a value come last in either order; the key breaks ties.
Place = tuple[bool, int | float, str]


def sessions_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    index = context.index

    @router.get(
        "/sessions",
        **endpoint("Sessions, newest first or in another order", SessionList, 400, 422),
        response_class=Response,
    )
    async def list_sessions(
        request: Request,
        agent: Annotated[list[str], Query(description="Only of these agents.")] = [],  # noqa: B006 - never changed
        project: Annotated[list[str], Query(description="Only in these directories; empty: in none.")] = [],  # noqa: B006
        state: Annotated[list[State], Query(description="Only in these states.")] = [],  # noqa: B006
        model: Annotated[list[str], Query(description="Only where one of these models was used.")] = [],  # noqa: B006
        q: Annotated[str, Query(max_length=500, description="Title, id or project contains this.")] = "",
        words: Annotated[
            str,
            Query(max_length=500, description="All words are in title, first prompt, id, project, branch or model."),
        ] = "",
        since: Annotated[str | None, Query(description="Active then or later: `7d`, `2026-11-01`, ISO.")] = None,
        until: Annotated[str | None, Query(description="Begun before: `7d`, `2026-11-01`, ISO.")] = None,
        min_cost: Annotated[
            float | None,
            Query(ge=0, description="Cost at least this, in the currency it is in, the largest of several."),
        ] = None,
        errors: Annotated[bool | None, Query(description="With errors, or without any.")] = None,
        commits: Annotated[
            bool | None, Query(description="With commits, or without any; in the background, sessions are examined.")
        ] = None,
        outcome: Annotated[list[OutcomeKind], Query(description="Only with all of these outcomes.")] = [],  # noqa: B006
        label: Annotated[list[str], Query(description="Only with all of these labels.")] = [],  # noqa: B006
        starred: Annotated[bool | None, Query(description="With a star, or without one.")] = None,
        noted: Annotated[bool | None, Query(description="With a note, or without any.")] = None,
        score: Annotated[
            list[str], Query(description="Only where the latest score passes: `quality<3`, `quality>=0.8`.")
        ] = [],  # noqa: B006
        machine: Machines = [],  # noqa: B006
        person: Persons = [],  # noqa: B006
        sort: Annotated[Sort, Query(description="Sessions without a value come last.")] = "last",
        order: Annotated[Order, Query()] = "desc",
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        wanted = SessionFilter(
            agents=frozenset(agent),
            projects=frozenset(project),
            states=frozenset(state),
            models=frozenset(model),
            text=q,
            words=tuple(words.split()[:_MOST_WORDS]),
            since=micros_of(since, context.settings),
            until=micros_of(until, context.settings),
            errors=errors,
            commits=commits,
            outcomes=frozenset(outcome),
            labels=frozenset(label),
            starred=starred,
            noted=noted,
            scores=_score_tests(score),
            machines=frozenset(machine),
            persons=frozenset(person),
        )
        await index.refresh()
        tag = _tag(index, request.url.query, wanted)
        known = unchanged(request, tag)
        if known is not None:
            return known
        found = Sorted(index.entries(), wanted, sort, order, min_cost)
        rows, following = found.page(cursor, limit)
        period = (iso(wanted.since), iso(wanted.until))
        return answer(request, SessionList(rows, following, len(found.rows), index.cursor, *period), tag=tag)

    @router.get(
        "/sessions/facets", **endpoint("What sessions can be filtered by", SessionFacets), response_class=Response
    )
    async def list_facets(request: Request) -> Response:
        await index.refresh()
        tag = _tag(index, "facets")
        return unchanged(request, tag) or answer(request, facets(index.rows()), tag=tag)

    return router


def _score_tests(texts: list[str]) -> tuple[ScoreTest, ...]:
    """Conditions on scores; 400 for a text that is none."""
    try:
        return score_tests(texts)
    except NotAScoreTestError as error:
        raise ProblemError(400, str(error)) from None


def _tag(index: SessionIndex, query: str, wanted: SessionFilter | None = None) -> str:
    """Names the state of the index and the question; ``7d`` is another question every minute."""
    minutes = [] if wanted is None else [(at or 0) // (60 * MICROS) for at in (wanted.since, wanted.until)]
    asked = (index.epoch, index.revision, index.cursor, minutes, query, hash(current_sight()))
    return tag_of(repr(asked).encode("utf-8", "replace"))


# -- order and pages ----------------------------------------------------------------------------------------------


class _Spot(NamedTuple):
    """What a cursor has: a place, and the order of the list that it is a place in."""

    sort: str
    order: str
    missing: bool
    value: int | float
    key: str


def _amount(row: SessionRow) -> float | None:
    """The cost that lists compare: the largest of several currencies; an unknown cost is None."""
    return max(row.bill.costs.values(), default=None)


def _tokens(entry: SessionEntry) -> int:
    bill = entry.row.bill
    return bill.input_tokens + bill.output_tokens + bill.cache_read_tokens + bill.cache_write_tokens


def _duration(entry: SessionEntry) -> int | None:
    started, last = entry.session.started_at, entry.session.last_at
    return None if last is None or started is None else last - started


def _changes(outcomes: OutcomeFigures | None) -> int | None:
    """Lines; not known where the log names files only, and before the session is examined."""
    if outcomes is None or outcomes.added is None or outcomes.removed is None:
        return None
    return outcomes.added + outcomes.removed


_VALUES: dict[Sort, Callable[[SessionEntry], int | float | None]] = {
    "last": lambda entry: entry.session.last_at,
    "started": lambda entry: entry.session.started_at,
    "cost": lambda entry: _amount(entry.row),
    "tokens": _tokens,
    "errors": lambda entry: entry.row.errors,
    "turns": lambda entry: entry.row.turns,
    "duration": _duration,
    "changes": lambda entry: _changes(entry.row.outcomes),
    "commits": lambda entry: None if entry.row.outcomes is None else entry.row.outcomes.commits,
}


class Sorted:
    """Sessions in an order, cut into pages."""

    def __init__(
        self,
        entries: Iterable[SessionEntry],
        wanted: SessionFilter,
        sort: Sort,
        order: Order,
        min_cost: float | None = None,
    ) -> None:
        self._sort, self._order = sort, order
        value_of, sign = _VALUES[sort], 1 if order == "asc" else -1

        def place(entry: SessionEntry) -> Place:
            value = value_of(entry)
            return (True, 0, entry.row.key) if value is None else (False, sign * value, entry.row.key)

        def costs_enough(row: SessionRow) -> bool:
            return min_cost is None or ((cost := _amount(row)) is not None and cost >= min_cost)

        found = [
            (place(entry), entry.row)
            for entry in entries
            if wanted.matches(entry.session, entry.row.models, entry.row.outcomes, entry.marks)
            and costs_enough(entry.row)
        ]
        found.sort(key=lambda pair: pair[0])
        self._places = [pair[0] for pair in found]
        self.rows = [pair[1] for pair in found]

    def page(self, cursor: str | None, limit: int) -> tuple[list[SessionRow], str | None]:
        """The rows after a cursor, and the cursor of the next page."""
        start = 0
        spot = from_cursor(cursor, _Spot)
        if spot is not None:
            if (spot.sort, spot.order) != (self._sort, self._order):
                raise ProblemError(400, "The cursor belongs to another order of this list; begin without one.")
            start = bisect_right(self._places, (spot.missing, spot.value, spot.key))
        end = start + limit
        more = end < len(self.rows)
        return self.rows[start:end], to_cursor(self._sort, self._order, *self._places[end - 1]) if more else None


def facets(rows: list[SessionRow]) -> SessionFacets:
    """How many sessions have each value of a filter, the most frequent first."""
    return SessionFacets(
        agents=_counted(row.agent for row in rows),
        projects=_counted(row.project or "" for row in rows),
        models=_counted(model for row in rows for model in row.models),
        states=_counted(row.state for row in rows),
        labels=_counted(label for row in rows for label in row.marks.labels),
        scores=_counted(name for row in rows for name in row.marks.scores),
        machines=_counted(row.machine for row in rows if row.machine),
        persons=_counted(row.person for row in rows if row.person),
    )


def _counted(values: Iterable[str]) -> list[Facet]:
    return [
        Facet(value, count) for value, count in sorted(Counter(values).items(), key=lambda each: (-each[1], each[0]))
    ]
