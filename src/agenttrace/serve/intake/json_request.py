"""A request in JSON as lines of the log.

OTLP's JSON is not protobuf's: ids are hex instead of base64, enumerations are numbers. Whole numbers may be texts.
Names of enumerations are accepted as well, as several senders write them; unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import msgspec

from agenttrace.record.formats.lenient import DECODING_ERRORS, mended
from agenttrace.serve.intake import lines
from agenttrace.serve.intake.lines import RefusedSpanError, SpanLine, Taken
from agenttrace.serve.intake.rejections import IntakeError
from agenttrace.serve.intake.signals import TRACES, Signal

#: 64-bit numbers are written as texts by the rules, and as numbers by many.
Whole = int | str | float | None
_KIND_NAMES = {f"SPAN_KIND_{word.upper()}": number for number, word in enumerate(lines.SPAN_KINDS) if word}
_STATUS_NAMES = {f"STATUS_CODE_{word.upper()}": number for number, word in enumerate(lines.STATUSES) if word}


class AnyValueJson(msgspec.Struct, rename="camel"):
    """A value of any kind."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Whole = None
    double_value: float | str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class PairJson(msgspec.Struct):
    """An attribute."""

    key: str = ""
    value: AnyValueJson | None = None


class _Array(msgspec.Struct):
    values: list[AnyValueJson] | None = None


class _Pairs(msgspec.Struct):
    values: list[PairJson] | None = None


class _Event(msgspec.Struct, rename="camel"):
    time_unix_nano: Whole = None
    name: str | None = None
    attributes: list[PairJson] | None = None


class _Link(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[PairJson] | None = None


class _Status(msgspec.Struct):
    code: Whole = None
    message: str | None = None


class _SpanJson(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    trace_state: str | None = None
    flags: Whole = None
    name: str | None = None
    kind: Whole = None
    start_time_unix_nano: Whole = None
    end_time_unix_nano: Whole = None
    attributes: list[PairJson] | None = None
    events: list[_Event] | None = None
    links: list[_Link] | None = None
    status: _Status | None = None
    dropped_attributes_count: Whole = None
    dropped_events_count: Whole = None
    dropped_links_count: Whole = None


class ScopeJson(msgspec.Struct):
    """The library that made a span, a log record or a metric."""

    name: str | None = None
    version: str | None = None
    attributes: list[PairJson] | None = None


class _ScopeSpans(msgspec.Struct):
    scope: ScopeJson | None = None
    spans: list[_SpanJson] | None = None


class ResourceJson(msgspec.Struct):
    """The program that sent it."""

    attributes: list[PairJson] | None = None


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: ResourceJson | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _TraceRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] | None = None


_decode = msgspec.json.Decoder(_TraceRequest).decode
R = TypeVar("R")


def read_json(body: bytes) -> Taken:
    """All spans of an ``ExportTraceServiceRequest``."""
    taken = Taken(len(body))
    for group in parsed(body, _decode, TRACES).resource_spans or ():
        _take_group(group, taken)
    return taken


def _take_group(group: _ResourceSpans, taken: Taken) -> None:
    resource = lines.part(
        "resource", lambda: attributes_of(None if group.resource is None else group.resource.attributes)
    )
    for each in group.scope_spans or ():
        scope = lines.part("scope", partial(scope_of, each.scope))
        for span in each.spans or ():
            taken.add(_line, span, resource, scope)


def parsed(body: bytes, decode: Callable[[bytes], R], signal: Signal) -> R:
    """The body as a request; refused where it is none, or has too many parts."""
    # An object takes three bytes as text and some hundred in memory. A value is another object.
    if body.count(b"{") > 2 * lines.MOST_ELEMENTS:
        raise lines.too_many(signal)
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise IntakeError(f"The body is no {signal.message}: {error}.") from None
    except DECODING_ERRORS as error:
        # Half a surrogate pair, where a text was cut, does not cost the rest of the request.
        better = mended(body)
        if better is None:
            raise IntakeError(f"The body is not JSON: {error}.") from None
    try:
        return decode(better)
    except DECODING_ERRORS as error:
        raise IntakeError(f"The body is no {signal.message}: {error}.") from None


def _line(span: _SpanJson, resource: msgspec.Raw, scope: msgspec.Raw) -> SpanLine:
    trace, own, parent = lines.checked_ids(
        id_of(span.trace_id, "traceId", 32),
        id_of(span.span_id, "spanId", 16),
        id_of(span.parent_span_id, "parentSpanId", 16),
    )
    start, end = lines.checked_times(whole(span.start_time_unix_nano), whole(span.end_time_unix_nano))
    status = span.status or _Status()
    return SpanLine(
        otlp=1,
        trace=trace,
        span=own,
        parent=parent,
        name=span.name or "",
        kind=word_of(lines.SPAN_KINDS, _KIND_NAMES, span.kind),
        start=start,
        end=end,
        status=word_of(lines.STATUSES, _STATUS_NAMES, status.code),
        message=status.message or "",
        attributes=attributes_of(span.attributes),
        events=[
            lines.LoggedEvent(each.name or "", whole(each.time_unix_nano), attributes_of(each.attributes))
            for each in span.events or ()
        ],
        links=[
            lines.LoggedLink(each.trace_id or "", each.span_id or "", attributes_of(each.attributes))
            for each in span.links or ()
        ],
        resource=resource,
        scope=scope,
        flags=whole(span.flags),
        state=span.trace_state or "",
        dropped=lines.dropped(
            whole(span.dropped_attributes_count), whole(span.dropped_events_count), whole(span.dropped_links_count)
        ),
    )


def scope_of(scope: ScopeJson | None) -> dict[str, Any]:
    """Name, version and attributes of a scope, as far as it has them."""
    if scope is None:
        return {}
    found = {"name": scope.name, "version": scope.version, "attributes": attributes_of(scope.attributes)}
    return {name: value for name, value in found.items() if value}


def attributes_of(pairs: Iterable[PairJson] | None, depth: int = 0) -> dict[str, Any]:
    """Attributes as a plain object."""
    return {pair.key: value_of(pair.value, depth) for pair in pairs or ()}


def value_of(value: AnyValueJson | None, depth: int) -> Any:  # noqa: ANN401 - that is what it is
    """A value as JSON has it."""
    if value is None:
        return None
    if value.int_value is not None:
        return whole(value.int_value)
    if value.double_value is not None:
        return double_of(value.double_value)
    if value.array_value is not None:
        depth = lines.deeper(depth)
        return [value_of(each, depth) for each in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return attributes_of(value.kvlist_value.values, lines.deeper(depth))
    found = (value.string_value, value.bool_value, value.bytes_value)
    return next((each for each in found if each is not None), None)


def double_of(value: float | str) -> float | str:
    """A number that JSON can represent; others as text."""
    try:
        return lines.plain_double(float(value))
    except ValueError:
        return str(value)


def whole(value: Whole) -> int:
    """A whole number in any notation; 0 for other values, and for those beyond 64 bits."""
    try:
        found = int(value or 0)
    except (ValueError, OverflowError):
        return 0
    return found if -(2**63) <= found < 2**64 else 0


def word_of(words: tuple[str, ...], names: dict[str, int], value: Whole) -> str:
    """The name of an enumeration's value, which may be given as number or as name."""
    return lines.named(words, names.get(value, 0) if isinstance(value, str) and not value.isdecimal() else whole(value))


def id_of(text: str | None, name: str, digits: int) -> bytes:
    """An id in hex. One in base64, as protobuf's JSON has it, must not become another id."""
    if not text:
        return b""
    try:
        found = bytes.fromhex(text) if len(text) == digits else None
    except ValueError:
        found = None
    if found is None or len(found) * 2 != digits:
        raise RefusedSpanError(f"{name} is not {digits} hex digits (OTLP's JSON has ids in hex, not in base64)")
    return found
