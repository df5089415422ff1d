"""The limit on the nesting of JSON from outside, beyond which recursive code would fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Far more than real data has, and far less than Python's recursion limit.
MOST_DEPTH = 64
#: Replaces values that are nested deeper.
CUT = "…"


def is_too_deep(value: object, most: int = MOST_DEPTH) -> bool:
    """Whether lists and objects are nested deeper than ``most``."""
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(most):
        level = [part for each in level for part in _parts(each) if isinstance(part, dict | list | tuple)]
        if not level:
            return False
    return True


def cut(value: Any, most: int = MOST_DEPTH) -> Any:  # noqa: ANN401 - any JSON value
    """The same with a mark in the place of everything that is nested deeper than ``most``."""
    return _cut(value, most) if is_too_deep(value, most) else value


def _parts(value: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _cut(value: Any, left: int) -> Any:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict | list | tuple):
        return value
    if left == 0:
        return CUT
    if isinstance(value, dict):
        return {name: _cut(part, left - 1) for name, part in value.items()}
    return [_cut(part, left - 1) for part in value]
