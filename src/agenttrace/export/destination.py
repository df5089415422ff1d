"""What a destination is: it sends spans, says what became of them, and knows what it does with repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Literal, Protocol

import msgspec

from agenttrace.export.span import ExportSpan

#: ``accepted``: stored, or on the way to be. ``refused``: never will be, sending it again is pointless.
#: ``retry``: nothing was taken, later it may be. ``too_large``: in smaller portions it may be. ``blocked``: nothing is
#: taken from us as things are (a wrong key, a wrong address); no fault of the spans, so they wait.
#: ``unknown``: it was sent, and nobody said what became of it.
Verdict = Literal["accepted", "refused", "retry", "too_large", "blocked", "unknown"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one request."""

    verdict: Verdict
    #: The destination's answer, or what went wrong, in one line; without secrets.
    reason: str = ""
    #: Seconds after which the destination wants to be asked again.
    retry_after: float | None = None
    #: True where the server did answer, but broke down over it: one of the spans may be the reason.
    broke_down: bool = False
    #: Spans that were refused although the request was accepted, with the reason of each.
    rejected: Mapping[bytes, str] = MappingProxyType({})
    #: How many were refused where the destination does not say which.
    rejected_count: int = 0
    #: Bytes that went over the wire.
    sent_bytes: int = 0


class Destination(Protocol):
    """One place that spans are sent to. Used by one task at a time."""

    #: Whether a span that is sent twice is there once. If not, nothing is sent again before it is known to be missing.
    ignores_repeats: bool
    #: Whether ``present`` can tell.
    can_read_back: bool
    #: Whether an accepted request is stored. Where it is only in somebody's memory, spans count as acknowledged once
    #: they were read back; such a destination must be readable.
    accepted_is_stored: bool
    #: Spans in one request.
    max_spans: int

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans in one request, parents before or with their children; what a server does never raises."""
        ...

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans the destination has, by span id; None where it cannot tell now."""
        ...

    async def check(self) -> str:
        """Reach the destination without storing anything: an empty text, or what is wrong and how to put it right."""
        ...

    async def close(self) -> None:
        """Let go of connections and files."""
        ...
