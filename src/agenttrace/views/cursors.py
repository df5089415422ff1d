"""Cursors: a place in a list as a text, which callers copy from one page into the request for the next.

A page begins after a place, not after a count, so changes between two requests hide nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec

from agenttrace.views.trouble import TroubleError

T = TypeVar("T")

#: Of whole numbers that the stores can hold.
BIGGEST = 2**63 - 1
Int64 = Annotated[int, msgspec.Meta(ge=-BIGGEST - 1, le=BIGGEST)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=BIGGEST)]
Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]

_encoder = msgspec.json.Encoder()


class NotACursorError(TroubleError, ValueError):
    """A text that is no cursor of this list."""

    def __init__(self, cursor: str) -> None:
        fix = "Copy the cursor of the page before, or begin without one."
        super().__init__(f"{cursor[:100]!r} is not a cursor of this list", fix, misused=True)


def to_cursor(*place: object) -> str:
    """A place in a list as an opaque text."""
    return base64.urlsafe_b64encode(_encoder.encode(place)).rstrip(b"=").decode()


def from_cursor(cursor: str, kind: type[T]) -> T:
    """The place that :func:`to_cursor` was given, as a tuple of this type."""
    try:
        stripped = cursor.strip()
        padded = stripped.encode() + b"=" * (-len(stripped) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise NotACursorError(cursor) from None


def page_of(found: Sequence[T], limit: int, place: Callable[[T], tuple[object, ...]]) -> tuple[Sequence[T], str | None]:
    """A page, and the cursor of the next one, of what was found when one more than ``limit`` was asked for."""
    page = found[:limit]
    return page, to_cursor(*place(page[-1])) if len(found) > limit else None
