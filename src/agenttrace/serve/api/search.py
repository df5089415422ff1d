"""``GET /api/v1/search``: every prompt, answer, argument and result that was recorded, newest first."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from agenttrace.record.search_index import backlog, match_expression
from agenttrace.serve.api.answers import BIGGEST, Cursor, Limit, Natural, answer, from_cursor, shaped, to_cursor
from agenttrace.serve.api.finding import ref_of
from agenttrace.serve.api.rows import number_of
from agenttrace.serve.api.shapes import Piece, SearchHit, SearchList
from agenttrace.serve.problems import ProblemError, documented
from agenttrace.views.events import Heard, Listener
from agenttrace.views.hits import best, snippet, span_of, terms_of
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.serve.context import Context

LONGEST_QUERY = 1_000
_NO_WORD = 'There is no word to search for. Give words, a "phrase" in quotes, or a beginning such as migrat*.'

_MATCHING = """
SELECT search.rowid
FROM search JOIN processed_events e ON e.event_no = search.rowid JOIN sessions s ON s.id = e.session_id
WHERE search MATCH ? AND search.rowid BETWEEN ? AND ? AND e.block_id IS NOT NULL{where}
ORDER BY search.rowid DESC LIMIT ?
"""
#: The events of a session lie together: looking at no others makes a search in one session quick.
_RANGE = "SELECT coalesce(min(event_no), 0), coalesce(max(event_no), -1) FROM processed_events WHERE session_id = ?"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A search: an expression of SQLite's full text search, and which sessions are searched."""

    expression: str
    agents: frozenset[str] = frozenset()
    #: The empty text: sessions without one.
    projects: frozenset[str] = frozenset()
    session: int | None = None
    before: int = BIGGEST
    limit: int = 50


def search_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["search"])

    @router.get(
        "/search",
        summary="Find text in everything that was recorded",
        response_class=Response,
        responses=shaped(SearchList) | documented(400, 422),
    )
    async def search(
        request: Request,
        q: Annotated[str, Query(description='Words, all of which occur; a "phrase"; a beginning: `migrat*`.')] = "",
        agent: Annotated[list[str], Query(description="Only of these agents.")] = [],  # noqa: B006 - never changed
        project: Annotated[list[str], Query(description="Only in these directories; empty: in none.")] = [],  # noqa: B006
        session: Annotated[str | None, Query(description="Only in the session with this key.")] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Response:
        place = from_cursor(cursor, tuple[Natural])
        asked = Asked(
            expression=expression_of(q),
            agents=frozenset(agent),
            projects=frozenset(project),
            session=None if session is None else number_of(session),
            before=BIGGEST if place is None else place[0],
            limit=limit,
        )
        terms = terms_of(q)
        found = await context.reader.ask(lambda connection: _answer(connection, asked, terms), empty=_nothing)
        return answer(request, found)

    return router


def expression_of(text: str) -> str:
    """What a user typed for the search of SQLite; 400 where there is nothing in it to search for."""
    if len(text) > LONGEST_QUERY:
        raise ProblemError(400, f"The search is longer than {LONGEST_QUERY} characters.")
    expression = match_expression(text)
    if not expression:
        raise ProblemError(400, _NO_WORD)
    return expression


def _nothing() -> SearchList:
    return SearchList([], None, 0)


def _answer(connection: sqlite3.Connection, asked: Asked, terms: re.Pattern[str]) -> SearchList:
    numbers = _matching(connection, asked)
    page = numbers[: asked.limit]
    # An event that nobody can read any more is left out here and not there: the page may be short, never the list.
    hits = [_hit(connection, heard, terms) for heard in Listener(connection).hear(page[::-1])]
    following = to_cursor(page[-1]) if len(numbers) > asked.limit else None
    return SearchList(hits[::-1], following, backlog(connection))


def _matching(connection: sqlite3.Connection, asked: Asked) -> list[int]:
    """The numbers of the events on this page and of one more, newest first."""
    first, last = 0, asked.before - 1
    where, values = "", list[str | int]()
    if asked.session is not None:
        lowest, highest = connection.execute(_RANGE, (asked.session,)).fetchone()
        first, last = lowest, min(last, highest)
        where += " AND e.session_id = ?"
        values.append(asked.session)
    for column, wanted in (("s.agent", asked.agents), ("coalesce(s.project, '')", asked.projects)):
        if wanted:
            where += f" AND {column} IN ({','.join('?' * len(wanted))})"
            values += wanted
    query = _MATCHING.format(where=where)
    rows = connection.execute(query, (asked.expression, first, last, *values, asked.limit + 1))
    return [row[0] for row in rows]


def _hit(connection: sqlite3.Connection, heard: Heard, terms: re.Pattern[str]) -> SearchHit:
    content, place = best(heard, terms)
    line = heard.said.line
    span_id, span = span_of(connection, heard, content)
    return SearchHit(
        event_no=line.event_no,
        at=iso(heard.said.event.at),
        session=ref_of(heard.session),
        span_id=None if span_id is None else span_id.hex(),
        span=span,
        kind=line.event_type if content is None else content.kind,
        snippet=[] if content is None else list(pieces(snippet(content.text, place), terms)),
    )


def pieces(text: str, terms: re.Pattern[str]) -> Iterator[Piece]:
    """The text in parts, those marked that were searched for."""
    end = 0
    for match in terms.finditer(text):
        if match.start() > end:
            yield Piece(text[end : match.start()], hit=False)
        if match.group():
            yield Piece(match.group(), hit=True)
        end = match.end()
    if end < len(text):
        yield Piece(text[end:], hit=False)
