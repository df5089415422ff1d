"""The paths that programs send telemetry to."""

from __future__ import annotations

TRACES = "/v1/traces"
METRICS = "/v1/metrics"
LOGS = "/v1/logs"
#: Where the SDK of Langfuse sends its spans, whatever host it is told.
LANGFUSE = "/api/public/otel/v1/traces"

INTAKE = frozenset({TRACES, METRICS, LOGS, LANGFUSE})
