"""What a search finds: events, the text in them that matches, and a line of it."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.record.agents.contract import Content
    from agenttrace.views.events import Heard

_AROUND = 70


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


def snippet(text: str, place: int) -> str:
    """A line of text around a place."""
    start = max(0, place - _AROUND)
    cut = one_line(text[start : place + 2 * _AROUND])
    return ("…" if start else "") + cut + ("…" if len(text) > place + 2 * _AROUND else "")
