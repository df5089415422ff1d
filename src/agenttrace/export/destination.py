"""The interface of a destination: it sends spans, reports the outcome, and declares how it handles repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Literal, Protocol

import msgspec

from agenttrace.export.span import ExportSpan

#: ``accepted``: stored, or about to be. ``refused``: for good, sending it again is pointless. ``retry``: nothing was
#: accepted, later it may be. ``too_large``: in smaller portions it may be accepted. ``blocked``: nothing is accepted
#: because of a wrong key or address; the spans wait. ``unknown``: it was sent, and the outcome is not known.
Verdict = Literal["accepted", "refused", "retry", "too_large", "blocked", "unknown"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one request."""

    verdict: Verdict
    #: The destination's answer, or the error, in one line; without secrets.
    reason: str = ""
    #: Seconds after which the destination asks for a retry.
    retry_after: float | None = None
    #: True for a server error: one of the spans may be the cause.
    broke_down: bool = False
    #: Spans that were refused although the request was accepted, with the reason of each.
    rejected: Mapping[bytes, str] = MappingProxyType({})
    #: How many were refused, where the destination does not say which.
    rejected_count: int = 0
    #: Bytes of the request.
    sent_bytes: int = 0


class Destination(Protocol):
    """Spans are sent to it. Used by one task at a time."""

    #: Whether a span that is sent twice is stored once. If not, a span is sent again only if it is known to be missing.
    ignores_repeats: bool
    #: Whether ``present`` works.
    can_read_back: bool
    #: Whether an accepted request is stored. Where it is only in memory, spans count as acknowledged once they were
    #: read back; such a destination must be readable.
    accepted_is_stored: bool
    #: Spans in one request.
    max_spans: int

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans in one request, parents before or with their children; errors of a server never raise."""
        ...

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans the destination has, by span id; None where that is not known now."""
        ...

    async def check(self) -> str:
        """Reach the destination without storing anything: an empty text, or the problem and its fix."""
        ...

    async def close(self) -> None:
        """Close connections and files."""
        ...
