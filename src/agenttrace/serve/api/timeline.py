"""``GET /api/v1/sessions/{session}/timeline``: all spans of a session as columns, or those that changed since.

A page opens 30,000 spans at once, so nothing here is made a span at a time that can be made a column at a time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from agenttrace.model import Session
from agenttrace.prices.costing import NO_COST, Cashier, cost_of
from agenttrace.serve.api.answers import BIGGEST, Cursor, Natural, from_cursor, shaped, tagged, to_cursor, unchanged
from agenttrace.serve.api.finding import SessionName, key_of, no_session, session_named
from agenttrace.serve.api.shapes import Timeline
from agenttrace.serve.problems import documented
from agenttrace.store.questions import MAIN_STREAM, SpanRow

if TYPE_CHECKING:
    from agenttrace.serve.context import Context
    from agenttrace.store.sqlite.store import SqliteStore

#: Spans in one answer.
PAGE = 50_000
#: Looking for what changed since longer ago than this takes longer than sending everything.
_MOST_BEHIND = 20_000
_PORTION = 500
#: Columns that are as they are stored, and what the store calls them.
_PLAIN = {
    "kind": "kind",
    "name": "name",
    "start": "start",
    "end": "end",
    "status": "status",
    "model": "model",
    "turn": "turn_index",
    "step": "step_n",
    "cached": "cache_read_tokens",
    "output": "output_tokens",
}
_COLUMNS = len(msgspec.structs.fields(Timeline)) - 5

After = Annotated[
    int | None, Query(ge=0, le=BIGGEST, description="`cursor` of a timeline: only what changed since then.")
]


def timeline_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    prices = Cashier.load(context.settings)

    @router.get(
        "/sessions/{session}/timeline",
        summary="All spans of a session, or those that changed",
        responses=shaped(Timeline) | documented(400, 404, 409, 422),
    )
    async def timeline(request: Request, session: SessionName, after: After = None, cursor: Cursor = None) -> Response:
        place = from_cursor(cursor, tuple[Natural, Natural])

        def question(store: SqliteStore) -> Response:
            found = session_named(store, session)
            tag = version_of(store, found)
            known = unchanged(request, tag)
            if known is not None:
                return known
            spans = _asked(store, found, prices, after, place)
            # Made into JSON here, in a reader's thread: megabytes of it would block the event loop.
            return tagged(request, msgspec.json.encode(spans), tag, "application/json")

        return await context.reader.query(question, empty=no_session)

    return router


def _asked(
    store: SqliteStore, session: Session, prices: Cashier, after: int | None, place: tuple[int, int] | None
) -> Timeline:
    if after is not None:
        return changed_timeline(store, session, after, prices)
    if place is None:
        return whole_timeline(store, session, prices)
    # What changes while pages are turned is told after the cursor of the first one.
    found = whole_timeline(store, session, prices, start=place[1])
    found.cursor = min(place[0], found.cursor)
    return found


def version_of(store: SqliteStore, session: Session) -> str:
    """Names what the timeline of a session is made of; another one where any of it differs."""
    # With the counts of the session's row, all that a timeline depends on.
    sums = store.figures_revision(session.id)
    counts: tuple[int, ...] = (session.events, session.turns, session.steps, session.tools, session.errors)
    # Events are numbered anew in a store that was rebuilt, which is another file.
    with suppress(FileNotFoundError):
        counts = (os.stat(store.path).st_ino, *counts)
    parts = (session.id, session.state, *counts, *sums)
    return hashlib.blake2b(repr(parts).encode(), digest_size=9).hexdigest()


def whole_timeline(
    store: SqliteStore, session: Session, cashier: Cashier, *, start: int = 0, limit: int = PAGE
) -> Timeline:
    """All spans in order of start, from the ``start``-th on."""
    cursor = store.last_event()
    rows = islice(store.span_rows(session), start, None)
    found = _columns(session, cursor, islice(rows, limit), cashier)
    if next(rows, None) is not None:
        found.next = to_cursor(cursor, start + limit)
    return found


def changed_timeline(store: SqliteStore, session: Session, after: int, cashier: Cashier) -> Timeline:
    """The spans that changed since a cursor, to be merged by id; all of them where that is not known, or longer."""
    cursor = store.last_event()
    if after > cursor or cursor - after > _MOST_BEHIND:
        return whole_timeline(store, session, cashier)
    found = _columns(session, cursor, iter(store.changed_spans(session, after)), cashier)
    found.complete = False
    return found


def _columns(session: Session, cursor: int, rows: Iterator[SpanRow], cashier: Cashier) -> Timeline:
    found = Timeline(key_of(session), cursor, True, None, [], *([] for _ in range(_COLUMNS)))
    streams: dict[str, int] = {}
    # In portions: tens of thousands of rows that live together keep the garbage collector busy, columns do not.
    while part := list(islice(rows, _PORTION)):
        _extend(found, part, streams, cashier)
    found.streams = ["" if stream == MAIN_STREAM else stream for stream in streams]
    return found


def _extend(found: Timeline, rows: list[SpanRow], streams: dict[str, int], cashier: Cashier) -> None:
    column = dict(zip(SpanRow._fields, zip(*rows, strict=True), strict=True))
    for target, name in _PLAIN.items():
        getattr(found, target).extend(column[name])
    found.span_id += [span_id.hex() for span_id in column["span_id"]]
    found.parent_id += [None if parent is None else parent.hex() for parent in column["parent_id"]]
    found.stream += [streams.setdefault(stream, len(streams)) for stream in column["stream"]]
    found.input += map(_all_input, column["input_tokens"], column["cache_read_tokens"], column["cache_write_tokens"])
    found.counted += map(bool, column["counted"])
    found.estimated += map(bool, column["estimated"])
    costs = [NO_COST if row.input_tokens is None else cost_of(row, cashier) for row in rows]
    found.cost += [cost for cost, _ in costs]
    found.currency += [currency for _, currency in costs]


def _all_input(fresh: int | None, read: int, written: int) -> int | None:
    return None if fresh is None else fresh + read + written
