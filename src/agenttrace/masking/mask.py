"""The mask: every secret becomes a marker, everything else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias

from agenttrace.masking import names
from agenttrace.masking.finding import Markers, secrets
from agenttrace.masking.names import Meaning
from agenttrace.masking.rule import MARKER, Found, marker
from agenttrace.masking.values import is_whole_secret

#: The kind of what the user's own patterns match, and the group that says which part of it is the secret.
OWN = "own"
_PART = "secret"
#: Masking brings what stands around a secret nearer to each other, so a text is masked until nothing changes.
_ROUNDS = 8
#: A container, what it becomes, and what the name of the field says in which it is.
_Open: TypeAlias = "tuple[Iterable[object], dict[object, object] | list[object], Meaning | None]"


class Mask:
    """Hides secrets: those of the usual vendors and forms, and what the user's own patterns match."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)

    def text(self, text: str) -> str:
        """The text with a marker in the place of every secret; masking it again changes nothing."""
        for _ in range(_ROUNDS):
            before, text = text, self._once(text)
            if text == before:
                break
        return text

    def value(self, value: object) -> object:
        """The same for what JSON can hold; a field that is named like a secret is masked whole."""
        top: list[object] = []
        # A stack of our own: what was received may be nested deeper than Python's.
        todo: list[_Open] = [([value], top, None)]
        while todo:
            given, masked, meaning = todo.pop()
            if isinstance(masked, list):
                masked += [self._field(each, meaning, todo) for each in given]
            elif isinstance(given, dict):
                self._fields(given, masked, todo)
        return top[0]

    def _fields(self, given: Mapping[object, object], masked: dict[object, object], todo: list[_Open]) -> None:
        # {"name": "API_KEY", "value": "..."} is a field as well.
        named = given.get("name", given.get("key")) if "value" in given else None
        for key, value in given.items():
            name = named if key == "value" else key
            meaning = names.of_field(name) if isinstance(name, str) else None
            masked[self._key(key, masked)] = self._field(value, meaning, todo)

    def _key(self, key: object, taken: Container[object]) -> object:
        """The name of a field without secrets in it; two names stay two."""
        if not isinstance(key, str):
            return key
        name = masked = self.text(key)
        number = 2
        while name in taken:
            name, number = f"{masked} {number}", number + 1
        return name

    def _field(self, value: object, meaning: Meaning | None, todo: list[_Open]) -> object:
        if isinstance(value, str):
            return self._named(value, meaning) if meaning else self.text(value)
        if isinstance(value, dict):
            fields: dict[object, object] = {}
            todo.append((value, fields, None))
            return fields
        if isinstance(value, list | tuple):
            items: list[object] = []
            todo.append((value, items, meaning))
            return items
        return value

    def _named(self, value: str, meaning: Meaning) -> str:
        """The value of a field that is named like a secret."""
        masked = self.text(value)
        if MARKER.fullmatch(masked) or not is_whole_secret(value, meaning.doubt):
            return masked
        return marker(meaning.kind)

    def _once(self, text: str) -> str:
        found = secrets(text)
        if self._patterns:
            markers = Markers(text)
            own = (each for pattern in self._patterns for each in _own(pattern, text, markers))
            found = sorted([*found, *own], key=lambda each: (each.start, -each.end))
        return _replaced(text, found) if found else text


def _own(pattern: re.Pattern[str], text: str, markers: Markers) -> Iterator[Found]:
    """What a pattern of the user's matches; a match that would tear a marker apart is none."""
    group = _PART if _PART in pattern.groupindex else 0
    for match in pattern.finditer(text):
        start, end = match.span(group)
        if start < end and not markers.cut(start, end) and not MARKER.fullmatch(text, start, end):
            yield Found(start, end, OWN)


def _replaced(text: str, found: Iterable[Found]) -> str:
    """Secrets that overlap become one, which the first of them names."""
    pieces: list[str] = []
    done, masked = 0, 0
    for start, end, kind in found:
        if start >= masked:
            pieces += [text[done:start], marker(kind)]
        masked = max(masked, end)
        done = masked
    return "".join([*pieces, text[done:]])
