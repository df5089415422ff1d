"""A rule: anchors (texts beside a kind of secret), and a function that checks every place where an anchor is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Secret(NamedTuple):
    """A secret: where it begins, where it ends, and what it is."""

    start: int
    end: int
    kind: str


#: Given a text and where an anchor begins and ends in it. Its cost must not depend on how long the text is; where it
#: has to read on, then only over what no other hit of the same rule reads again, so that all of them are linear.
Look = Callable[[str, int, int], "Secret | None"]


class Rule(NamedTuple):
    """One kind of secret."""

    #: No secret of this kind is anywhere but beside one of these.
    anchors: tuple[str, ...]
    look: Look


def marker(kind: str) -> str:
    """The text that replaces a secret of this kind."""
    return f"[masked:{kind}]"


#: A text that has replaced a secret.
MARKER = re.compile(r"\[masked:[a-z0-9-]+\]")

#: After an escape (``\n`` inside JSON, ``%3D`` in a URL, the colour of a terminal) a new word begins.
ESCAPED = (
    r"(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2})"
    r"|(?<=\x1b\[m)|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m)"
)
#: Not in the middle of a word.
LEFT = rf"(?:(?<![A-Za-z0-9])|{ESCAPED})"
#: Not followed by the rest of a word. As no secret ends inside a word, the text after it cannot be taken for the
#: beginning of another secret once a marker is there: masking is idempotent.
RIGHT = r"(?![A-Za-z0-9])"
