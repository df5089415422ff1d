"""Lists of ``/api/v1``: filters, limits, and pages with a cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, TypeVar

from fastapi import Path, Query

from agenttrace.config import Settings
from agenttrace.serve.problems import ProblemError
from agenttrace.views import cursors
from agenttrace.views.cursors import BIGGEST as BIGGEST
from agenttrace.views.cursors import Int64 as Int64
from agenttrace.views.cursors import Natural as Natural
from agenttrace.views.cursors import to_cursor as to_cursor
from agenttrace.views.times import moment, parse_when

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Cursor = Annotated[str | None, Query(description="`next` of the page before.")]
#: PostgreSQL stores no NUL in a text.
NO_NUL = r"^[^\x00]*$"

Name = Annotated[str | None, Query(max_length=100, pattern=NO_NUL)]
Number = Annotated[int | None, Query(ge=0, le=BIGGEST)]
#: Of a team's store.
Machines = Annotated[list[str], Query(max_length=500, description="Only recorded on these machines; empty: on none.")]
Persons = Annotated[list[str], Query(max_length=500, description="Only of these persons; empty: of none.")]
Since = Annotated[
    str | None, Query(max_length=100, description="Then or later: `7d`, `24h`, `2026-11-01` or an ISO time.")
]
Until = Annotated[str | None, Query(max_length=100, description="Before: `7d`, `24h`, `2026-11-01` or an ISO time.")]
Id = Annotated[int, Path(ge=1, le=BIGGEST)]


def from_cursor(cursor: str | None, kind: type[T]) -> T | None:
    """The place that a cursor names, as a tuple of this type; 400 for a cursor of another list."""
    if cursor is None:
        return None
    try:
        return cursors.from_cursor(cursor, kind)
    except cursors.NotACursorError:
        raise ProblemError(400, "The cursor is not one of this list; begin without one.") from None


def micros_of(text: str | None, settings: Settings) -> int | None:
    """A moment in microseconds; 400 for a text that is none."""
    try:
        return None if text is None else parse_when(text, settings.usage.timezone)
    except ValueError as error:
        raise ProblemError(400, str(error)) from None


def moment_of(text: str | None, settings: Settings) -> datetime | None:
    """A moment; 400 for a text that is none."""
    # By way of microseconds: the database does not know every time zone.
    micros = micros_of(text, settings)
    return None if micros is None else moment(micros)


def place_of(cursor: str | None) -> int | None:
    """The number at which a page ended."""
    place = from_cursor(cursor, tuple[Natural])
    return None if place is None else place[0]


def page_of(found: Sequence[T], limit: int, number: Callable[[T], int]) -> tuple[Sequence[T], str | None]:
    """A page, and the cursor of the next one, of what was found when one more than ``limit`` was asked for."""
    return cursors.page_of(found, limit, lambda last: (number(last),))
