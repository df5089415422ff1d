"""A request in protobuf as lines of the log."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from agenttrace.serve.intake.elements import has_more_elements
from agenttrace.serve.intake.lines import (
    MOST_ELEMENTS,
    SPAN_KINDS,
    STATUSES,
    EventLine,
    LinkLine,
    SpanLine,
    Taken,
    checked_ids,
    checked_times,
    deeper,
    dropped,
    named,
    part,
    plain_double,
    too_many,
)
from agenttrace.serve.intake.rejections import MalformedError

#: A body up to this size has too few parts to count them.
_SMALL = MOST_ELEMENTS * 2


def read_protobuf(body: bytes) -> Taken:
    """All spans of an ``ExportTraceServiceRequest``."""
    if len(body) > _SMALL and has_more_elements(body, ExportTraceServiceRequest.DESCRIPTOR, MOST_ELEMENTS):
        raise too_many()
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise MalformedError(f"The body is no ExportTraceServiceRequest: {error}.") from None
    taken = Taken(len(body))
    for group in request.resource_spans:
        _take_group(group, taken)
    return taken


def _take_group(group: ResourceSpans, taken: Taken) -> None:
    resource = part("resource", partial(_attributes, group.resource.attributes))
    for each in group.scope_spans:
        scope = part("scope", partial(_scope, each.scope))
        for span in each.spans:
            taken.add(_line, span, resource, scope)


def _line(span: Span, resource: msgspec.Raw, scope: msgspec.Raw) -> SpanLine:
    trace, own, parent = checked_ids(span.trace_id, span.span_id, span.parent_span_id)
    start, end = checked_times(span.start_time_unix_nano, span.end_time_unix_nano)
    line = SpanLine(
        otlp=1,
        trace=trace,
        span=own,
        parent=parent,
        name=span.name,
        kind=named(SPAN_KINDS, span.kind),
        start=start,
        end=end,
        attributes=_attributes(span.attributes),
        resource=resource,
        scope=scope,
        flags=span.flags,
        state=span.trace_state,
    )
    if span.HasField("status"):
        line.status, line.message = named(STATUSES, span.status.code), span.status.message
    if span.events:
        line.events = [EventLine(each.name, each.time_unix_nano, _attributes(each.attributes)) for each in span.events]
    if span.links:
        line.links = [
            LinkLine(each.trace_id.hex(), each.span_id.hex(), _attributes(each.attributes)) for each in span.links
        ]
    if span.dropped_attributes_count or span.dropped_events_count or span.dropped_links_count:
        line.dropped = dropped(span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count)
    return line


def _scope(scope: InstrumentationScope) -> dict[str, Any]:
    found: dict[str, Any] = {"name": scope.name, "version": scope.version, "attributes": _attributes(scope.attributes)}
    return {name: value for name, value in found.items() if value}


def _attributes(pairs: Iterable[KeyValue], depth: int = 0) -> dict[str, Any]:
    # Nearly all values are texts that are not empty; asking which kind a value is costs as much as reading it.
    return {pair.key: pair.value.string_value or _value(pair.value, depth) for pair in pairs}


def _value(value: AnyValue, depth: int) -> Any:  # noqa: ANN401 - that is what it is
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "bool_value":
            return value.bool_value
        case "double_value":
            return plain_double(value.double_value)
        case "array_value":
            depth = deeper(depth)
            return [_value(each, depth) for each in value.array_value.values]
        case "kvlist_value":
            return _attributes(value.kvlist_value.values, deeper(depth))
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
    return None
