"""A session as Markdown: what was said stands in fences that nothing in it can close."""

from __future__ import annotations

from collections.abc import Mapping

from agenttrace.model import Session
from agenttrace.record.formats.contract import Content
from agenttrace.views.markdown import DEEPEST_HEADING, escaped, fenced, label_of
from agenttrace.views.transcript import TranscriptSpan, heading_of, visible


class MarkdownPage:
    """The page in the making; it remembers what is still to be said at the end of what is open."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def begin(self, session: Session, facts: Mapping[str, str]) -> str:
        """The title, and what there is to know first."""
        rows = "".join(f"- {name}: {escaped(value)}\n" for name, value in facts.items())
        return f"# {escaped(heading_of(session))}\n\n{rows}"

    def span(self, told: TranscriptSpan) -> str:
        """A span: its heading, and what was said."""
        level = "#" * min(told.depth + 2, DEEPEST_HEADING)
        heading = " · ".join([escaped(told.title), *map(escaped, told.figures)])
        closed = self._closed(told.depth)
        self._open.append("".join(map(_said, told.after)))
        return f"{closed}\n{level} {heading}\n" + "".join(map(_said, told.before))

    def end(self) -> str:
        """The last words."""
        return self._closed(0)

    def _closed(self, depth: int) -> str:
        over, self._open = self._open[depth:], self._open[:depth]
        return "".join(reversed(over))


def _said(content: Content) -> str:
    return f"\n{label_of(content.kind)}:\n\n{fenced(visible(content.text))}"
