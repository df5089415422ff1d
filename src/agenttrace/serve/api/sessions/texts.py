"""``/api/v1/sessions/{session}/texts``: the texts of some spans, cut where they are long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

from fastapi import APIRouter, Query, Request, Response

from agenttrace.record.formats.contract import Content
from agenttrace.serve.api.answers import BIGGEST, answer, shaped
from agenttrace.serve.api.session_texts import session_texts
from agenttrace.serve.api.sessions.finding import SessionName, SpanName, no_session, session_named, span_of
from agenttrace.serve.api.shapes import TextPart, TextPiece, Texts
from agenttrace.serve.problems import ProblemError, documented

if TYPE_CHECKING:
    from agenttrace.serve.context import Context
    from agenttrace.store.sqlite.store import SqliteStore

#: Characters of one text, and of all texts in an answer together.
MOST_CHARS = 200_000
MOST_IN_ALL = 4_000_000
MOST_SPANS = 200

Chars = Annotated[int, Query(ge=0, le=MOST_CHARS, description="How much of each text, in characters.")]
Spans = Annotated[list[str], Query(max_length=MOST_SPANS, description="Ids of spans.")]


def texts_router(context: Context) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    texts = session_texts(context.reader)

    @router.get(
        "/sessions/{session}/texts",
        summary="What was said in some spans",
        responses=shaped(Texts) | documented(404, 409, 422),
    )
    async def some(
        request: Request,
        session: SessionName,
        span: Spans = [],  # noqa: B006 - never changed
        chars: Chars = 2_000,
    ) -> Response:
        wanted = [span_of(name) for name in span]

        def question(store: SqliteStore) -> Response:
            found = session_named(store, session)
            contents = texts.contents(store, found, wanted)
            cutter = Cutter(chars)
            return answer(request, Texts({span_id.hex(): cutter.pieces(said) for span_id, said in contents.items()}))

        return await context.reader.query(question, empty=no_session)

    @router.get(
        "/sessions/{session}/spans/{span}/texts/{index}",
        summary="Some characters of a long text",
        responses=shaped(TextPart) | documented(404, 409, 422),
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

        def question(store: SqliteStore) -> Response:
            found = session_named(store, session)
            contents = texts.contents(store, found, [wanted]).get(wanted)
            if contents is None:
                return no_span()
            if not 0 <= index < len(contents):
                raise ProblemError(404, "The span has no such text.")
            text = contents[index].text
            return answer(request, TextPart(text[start : start + chars], start, len(text)))

        return await context.reader.query(question, empty=no_session)

    return router


def no_span() -> NoReturn:
    """404 for a span that the session does not have."""
    raise ProblemError(404, "The session has no such span.")


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
        return TextPiece(kind, text, len(content.text), index, content.call)
