"""``GET /api/v1/sessions/{session}/timeline``: all spans of a session as columns, or those that changed since.

A page opens 30,000 spans at once: what can be built column by column is not built span by span.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from agenttrace.ids import session_key
from agenttrace.model import Session
from agenttrace.prices.costing import NO_COST, Cashier, cost_of
from agenttrace.serve.api.answers import endpoint, tag_of, tagged, unchanged
from agenttrace.serve.api.lists import BIGGEST, Cursor, Natural, from_cursor, to_cursor
from agenttrace.serve.api.sessions.lookup import SessionName, query_session
from agenttrace.serve.api.shapes.spans import Timeline
from agenttrace.store.questions import MAIN_STREAM, SpanRow
from agenttrace.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

#: Spans in one answer.
PAGE = 50_000
#: For a cursor further back, finding the changes takes longer than sending everything.
_MOST_BEHIND = 20_000
_PORTION = 500
#: Columns that are as they are stored, and their names in the store.
_PLAIN = {name: name for name in ("kind", "name", "start", "end", "status", "model")}
_PLAIN |= {"turn": "turn_index", "step": "step_n", "cached": "cache_read_tokens", "output": "output_tokens"}
_COLUMNS = len(msgspec.structs.fields(Timeline)) - 5

After = Annotated[
    int | None, Query(ge=0, le=BIGGEST, description="`cursor` of a timeline: only what changed since then.")
]


def timeline_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])

    @router.get(
        "/sessions/{session}/timeline",
        **endpoint("All spans of a session, or those that changed", Timeline, 400, 404, 409, 422),
    )
    async def timeline(request: Request, session: SessionName, after: After = None, cursor: Cursor = None) -> Response:
        place = from_cursor(cursor, tuple[Natural, Natural])

        def question(store: Store, found: Session) -> Response:
            tag = _version_of(store, found)
            known = unchanged(request, tag)
            if known is not None:
                return known
            spans = _asked(store, found, context.index.prices, after, place)
            # Encoded here, in a reader's thread: megabytes of JSON would block the event loop.
            return tagged(request, msgspec.json.encode(spans), tag, "application/json")

        return await query_session(context.reader, session, question)

    return router


def _asked(
    store: Store, session: Session, prices: Cashier, after: int | None, place: tuple[int, int] | None
) -> Timeline:
    if after is not None:
        return changed_timeline(store, session, after, prices)
    if place is None:
        return whole_timeline(store, session, prices)
    # What changes while a user turns pages is sent after the cursor of the first page.
    found = whole_timeline(store, session, prices, start=place[1])
    found.cursor = min(place[0], found.cursor)
    return found


def _version_of(store: Store, session: Session) -> str:
    """The entity tag: another one where anything of the timeline differs."""
    sums = store.figures_revision(session.id)
    counts: tuple[int, ...] = (session.events, session.turns, session.steps, session.tools, session.errors)
    # A rebuilt store numbers events again, and is another file.
    if isinstance(store, SqliteStore):
        with suppress(FileNotFoundError):
            counts = (os.stat(store.path).st_ino, *counts)
    parts = (session.id, session.state, store.shows(session.id), *counts, *sums)
    return tag_of(repr(parts).encode())


def whole_timeline(store: Store, session: Session, cashier: Cashier, *, start: int = 0, limit: int = PAGE) -> Timeline:
    """All spans in order of start, from the ``start``-th on."""
    cursor = store.last_event()
    rows = islice(store.span_rows(session), start, None)
    found = _columns(session, cursor, islice(rows, limit), cashier)
    if next(rows, None) is not None:
        found.next = to_cursor(cursor, start + limit)
    return found


def changed_timeline(store: Store, session: Session, after: int, cashier: Cashier) -> Timeline:
    """The spans that changed since a cursor, to be merged by id; all of them where that is not known, or longer."""
    cursor = store.last_event()
    if after > cursor or cursor - after > _MOST_BEHIND:
        return whole_timeline(store, session, cashier)
    found = _columns(session, cursor, iter(store.changed_spans(session, after)), cashier)
    found.complete = False
    return found


def _columns(session: Session, cursor: int, rows: Iterator[SpanRow], cashier: Cashier) -> Timeline:
    found = Timeline(session_key(session.id), cursor, True, None, [], *([] for _ in range(_COLUMNS)))
    streams: dict[str, int] = {}
    # In portions: tens of thousands of rows at once keep the garbage collector busy, columns do not.
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
