"""``search``: every prompt, answer, argument and result that was recorded, in any language."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from agenttrace.mcp.cursors import Natural, from_cursor, to_cursor
from agenttrace.mcp.naming import agent_named, like, moment_of, name_of, session_named, short_time
from agenttrace.mcp.past import Look
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
from agenttrace.record.search_index import backlog, match_expression
from agenttrace.views.events import Heard, Listener
from agenttrace.views.hits import best, snippet, span_of, terms_of
from agenttrace.views.sessions import title_of
from agenttrace.views.trouble import TroubleError

MOST = 50
_AROUND = 150
_NAME_CHARS = 200
#: Events are looked at in portions, and no more of them than this for one answer.
_PORTION = 200
_MOST_LOOKED_AT = 2_000
_LAST = 2**63 - 1
_GO_ON = "Nothing so far, but not everything was looked at: go on with next_cursor."
_TITLE_CHARS = 100

_MATCHING = """
SELECT search.rowid
FROM search JOIN processed_events e ON e.event_no = search.rowid JOIN sessions s ON s.id = e.session_id
WHERE search MATCH :expression AND search.rowid BETWEEN :first AND :last AND e.block_id IS NOT NULL{where}
ORDER BY search.rowid DESC LIMIT :limit
"""
#: The events of a session lie together: looking at no others makes a search in one session quick.
_RANGE = "SELECT coalesce(min(event_no), 0), coalesce(max(event_no), -1) FROM processed_events WHERE session_id = ?"


class Asked(Arguments, frozen=True, kw_only=True):
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


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The search as the store understands it."""

    where: str
    values: dict[str, str | int]
    since: int | None
    until: int | None

    def fits(self, heard: Heard) -> bool:
        """Whether the event was written in the time that is asked for."""
        at = heard.said.event.at
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def found(look: Look, asked: Asked) -> HitList:
    """One page of hits."""
    wanted, terms = _wanted(look, asked), terms_of(asked.query)
    before = _LAST if asked.cursor is None else from_cursor(asked.cursor, tuple[Natural])[0]
    limit = min(asked.limit, MOST)
    hits: list[Hit] = []
    for _ in range(_MOST_LOOKED_AT // _PORTION):
        numbers = _numbers(look, wanted, before)
        for heard in reversed(list(Listener(look.connection).hear(sorted(numbers)))):
            if len(hits) == limit:
                return _answer(look, hits, before)
            before = heard.said.line.event_no
            if wanted.fits(heard):
                hits.append(_hit(look, heard, terms))
        if len(numbers) < _PORTION:
            return _answer(look, hits, None)
        before = numbers[-1]
    return _answer(look, hits, before)


def _answer(look: Look, hits: list[Hit], before: int | None) -> HitList:
    following = None if before is None else to_cursor(before)
    note = DATA_NOTE if hits or following is None else f"{DATA_NOTE} {_GO_ON}"
    return HitList(note=note, hits=hits, next_cursor=following, not_indexed=backlog(look.connection))


def _wanted(look: Look, asked: Asked) -> _Wanted:
    expression = match_expression(asked.query)
    if not expression:
        raise TroubleError("there is no word to search for", 'Give words, "a phrase", or a beginning: migrat*.')
    values: dict[str, str | int] = {"expression": expression, "first": 0, "highest": _LAST}
    where = ""
    if asked.session is not None:
        values["session"] = session_named(look, asked.session).id
        values["first"], values["highest"] = look.connection.execute(_RANGE, (values["session"],)).fetchone()
        where += " AND e.session_id = :session"
    if (agent := agent_named(look, asked.agent)) is not None:
        values["agent"] = agent
        where += " AND s.agent = :agent"
    if asked.project is not None:
        values["project"] = like(asked.project)
        where += " AND s.project LIKE :project ESCAPE '\\'"
    # When the event itself was written stands in its line, which is read later.
    since, until = moment_of(look, asked.since), moment_of(look, asked.until)
    for name, moment, test in (("since", since, "s.last_at >= :since"), ("until", until, "s.started_at < :until")):
        if moment is not None:
            values[name] = moment
            where += f" AND {test}"
    return _Wanted(where=where, values=values, since=since, until=until)


def _numbers(look: Look, wanted: _Wanted, before: int) -> list[int]:
    last = min(before - 1, int(wanted.values["highest"]))
    values = {**wanted.values, "last": last, "limit": _PORTION}
    return [row[0] for row in look.connection.execute(_MATCHING.format(where=wanted.where), values)]


def _hit(look: Look, heard: Heard, terms: re.Pattern[str]) -> Hit:
    content, place = best(heard, terms)
    span_id, span = span_of(look.connection, heard, content)
    session = heard.session

    def line(text: str | None, chars: int = _NAME_CHARS) -> str | None:
        return look.shown.line(text, chars) or None

    return Hit(
        session=name_of(look, session),
        agent=line(session.agent) or "",
        span=None if span_id is None else span_id.hex(),
        where=line(span),
        kind=(line(heard.said.line.event_type) or "") if content is None else content.kind,
        at=short_time(heard.said.event.at),
        snippet="" if content is None else _snippet(look, content.text, place, terms),
        title=line(title_of(session), _TITLE_CHARS),
        project=line(session.project),
    )


def _snippet(look: Look, text: str, place: int, terms: re.Pattern[str]) -> str:
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
    arguments=Asked,
    answer=HitList,
    ask=found,
)
