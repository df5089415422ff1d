"""What lists of the run half are filtered and paged by: values that its database can hold, and places by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from fastapi import Path, Query

from agenttrace.config import Settings
from agenttrace.serve.api.answers import BIGGEST, Natural, from_cursor
from agenttrace.serve.problems import ProblemError
from agenttrace.views import cursors
from agenttrace.views.times import moment, parse_when

if TYPE_CHECKING:
    from agenttrace.run.catalog.catalog import App, AppCatalog

T = TypeVar("T")

#: PostgreSQL keeps no NUL in a text.
NO_NUL = r"^[^\x00]*$"

Name = Annotated[str | None, Query(max_length=100, pattern=NO_NUL)]
Number = Annotated[int | None, Query(ge=0, le=BIGGEST)]
Since = Annotated[
    str | None, Query(max_length=100, description="Then or later: `7d`, `24h`, `2026-11-01` or an ISO time.")
]
Until = Annotated[str | None, Query(max_length=100, description="Before: `7d`, `24h`, `2026-11-01` or an ISO time.")]
Id = Annotated[int, Path(ge=1, le=BIGGEST)]


class _Place(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    number: Natural


def micros_of(text: str | None, settings: Settings) -> int | None:
    """The moment meant, in microseconds; 400 where none is."""
    try:
        return None if text is None else parse_when(text, settings.usage.timezone)
    except ValueError as error:
        raise ProblemError(400, str(error)) from None


def moment_of(text: str | None, settings: Settings) -> datetime | None:
    """The moment meant; 400 where none is."""
    # By way of microseconds: zones may be odder than the database understands.
    micros = micros_of(text, settings)
    return None if micros is None else moment(micros)


def place_of(cursor: str | None) -> int | None:
    """The number that a page ended with."""
    place = from_cursor(cursor, _Place)
    return None if place is None else place.number


def page_of(found: Sequence[T], limit: int, number: Callable[[T], int]) -> tuple[Sequence[T], str | None]:
    """A page, and the cursor of the next one, of what was found when one more than ``limit`` was asked for."""
    return cursors.page_of(found, limit, lambda last: (number(last),))


def app_named(catalog: AppCatalog, name: str) -> App | None:
    """An application by its name in chains (``app3``) or its type (``app3_clue``)."""
    return catalog.apps.get(name) or next((app for app in catalog.apps.values() if app.app_type == name), None)
