"""Received data as lines of the intake's log: one JSON object each, attributes as a plain object, ids in hex.

A resource or scope, which many spans share, is in each of their lines where it is short. Where it is long, it is a
separate line, once for each trace of the request, with the digest of its content; the lines of the spans have the
digest, and the few words of it that recording needs. Log records and data points belong to no trace as a rule: they
always have all of it. ``record/formats/otlp_lines.py`` reads these lines.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from agenttrace.serve.intake.rejections import IntakeError, TooLargeError
from agenttrace.serve.intake.signals import TRACES, Signal

#: The recorder would quarantine a longer line.
LONGEST_LINE = 16 << 20
#: Bytes of all lines of a request together; and a small request may not become a large one.
MOST_WRITTEN = 64 << 20
_MOST_TIMES, _ALWAYS = 16, 4 << 20
#: Spans, attributes and other repeated parts of a request.
MOST_ELEMENTS = 500_000
#: How deep lists and objects may be nested in an attribute.
MOST_DEPTH = 32
#: A resource or scope up to this size is in the line of each span.
_INLINE_BYTES = 512
#: What recording needs of a longer one, and how much of each.
_BRIEF = ("service.name", "service.version", "name", "version")
_BRIEF_CHARS = 300

SPAN_KINDS = ("", "internal", "server", "client", "producer", "consumer")
STATUSES = ("", "ok", "error")
TEMPORALITIES = ("", "delta", "cumulative")

_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_NOTHING = msgspec.Raw()

S = TypeVar("S")
L = TypeVar("L", bound=msgspec.Struct)

encode = msgspec.json.Encoder().encode


class LoggedEvent(msgspec.Struct, omit_defaults=True):
    """An event of a span."""

    name: str = ""
    #: Nanoseconds since the epoch, as all times in a line.
    time: int = 0
    attributes: dict[str, Any] = {}


class LoggedLink(msgspec.Struct, omit_defaults=True):
    """A link to another span."""

    trace: str = ""
    span: str = ""
    attributes: dict[str, Any] = {}


class SpanLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A span as it is written."""

    #: The version of this format. Without a default, so that every line has it.
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
    #: The text of the status.
    message: str = ""
    attributes: dict[str, Any] = {}
    events: list[LoggedEvent] = []
    links: list[LoggedLink] = []
    resource: msgspec.Raw = _NOTHING
    scope: msgspec.Raw = _NOTHING
    #: The digests of the lines of the same trace with the whole resource and the whole scope.
    shared: dict[str, str] = {}
    #: As W3C has them; bit 9 says that the parent is in another process.
    flags: int = 0
    state: str = ""
    #: How many attributes, events and links the sender left out.
    dropped: dict[str, int] = {}


class LogLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A log record as it is written."""

    otlp: int
    #: The name of the event; empty for a plain record. Without a default, because it tells what the line is.
    log: str
    time: int
    trace: str = ""
    span: str = ""
    severity: str = ""
    body: Any = None
    attributes: dict[str, Any] = {}
    resource: msgspec.Raw = _NOTHING
    scope: msgspec.Raw = _NOTHING
    dropped: dict[str, int] = {}


class PointLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A data point of a metric as it is written."""

    otlp: int
    metric: str
    #: ``gauge``, ``sum``, ``histogram``, …
    kind: str
    unit: str = ""
    temporality: str = ""
    start: int = 0
    time: int
    #: A number; of a histogram and the like, all of the point.
    value: Any = None
    attributes: dict[str, Any] = {}
    resource: msgspec.Raw = _NOTHING
    scope: msgspec.Raw = _NOTHING


class SharedLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A resource or a scope that many spans of a trace share."""

    otlp: int
    trace: str
    #: The digest of the value.
    digest: str
    resource: msgspec.Raw = _NOTHING
    scope: msgspec.Raw = _NOTHING


class RefusedSpanError(Exception):
    """A span that cannot be stored, and why."""


class SharedPart(NamedTuple):
    """A resource or a scope, encoded once for all spans that it belongs to."""

    #: ``resource`` or ``scope``.
    kind: str
    whole: msgspec.Raw
    #: What is in the line of a span: all of it, or the few words that recording needs.
    brief: msgspec.Raw
    #: Empty where each line has all of it.
    digest: str


def part(kind: str, read: Callable[[], dict[str, Any]]) -> SharedPart:
    """The value that ``read`` returns, encoded; the request is refused where it cannot be stored."""
    try:
        value = read()
    except RefusedSpanError as error:
        raise IntakeError(f"A {kind} {error}.") from None
    whole = msgspec.Raw(encode(value)) if value else _NOTHING
    if len(whole) <= _INLINE_BYTES:
        return SharedPart(kind, whole, whole, "")
    if len(whole) > LONGEST_LINE:
        raise TooLargeError(f"A {kind} is larger than {LONGEST_LINE >> 20} MiB.")
    words = {name: value[name][:_BRIEF_CHARS] for name in _BRIEF if isinstance(value.get(name), str)}
    return SharedPart(kind, whole, msgspec.Raw(encode(words)), hashlib.sha256(whole).hexdigest()[:32])


class Taken:
    """The result of a request: lines to write, and what was refused."""

    __slots__ = ("_most", "_shared", "_size", "lines", "reasons", "refused", "signal")

    def __init__(self, received: int, signal: Signal = TRACES) -> None:
        """``received``: the size of the request, unpacked."""
        self.signal = signal
        self._most = min(MOST_WRITTEN, received * _MOST_TIMES + _ALWAYS)
        #: A line for each accepted span, log record or data point.
        self.lines: list[bytes] = []
        #: What they share, by trace and digest.
        self._shared: dict[tuple[str, str], bytes] = {}
        self._size = 0
        self.refused = 0
        #: Each reason once, as it was first met.
        self.reasons: dict[str, int] = {}

    @property
    def written(self) -> list[bytes]:
        """All lines. Shared lines come last: a torn end leaves no session without spans."""
        return [*self.lines, *self._shared.values()]

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        return self._size

    def add(
        self, make: Callable[[S, msgspec.Raw, msgspec.Raw], SpanLine], span: S, resource: SharedPart, scope: SharedPart
    ) -> None:
        """Add a span, or the reason why it is refused; the others are accepted all the same."""
        shared = [each for each in (resource, scope) if each.digest]
        if not shared:
            self._add(make, span, resource.brief, scope.brief)
            return

        def made(of: S, resource: msgspec.Raw, scope: msgspec.Raw) -> SpanLine:
            line = make(of, resource, scope)
            line.shared = {each.kind: each.digest for each in shared}
            return line

        line = self._add(made, span, resource.brief, scope.brief)
        if line is not None:
            for each in shared:
                self._share(line.trace, each)

    def add_whole(
        self, make: Callable[[S, msgspec.Raw, msgspec.Raw], L], of: S, resource: SharedPart, scope: SharedPart
    ) -> None:
        """Add a log record or a data point in the same way."""
        self._add(make, of, resource.whole, scope.whole)

    def _add(
        self, make: Callable[[S, msgspec.Raw, msgspec.Raw], L], of: S, resource: msgspec.Raw, scope: msgspec.Raw
    ) -> L | None:
        try:
            made = make(of, resource, scope)
            line = encode(made)
            if len(line) > LONGEST_LINE:
                raise RefusedSpanError(f"is larger than {LONGEST_LINE >> 20} MiB")
        except RefusedSpanError as error:
            self.refused += 1
            reason = str(error)
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            return None
        self._count(line)
        self.lines.append(line)
        return made

    def _share(self, trace: str, shared: SharedPart) -> None:
        if (trace, shared.digest) in self._shared:
            return
        line = SharedLine(otlp=1, trace=trace, digest=shared.digest)
        setattr(line, shared.kind, shared.whole)
        encoded = encode(line)
        self._count(encoded)
        self._shared[trace, shared.digest] = encoded

    def _count(self, line: bytes) -> None:
        self._size += len(line) + 1
        if self._size > self._most:
            raise TooLargeError(
                f"The {self.signal.many} would take more than {self._most:,} bytes on the disk. {self.signal.fewer}"
            )

    @property
    def reason(self) -> str:
        """The reasons in one sentence; empty where nothing was refused."""
        return "; ".join(f"{count} refused: {reason}" for reason, count in self.reasons.items())


def checked_ids(trace: bytes, span: bytes, parent: bytes) -> tuple[str, str, str]:
    """The ids in hex; a span with invalid ids is refused."""
    if len(trace) != 16 or trace == _NO_TRACE:
        raise RefusedSpanError("trace_id is not 16 bytes, or all of them are 0")
    if len(span) != 8 or span == _NO_SPAN:
        raise RefusedSpanError("span_id is not 8 bytes, or all of them are 0")
    if len(parent) not in (0, 8):
        raise RefusedSpanError("parent_span_id is neither empty nor 8 bytes")
    return trace.hex(), span.hex(), "" if parent == _NO_SPAN else parent.hex()


def checked_place(trace: bytes, span: bytes) -> tuple[str, str]:
    """The trace and the span that a log record is part of, in hex; most are part of none."""
    if len(trace) not in (0, 16) or len(span) not in (0, 8):
        raise RefusedSpanError("trace_id is neither empty nor 16 bytes, or span_id neither empty nor 8")
    return "" if trace == _NO_TRACE else trace.hex(), "" if span == _NO_SPAN else span.hex()


def checked_times(start: int, end: int) -> tuple[int, int]:
    """Start and end; missing ones are filled in."""
    start = max(start, 0) or max(end, 0) or time.time_ns()
    return start, max(start, end)


def checked_time(time: int) -> int:
    """A time that a line can have; 0 for others."""
    return time if 0 <= time < 2**63 else 0


def plain_double(value: float) -> float | str:
    """A number that JSON can represent; others as text."""
    return value if math.isfinite(value) else str(value)


def named(words: tuple[str, ...], number: int) -> str:
    """The name of a number of an enumeration; empty for an unknown one."""
    return words[number] if 0 <= number < len(words) else ""


def dropped(attributes: int, events: int, links: int) -> dict[str, int]:
    """Only what was dropped."""
    counts = {"attributes": attributes, "events": events, "links": links}
    return {name: count for name, count in counts.items() if count}


def too_many(signal: Signal = TRACES) -> TooLargeError:
    """The error for a request with too many parts."""
    return TooLargeError(
        f"The request has more than {MOST_ELEMENTS:,} {signal.many}, attributes and values. {signal.fewer}"
    )


def deeper(depth: int) -> int:
    """One level deeper into an attribute; a span that is nested too deep is refused."""
    if depth >= MOST_DEPTH:
        raise RefusedSpanError(f"has an attribute nested more than {MOST_DEPTH} deep")
    return depth + 1
