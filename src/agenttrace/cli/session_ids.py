"""Ids of sessions in lists: beginnings that are long enough for ``agenttrace show``."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

from agenttrace.views.plain import one_line

_LEAST_CHARS = 8
_RANDOM_ID = re.compile(r"[0-9a-f]{8}(-(?![0-9a-f]{4}-7)|[0-9a-f]{24}$)", re.IGNORECASE)
_DATED_ID = re.compile(r"\d{4}-\d\d-\d\dT")
_TIMED_ID = re.compile(r"(?:ses_)?(?=[^-]*\d)\w{8}")
_TIMED_CHARS, _DATED_CHARS, _NAMED_CHARS = 13, 17, 32


class ShortIds:
    """The shortest beginnings of ids that are of one session only, at least eight characters."""

    def __init__(self, session_ids: Iterable[str]) -> None:
        self._names = sorted({_name(each).lower() for each in session_ids})

    def of(self, session_id: str) -> str:
        """The beginning of this one, without the prefix that some agents write."""
        name = _name(session_id)
        key = name.lower()
        place = bisect_left(self._names, key)
        around = [*self._names[max(0, place - 1) : place], *self._names[place : place + 2]]
        needed = max((_shared(key, other) + 1 for other in around if other != key), default=0)
        return one_line(name[: max(_LEAST_CHARS, needed)])


def short_id(session_id: str) -> str:
    """The beginning that tells a session from others where they are not known, as in a live view.

    Eight characters of a random id; of one that begins with a time, as much as differs from one second to the next; all
    of one that begins with a name, whose end is what differs.
    """
    name = one_line(_name(session_id))
    if _RANDOM_ID.match(name):
        return name[:_LEAST_CHARS]
    if _DATED_ID.match(name):
        return name[:_DATED_CHARS]
    return name[: _TIMED_CHARS if _TIMED_ID.match(name) else _NAMED_CHARS]


def _name(session_id: str) -> str:
    return session_id.removeprefix("session_")


def _shared(one: str, other: str) -> int:
    """How many characters two names begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
