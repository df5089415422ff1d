"""``--since`` and ``--older-than``: a text that names no time is a wrong use of the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from agenttrace.cli.errors import UsageError
from agenttrace.views import times


@contextmanager
def _wrong_use() -> Iterator[None]:
    try:
        yield
    except times.NotATimeError as error:
        raise UsageError(error.problem, error.fix) from None


def parse_span(text: str) -> timedelta:
    """``7d`` as a length of time."""
    with _wrong_use():
        return times.parse_span(text)


def parse_since(text: str, timezone: str = "local", *, now: datetime | None = None) -> datetime:
    """The moment meant, with its time zone."""
    with _wrong_use():
        return times.parse_moment(text, timezone, now=now)


def since_micros(text: str | None, timezone: str = "local") -> int | None:
    """``--since`` in microseconds since the epoch."""
    return None if text is None else times.micros_of(parse_since(text, timezone))
