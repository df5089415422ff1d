"""What a search finds: events, the text in them that matches, and a line of it."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

from agenttrace.ids import tool_span_id
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.record.agents.contract import Content
    from agenttrace.views.events import Heard

_AROUND = 70
_SPAN_NAME = "SELECT name FROM spans WHERE session_id = ? AND span_id = ?"


def matching(connection: sqlite3.Connection, expression: str, limit: int) -> list[int]:
    """The numbers of the events whose text matches an FTS expression, newest first."""
    rows = connection.execute(
        "SELECT search.rowid FROM search JOIN processed_events ON event_no = search.rowid "
        "WHERE search MATCH ? AND block_id IS NOT NULL ORDER BY search.rowid DESC LIMIT ?",
        (expression, limit),
    )
    return [row[0] for row in rows]


def terms_of(wanted: str) -> re.Pattern[str]:
    """What to highlight: each phrase, else each word."""
    found = [phrase or word.rstrip("*") for phrase, word in re.findall(r'"([^"]*)"|(\S+)', wanted)]
    parts = [re.escape(term).replace(r"\ ", r"\s+") for term in found if term]
    return re.compile("|".join(sorted(parts, key=len, reverse=True)) or r"(?!)", re.IGNORECASE)


def best(heard: Heard, terms: re.Pattern[str]) -> tuple[Content | None, int]:
    """The text that matches, and where."""
    for content in heard.said.contents:
        match = terms.search(content.text)
        if match is not None:
            return content, match.start()
    return (heard.said.contents[0], 0) if heard.said.contents else (None, 0)


def span_of(connection: sqlite3.Connection, heard: Heard, content: Content | None) -> tuple[bytes | None, str | None]:
    """The span that holds the text: what a tool was asked stands in the line of the model call that asked it."""
    said, own = heard.said, heard.said.line.span_id
    if own is not None and content is not None and content.call:
        stream = said.event.stream or said.source.stream
        tool = tool_span_id(heard.session.session_id, stream, own, content.call)
        row = connection.execute(_SPAN_NAME, (heard.session.id, tool)).fetchone()
        if row is not None:
            return tool, row[0]
    return own, heard.span


def snippet(text: str, place: int, around: int = _AROUND) -> str:
    """A line of text around a place."""
    start = max(0, place - around)
    cut = one_line(text[start : place + 2 * around])
    return ("…" if start else "") + cut + ("…" if len(text) > place + 2 * around else "")
