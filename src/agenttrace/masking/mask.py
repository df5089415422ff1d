"""The mask: every secret becomes a marker, everything else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agenttrace.masking import documents, fields
from agenttrace.masking.rule import MARKER, Secret, marker
from agenttrace.masking.scanner import Hits, Markers, hits_of, secrets

#: The kind of what the user's own patterns match, and the group that says which part of it is the secret.
OWN = "own"
_PART = "secret"
#: Masking moves the texts around a secret closer together, so a text is masked until nothing changes.
_ROUNDS = 8
#: How deep JSON is searched inside the strings of JSON.
_DEPTH = 8


class Mask:
    """Hides secrets: those of the usual vendors and forms, and what the user's own patterns match."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)

    def text(self, text: str) -> str:
        """The text with a marker in the place of every secret; masking it again changes nothing.

        Documents of JSON in it are masked by field, as :meth:`value` does it, and stay documents of JSON.
        """
        for _ in range(_ROUNDS):
            before, text = text, self._once(text, _DEPTH)
            if text == before:
                break
        return text

    def value(self, value: object) -> object:
        """The same for any JSON value; a field that is named like a secret is masked whole."""
        return fields.masked(value, self.text)

    def _once(self, text: str, depth: int) -> str:
        hits = hits_of(text)
        if not hits and not self._patterns:
            return text
        holds = depth > 0 and documents.may_hold(text)
        if holds:
            told = documents.by_field(
                text, lambda value: fields.masked(value, lambda leaf: self._once(leaf, depth - 1))
            )
            if told != text:
                return told
        found = self._found(text, hits)
        if not found:
            return text
        told = _replaced(text, found)
        # A secret that reaches from one string of a document into the next would break it.
        return text if holds and documents.count(text) != documents.count(told) else told

    def _found(self, text: str, hits: Hits) -> list[Secret]:
        found = secrets(text, hits)
        if self._patterns:
            markers = Markers(text)
            own = (each for pattern in self._patterns for each in _own(pattern, text, markers))
            found = sorted([*found, *own], key=lambda each: (each.start, -each.end))
        return found


def _own(pattern: re.Pattern[str], text: str, markers: Markers) -> Iterator[Secret]:
    """What a pattern of the user matches; a match that would cut a marker is ignored."""
    group = _PART if _PART in pattern.groupindex else 0
    for match in pattern.finditer(text):
        start, end = match.span(group)
        if start < end and not markers.cut(start, end) and not MARKER.fullmatch(text, start, end):
            yield Secret(start, end, OWN)


def _replaced(text: str, found: Iterable[Secret]) -> str:
    """Secrets that overlap become one, which the first of them names."""
    pieces: list[str] = []
    done, masked = 0, 0
    for start, end, kind in found:
        if start >= masked:
            pieces += [text[done:start], marker(kind)]
        masked = max(masked, end)
        done = masked
    return "".join([*pieces, text[done:]])
