"""Full text search: the one way from what a user typed to a page of matches, for the command line, the API and MCP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agenttrace.ids import tool_span_id
from agenttrace.store.search_terms import search_terms
from agenttrace.views.annotations import annotation_text
from agenttrace.views.events import EventReader, RecordedEvent
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.record.formats.contract import Content
    from agenttrace.store.annotations import Annotation
    from agenttrace.store.questions import SearchQuery
    from agenttrace.store.store import Store

#: So many characters are shown before a match, and twice as many from it on.
AROUND = 70
#: So many events are read at a time, and for one page no more than these.
_PORTION = 200
MOST_READ = 2_000
#: After the annotations: from the latest event on.
_ALL_EVENTS = 2**63 - 1


class TextMatch(NamedTuple):
    """An event that matches, and the text of it that does."""

    event: RecordedEvent
    #: ``None`` if the event has no text; otherwise ``place`` is the position of the first match in it.
    content: Content | None
    place: int
    #: The span of the text, and its name.
    span_id: bytes | None
    span: str | None


class AnnotationMatch(NamedTuple):
    """A note, score or label that matches, and its session."""

    number: int
    annotation: Annotation
    session: Session
    #: What it says, and the position of the first match in it.
    text: str
    place: int


class SearchPage(NamedTuple):
    """Matching annotations, the latest first, and after all of them events, the latest recorded first."""

    matches: list[TextMatch | AnnotationMatch]
    #: ``SearchQuery.before`` of the next page; ``None`` where this is the last one.
    next: int | None


def find(store: Store, query: SearchQuery, *, most_read: int = MOST_READ) -> SearchPage:
    """A page of matches. It may hold fewer than its limit, even none, where many events had to be read for it.

    ``before`` is a negative number while there are annotations to show, and that of an event afterwards.
    """
    if query.before is not None and query.before >= 0:
        return find_events(store, query, most_read=most_read)
    numbered = _annotations(store, query)
    found: list[TextMatch | AnnotationMatch] = [*numbered[: query.limit]]
    if len(numbered) > query.limit:
        return SearchPage(found, -numbered[query.limit - 1].number)
    if len(found) == query.limit:
        return SearchPage(found, _ALL_EVENTS)
    rest = msgspec.structs.replace(query, before=None, limit=query.limit - len(found))
    page = find_events(store, rest, most_read=most_read)
    return SearchPage(found + page.matches, page.next)


def _annotations(store: Store, query: SearchQuery) -> list[AnnotationMatch]:
    """One more than a page has, to know whether there is another one."""
    before = None if query.before is None else min(-query.before, _ALL_EVENTS)
    found = store.search_annotations(msgspec.structs.replace(query, before=before, limit=query.limit + 1))
    sessions = {each.id: each for each in store.sessions_by_number([each.session for _, each in found])}
    terms = terms_of(query.text)
    return [
        AnnotationMatch(number, each, sessions[each.session], text := annotation_text(each), _place(text, terms))
        for number, each in found
        if each.session in sessions
    ]


def _place(text: str, terms: re.Pattern[str]) -> int:
    match = terms.search(text)
    return 0 if match is None else match.start()


def find_events(store: Store, query: SearchQuery, *, most_read: int = MOST_READ) -> SearchPage:
    """The same of events alone."""
    terms, matches, before = terms_of(query.text), list[TextMatch | AnnotationMatch](), query.before
    for read, event in enumerate(_candidates(store, query)):
        if len(matches) == query.limit or read == most_read:
            return SearchPage(matches, before)
        before = event.said.line.event_no
        if is_within(event.said.event.at, query):
            matches.append(_match(store, event, terms))
    return SearchPage(matches, None)


def _candidates(store: Store, query: SearchQuery) -> Iterator[RecordedEvent]:
    """Events whose text matches, newest first, whenever they were written."""
    reader, before = EventReader(store), query.before
    timed = query.since is not None or query.until is not None
    # One more than is wanted, to know whether there is another page.
    portion = _PORTION if timed else min(_PORTION, query.limit + 1)
    while numbers := store.search(msgspec.structs.replace(query, before=before, limit=portion)):
        yield from reversed(list(reader.read(numbers)))
        if len(numbers) < portion:
            return
        before = numbers[-1]


def is_within(at: int | None, query: SearchQuery) -> bool:
    """Whether an event was written in the period of the query."""
    if at is None:
        return query.since is None and query.until is None
    return (query.since is None or at >= query.since) and (query.until is None or at < query.until)


def _match(store: Store, event: RecordedEvent, terms: re.Pattern[str]) -> TextMatch:
    content, place = _best(event.said.contents, terms)
    return TextMatch(event, content, place, *_span_of(store, event, content))


def terms_of(text: str) -> re.Pattern[str]:
    """What to highlight: each phrase, else each word."""
    parts = [re.escape(term.text).replace(r"\ ", r"\s+") for term in search_terms(text)]
    return re.compile("|".join(sorted(parts, key=len, reverse=True)) or r"(?!)", re.IGNORECASE)


def _best(contents: Sequence[Content], terms: re.Pattern[str]) -> tuple[Content | None, int]:
    """The text that matches, and where."""
    for content in contents:
        match = terms.search(content.text)
        if match is not None:
            return content, match.start()
    return (contents[0], 0) if contents else (None, 0)


def _span_of(store: Store, event: RecordedEvent, content: Content | None) -> tuple[bytes | None, str | None]:
    """The span of the text: arguments of a tool are in the line of the model call that requested it."""
    said, own = event.said, event.said.line.span_id
    if own is not None and content is not None and content.call:
        stream = said.event.stream or said.source.stream
        tool = tool_span_id(event.session.session_id, stream, own, content.call)
        name = store.span_name(event.session.id, tool)
        if name is not None:
            return tool, name
    return own, event.span


def snippet(text: str, place: int, around: int = AROUND) -> str:
    """A line of text around a place."""
    start = max(0, place - around)
    cut = one_line(text[start : place + 2 * around])
    return ("…" if start else "") + cut + ("…" if len(text) > place + 2 * around else "")
