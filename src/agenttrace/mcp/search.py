"""``search``: every prompt, answer, argument and result that was recorded, in any language."""

from __future__ import annotations

import re
from typing import Annotated

from agenttrace.mcp.naming import name_of, narrowed, session_named, short_time
from agenttrace.mcp.tool import DATA_NOTE, NarrowedArguments, OneSession, Tool, ToolAnswer, most, text
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.store.questions import SearchQuery
from agenttrace.store.search_terms import has_words
from agenttrace.views.cursors import Int64, from_cursor, to_cursor
from agenttrace.views.hits import AnnotationMatch, TextMatch, find, snippet, terms_of
from agenttrace.views.sessions import title_of
from agenttrace.views.times import MICROS
from agenttrace.views.trouble import TroubleError

MOST = 50
_AROUND = 150
_GO_ON = "Nothing so far, but the search is not complete: continue with next_cursor."
_TITLE_CHARS = 100


class SearchArguments(NarrowedArguments, frozen=True, kw_only=True):
    """What is looked for, and where."""

    query: Annotated[
        str, text('Words that all occur in one message or result; "a phrase" in quotes; beginnings as migrat*.', 1_000)
    ]
    session: OneSession = None
    limit: Annotated[int, most(MOST, "How many hits at most.")] = 10


class FoundText(ToolAnswer):
    """A text that matches."""

    session: str
    agent: str
    #: What read_span is asked for.
    span: str | None = None
    #: What the span is: a tool call, a model call, a turn.
    where: str | None = None
    #: prompt, text (an answer), thinking, arguments, result, error or note; score and label beside a session.
    kind: str = ""
    at: str | None = None
    snippet: str = ""
    title: str | None = None
    project: str | None = None


class SearchHits(ToolAnswer):
    """Hits, the latest recorded first."""

    note: str
    hits: list[FoundText]
    next_cursor: str | None = None
    #: Recorded, but not searchable yet.
    not_indexed: int = 0


def found(context: ToolContext, asked: SearchArguments) -> SearchHits:
    """One page of hits."""
    if not has_words(asked.query):
        raise TroubleError("there is no word to search for", 'Give words, "a phrase", or a beginning: migrat*.')
    query = SearchQuery(
        text=asked.query,
        session=None if asked.session is None else session_named(context, asked.session).id,
        **narrowed(context, asked),
        before=None if asked.cursor is None else from_cursor(asked.cursor, tuple[Int64])[0],
        limit=min(asked.limit, MOST),
    )
    page, terms = find(context.store, query), terms_of(asked.query)
    return _answer(context, [_shown(context, hit, terms) for hit in page.matches], page.next)


def _answer(context: ToolContext, hits: list[FoundText], before: int | None) -> SearchHits:
    following = None if before is None else to_cursor(before)
    note = DATA_NOTE if hits or following is None else f"{DATA_NOTE} {_GO_ON}"
    return SearchHits(note=note, hits=hits, next_cursor=following, not_indexed=context.store.search_index.backlog)


def _shown(context: ToolContext, hit: TextMatch | AnnotationMatch, terms: re.Pattern[str]) -> FoundText:
    if isinstance(hit, AnnotationMatch):
        return _annotation(context, hit, terms)
    event, content = hit.event, hit.content
    session, line = event.session, context.line
    return FoundText(
        session=name_of(context, session),
        agent=line(session.agent) or "",
        span=None if hit.span_id is None else hit.span_id.hex(),
        where=line(hit.span),
        kind=(line(event.said.line.event_type) or "") if content is None else content.kind,
        at=short_time(event.said.event.at),
        snippet="" if content is None else _snippet(context, content.text, hit.place, terms),
        title=line(title_of(session), _TITLE_CHARS),
        project=line(session.project),
    )


def _annotation(context: ToolContext, hit: AnnotationMatch, terms: re.Pattern[str]) -> FoundText:
    annotation, session, line = hit.annotation, hit.session, context.line
    return FoundText(
        session=name_of(context, session),
        agent=line(session.agent) or "",
        span=None if annotation.span_id is None else annotation.span_id.hex(),
        where="beside the session",
        kind=annotation.kind,
        at=short_time(int(annotation.changed_at * MICROS)),
        snippet=_snippet(context, hit.text, hit.place, terms),
        title=line(title_of(session), _TITLE_CHARS),
        project=line(session.project),
    )


def _snippet(context: ToolContext, text: str, place: int, terms: re.Pattern[str]) -> str:
    shown, near = context.shown.around(text, place)
    match = terms.search(shown)
    return snippet(shown, near if match is None else match.start(), _AROUND)


TOOL = Tool(
    name="search",
    title="Search past sessions",
    description=(
        "Full text search in everything that was said in recorded sessions: prompts, answers, thinking, tool arguments "
        "and results, of all agents on this machine, the latest recorded first; before them the notes, scores and "
        "labels beside sessions that match. Each hit names its session and span and shows the text around the match; "
        "read_span gives the whole text, read_session what happened around it."
    ),
    arguments=SearchArguments,
    answer=SearchHits,
    ask=found,
)
