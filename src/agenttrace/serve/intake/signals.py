"""The three kinds of data that OTLP has: what they are called, and what a sender of too many can do."""

from __future__ import annotations

from typing import NamedTuple


class Signal(NamedTuple):
    """Spans, log records or data points."""

    #: One of them, and many.
    one: str
    many: str
    #: The message that a request is.
    message: str
    #: The field of a partial success that has how many were refused, in JSON.
    rejected: str
    #: What makes a sender send fewer at once.
    fewer: str


TRACES = Signal(
    "span",
    "spans",
    "ExportTraceServiceRequest",
    "rejectedSpans",
    "Send fewer spans at once (OTEL_BSP_MAX_EXPORT_BATCH_SIZE).",
)
LOGS = Signal(
    "log record",
    "log records",
    "ExportLogsServiceRequest",
    "rejectedLogRecords",
    "Send fewer log records at once (OTEL_BLRP_MAX_EXPORT_BATCH_SIZE).",
)
METRICS = Signal(
    "data point",
    "data points",
    "ExportMetricsServiceRequest",
    "rejectedDataPoints",
    "Send fewer metrics, or with fewer attributes.",
)
