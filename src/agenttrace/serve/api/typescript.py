"""Writes the API's shapes as TypeScript, so that the console and the server cannot disagree about them.

Run it as ``python -m agenttrace.serve.api.typescript > web/src/api/shapes.ts``; a test compares.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin

import msgspec

from agenttrace.serve.api import shapes

_HEAD = "// Made by `make web-types` from src/agenttrace/serve/api/shapes.py; not to be edited.\n"
_PLAIN: dict[Any, str] = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def typescript() -> str:
    """All shapes as interfaces, in the order of their names in the module."""
    named = vars(shapes).values()
    states = [each for each in named if inspect.isclass(each) and issubclass(each, StrEnum)]
    structs = [each for each in named if _is_shape(each)]
    return _HEAD + "".join([*map(_states, states), *map(_interface, structs)])


def _states(states: type[StrEnum]) -> str:
    values = " | ".join(f'"{value}"' for value in states)
    return f"\n/** {states.__doc__} */\nexport type {states.__name__} = {values};\n"


def _is_shape(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, shapes.Shape) and value is not shapes.Shape


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
    named = _is_shape(hint) or (inspect.isclass(hint) and issubclass(hint, StrEnum))
    return hint.__name__ if named else "unknown"


if __name__ == "__main__":
    sys.stdout.write(typescript())
