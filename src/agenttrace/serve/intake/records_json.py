"""Log records and data points in JSON as lines of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from agenttrace.record.formats.lenient import DECODING_ERRORS, mended
from agenttrace.serve.intake import lines
from agenttrace.serve.intake.json_request import (
    AnyValueJson,
    PairJson,
    ResourceJson,
    ScopeJson,
    Whole,
    attributes_of,
    double_of,
    id_of,
    parsed,
    scope_of,
    value_of,
    whole,
    word_of,
)
from agenttrace.serve.intake.lines import LogLine, PointLine, RefusedSpanError, SharedPart, Taken
from agenttrace.serve.intake.signals import LOGS, METRICS

_TEMPORALITY_NAMES = {
    f"AGGREGATION_TEMPORALITY_{word.upper()}": number for number, word in enumerate(lines.TEMPORALITIES) if word
}


R = TypeVar("R")


class _LogJson(msgspec.Struct, rename="camel"):
    time_unix_nano: Whole = None
    observed_time_unix_nano: Whole = None
    event_name: str | None = None
    severity_text: str | None = None
    body: AnyValueJson | None = None
    attributes: list[PairJson] | None = None
    trace_id: str | None = None
    span_id: str | None = None
    dropped_attributes_count: Whole = None


class _ScopeLogs(msgspec.Struct, rename="camel"):
    scope: ScopeJson | None = None
    log_records: list[_LogJson] | None = None


class _ResourceLogs(msgspec.Struct, rename="camel"):
    resource: ResourceJson | None = None
    scope_logs: list[_ScopeLogs] | None = None


class _LogsRequest(msgspec.Struct, rename="camel"):
    resource_logs: list[_ResourceLogs] | None = None


class _PointJson(msgspec.Struct, rename="camel"):
    start_time_unix_nano: Whole = None
    time_unix_nano: Whole = None
    as_int: Whole = None
    as_double: float | str | None = None
    attributes: list[PairJson] | None = None


class _Data(msgspec.Struct, rename="camel"):
    data_points: list[msgspec.Raw] | None = None
    aggregation_temporality: Whole = None


class _MetricJson(msgspec.Struct, rename="camel"):
    name: str | None = None
    unit: str | None = None
    gauge: _Data | None = None
    sum: _Data | None = None
    histogram: _Data | None = None
    exponential_histogram: _Data | None = None
    summary: _Data | None = None


class _ScopeMetrics(msgspec.Struct):
    scope: ScopeJson | None = None
    metrics: list[_MetricJson] | None = None


class _ResourceMetrics(msgspec.Struct, rename="camel"):
    resource: ResourceJson | None = None
    scope_metrics: list[_ScopeMetrics] | None = None


class _MetricsRequest(msgspec.Struct, rename="camel"):
    resource_metrics: list[_ResourceMetrics] | None = None


_decode_logs = msgspec.json.Decoder(_LogsRequest).decode
_decode_metrics = msgspec.json.Decoder(_MetricsRequest).decode
_decode_point = msgspec.json.Decoder(_PointJson).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


def read_logs(body: bytes) -> Taken:
    """All records of an ``ExportLogsServiceRequest``."""
    taken = Taken(len(body), LOGS)
    for group in parsed(body, _decode_logs, LOGS).resource_logs or ():
        resource = _resource(group.resource)
        for each in group.scope_logs or ():
            scope = lines.part("scope", partial(scope_of, each.scope))
            for record in each.log_records or ():
                taken.add_whole(_log_line, record, resource, scope)
    return taken


def _resource(resource: ResourceJson | None) -> SharedPart:
    return lines.part("resource", lambda: attributes_of(None if resource is None else resource.attributes))


def _log_line(record: _LogJson, resource: msgspec.Raw, scope: msgspec.Raw) -> LogLine:
    trace, span = lines.checked_place(id_of(record.trace_id, "traceId", 32), id_of(record.span_id, "spanId", 16))
    return LogLine(
        otlp=1,
        log=record.event_name or "",
        time=lines.checked_time(whole(record.time_unix_nano) or whole(record.observed_time_unix_nano)),
        trace=trace,
        span=span,
        severity=record.severity_text or "",
        body=value_of(record.body, 0),
        attributes=attributes_of(record.attributes),
        resource=resource,
        scope=scope,
        dropped=lines.dropped(whole(record.dropped_attributes_count), 0, 0),
    )


class _Point(NamedTuple):
    metric: _MetricJson
    kind: str
    temporality: str
    raw: msgspec.Raw


def read_metrics(body: bytes) -> Taken:
    """All data points of an ``ExportMetricsServiceRequest``."""
    taken = Taken(len(body), METRICS)
    for group in parsed(body, _decode_metrics, METRICS).resource_metrics or ():
        resource = _resource(group.resource)
        for each in group.scope_metrics or ():
            scope = lines.part("scope", partial(scope_of, each.scope))
            for metric in each.metrics or ():
                for point in _points(metric):
                    taken.add_whole(_point_line, point, resource, scope)
    return taken


def _points(metric: _MetricJson) -> Iterable[_Point]:
    for kind in _KINDS:
        data: _Data | None = getattr(metric, kind)
        if data is not None:
            temporality = word_of(lines.TEMPORALITIES, _TEMPORALITY_NAMES, data.aggregation_temporality)
            yield from (_Point(metric, kind, temporality, raw) for raw in data.data_points or ())


def _point_line(of: _Point, resource: msgspec.Raw, scope: msgspec.Raw) -> PointLine:
    metric, kind, temporality, raw = of
    point = _read(_decode_point, raw)
    return PointLine(
        otlp=1,
        metric=metric.name or "",
        kind=kind,
        unit=metric.unit or "",
        temporality=temporality,
        start=lines.checked_time(whole(point.start_time_unix_nano)),
        time=lines.checked_time(whole(point.time_unix_nano)),
        value=_number(point) if kind in ("gauge", "sum") else _all_of(raw),
        attributes=attributes_of(point.attributes),
        resource=resource,
        scope=scope,
    )


def _read(decode: Callable[[bytes | msgspec.Raw], R], raw: msgspec.Raw) -> R:
    """A data point; refused where it is none. Half a surrogate pair does not cost it."""
    try:
        return decode(raw)
    except DECODING_ERRORS as error:
        better = mended(bytes(raw))
        if better is None:
            raise RefusedSpanError(f"is no data point: {error}") from None
    try:
        return decode(better)
    except DECODING_ERRORS as error:
        raise RefusedSpanError(f"is no data point: {error}") from None


def _number(point: _PointJson) -> float | str:
    if point.as_int is not None:
        return whole(point.as_int)
    return double_of(point.as_double or 0.0)


def _all_of(raw: msgspec.Raw) -> dict[str, Any]:
    """A histogram or a summary: nothing is computed of it, and nothing is lost."""
    found = _read(_decode_object, raw)
    for name in ("attributes", "startTimeUnixNano", "timeUnixNano", "exemplars"):
        found.pop(name, None)
    return found
