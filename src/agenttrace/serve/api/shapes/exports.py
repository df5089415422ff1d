"""Destinations of spans, and what was sent."""

from __future__ import annotations

from typing import Literal

from agenttrace.serve.api.shapes.base import Shape

DestinationState = Literal["idle", "sending", "confirming", "waiting", "paused", "unused", "stopped", "removed"]
ExportState = Literal["queued", "sending", "acknowledged", "refused", "unknown", "dropped"]


class Destination(Shape):
    """A destination of spans, and its progress."""

    name: str
    kind: str
    address: str
    state: DestinationState
    #: Why it waits or is not used.
    reason: str | None
    #: When a destination that waits is tried again.
    retry_at: str | None
    paused: bool
    #: Spans by state.
    queued: int
    sending: int
    acknowledged: int
    refused: int
    unknown: int
    dropped: int
    #: Spans that changed after they were sent.
    late: int
    #: Spans that were refused by number only.
    rejected: int
    #: Notes, scores, labels and stars that arrived, and those that were refused, with the latest reason.
    annotations: int
    refused_annotations: int
    refusal: str | None
    oldest_queued_at: str | None
    last_success_at: str | None
    last_error: str | None
    last_error_at: str | None
    requests: int
    sent_bytes: int
    added_at: str | None
    #: Turns that ended earlier are not sent; null: all are.
    since: str | None


class ExporterState(Shape):
    """Whether an exporter runs."""

    running: bool
    pid: int | None


class Exports(Shape):
    """The exporter and all destinations."""

    exporter: ExporterState
    destinations: list[Destination]


class ExportSpan(Shape):
    """A span for a destination; of a span that was removed from the store, only its place is known."""

    #: The key of its session.
    session: str
    session_id: str | None
    agent: str | None
    title: str | None
    span_id: str
    span: str | None
    kind: str | None
    started_at: str | None
    state: ExportState
    attempts: int
    #: When its state changed.
    at: str
    #: The answer of the destination.
    answer: str | None
    late: bool


class ExportSpanList(Shape):
    """Spans of a destination."""

    items: list[ExportSpan]
    next: str | None


class ExportChange(Shape):
    """How many spans were changed."""

    spans: int


class Backfill(Shape):
    """The traces that a backfill has added to a destination."""

    traces: int
    #: Null: everything that was recorded.
    since: str | None
