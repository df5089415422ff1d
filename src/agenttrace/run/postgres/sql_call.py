"""A call of an SQL function: a whole statement, or a part of a larger one, which saves a round trip."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_ROW = b" FROM (SELECT %(settled)s::bigint AS id) AS settled"


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlCall:
    """The name of an SQL function of ours, and its arguments."""

    function: str
    arguments: tuple[Any, ...]
    #: The number of the row that is settled comes before the arguments.
    takes_row: bool = False
    #: Gets what the function returned. The function may be called twice for that, which must change nothing.
    on_result: Callable[[Any], None] | None = None

    @property
    def statement(self) -> bytes:
        """It, alone; where it takes a row, that is the value named ``settled``."""
        call = _rendered(self.function, len(self.arguments), self.takes_row, 0)
        return b"SELECT " + call + (_ROW if self.takes_row else b"")


def joined(settling: bytes, calls: Sequence[SqlCall]) -> bytes:
    """A statement that writes a row and returns its id first, with these calls made for it; they return last."""
    return _joined(settling, tuple((call.function, len(call.arguments), call.takes_row) for call in calls))


def values_of(*calls: SqlCall) -> dict[str, Any]:
    """The arguments of calls by the names that they have in their statement."""
    return {
        f"call_{place}_{number}": argument
        for place, call in enumerate(calls)
        for number, argument in enumerate(call.arguments)
    }


def pass_results(row: tuple[Any, ...], calls: Sequence[SqlCall]) -> None:
    """Pass to the calls of a statement what they returned."""
    for call, value in zip(calls, row[len(row) - len(calls) :], strict=True):
        if call.on_result is not None:
            call.on_result(value)


@functools.cache
def _joined(settling: bytes, calls: tuple[tuple[str, int, bool], ...]) -> bytes:
    if not calls:
        return settling
    expressions = b", ".join(_rendered(*call, place) for place, call in enumerate(calls))
    return b"WITH settled AS (" + settling + b") SELECT settled.*, " + expressions + b" FROM settled"


@functools.cache
def _rendered(function: str, count: int, takes_row: bool, place: int) -> bytes:
    arguments = ["settled.id"] if takes_row else []
    arguments += [f"%(call_{place}_{number})s" for number in range(count)]
    return f"biz.{function}({', '.join(arguments)})".encode()
