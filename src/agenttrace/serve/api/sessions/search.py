"""``GET /api/v1/search``: notes, scores and labels, and every text that was recorded, newest first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.lists import Cursor, Int64, Limit, Machines, Persons, from_cursor, to_cursor
from agenttrace.serve.api.sessions.lookup import number_of, ref_of
from agenttrace.serve.api.shapes.search import Piece, SearchHit, SearchList
from agenttrace.serve.problems import ProblemError
from agenttrace.store.questions import SearchQuery
from agenttrace.store.search_terms import has_words
from agenttrace.views.hits import AnnotationMatch, TextMatch, find, snippet, terms_of
from agenttrace.views.times import MICROS, iso

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

LONGEST_QUERY = 1_000
_NO_WORD = 'There is no word to search for. Give words, a "phrase" in quotes, or a beginning such as migrat*.'


def search_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["search"])

    @router.get(
        "/search",
        **endpoint("Find text in everything that was recorded", SearchList, 400, 422),
        response_class=Response,
    )
    async def search(
        request: Request,
        q: Annotated[str, Query(description='Words, all of which occur; a "phrase"; a beginning: `migrat*`.')] = "",
        agent: Annotated[list[str], Query(description="Only of these agents.")] = [],  # noqa: B006 - never changed
        project: Annotated[list[str], Query(description="Only in these directories; empty: in none.")] = [],  # noqa: B006
        machine: Machines = [],  # noqa: B006
        person: Persons = [],  # noqa: B006
        session: Annotated[str | None, Query(description="Only in the session with this key.")] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Response:
        place = from_cursor(cursor, tuple[Int64])
        query = SearchQuery(
            text=_checked(q),
            agents=frozenset(agent),
            projects=frozenset(project),
            machines=frozenset(machine),
            persons=frozenset(person),
            session=None if session is None else number_of(session),
            before=None if place is None else place[0],
            limit=limit,
        )
        found = await context.reader.query(lambda store: _found(store, query), empty=lambda: SearchList([], None, 0))
        return answer(request, found)

    return router


def _checked(text: str) -> str:
    """What a user typed; 400 where it has no word to search for."""
    if len(text) > LONGEST_QUERY:
        raise ProblemError(400, f"The search is longer than {LONGEST_QUERY} characters.")
    if not has_words(text):
        raise ProblemError(400, _NO_WORD)
    return text


def _found(store: Store, query: SearchQuery) -> SearchList:
    page, terms = find(store, query), terms_of(query.text)
    following = None if page.next is None else to_cursor(page.next)
    return SearchList([_shaped(hit, terms) for hit in page.matches], following, store.search_index.backlog)


def _shaped(hit: TextMatch | AnnotationMatch, terms: re.Pattern[str]) -> SearchHit:
    if isinstance(hit, AnnotationMatch):
        return _annotation(hit, terms)
    said, content = hit.event.said, hit.content
    return SearchHit(
        event_no=said.line.event_no,
        annotation_id=None,
        at=iso(said.event.at),
        session=ref_of(hit.event.session),
        span_id=None if hit.span_id is None else hit.span_id.hex(),
        span=hit.span,
        kind=said.line.event_type if content is None else content.kind,
        snippet=[] if content is None else list(pieces(snippet(content.text, hit.place), terms)),
    )


def _annotation(hit: AnnotationMatch, terms: re.Pattern[str]) -> SearchHit:
    annotation = hit.annotation
    return SearchHit(
        event_no=-hit.number,
        annotation_id=annotation.annotation_id.hex(),
        at=iso(int(annotation.changed_at * MICROS)),
        session=ref_of(hit.session),
        span_id=None if annotation.span_id is None else annotation.span_id.hex(),
        span=None,
        kind=annotation.kind,
        snippet=list(pieces(snippet(hit.text, hit.place), terms)),
    )


def pieces(text: str, terms: re.Pattern[str]) -> Iterator[Piece]:
    """The text in parts; those that match are marked."""
    end = 0
    for match in terms.finditer(text):
        if match.start() > end:
            yield Piece(text[end : match.start()], hit=False)
        if match.group():
            yield Piece(match.group(), hit=True)
        end = match.end()
    if end < len(text):
        yield Piece(text[end:], hit=False)
