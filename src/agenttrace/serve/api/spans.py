"""``/api/v1/sessions/{session}/spans``: one span with all there is to know about it, and all spans for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import APIRouter, Query, Request, Response

from agenttrace.model import Price, Session
from agenttrace.prices.costing import Cashier, cost_of, price_of, terms_of
from agenttrace.prices.parsing import MILLION, SEARCHES
from agenttrace.record.texts.contents import InterpretedLine, attributes_of
from agenttrace.record.texts.session_texts import Gathered, SessionTexts
from agenttrace.serve.api.answers import Cursor, Limit, Natural, answer, from_cursor, shaped, to_cursor
from agenttrace.serve.api.finding import SessionName, SpanName, no_session, ref_of, session_named, span_of
from agenttrace.serve.api.session_texts import session_texts
from agenttrace.serve.api.shapes import Kind, LineRef, PriceInfo, SpanDetail, SpanList, SpanStatus
from agenttrace.serve.api.texts import Chars, Cutter, no_span
from agenttrace.serve.problems import documented
from agenttrace.store.questions import MAIN_STREAM, SpanRow, SpanView
from agenttrace.store.sqlite.span_rows import span_views
from agenttrace.views.prices import units
from agenttrace.views.spans import conventional, span_fields, usage_fields
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.serve.context import Context
    from agenttrace.store.sqlite.store import SqliteStore

#: Of a text among attributes, in characters.
_LONGEST_ATTRIBUTE = 2_000
_DEEPEST_ATTRIBUTE = 64


def spans_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    texts, prices = session_texts(context.reader), Cashier.load(context.settings)

    @router.get(
        "/sessions/{session}/spans",
        summary="The spans of a session, for scripts",
        responses=shaped(SpanList) | documented(400, 404, 409, 422),
    )
    async def listed(
        request: Request,
        session: SessionName,
        texts_too: Annotated[bool, Query(alias="texts", description="With arguments and results, whole.")] = False,
        limit: Limit = 200,
        cursor: Cursor = None,
    ) -> Response:
        place = from_cursor(cursor, tuple[Natural])
        start = 0 if place is None else place[0]

        def question(store: SqliteStore) -> Response:
            found = session_named(store, session)
            shelf = texts if texts_too else None
            return answer(request, _page(store, found, start, limit, shelf))

        return await context.reader.query(question, empty=no_session)

    @router.get(
        "/sessions/{session}/spans/{span}",
        summary="A span with its texts, its lines and its price",
        responses=shaped(SpanDetail) | documented(404, 409, 422),
    )
    async def one(request: Request, session: SessionName, span: SpanName, chars: Chars = 20_000) -> Response:
        wanted = span_of(span)

        def question(store: SqliteStore) -> Response:
            found = session_named(store, session)
            return answer(request, span_detail(store, found, wanted, texts, prices, chars))

        return await context.reader.query(question, empty=no_session)

    return router


def _page(store: SqliteStore, session: Session, start: int, limit: int, texts: SessionTexts | None) -> SpanList:
    views = span_views(store.span_rows(session, attributes=True, start=start, limit=limit + 1))
    page = views[:limit]
    said = {} if texts is None else texts.contents(store, session, [view.span_id for view in page])
    items = [span_fields(session, view, said.get(view.span_id, ()), full=False) for view in page]
    return SpanList(items, to_cursor(start + limit) if len(views) > limit else None)


def span_detail(
    store: SqliteStore,
    session: Session,
    span_id: bytes,
    texts: SessionTexts,
    prices: Cashier,
    chars: int,
) -> SpanDetail:
    """Everything about a span; 404 where the session has no such one."""
    row = store.spans_by_id(session, [span_id]).get(span_id)
    if row is None:
        return no_span()
    gathered = texts.around(store, session, span_id)
    return SpanDetail(
        session=ref_of(session),
        **_facts(row),
        **_money(row, prices),
        attributes=_attributes(store, session, row, gathered),
        texts=Cutter(chars).pieces(gathered.contents.get(span_id, ())),
        lines=[_line_ref(said) for said in _own_lines(gathered, span_id)],
    )


def _facts(row: SpanRow) -> dict[str, Any]:
    usage = row.usage
    return {
        "trace_id": row.trace_id.hex(),
        "span_id": row.span_id.hex(),
        "parent_id": None if row.parent_id is None else row.parent_id.hex(),
        "kind": cast("Kind", row.kind),
        "name": row.name,
        "start": iso(row.start),
        "end": iso(row.end),
        "status": cast("SpanStatus", row.status),
        "model": row.model,
        "stream": "" if row.stream == MAIN_STREAM else row.stream,
        "turn_index": row.turn_index,
        "step_n": row.step_n,
        "usage": None if usage is None else usage_fields(usage),
        "counted": bool(row.counted),
        "estimated": bool(row.estimated),
    }


def _money(row: SpanRow, prices: Cashier) -> dict[str, Any]:
    cost, currency = cost_of(row, prices)
    price = None if row.input_tokens is None else price_of(row, prices.prices)
    told = None if price is None else _price_info(price, *terms_of(row, prices.prices))
    return {"cost": cost, "currency": currency, "price": told}


def _price_info(price: Price, above: int | None, terms: list[str]) -> PriceInfo:
    return PriceInfo(
        model=price.model,
        currency=price.currency,
        input=price.input / MILLION,
        output=price.output / MILLION,
        cache_read=units(price.cache_read),
        cache_write=units(price.cache_write),
        cache_write_1h=units(price.cache_write_1h),
        web_search=None if price.web_search is None else units(price.web_search * SEARCHES),
        since=price.since,
        terms=terms,
        above=above,
        source=price.source,
        checked=price.checked,
    )


def _attributes(store: SqliteStore, session: Session, row: SpanRow, gathered: Gathered) -> dict[str, Any]:
    """Ours and those of the GenAI conventions, or those that were received; what was said is among the texts."""
    view: SpanView = span_views([row])[0]
    received: dict[str, Any] = {}
    for said in gathered.lines:
        if said.line.span_id == row.span_id:
            received |= attributes_of(store, session, said)
    return {**view.attributes, **(_cut(received) if received else conventional(session, view, (), full=False))}


def _cut(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """The same without most of long texts and without what is nested very deep; the line has them."""
    if depth > _DEEPEST_ATTRIBUTE:
        return "…"
    if isinstance(value, str) and len(value) > _LONGEST_ATTRIBUTE:
        return f"{value[:_LONGEST_ATTRIBUTE]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {name: _cut(each, depth + 1) for name, each in value.items()}
    return [_cut(each, depth + 1) for each in value] if isinstance(value, list) else value


def _own_lines(gathered: Gathered, span_id: bytes) -> list[InterpretedLine]:
    """The lines of a span, and those of its neighbours in which something of it stands."""
    return [
        said
        for said in gathered.lines
        if said.line.span_id == span_id
        or any(gathered.calls.target(said, content) == span_id for content in said.contents)
    ]


def _line_ref(said: InterpretedLine) -> LineRef:
    line = said.line
    return LineRef(line.event_no, line.event_type, iso(said.event.at), said.path, line.offset, len(line.raw))
