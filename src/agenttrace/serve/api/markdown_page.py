"""A session as Markdown: what was said stands in fences that nothing in it can close."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agenttrace.model import Session
from agenttrace.record.agents.contract import Content
from agenttrace.serve.api.transcript import Told, heading_of, visible

_SPECIAL = re.compile(r"([\\`*_\[\]|~<>&$])")
_RUN = re.compile(r"`+")
_LABELS = {"prompt": "Prompt", "text": "Answer", "thinking": "Thinking", "error": "Error", "note": "Note"}
_DEEPEST_HEADING = 6


class MarkdownPage:
    """The page in the making; it remembers what is still to be said at the end of what is open."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def begin(self, session: Session, facts: Mapping[str, str]) -> str:
        """The title, and what there is to know first."""
        rows = "".join(f"- {name}: {_plain(value)}\n" for name, value in facts.items())
        return f"# {_plain(heading_of(session))}\n\n{rows}"

    def span(self, told: Told) -> str:
        """A span: its heading, and what was said."""
        level = "#" * min(told.depth + 2, _DEEPEST_HEADING)
        heading = " · ".join([_plain(told.title), *map(_plain, told.figures)])
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
    label = _LABELS.get(content.kind, content.kind.capitalize())
    return f"\n{label}:\n\n{fenced(visible(content.text))}"


def fenced(text: str) -> str:
    """The text in a fence that is longer than every run of backticks in it."""
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}\n"


def _plain(text: str) -> str:
    """A text that means nothing but itself."""
    return _SPECIAL.sub(r"\\\1", visible(text))
