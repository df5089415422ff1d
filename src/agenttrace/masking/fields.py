"""Records: fields that are named like secrets, pairs of a name and a value, arguments of a command.

Here it is certain which value belongs to a name, so the name decides; only placeholders, and words after vague names,
stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from agenttrace.masking import names
from agenttrace.masking.names import Meaning
from agenttrace.masking.rule import MARKER, marker
from agenttrace.masking.scanner import secrets
from agenttrace.masking.values import Doubt, Notation, is_secret, is_whole_secret

#: Masks a text.
Leaf: TypeAlias = Callable[[str], str]
#: ``Bearer [masked:authorization]`` is clearer than a marker alone.
_SCHEME = re.compile(rf"[A-Za-z]{{2,12}} {MARKER.pattern}")
_SPACE = re.compile(r"\s|://")
_NAME_FIELDS = ("name", "key", "header")


class Fields(list[tuple[str, object]]):
    """An object of JSON as it was written: in its order, with names that occur twice."""


class _Record(NamedTuple):
    """Fields that are still to be masked, and what they become."""

    given: Iterable[tuple[object, object]]
    masked: dict[object, object] | Fields
    #: The meaning of the field in which they are, where it applies to all of them: ``secrets``, ``cookies``.
    inside: Meaning | None


class _List(NamedTuple):
    """The same for items; ``meaning`` is that of the field, and applies to each of them."""

    given: Sequence[object]
    masked: list[object]
    meaning: Meaning | None
    inside: Meaning | None


_Todo: TypeAlias = "list[_Record | _List]"


def masked(value: object, leaf: Leaf) -> object:
    """The value without secrets; it keeps its shape, and its numbers."""
    top: list[object] = []
    # An explicit stack: a value may be nested deeper than Python's stack allows.
    todo: _Todo = [_List([value], top, None, None)]
    while todo:
        here = todo.pop()
        if isinstance(here, _Record):
            _mask_fields(here, leaf, todo)
        else:
            _mask_items(here, leaf, todo)
    return top[0]


def _mask_fields(here: _Record, leaf: Leaf, todo: _Todo) -> None:
    paired = _paired(here.given)
    for key, value in here.given:
        is_value = paired is not None and isinstance(key, str) and key.lower() == "value"
        name = paired if is_value else key
        meaning = names.of_field(name) if isinstance(name, str) else None
        held = (names.of_container(name) if isinstance(name, str) else None) or here.inside
        new = _mask_one(value, meaning or _inside(here, key, alone=paired is None or is_value), held, leaf, todo)
        if isinstance(here.masked, Fields):
            here.masked.append((leaf(str(key)), new))
        else:
            here.masked[_free(leaf(key), here.masked) if isinstance(key, str) else key] = new


def _paired(given: Iterable[tuple[object, object]]) -> object:
    """The name in {"name": "API_KEY", "value": "..."}, which is a field as well; None if there is none."""
    lowered = {key.lower(): value for key, value in given if isinstance(key, str)}
    return next((lowered[name] for name in _NAME_FIELDS if name in lowered), None) if "value" in lowered else None


def _inside(here: _Record, key: object, *, alone: bool) -> Meaning | None:
    """The meaning of a field because of where it is, unless it only describes the others."""
    return here.inside if alone and not (isinstance(key, str) and names.describes(key)) else None


def _free(name: str, taken: dict[object, object]) -> str:
    """The name of a field without secrets in it; two names stay two."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name} {number}", number + 1
    return free


def _mask_items(here: _List, leaf: Leaf, todo: _Todo) -> None:
    said = dict(_told_by_neighbours(here.given))
    for number, item in enumerate(_across([_without_option(item) for item in here.given])):
        if number in said:
            here.masked.append(_mask_one(here.given[number], said[number], here.inside, leaf, todo))
        else:
            here.masked.append(_mask_one(item, here.meaning, here.inside, leaf, todo))


def _mask_one(value: object, meaning: Meaning | None, inside: Meaning | None, leaf: Leaf, todo: _Todo) -> object:
    if isinstance(value, str):
        return _mask_named(value, meaning, leaf) if meaning else leaf(value)
    if isinstance(value, dict | Fields):
        fields: dict[object, object] | Fields = Fields() if isinstance(value, Fields) else {}
        todo.append(_Record(value if isinstance(value, Fields) else value.items(), fields, inside))
        return fields
    if isinstance(value, list | tuple):
        items: list[object] = []
        # Lists of secrets are often those of their names.
        listed = meaning or (inside and inside._replace(doubt=Doubt.TOKEN))
        todo.append(_List(value, items, listed, inside))
        return items
    return value


def _mask_named(value: str, meaning: Meaning, leaf: Leaf) -> str:
    """The value of a field that is named like a secret."""
    new = leaf(value)
    if MARKER.fullmatch(new) or not is_whole_secret(value, meaning.doubt):
        return new
    if _SCHEME.fullmatch(new):
        return new.replace(marker("bearer-token"), marker(meaning.kind))
    return marker(meaning.kind)


def _told_by_neighbours(items: Sequence[object]) -> Iterator[tuple[int, Meaning]]:
    """The meaning of the item before: ``["--password", "x"]``, ``["x-api-key", "..."]``."""
    for number, (name, value) in enumerate(pairwise(items), 1):
        if not isinstance(name, str) or not isinstance(value, str) or len(name) > names.LONGEST:
            continue
        option = name.startswith("-")
        if (not option and len(items) != 2) or (option and value.startswith("-")):
            continue
        meaning = names.of_field(name.lstrip("-"))
        if meaning is None or meaning.doubt in (Doubt.UNSURE, Doubt.KEY):
            continue
        if option or is_secret(value, Doubt.TOKEN, Notation(quoted=True)):
            yield number, meaning


def _without_option(item: object) -> object:
    """``--password=x`` without what it is given."""
    if not isinstance(item, str) or not item.startswith("-") or "=" not in item[: names.LONGEST]:
        return item
    name, _, value = item.partition("=")
    meaning = names.of_field(name.lstrip("-"))
    if meaning is None or meaning.doubt is Doubt.KEY or not is_whole_secret(value, meaning.doubt):
        return item
    return f"{name}={marker(meaning.kind)}"


def _across(items: Sequence[object]) -> Sequence[object]:
    """The items without secrets that only show beside each other: a command's arguments, the lines of a key."""
    texts = [(number, item) for number, item in enumerate(items) if isinstance(item, str)]
    if len(texts) < 2:
        return items
    found = secrets(" ".join(item for _, item in texts))
    if not found:
        return items
    new, at, places = list(items), 0, iter(found)
    place = next(places, None)
    for number, item in texts:
        pieces, done = [], 0
        while place and place.start < at + len(item):
            start, end = max(place.start - at, done), min(place.end - at, len(item))
            if place.kind == "password" and not _SPACE.search(item):
                end = len(item)  # one argument, whatever signs are in it
            if start < end:
                pieces += [item[done:start], marker(place.kind)]
                done = end
            if place.end > at + len(item):
                break
            place = next(places, None)
        new[number] = "".join([*pieces, item[done:]])
        at += len(item) + 1
    return new
