"""Documents of JSON in a text: the whole of it, one on each line, or some lines among others.

They are masked by field and stay JSON: only the strings that had a secret are rewritten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agenttrace.masking.fields import Fields

#: A document begins a line, and ends one.
_BEGINNING = re.compile(r"(?:\A\s*+|^)(?=\{\s*+[\"}]|\[\s*+[\[{\"\]0-9tfn-])", re.MULTILINE)
_OPENING = ("{", "[")
_LINE = re.compile(r"[^\n]*+")
_END_OF_LINE = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*+"')
_DECODER = json.JSONDecoder(object_pairs_hook=Fields, parse_int=float)
#: An error of the decoder counts the lines before it. So much of this, for each character of the text, is enough.
_COUNTED = 32


class JsonDocument(NamedTuple):
    """A document, and where it is."""

    start: int
    end: int
    value: object


def may_hold(text: str) -> bool:
    """Whether it is worth searching for documents: cheap, as nearly no text has one."""
    return text[:1] in _OPENING or "\n{" in text or "\n[" in text or text[:64].lstrip()[:1] in _OPENING


def documents(text: str) -> Iterator[JsonDocument]:
    """All of them; a line is read twice at most, whatever is in it."""
    at, counted = 0, 0
    while beginning := _BEGINNING.search(text, at):
        start = beginning.end()
        found = _on_one_line(text, start)
        if found is None and counted <= _COUNTED * len(text):
            try:
                value, end = _DECODER.raw_decode(text, start)
                found = JsonDocument(start, end, value)
            except json.JSONDecodeError as error:
                at = max(error.pos, start + 1)
                counted += at
                continue
            except RecursionError:
                return
        at = found.end if found else start + 1
        if found and _END_OF_LINE.match(text, at):
            yield found


def _on_one_line(text: str, start: int) -> JsonDocument | None:
    line = _LINE.match(text, start)
    told = line.group().rstrip() if line else ""
    if not told.endswith(("}", "]")):
        return None
    try:
        return JsonDocument(start, start + len(told), _DECODER.decode(told))
    except (ValueError, RecursionError):
        return None


def count(text: str) -> int:
    """How many there are."""
    return sum(1 for _ in documents(text))


def by_field(text: str, mask: Callable[[object], object]) -> str:
    """The text, each document in it masked as a value is."""
    pieces: list[str] = []
    done = 0
    for document in documents(text):
        before, after = list(_strings(document.value)), list(_strings(mask(document.value)))
        if before == after:
            continue
        literals = _LITERAL.finditer(text, document.start, document.end)
        for literal, old, new in zip(literals, before, after, strict=True):
            if old != new:
                written = json.dumps(new, ensure_ascii=literal.group().isascii())
                pieces += [text[done : literal.start()], written]
                done = literal.end()
    return "".join([*pieces, text[done:]]) if pieces else text


def _strings(value: object) -> Iterator[str]:
    """All strings in the order in which they are written, names of fields included."""
    todo: list[object] = [value]
    while todo:
        here = todo.pop()
        if isinstance(here, str):
            yield here
        elif isinstance(here, Fields):
            todo += [part for field in reversed(here) for part in (field[1], field[0])]
        elif isinstance(here, list):
            todo += reversed(here)
