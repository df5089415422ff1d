"""Cursors of the tools: those of ``views.cursors``, refused in words that a model can act on."""

from __future__ import annotations

from typing import TypeVar

from agenttrace.views import cursors
from agenttrace.views.cursors import Hex as Hex
from agenttrace.views.cursors import Int64 as Int64
from agenttrace.views.cursors import Natural as Natural
from agenttrace.views.cursors import to_cursor as to_cursor
from agenttrace.views.trouble import TroubleError

T = TypeVar("T")


def from_cursor(cursor: str, kind: type[T]) -> T:
    """The place that a cursor names, as a tuple of this type."""
    try:
        return cursors.from_cursor(cursor.strip(), kind)
    except cursors.NotACursorError:
        raise TroubleError(
            f"{cursor[:100]!r} is not a cursor of this tool", "Copy the one of the page before, or begin without one."
        ) from None
