"""Coloured output: the same text without its colours, and where its characters were."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

#: Escape sequences, also as programs and JSON write them.
_COLOUR = re.compile(r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;:?]{0,32}+[A-Za-z]")
#: How it begins.
COLOURS = ("\x1b[", "\\u001b[", "\\u001B[", "\\x1b[", "\\x1B[", "\\033[", "\\e[")


class Plain(NamedTuple):
    """A text without colours."""

    text: str
    #: Where the pieces between colours begin, in this text and in the coloured one.
    starts: list[int]
    origins: list[int]

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The place in the coloured text, with the colours inside it."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, at: int) -> int:
        piece = bisect_right(self.starts, at) - 1
        return self.origins[piece] + at - self.starts[piece]


def without_colours(text: str) -> Plain:
    """The text as it is read."""
    pieces, starts, origins = [], [], []
    size, done = 0, 0
    ends = [*(found.span() for found in _COLOUR.finditer(text)), (len(text), len(text))]
    for start, end in ends:
        if start > done:
            pieces.append(text[done:start])
            starts.append(size)
            origins.append(done)
            size += start - done
        done = end
    return Plain("".join(pieces), starts, origins)
