"""Writes the API's shapes as TypeScript, so that the console and the server cannot disagree about them.

Run it as ``python -m agenttrace.serve.api.typescript > web/src/api/shapes.ts``; a test compares.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal, TypeGuard, get_args, get_origin

import msgspec

from agenttrace.serve.api.shapes import (
    exports,
    figures,
    limits,
    live,
    overview,
    recording,
    rules,
    runs,
    search,
    sessions,
    settings,
    spans,
    usage,
)
from agenttrace.share import options as share
from agenttrace.views import changes, comparison, findings, insights, outcomes, requests, team, usage_outcomes
from agenttrace.views import rules as rule_views

_HEAD = "// Made by `make web-types` from src/agenttrace/serve/api/shapes/ and views/; not to be edited.\n"
_PLAIN: dict[Any, str] = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
_AREAS = (
    figures,
    sessions,
    outcomes,
    changes,
    share,
    comparison,
    spans,
    requests,
    search,
    usage_outcomes,
    usage,
    limits,
    insights,
    findings,
    recording,
    runs,
    rule_views,
    rules,
    exports,
    overview,
    team,
    settings,
    live,
)


def typescript() -> str:
    """All shapes as interfaces, in the order of their areas."""
    structs: dict[type[msgspec.Struct], None] = {}
    for area in _AREAS:
        for each in vars(area).values():
            if _is_shape(each) and each.__module__ == area.__name__:
                _collect(each, structs)
    enums = [each for each in vars(runs).values() if _is_enum(each)]
    return _HEAD + "".join([*map(_states, enums), *map(_interface, structs)])


def _collect(struct: type[msgspec.Struct], found: dict[type[msgspec.Struct], None]) -> None:
    """The struct, after those that it consists of and that are not there yet."""
    for hint in typing.get_type_hints(struct).values():
        for part in _parts(hint):
            if part is not struct and part not in found:
                _collect(part, found)
    found[struct] = None


def _parts(hint: Any) -> Iterator[type[msgspec.Struct]]:  # noqa: ANN401 - any annotation
    if _is_shape(hint):
        yield hint
    for argument in get_args(hint):
        yield from _parts(argument)


def _states(states: type[StrEnum]) -> str:
    values = " | ".join(f'"{value}"' for value in states)
    return f"\n/** {states.__doc__} */\nexport type {states.__name__} = {values};\n"


def _is_shape(value: object) -> TypeGuard[type[msgspec.Struct]]:
    return inspect.isclass(value) and issubclass(value, msgspec.Struct) and bool(value.__struct_fields__)


def _is_enum(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, StrEnum)


def _interface(struct: type[msgspec.Struct]) -> str:
    base = struct.__base__
    assert base is not None
    inherited = {field.name for field in msgspec.structs.fields(base)} if _is_shape(base) else set()
    extends = f" extends {base.__name__}" if inherited else ""
    hints = typing.get_type_hints(struct)
    lines = [
        f"  {field.name}: {_type(hints[field.name])};\n"
        for field in msgspec.structs.fields(struct)
        if field.name not in inherited
    ]
    summary = (struct.__doc__ or "").strip().splitlines()[0]
    return f"\n/** {summary} */\nexport interface {struct.__name__}{extends} {{\n{''.join(lines)}}}\n"


def _type(hint: Any) -> str:  # noqa: ANN401 - any annotation
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " | ".join(map(_type, arguments))
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin is list:
        inner = _type(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<string, {_type(arguments[1])}>"
    return hint.__name__ if _is_shape(hint) or _is_enum(hint) else "unknown"


if __name__ == "__main__":
    sys.stdout.write(typescript())
