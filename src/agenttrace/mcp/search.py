"""``search``: every prompt, answer, argument and result that was recorded, in any language."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from agenttrace.mcp.cursors import Natural, from_cursor, to_cursor
from agenttrace.mcp.naming import agent_named, moment_of, name_of, session_named, short_time
from agenttrace.mcp.past import ToolContext
from agenttrace.mcp.tool import (
    DATA_NOTE,
    MOST_NAME,
    Agent,
    Answer,
    Arguments,
    Cursor,
    Project,
    Since,
    Tool,
    Until,
    most,
)
from agenttrace.store.questions import SearchQuery
from agenttrace.store.search_terms import has_words
from agenttrace.views.hits import TextMatch, find, snippet, terms_of
from agenttrace.views.sessions import title_of
from agenttrace.views.trouble import TroubleError

MOST = 50
_AROUND = 150
_NAME_CHARS = 200
_GO_ON = "Nothing so far, but not everything was looked at: go on with next_cursor."
_TITLE_CHARS = 100


class SearchArguments(Arguments, frozen=True, kw_only=True):
    """What is looked for, and where."""

    query: Annotated[
        str,
        msgspec.Meta(
            max_length=1_000,
            description='Words that all occur in one message or result; "a phrase" in quotes; beginnings as migrat*.',
        ),
    ]
    session: (
        Annotated[str, msgspec.Meta(max_length=MOST_NAME, description="Only in this session: its id or the beginning.")]
        | None
    ) = None
    agent: Agent = None
    project: Project = None
    since: Since = None
    until: Until = None
    limit: Annotated[int, most(MOST, "How many hits at most.")] = 10
    cursor: Cursor = None


class Hit(Answer):
    """A text that matches."""

    session: str
    agent: str
    #: What read_span is asked for.
    span: str | None = None
    #: What the span is: a tool call, a model call, a turn.
    where: str | None = None
    #: prompt, text (an answer), thinking, arguments, result, error or note.
    kind: str = ""
    at: str | None = None
    snippet: str = ""
    title: str | None = None
    project: str | None = None


class HitList(Answer):
    """Hits, the latest recorded first."""

    note: str
    hits: list[Hit]
    next_cursor: str | None = None
    #: Recorded, but not searchable yet.
    not_indexed: int = 0


def found(look: ToolContext, asked: SearchArguments) -> HitList:
    """One page of hits."""
    if not has_words(asked.query):
        raise TroubleError("there is no word to search for", 'Give words, "a phrase", or a beginning: migrat*.')
    agent = agent_named(look, asked.agent)
    query = SearchQuery(
        text=asked.query,
        session=None if asked.session is None else session_named(look, asked.session).id,
        agents=frozenset() if agent is None else frozenset({agent}),
        project_contains=asked.project,
        since=moment_of(look, asked.since),
        until=moment_of(look, asked.until),
        before=None if asked.cursor is None else from_cursor(asked.cursor, tuple[Natural])[0],
        limit=min(asked.limit, MOST),
    )
    page, terms = find(look.store, query), terms_of(asked.query)
    return _answer(look, [_shown(look, hit, terms) for hit in page.matches], page.next)


def _answer(look: ToolContext, hits: list[Hit], before: int | None) -> HitList:
    following = None if before is None else to_cursor(before)
    note = DATA_NOTE if hits or following is None else f"{DATA_NOTE} {_GO_ON}"
    return HitList(note=note, hits=hits, next_cursor=following, not_indexed=look.store.search_index.backlog)


def _shown(look: ToolContext, hit: TextMatch, terms: re.Pattern[str]) -> Hit:
    event, content = hit.event, hit.content
    session = event.session

    def line(text: str | None, chars: int = _NAME_CHARS) -> str | None:
        return look.shown.line(text, chars) or None

    return Hit(
        session=name_of(look, session),
        agent=line(session.agent) or "",
        span=None if hit.span_id is None else hit.span_id.hex(),
        where=line(hit.span),
        kind=(line(event.said.line.event_type) or "") if content is None else content.kind,
        at=short_time(event.said.event.at),
        snippet="" if content is None else _snippet(look, content.text, hit.place, terms),
        title=line(title_of(session), _TITLE_CHARS),
        project=line(session.project),
    )


def _snippet(look: ToolContext, text: str, place: int, terms: re.Pattern[str]) -> str:
    shown, near = look.shown.around(text, place)
    match = terms.search(shown)
    return snippet(shown, near if match is None else match.start(), _AROUND)


TOOL = Tool(
    name="search",
    title="Search past sessions",
    description=(
        "Full text search in everything that was said in recorded sessions: prompts, answers, thinking, tool arguments "
        "and results, of all agents on this machine, the latest recorded first. Each hit names its session and span "
        "and shows the text around the match; read_span gives the whole text, read_session what happened around it."
    ),
    arguments=SearchArguments,
    answer=HitList,
    ask=found,
)
