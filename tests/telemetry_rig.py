"""Telemetry of agents: as requests of their exporters, and as lines of the intake's log."""

# ruff: noqa: ANN401 - attributes are anything

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from agenttrace.serve.intake.records_protobuf import read_logs, read_metrics

SECOND = 1_000_000_000
NOW = 1_794_732_814 * SECOND
DELTA, CUMULATIVE = 1, 2


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_value(each)) for name, each in attributes.items()]


def _value(of: Any) -> AnyValue:
    match of:
        case bool():
            return AnyValue(bool_value=of)
        case int():
            return AnyValue(int_value=of)
        case float():
            return AnyValue(double_value=of)
    return AnyValue(string_value=str(of))


def event(body: str, at: float = 0, **attributes: Any) -> LogRecord:
    """An event; ``at`` in seconds. Two underscores in the name of an attribute are a dot."""
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return LogRecord(
        time_unix_nano=NOW + round(at * SECOND),
        observed_time_unix_nano=NOW + round(at * SECOND),
        body=AnyValue(string_value=body),
        attributes=pairs(named),
    )


def claude(name: str, at: float = 0, session: str = "s1", **attributes: Any) -> LogRecord:
    """An event as Claude Code sends it: the whole name is the body."""
    own = {"session.id": session, "event.name": name, "organization.id": "o"}
    return event(f"claude_code.{name}", at, **own, **attributes)


def codex(name: str, at: float = 0, session: str = "c1", **attributes: Any) -> LogRecord:
    """An event as Codex sends it: the name is an attribute, and numbers are texts."""
    own = {"conversation.id": session, "event.name": f"codex.{name}", "model": "gpt-5-codex", "app.version": "0.166.0"}
    return event("", at, **own, **{key: str(value) for key, value in attributes.items()})


def request(*records: LogRecord, service: str = "claude-code", **resource: Any) -> ExportLogsServiceRequest:
    attributes = pairs({"service.name": service, "service.version": "2.1.325", **resource})
    group = ResourceLogs(resource=Resource(attributes=attributes), scope_logs=[ScopeLogs(log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group])


def lines(*records: LogRecord, service: str = "claude-code", **resource: Any) -> list[bytes]:
    """Records as the intake writes them."""
    sent = request(*records, service=service, **resource)
    return [line + b"\n" for line in read_logs(sent.SerializeToString()).written]


def counter(
    tokens: Mapping[tuple[str, str], int],
    at: float,
    session: str = "s1",
    *,
    temporality: int = DELTA,
    start: float = 0,
    name: str = "claude_code.token.usage",
) -> ExportMetricsServiceRequest:
    """Claude Code's token counter: tokens by model and type."""
    points = [
        NumberDataPoint(
            time_unix_nano=NOW + round(at * SECOND),
            start_time_unix_nano=NOW + round(start * SECOND),
            as_double=float(count),
            attributes=pairs({"session.id": session, "model": model, "type": kind}),
        )
        for (model, kind), count in tokens.items()
    ]
    counted = Sum(data_points=points, aggregation_temporality=temporality, is_monotonic=True)  # type: ignore[arg-type]
    metric = Metric(name=name, unit="tokens", sum=counted)
    resource = Resource(attributes=pairs({"service.name": "claude-code"}))
    group = ResourceMetrics(resource=resource, scope_metrics=[ScopeMetrics(metrics=[metric])])
    return ExportMetricsServiceRequest(resource_metrics=[group])


def points(request: ExportMetricsServiceRequest) -> list[bytes]:
    """Data points as the intake writes them."""
    return [line + b"\n" for line in read_metrics(request.SerializeToString()).written]


def conversation(session: str = "s1", calls: Sequence[tuple[int, int]] = ((10, 2), (20, 3))) -> list[LogRecord]:
    """A prompt, and model calls with a tool after each but the last."""
    found = [claude("user_prompt", 0, session, prompt__id="p1", prompt="Fix it", prompt_length=6)]
    for number, (given, written) in enumerate(calls, start=1):
        found.append(
            claude(
                "api_request",
                number * 10,
                session,
                prompt__id="p1",
                model="claude-sonnet-4-5",
                input_tokens=given,
                output_tokens=written,
                cache_read_tokens=100,
                cache_creation_tokens=7,
                cost_usd=0.01,
                duration_ms=2000,
                request_id=f"req_{session}_{number}",
            )
        )
        if number < len(calls):
            found.append(
                claude(
                    "tool_result",
                    number * 10 + 5,
                    session,
                    prompt__id="p1",
                    tool_name="Bash",
                    tool_use_id=f"toolu_{session}_{number}",
                    success="true",
                    duration_ms=1500,
                    tool_parameters='{"command": "ls"}',
                )
            )
    return found
