"""Places in lists and transcripts, as short texts that a model copies from one answer into its next question."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from agenttrace.views.trouble import TroubleError

T = TypeVar("T")

#: What SQLite can be asked for.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]


def to_cursor(*parts: int | str) -> str:
    """A place; its parts hold no dot."""
    return ".".join(map(str, parts))


def from_cursor(cursor: str, kind: type[T]) -> T:
    """The parts of a place, as a tuple of this type."""
    try:
        return msgspec.convert(cursor.strip().split("."), kind, strict=False)
    except msgspec.ValidationError:
        raise TroubleError(
            f"{cursor[:100]!r} is not a cursor of this tool", "Copy the one of the page before, or begin without one."
        ) from None
