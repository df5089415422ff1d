"""A request in JSON as lines of the log.

OTLP's JSON is not protobuf's: ids are hex instead of base64, enumerations are numbers. Whole numbers may be texts.
Names of enumerations are accepted as well, as several senders write them; unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from agenttrace.record.formats.lenient import DECODING_ERRORS, mended
from agenttrace.serve.intake import lines
from agenttrace.serve.intake.lines import RefusedSpanError, SpanLine, Taken
from agenttrace.serve.intake.rejections import IntakeError

#: 64-bit numbers are written as texts by the rules, and as numbers by many.
_Whole = int | str | float | None
_KIND_NAMES = {f"SPAN_KIND_{word.upper()}": number for number, word in enumerate(lines.SPAN_KINDS) if word}
_STATUS_NAMES = {f"STATUS_CODE_{word.upper()}": number for number, word in enumerate(lines.STATUSES) if word}


class _AnyValue(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: _Whole = None
    double_value: float | str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Pair(msgspec.Struct):
    key: str = ""
    value: _AnyValue | None = None


class _Array(msgspec.Struct):
    values: list[_AnyValue] | None = None


class _Pairs(msgspec.Struct):
    values: list[_Pair] | None = None


class _Event(msgspec.Struct, rename="camel"):
    time_unix_nano: _Whole = None
    name: str | None = None
    attributes: list[_Pair] | None = None


class _Link(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    attributes: list[_Pair] | None = None


class _Status(msgspec.Struct):
    code: _Whole = None
    message: str | None = None


class _SpanJson(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    trace_state: str | None = None
    flags: _Whole = None
    name: str | None = None
    kind: _Whole = None
    start_time_unix_nano: _Whole = None
    end_time_unix_nano: _Whole = None
    attributes: list[_Pair] | None = None
    events: list[_Event] | None = None
    links: list[_Link] | None = None
    status: _Status | None = None
    dropped_attributes_count: _Whole = None
    dropped_events_count: _Whole = None
    dropped_links_count: _Whole = None


class _Scope(msgspec.Struct):
    name: str | None = None
    version: str | None = None
    attributes: list[_Pair] | None = None


class _ScopeSpans(msgspec.Struct):
    scope: _Scope | None = None
    spans: list[_SpanJson] | None = None


class _Resource(msgspec.Struct):
    attributes: list[_Pair] | None = None


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _TraceRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] | None = None


_decode = msgspec.json.Decoder(_TraceRequest).decode


def read_json(body: bytes) -> Taken:
    """All spans of an ``ExportTraceServiceRequest``."""
    taken = Taken(len(body))
    # An object takes three bytes as text and some hundred in memory. A value is another object.
    if body.count(b"{") > 2 * lines.MOST_ELEMENTS:
        raise lines.too_many()
    for group in _request(body).resource_spans or ():
        _take_group(group, taken)
    return taken


def _take_group(group: _ResourceSpans, taken: Taken) -> None:
    resource = lines.part(
        "resource", lambda: _attributes(None if group.resource is None else group.resource.attributes)
    )
    for each in group.scope_spans or ():
        scope = lines.part("scope", partial(_scope, each.scope))
        for span in each.spans or ():
            taken.add(_line, span, resource, scope)


def _request(body: bytes) -> _TraceRequest:
    try:
        return _decode(body)
    except msgspec.ValidationError as error:
        raise IntakeError(f"The body is no ExportTraceServiceRequest: {error}.") from None
    except DECODING_ERRORS as error:
        # Half a surrogate pair, where a text was cut, does not cost the rest of the request.
        better = mended(body)
        if better is None:
            raise IntakeError(f"The body is not JSON: {error}.") from None
    try:
        return _decode(better)
    except DECODING_ERRORS as error:
        raise IntakeError(f"The body is no ExportTraceServiceRequest: {error}.") from None


def _line(span: _SpanJson, resource: msgspec.Raw, scope: msgspec.Raw) -> SpanLine:
    trace, own, parent = lines.checked_ids(
        _id(span.trace_id, "traceId", 32), _id(span.span_id, "spanId", 16), _id(span.parent_span_id, "parentSpanId", 16)
    )
    start, end = lines.checked_times(_whole(span.start_time_unix_nano), _whole(span.end_time_unix_nano))
    status = span.status or _Status()
    return SpanLine(
        otlp=1,
        trace=trace,
        span=own,
        parent=parent,
        name=span.name or "",
        kind=_word(lines.SPAN_KINDS, _KIND_NAMES, span.kind),
        start=start,
        end=end,
        status=_word(lines.STATUSES, _STATUS_NAMES, status.code),
        message=status.message or "",
        attributes=_attributes(span.attributes),
        events=[
            lines.LoggedEvent(each.name or "", _whole(each.time_unix_nano), _attributes(each.attributes))
            for each in span.events or ()
        ],
        links=[
            lines.LoggedLink(each.trace_id or "", each.span_id or "", _attributes(each.attributes))
            for each in span.links or ()
        ],
        resource=resource,
        scope=scope,
        flags=_whole(span.flags),
        state=span.trace_state or "",
        dropped=lines.dropped(
            _whole(span.dropped_attributes_count), _whole(span.dropped_events_count), _whole(span.dropped_links_count)
        ),
    )


def _scope(scope: _Scope | None) -> dict[str, Any]:
    if scope is None:
        return {}
    found = {"name": scope.name, "version": scope.version, "attributes": _attributes(scope.attributes)}
    return {name: value for name, value in found.items() if value}


def _attributes(pairs: Iterable[_Pair] | None, depth: int = 0) -> dict[str, Any]:
    return {pair.key: _plain(pair.value, depth) for pair in pairs or ()}


def _plain(value: _AnyValue | None, depth: int) -> Any:  # noqa: ANN401 - that is what it is
    if value is None:
        return None
    if value.int_value is not None:
        return _whole(value.int_value)
    if value.double_value is not None:
        return _double(value.double_value)
    if value.array_value is not None:
        depth = lines.deeper(depth)
        return [_plain(each, depth) for each in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return _attributes(value.kvlist_value.values, lines.deeper(depth))
    found = (value.string_value, value.bool_value, value.bytes_value)
    return next((each for each in found if each is not None), None)


def _double(value: float | str) -> float | str:
    try:
        return lines.plain_double(float(value))
    except ValueError:
        return str(value)


def _whole(value: _Whole) -> int:
    """A whole number in any notation; 0 for other values, and for those beyond 64 bits."""
    try:
        found = int(value or 0)
    except (ValueError, OverflowError):
        return 0
    return found if -(2**63) <= found < 2**64 else 0


def _word(words: tuple[str, ...], names: dict[str, int], value: _Whole) -> str:
    return lines.named(
        words, names.get(value, 0) if isinstance(value, str) and not value.isdecimal() else _whole(value)
    )


def _id(text: str | None, name: str, digits: int) -> bytes:
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
