"""``/api/v1/sessions/{session}/spans`` and ``/texts``: spans with their attributes, price, lines and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from fastapi import APIRouter, Query, Request, Response

from agenttrace.model import Price, Session
from agenttrace.prices.costing import Cashier, cost_of, price_of, terms_of
from agenttrace.prices.parsing import MILLION, SEARCHES
from agenttrace.record.formats.contract import Content, MediaPlace
from agenttrace.record.texts.contents import InterpretedLine, attributes_of
from agenttrace.record.texts.session_texts import Gathered, SessionTexts
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.lists import BIGGEST, Cursor, Limit, Natural, from_cursor, to_cursor
from agenttrace.serve.api.sessions.lookup import SessionName, SpanName, query_session, ref_of, span_of
from agenttrace.serve.api.shapes.spans import (
    LineRef,
    MediaInfo,
    PriceInfo,
    SpanDetail,
    SpanList,
    TextPart,
    TextPiece,
    Texts,
)
from agenttrace.serve.problems import ProblemError
from agenttrace.store.questions import MAIN_STREAM, SpanRow, SpanView
from agenttrace.views.prices import units
from agenttrace.views.spans import conventional, span_fields, usage_fields
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

#: Characters of one text, and of all texts in an answer together.
MOST_CHARS = 200_000
MOST_IN_ALL = 4_000_000
MOST_SPANS = 200
#: Characters of a text among attributes.
_LONGEST_ATTRIBUTE = 2_000
_DEEPEST_ATTRIBUTE = 64
#: Fields of a span's detail that are as they are stored.
_PLAIN = ("kind", "name", "status", "model", "turn_index", "step_n")

Chars = Annotated[int, Query(ge=0, le=MOST_CHARS, description="How much of each text, in characters.")]
Spans = Annotated[list[str], Query(max_length=MOST_SPANS, description="Ids of spans.")]


def texts_router(context: ServerContext) -> APIRouter:
    """The endpoints of texts."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    texts = context.reader.texts

    @router.get("/sessions/{session}/texts", **endpoint("What was said in some spans", Texts, 404, 409, 422))
    async def some(
        request: Request,
        session: SessionName,
        span: Spans = [],  # noqa: B006 - never changed
        chars: Chars = 2_000,
    ) -> Response:
        wanted = [span_of(name) for name in span]

        def question(store: Store, found: Session) -> Response:
            contents, cutter = texts.contents(store, found, wanted), Cutter(chars)
            return answer(request, Texts({span_id.hex(): cutter.pieces(said) for span_id, said in contents.items()}))

        return await query_session(context.reader, session, question)

    @router.get(
        "/sessions/{session}/spans/{span}/texts/{index}",
        **endpoint("Some characters of a long text", TextPart, 404, 409, 422),
    )
    async def part(
        request: Request,
        session: SessionName,
        span: SpanName,
        index: int,
        start: Annotated[int, Query(ge=0, le=BIGGEST, description="From which character on.")] = 0,
        chars: Chars = 100_000,
    ) -> Response:
        wanted = span_of(span)

        def question(store: Store, found: Session) -> Response:
            contents = texts.contents(store, found, [wanted]).get(wanted)
            if contents is None:
                return _no_span()
            if not 0 <= index < len(contents):
                raise ProblemError(404, "The span has no such text.")
            text = contents[index].text
            return answer(request, TextPart(text[start : start + chars], start, len(text)))

        return await query_session(context.reader, session, question)

    return router


def spans_router(context: ServerContext) -> APIRouter:
    """The endpoints of spans."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    texts = context.reader.texts

    @router.get(
        "/sessions/{session}/spans", **endpoint("The spans of a session, for scripts", SpanList, 400, 404, 409, 422)
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

        def question(store: Store, found: Session) -> Response:
            return answer(request, _page(store, found, start, limit, texts if texts_too else None))

        return await query_session(context.reader, session, question)

    @router.get(
        "/sessions/{session}/spans/{span}",
        **endpoint("A span with its texts, its lines and its price", SpanDetail, 404, 409, 422),
    )
    async def one(request: Request, session: SessionName, span: SpanName, chars: Chars = 20_000) -> Response:
        wanted = span_of(span)

        def question(store: Store, found: Session) -> Response:
            row = store.spans_by_id(found, [wanted]).get(wanted)
            if row is None:
                return _no_span()
            gathered = texts.around(store, found, wanted)
            return answer(request, _detail(store, found, row, gathered, context.index.prices, chars))

        return await query_session(context.reader, session, question)

    return router


def _no_span() -> NoReturn:
    raise ProblemError(404, "The session has no such span.")


def _page(store: Store, session: Session, start: int, limit: int, texts: SessionTexts | None) -> SpanList:
    views = list(map(SpanView.of, store.span_rows(session, attributes=True, start=start, limit=limit + 1)))
    page = views[:limit]
    said = {} if texts is None else texts.contents(store, session, [view.span_id for view in page])
    items = [span_fields(session, view, said.get(view.span_id, ()), full=False) for view in page]
    return SpanList(items, to_cursor(start + limit) if len(views) > limit else None)


def _detail(
    store: Store, session: Session, row: SpanRow, gathered: Gathered, prices: Cashier, chars: int
) -> SpanDetail:
    cost, currency = cost_of(row, prices)
    price = None if row.input_tokens is None else price_of(row, prices.prices)
    return SpanDetail(
        **{name: getattr(row, name) for name in _PLAIN},
        session=ref_of(session),
        trace_id=row.trace_id.hex(),
        span_id=row.span_id.hex(),
        parent_id=None if row.parent_id is None else row.parent_id.hex(),
        start=iso(row.start) or "",
        end=iso(row.end),
        stream="" if row.stream == MAIN_STREAM else row.stream,
        usage=None if row.usage is None else usage_fields(row.usage),
        counted=bool(row.counted),
        estimated=bool(row.estimated),
        cost=cost,
        currency=currency,
        price=None if price is None else _price_info(price, *terms_of(row, prices.prices)),
        attributes=_attributes(store, session, row, gathered),
        texts=Cutter(chars).pieces(gathered.contents.get(row.span_id, ())),
        lines=[_line_ref(said) for said in _own_lines(gathered, row.span_id)],
    )


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


def _attributes(store: Store, session: Session, row: SpanRow, gathered: Gathered) -> dict[str, Any]:
    """Ours and those of the GenAI conventions, or those that were received; what was said is among the texts."""
    view = SpanView.of(row)
    received: dict[str, Any] = {}
    for said in gathered.lines:
        if said.line.span_id == row.span_id:
            received |= attributes_of(store, session, said)
    return {**view.attributes, **(_cut(received) if received else conventional(session, view, (), full=False))}


def _cut(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """The same with long texts cut, and without what is nested very deep; the line has all of it."""
    if depth > _DEEPEST_ATTRIBUTE:
        return "…"
    if isinstance(value, str) and len(value) > _LONGEST_ATTRIBUTE:
        return f"{value[:_LONGEST_ATTRIBUTE]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {name: _cut(each, depth + 1) for name, each in value.items()}
    return [_cut(each, depth + 1) for each in value] if isinstance(value, list) else value


def _own_lines(gathered: Gathered, span_id: bytes) -> list[InterpretedLine]:
    """The lines of a span, and lines of other spans that have a text of it."""
    return [
        said
        for said in gathered.lines
        if said.line.span_id == span_id
        or any(gathered.calls.target(said, content) == span_id for content in said.contents)
    ]


def _line_ref(said: InterpretedLine) -> LineRef:
    line = said.line
    return LineRef(line.event_no, line.event_type, iso(said.event.at), said.path, line.offset, len(line.raw))


class Cutter:
    """Cuts texts to a length each, and to less when an answer gets too long."""

    def __init__(self, chars: int, in_all: int = MOST_IN_ALL) -> None:
        self._chars, self._left = chars, in_all

    def pieces(self, contents: Sequence[Content]) -> list[TextPiece]:
        """The texts of a span."""
        return [self._piece(index, content) for index, content in enumerate(contents)]

    def _piece(self, index: int, content: Content) -> TextPiece:
        text = content.text[: min(self._chars, self._left)]
        self._left -= len(text)
        # Parts of arguments were joined to arguments before.
        kind = "arguments" if content.kind == "arguments_part" else content.kind
        return TextPiece(kind, text, len(content.text), index, content.call, _media_info(content.media))


def _media_info(media: MediaPlace | None) -> MediaInfo | None:
    if media is None:
        return None
    facts = media.facts
    url = f"/api/v1/events/{media.event_no}/media/{media.number}" if facts.problem is None else None
    return MediaInfo(facts.media_type, facts.bytes, facts.place, facts.problem, url)
