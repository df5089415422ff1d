"""Spans as lines of the intake's log: one JSON object each, attributes as a plain object, ids in hex.

A line stands for itself: what the request said once for many spans (resource, scope) is in each of their lines. What
``record/agents/otlp_lines.py`` reads is what is written here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

#: A longer line would be set aside by the recorder.
LONGEST_LINE = 16 << 20

SPAN_KINDS = ("", "internal", "server", "client", "producer", "consumer")
STATUSES = ("", "ok", "error")

_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_NOTHING = msgspec.Raw()

S = TypeVar("S")

encode = msgspec.json.Encoder().encode


class EventLine(msgspec.Struct, omit_defaults=True):
    """Something that happened inside a span."""

    name: str = ""
    #: Nanoseconds since the epoch, as all times in a line.
    time: int = 0
    attributes: dict[str, Any] = {}


class LinkLine(msgspec.Struct, omit_defaults=True):
    """Another span that a span has to do with."""

    trace: str = ""
    span: str = ""
    attributes: dict[str, Any] = {}


class SpanLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A span as it is written."""

    #: The version of this format. Without a default, so that every line says it.
    otlp: int
    trace: str
    span: str
    parent: str = ""
    name: str = ""
    #: ``server``, ``client``, …; nothing where the sender did not say.
    kind: str = ""
    start: int
    end: int
    status: str = ""
    #: What the status says beyond that.
    message: str = ""
    attributes: dict[str, Any] = {}
    events: list[EventLine] = []
    links: list[LinkLine] = []
    resource: msgspec.Raw = _NOTHING
    scope: msgspec.Raw = _NOTHING
    #: As W3C has them; bit 9 says that the parent is in another process.
    flags: int = 0
    state: str = ""
    #: How many attributes, events and links the sender left out.
    dropped: dict[str, int] = {}


class RefusedSpanError(Exception):
    """A span that cannot be kept, and why."""


class Taken:
    """What a request brought: lines to be written, and what was refused."""

    __slots__ = ("lines", "reasons", "refused")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.refused = 0
        #: Each reason once, as it was first met.
        self.reasons: dict[str, int] = {}

    def add(
        self,
        make: Callable[[S, msgspec.Raw, msgspec.Raw], SpanLine],
        span: S,
        resource: msgspec.Raw,
        scope: msgspec.Raw,
    ) -> None:
        """Take a span, or note why not: one bad span is no reason to refuse the others."""
        try:
            line = encode(make(span, resource, scope))
            if len(line) > LONGEST_LINE:
                raise RefusedSpanError(f"is larger than {LONGEST_LINE >> 20} MiB")
        except RefusedSpanError as error:
            self.refused += 1
            reason = str(error)
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            return
        self.lines.append(line)

    @property
    def reason(self) -> str:
        """What was refused in one sentence; empty where nothing was."""
        return "; ".join(f"{count} refused: {reason}" for reason, count in self.reasons.items())


def checked_ids(trace: bytes, span: bytes, parent: bytes) -> tuple[str, str, str]:
    """The ids in hex; a span whose ids name nothing is refused."""
    if len(trace) != 16 or trace == _NO_TRACE:
        raise RefusedSpanError("trace_id is not 16 bytes, or all of them are 0")
    if len(span) != 8 or span == _NO_SPAN:
        raise RefusedSpanError("span_id is not 8 bytes, or all of them are 0")
    if len(parent) not in (0, 8):
        raise RefusedSpanError("parent_span_id is neither empty nor 8 bytes")
    return trace.hex(), span.hex(), "" if parent == _NO_SPAN else parent.hex()


def checked_times(start: int, end: int) -> tuple[int, int]:
    """Beginning and end; what a sender left out is filled in: a span is somewhere in time."""
    start = max(start, 0) or max(end, 0) or time.time_ns()
    return start, max(start, end)


def plain_double(value: float) -> float | str:
    """A number as JSON can have it."""
    return value if math.isfinite(value) else str(value)


def named(words: tuple[str, ...], number: int) -> str:
    """The word for a number of an enumeration; nothing for one that is not known."""
    return words[number] if 0 <= number < len(words) else ""


def dropped(attributes: int, events: int, links: int) -> dict[str, int]:
    """Only what was dropped."""
    counts = {"attributes": attributes, "events": events, "links": links}
    return {name: count for name, count in counts.items() if count}


def raw(value: dict[str, Any]) -> msgspec.Raw:
    """An object that many lines repeat, encoded once."""
    return msgspec.Raw(encode(value)) if value else _NOTHING
