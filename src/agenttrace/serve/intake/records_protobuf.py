"""Log records and data points in protobuf as lines of the log."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import msgspec
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

from agenttrace.serve.intake import lines
from agenttrace.serve.intake.lines import LogLine, PointLine, Taken
from agenttrace.serve.intake.protobuf import attributes_of, parsed, scope_of, value_of
from agenttrace.serve.intake.signals import LOGS, METRICS


def read_logs(body: bytes) -> Taken:
    """All records of an ``ExportLogsServiceRequest``."""
    taken = Taken(len(body), LOGS)
    for group in parsed(body, ExportLogsServiceRequest, LOGS).resource_logs:
        resource = lines.part("resource", partial(attributes_of, group.resource.attributes))
        for each in group.scope_logs:
            scope = lines.part("scope", partial(scope_of, each.scope))
            for record in each.log_records:
                taken.add_whole(_log_line, record, resource, scope)
    return taken


def _log_line(record: LogRecord, resource: msgspec.Raw, scope: msgspec.Raw) -> LogLine:
    trace, span = lines.checked_place(record.trace_id, record.span_id)
    return LogLine(
        otlp=1,
        log=record.event_name,
        time=lines.checked_time(record.time_unix_nano or record.observed_time_unix_nano),
        trace=trace,
        span=span,
        severity=record.severity_text,
        body=value_of(record.body, 0),
        attributes=attributes_of(record.attributes),
        resource=resource,
        scope=scope,
        dropped=lines.dropped(record.dropped_attributes_count, 0, 0),
    )


class _Point(NamedTuple):
    metric: Metric
    kind: str
    temporality: int
    point: Any


def read_metrics(body: bytes) -> Taken:
    """All data points of an ``ExportMetricsServiceRequest``."""
    taken = Taken(len(body), METRICS)
    for group in parsed(body, ExportMetricsServiceRequest, METRICS).resource_metrics:
        resource = lines.part("resource", partial(attributes_of, group.resource.attributes))
        for each in group.scope_metrics:
            scope = lines.part("scope", partial(scope_of, each.scope))
            for metric in each.metrics:
                for point in _points(metric):
                    taken.add_whole(_point_line, point, resource, scope)
    return taken


def _points(metric: Metric) -> Iterable[_Point]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    for point in data.data_points:
        yield _Point(metric, kind, getattr(data, "aggregation_temporality", 0), point)


def _point_line(of: _Point, resource: msgspec.Raw, scope: msgspec.Raw) -> PointLine:
    metric, kind, temporality, point = of
    return PointLine(
        otlp=1,
        metric=metric.name,
        kind=kind,
        unit=metric.unit,
        temporality=lines.named(lines.TEMPORALITIES, temporality),
        start=lines.checked_time(point.start_time_unix_nano),
        time=lines.checked_time(point.time_unix_nano),
        value=_number(point) if isinstance(point, NumberDataPoint) else _all_of(point),
        attributes=attributes_of(point.attributes),
        resource=resource,
        scope=scope,
    )


def _number(point: NumberDataPoint) -> float | str:
    return point.as_int if point.WhichOneof("value") == "as_int" else lines.plain_double(point.as_double)


def _all_of(point: Any) -> dict[str, Any]:  # noqa: ANN401 - of several kinds
    """A histogram or a summary: nothing is computed of it, and nothing is lost."""
    found = MessageToDict(point)
    for name in ("attributes", "startTimeUnixNano", "timeUnixNano", "exemplars"):
        found.pop(name, None)
    return found
