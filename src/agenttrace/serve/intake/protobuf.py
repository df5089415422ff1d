"""A request in protobuf as lines of the log.

Spans, attributes and other repeated parts are counted before the message is parsed: a part that takes two bytes on the
wire takes a hundred in memory, so that 16 MiB of them would take more than 1 GiB, and most of a minute.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from agenttrace.serve.intake import lines
from agenttrace.serve.intake.lines import SpanLine, Taken
from agenttrace.serve.intake.rejections import IntakeError
from agenttrace.serve.intake.signals import TRACES, Signal

#: A body up to this size has too few parts to count them.
_SMALL = lines.MOST_ELEMENTS * 2
#: Wire types.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


M = TypeVar("M", bound=Message)


def parsed(body: bytes, kind: type[M], signal: Signal) -> M:
    """The body as a message; refused where it is none, or has too many parts."""
    described = cast("Descriptor", kind.DESCRIPTOR)
    if len(body) > _SMALL and has_more_elements(body, described, lines.MOST_ELEMENTS):
        raise lines.too_many(signal)
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise IntakeError(f"The body is no {signal.message}: {error}.") from None


def read_protobuf(body: bytes) -> Taken:
    """All spans of an ``ExportTraceServiceRequest``."""
    taken = Taken(len(body))
    for group in parsed(body, ExportTraceServiceRequest, TRACES).resource_spans:
        _take_group(group, taken)
    return taken


def _take_group(group: ResourceSpans, taken: Taken) -> None:
    resource = lines.part("resource", partial(attributes_of, group.resource.attributes))
    for each in group.scope_spans:
        scope = lines.part("scope", partial(scope_of, each.scope))
        for span in each.spans:
            taken.add(_line, span, resource, scope)


def _line(span: Span, resource: msgspec.Raw, scope: msgspec.Raw) -> SpanLine:
    trace, own, parent = lines.checked_ids(span.trace_id, span.span_id, span.parent_span_id)
    start, end = lines.checked_times(span.start_time_unix_nano, span.end_time_unix_nano)
    line = SpanLine(
        otlp=1,
        trace=trace,
        span=own,
        parent=parent,
        name=span.name,
        kind=lines.named(lines.SPAN_KINDS, span.kind),
        start=start,
        end=end,
        attributes=attributes_of(span.attributes),
        resource=resource,
        scope=scope,
        flags=span.flags,
        state=span.trace_state,
    )
    if span.HasField("status"):
        line.status, line.message = lines.named(lines.STATUSES, span.status.code), span.status.message
    if span.events:
        line.events = [
            lines.LoggedEvent(each.name, each.time_unix_nano, attributes_of(each.attributes)) for each in span.events
        ]
    if span.links:
        line.links = [
            lines.LoggedLink(each.trace_id.hex(), each.span_id.hex(), attributes_of(each.attributes))
            for each in span.links
        ]
    if span.dropped_attributes_count or span.dropped_events_count or span.dropped_links_count:
        line.dropped = lines.dropped(span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count)
    return line


def scope_of(scope: InstrumentationScope) -> dict[str, Any]:
    """Name, version and attributes of a scope, as far as it has them."""
    found: dict[str, Any] = {
        "name": scope.name,
        "version": scope.version,
        "attributes": attributes_of(scope.attributes),
    }
    return {name: value for name, value in found.items() if value}


def attributes_of(pairs: Iterable[KeyValue], depth: int = 0) -> dict[str, Any]:
    """Attributes as a plain object."""
    # Nearly all values are texts that are not empty; asking which kind a value is costs as much as reading it.
    return {pair.key: pair.value.string_value or value_of(pair.value, depth) for pair in pairs}


def value_of(value: AnyValue, depth: int) -> Any:  # noqa: ANN401 - that is what it is
    """A value as JSON has it."""
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "bool_value":
            return value.bool_value
        case "double_value":
            return lines.plain_double(value.double_value)
        case "array_value":
            depth = lines.deeper(depth)
            return [value_of(each, depth) for each in value.array_value.values]
        case "kvlist_value":
            return attributes_of(value.kvlist_value.values, lines.deeper(depth))
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
    return None


# -- counting -----------------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    repeated: bool
    #: The type of its message; None for a text, bytes or packed numbers.
    message: Descriptor | None


@cache
def _fields(message: Descriptor) -> dict[int, _Field]:
    """The fields of a message, by number."""
    return {field.number: _Field(field.is_repeated, field.message_type) for field in message.fields}


def has_more_elements(body: bytes, message: Descriptor, most: int) -> bool:
    """Whether the body, read as this message, has more than ``most`` repeated parts in all.

    For bytes that are no such message the result does not matter: the parser refuses them.
    """
    found = 0
    pending = [(0, len(body), message)]
    while pending:
        at, end, kind = pending.pop()
        fields = _fields(kind)
        while at < end:
            try:
                tag, at = _varint(body, at)
                wire = tag & 7
                if wire == _BYTES:
                    length, at = _varint(body, at)
                    field = fields.get(tag >> 3)
                    if field is not None:
                        found += field.repeated
                        if found > most:
                            return True
                        if field.message is not None and length:
                            pending.append((at, min(at + length, end), field.message))
                    at += length
                elif wire == _VARINT:
                    _, at = _varint(body, at)
                else:
                    # The beginning and the end of a group have no bytes.
                    at += {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
            except IndexError:
                break
    return False


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, and where it ends."""
    byte = body[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = body[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
        if shift > 63:
            raise IndexError
