"""Pages of Markdown of limited length: headings stay whole, texts continue where the page before ended."""

from __future__ import annotations

from typing import NamedTuple

from agenttrace.views.markdown import fenced
from agenttrace.views.plain import cut_before

#: With less room than this, a text begins on the next page.
_LEAST = 300
LEAST_CHARS, MOST_CHARS, USUAL_CHARS = 1_000, 100_000, 20_000


class Passage(NamedTuple):
    """A piece of a page: one line, or a text in a fence below it."""

    line: str
    text: str | None = None


class TextPage:
    """A page that is being filled."""

    def __init__(self, chars: int) -> None:
        self._room = min(max(chars, LEAST_CHARS), MOST_CHARS)
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """The text of the page."""
        return "".join(self._parts)

    def put(self, passage: Passage, start: int = 0) -> int | None:
        """Put a passage on the page, its text from ``start`` on: where the next page continues, or ``None``."""
        if passage.text is None:
            return None if self._add(_block(passage.line)) or self._add_cut(passage.line) else 0
        # No more than fits is read, however long the text is.
        rest = passage.text[start : start + self._room + 1]
        line = f"{passage.line} (continued)" if start else passage.line
        if self._add(f"\n{line}:\n{fenced(rest)}"):
            return None
        if self._parts and self._room < len(line) + _LEAST:
            return start
        return start + self._add_beginning(line, rest)

    def _add(self, block: str) -> bool:
        if len(block) > self._room:
            return False
        self._parts.append(block)
        self._room -= len(block)
        return True

    def _add_cut(self, line: str) -> bool:
        """A line that is longer than a page is cut: no page is empty."""
        return not self._parts and self._add(_block(line[: self._room - 2]))

    def _add_beginning(self, line: str, text: str) -> int:
        """As much of a text as there is room for: how much that is."""
        length = self._room
        while True:
            # No page is empty, even if a character is cut in two.
            piece = _ended(text[: cut_before(text, length) or length])
            if self._add(f"\n{line}:\n{fenced(piece)}"):
                self._room = 0
                return len(piece)
            # Long fences may need many attempts; one character always fits.
            length = min(length - 1, length * 9 // 10)


def _block(line: str) -> str:
    """A line by itself; those of a list stand close together."""
    return f"{line}\n" if line.startswith("- ") else f"\n{line}\n"


def _ended(piece: str) -> str:
    """The piece up to its last line end, where that is near."""
    end = piece.rfind("\n") + 1
    return piece[:end] if end > len(piece) * 3 // 4 else piece
