"""JSON documents as people write them: changed in place, with comments, order and indentation of the rest kept.

A document is scanned into nodes that know where they stand in the text. Comments and commas behind the last element are
accepted, as the settings of some agents have them.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_BOM = "\ufeff"
_DEEPEST = 200


class BadDocumentError(ValueError):
    """A text that is no JSON document."""


class Node(NamedTuple):
    """A value, and where it stands."""

    #: ``object``, ``array`` or ``scalar``.
    kind: str
    start: int
    end: int
    #: Of an object its members, of an array its elements (with an empty key).
    parts: tuple[Part, ...] = ()
    scalar: Any = None

    def get(self, key: str) -> Node | None:
        """A member of an object; of several with one name the last, as parsers take it."""
        return next((part.value for part in reversed(self.parts) if part.key == key), None)

    def value(self) -> Any:  # noqa: ANN401 - JSON
        """What a parser makes of it."""
        if self.kind == "object":
            return {part.key: part.value.value() for part in self.parts}
        return [part.value.value() for part in self.parts] if self.kind == "array" else self.scalar


class Part(NamedTuple):
    """A member of an object or an element of an array."""

    key: str
    start: int
    value: Node

    @property
    def end(self) -> int:
        """Where it ends, without the comma."""
        return self.value.end


def parse(text: str) -> Node:
    """The document; raises BadDocumentError with line and reason."""
    scanner = _Scanner(text)
    start = scanner.skip(len(_BOM) if text.startswith(_BOM) else 0)
    node = scanner.node(start, 0)
    end = scanner.skip(node.end)
    if end != len(text):
        raise scanner.error(end, "something follows the document")
    return node


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, place: int, problem: str) -> BadDocumentError:
        return BadDocumentError(f"line {self.text.count(chr(10), 0, place) + 1}: {problem}")

    def skip(self, place: int) -> int:
        found = _SPACE.match(self.text, place)
        return found.end() if found else place

    def node(self, place: int, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self.error(place, "too deeply nested")
        opening = self.text[place : place + 1]
        if opening in ("{", "["):
            return self._container(place, depth)
        if opening == '"':
            value, end = self._string(place)
            return Node("scalar", place, end, (), value)
        found = _SCALAR.match(self.text, place)
        if found is None:
            raise self.error(place, "a value is missing")
        return Node("scalar", place, found.end(), (), json.loads(found[0]))

    def _string(self, place: int) -> tuple[str, int]:
        try:
            value, end = scanstring(self.text, place + 1, True)
        except ValueError:
            raise self.error(place, "a text does not end") from None
        return value, end

    def _container(self, start: int, depth: int) -> Node:
        is_object = self.text[start] == "{"
        closing = "}" if is_object else "]"
        parts: list[Part] = []
        place = self.skip(start + 1)
        while self.text[place : place + 1] != closing:
            if parts:
                if self.text[place : place + 1] != ",":
                    raise self.error(place, f"expected a comma or {closing}")
                place = self.skip(place + 1)
                if self.text[place : place + 1] == closing:
                    break
            parts.append(self._part(place, depth) if is_object else Part("", place, self.node(place, depth + 1)))
            place = self.skip(parts[-1].end)
        return Node("object" if is_object else "array", start, place + 1, tuple(parts))

    def _part(self, place: int, depth: int) -> Part:
        if self.text[place : place + 1] != '"':
            raise self.error(place, "a name in quotes is missing")
        key, end = self._string(place)
        colon = self.skip(end)
        if self.text[colon : colon + 1] != ":":
            raise self.error(colon, "expected a colon")
        return Part(key, place, self.node(self.skip(colon + 1), depth + 1))


# -- changes --------------------------------------------------------------------------------------------------------


def added(text: str, container: Node, key: str, value: object, depth: int) -> str:
    """The text with a further member or element at the end of a container, which is so deep in the document."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    entry = _rendered(value, key if container.kind == "object" else None, unit, depth + 1, newline)
    if not container.parts:
        return _filled(text, container, entry, unit, depth, newline)
    last = container.parts[-1].end
    between = text[container.start + 1 : container.parts[0].start]
    if "\n" not in between:
        separator = " "
    else:
        separator = newline + between[between.rindex("\n") + 1 :] if between.rsplit("\n", 1)[1].isspace() else newline
        if separator == newline:
            separator += unit * (depth + 1)
    comma = _comma_after(text, last, container.end)
    if comma is not None:
        return f"{text[: comma + 1]}{separator}{entry}{text[comma + 1 :]}"
    return f"{text[:last]},{separator}{entry}{text[last:]}"


def removed(text: str, container: Node, place: int) -> str:
    """The text without a part of a container, and without the comma that it needed."""
    part = container.parts[place]
    before = container.parts[place - 1].end if place else container.start + 1
    start = before + len(text[before : part.start].rstrip(" \t\r\n"))
    after = text[part.end :]
    if place:
        comma = _comma_after(text, before, part.start)
        assert comma is not None
        head = text[:comma] + text[comma + 1 : max(start, comma + 1)]
        return head + after
    comma = _comma_after(text, part.end, container.end)
    if comma is not None:
        after = text[part.end : comma] + text[comma + 1 :]
    if len(container.parts) == 1 and not after[: after.index(text[container.end - 1])].strip():
        after = after[after.index(text[container.end - 1]) :]
    return text[:start] + after


def _filled(text: str, container: Node, entry: str, unit: str, depth: int, newline: str) -> str:
    """An empty container gets its first part behind its opening; comments in it stay."""
    rest = text[container.start + 1 :]
    inside = text[container.start + 1 : container.end - 1]
    end = f"{newline}{unit * depth}"
    if not inside.strip():
        rest = end + rest[len(inside) :]
    elif "\n" not in inside:
        rest = f"{newline}{unit * (depth + 1)}{rest.lstrip()}"
    return f"{text[: container.start + 1]}{newline}{unit * (depth + 1)}{entry}{rest}"


def _rendered(value: object, key: str | None, unit: str, depth: int, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    return name + (newline + unit * depth).join(lines)


def _unit(text: str) -> str:
    """One level of indentation, as the document has it."""
    found = re.search(r'[{\[][ \t]*\r?\n([ \t]+)["{\[\]}\d]', text)
    return found[1] if found else "  "


def _comma_after(text: str, start: int, end: int) -> int | None:
    """The comma between two places, outside of comments."""
    place = start
    while place < end:
        found = _SPACE.match(text, place)
        place = found.end() if found else place
        if text[place : place + 1] == ",":
            return place if place < end else None
        return None
    return None
