"""Spans as the bytes of an OTLP request, by the message types of ``opentelemetry-proto``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from agenttrace.export import conventions as c
from agenttrace.export.genai import GenAiEvent, GenAiSpan, Value
from agenttrace.export.span import ExportSession, ExportSpan
from agenttrace.export.wire_text import shortened

SCOPE = "agenttrace"
_VERSION = version("agenttrace")

_STATUS = {
    "unset": Status.STATUS_CODE_UNSET,
    "ok": Status.STATUS_CODE_OK,
    "error": Status.STATUS_CODE_ERROR,
}
#: Times are unsigned 64-bit numbers of nanoseconds.
_LAST_MICROSECOND = (2**64 - 1) // 1_000


def request_bytes(
    spans: Sequence[ExportSpan], describe: Callable[[ExportSpan], GenAiSpan], resource: Mapping[str, str]
) -> bytes:
    """One request with these spans in their order; ``resource`` has further attributes of all their services.

    A version of an agent is a service.
    """
    services: dict[tuple[str, str | None], list[ExportSpan]] = {}
    for span in spans:
        services.setdefault((span.session.agent, span.session.agent_version), []).append(span)
    request = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=attributes({**service(group[0].session), **resource})),
                scope_spans=[
                    ScopeSpans(
                        scope=InstrumentationScope(name=SCOPE, version=_VERSION),
                        spans=[encoded(span, describe(span)) for span in group],
                        schema_url=c.SCHEMA_URL,
                    )
                ],
                schema_url=c.SCHEMA_URL,
            )
            for group in services.values()
        ]
    )
    body: bytes = request.SerializeToString()
    return body


def service(session: ExportSession) -> dict[str, str]:
    """The agent as a service."""
    found = {c.SERVICE_NAME: shortened(session.agent) or SCOPE}
    if session.agent_version:
        found[c.SERVICE_VERSION] = shortened(session.agent_version)
    return found


def encoded(span: ExportSpan, described: GenAiSpan) -> Span:
    """One span as a message."""
    return Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id or b"",
        name=described.name,
        kind=Span.SPAN_KIND_CLIENT if described.client else Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_nanoseconds(span.start),
        end_time_unix_nano=_nanoseconds(span.end),
        attributes=attributes(described.attributes),
        events=[_event(event) for event in described.events],
        status=Status(code=_STATUS[described.status], message=described.description),
    )


def _event(event: GenAiEvent) -> Span.Event:
    return Span.Event(name=event.name, time_unix_nano=_nanoseconds(event.at), attributes=attributes(event.attributes))


def _nanoseconds(microseconds: int) -> int:
    return min(max(microseconds, 0), _LAST_MICROSECOND) * 1_000


def attributes(found: Mapping[str, Value]) -> Iterable[KeyValue]:
    """Attributes as messages."""
    return [KeyValue(key=key, value=_value(value)) for key, value in found.items()]


def _value(value: Value) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=min(max(value, -(2**63)), 2**63 - 1))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
