"""What the store knows of exported spans: the rows and states that ``store.exports`` answers with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from agenttrace.model import Session

State = Literal["queued", "sending", "acknowledged", "refused", "unknown", "dropped"]
STATES: tuple[State, ...] = ("queued", "sending", "acknowledged", "refused", "unknown", "dropped")
#: What a user may have sent again.
RETRYABLE: tuple[State, ...] = ("refused", "unknown")
#: What spans can be listed by; of those that were acknowledged there are too many to be of interest.
Listed = Literal["refused", "unknown", "queued", "sending", "dropped", "late"]


class DestinationRow(NamedTuple):
    """A destination."""

    destination_id: int
    name: str
    kind: str
    address: str
    added_at: float
    #: Microseconds since the epoch: traces that ended earlier are not sent.
    since: int
    paused: int
    removed_at: float | None
    last_success_at: float | None
    last_error: str | None
    last_error_at: float | None
    retry_at: float | None
    requests: int
    sent_bytes: int
    rejected: int
    #: Why the exporter that runs, or ran last, cannot use it.
    unusable: str | None


class SpanKey(NamedTuple):
    """A span, wherever it is sent."""

    session_id: int
    span_id: bytes


class QueuedSpan(NamedTuple):
    """A span in the queue of a destination."""

    queue_no: int
    session_id: int
    span_id: bytes
    attempts: int
    #: When it came into its state.
    at: float

    @property
    def place(self) -> SpanKey:
        """Which span it is."""
        return SpanKey(self.session_id, self.span_id)


class Sent(NamedTuple):
    """What the ledger knows of a span that is there already."""

    state: State
    digest: bytes | None


class Touched(NamedTuple):
    """A trace of which something was recorded since it was last looked at."""

    session: int
    trace: bytes
    #: When, in seconds since the epoch.
    at: float


class Queue(NamedTuple):
    """What is entered into the ledger of one destination when traces are sealed."""

    destination: int
    #: Spans to send, in this order.
    fresh: list[bytes]
    #: Spans that changed after they were sent.
    late: list[bytes]


class Ledgers(NamedTuple):
    """What the store knows of all destinations."""

    rows: list[DestinationRow]
    counts: Mapping[int, Mapping[State, int]]
    late: Mapping[int, int]
    #: When the oldest span that waits was queued, in seconds since the epoch.
    oldest: Mapping[int, float | None]
    #: Notes, scores, labels and stars by state, and why the latest was refused.
    annotations: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    refusals: Mapping[int, str] = MappingProxyType({})


NOTHING = Ledgers([], {}, {}, {})


class ListedSpan(NamedTuple):
    """A span of a ledger, with what the store still has of it."""

    number: int
    session_id: int
    span_id: bytes
    state: State
    attempts: int
    at: float
    answer: str | None
    late: bool
    #: ``None`` where the session was removed.
    session: Session | None
    name: str | None
    kind: str | None
    start: int | None
