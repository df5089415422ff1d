"""Both encodings of a request mean the same, and nothing that is sent breaks reading it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from agenttrace.model import Event
from agenttrace.record.formats.contract import Source
from agenttrace.record.formats.otlp import Otlp
from agenttrace.serve.intake.body import unpacked
from agenttrace.serve.intake.json_request import read_json
from agenttrace.serve.intake.lines import MOST_DEPTH, MOST_ELEMENTS, Taken
from agenttrace.serve.intake.protobuf import has_more_elements, read_protobuf
from agenttrace.serve.intake.rejections import IntakeError
from example_counts import COSTLY
from serve.intake_rig import as_json, request, span

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.builds(AnyValue, string_value=TEXTS)
    | st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1))
    | st.builds(AnyValue, bool_value=st.booleans())
    | st.builds(AnyValue, double_value=st.floats())
    | st.builds(AnyValue, bytes_value=st.binary(max_size=6))
    | st.just(AnyValue()),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda many: AnyValue(array_value=ArrayValue(values=many)))
        | st.dictionaries(TEXTS, inner, max_size=3).map(
            lambda many: AnyValue(kvlist_value=KeyValueList(values=pairs(many)))
        )
    ),
    max_leaves=6,
)


def pairs(values: dict[str, AnyValue]) -> list[KeyValue]:
    return [KeyValue(key=name, value=value) for name, value in values.items()]


ATTRIBUTES = st.dictionaries(TEXTS, VALUES, max_size=4).map(pairs)
#: Most are ids; some are too short, too long, or nothing but zeros.
TRACE_IDS = st.binary(min_size=16, max_size=16) | st.sampled_from([b"", b"\1", bytes(16), b"\1" * 17])
SPAN_IDS = st.binary(min_size=8, max_size=8) | st.sampled_from([b"", b"\1", bytes(8), b"\1" * 9])
TIMES = st.integers(1, 2**64 - 1)
SPANS = st.builds(
    Span,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    parent_span_id=SPAN_IDS,
    name=TEXTS,
    kind=st.integers(0, 7),
    start_time_unix_nano=TIMES,
    end_time_unix_nano=TIMES,
    attributes=ATTRIBUTES,
    events=st.lists(st.builds(Span.Event, name=TEXTS, time_unix_nano=TIMES, attributes=ATTRIBUTES), max_size=2),
    links=st.lists(
        st.builds(Span.Link, trace_id=st.just(b"\1" * 16), span_id=st.just(b"\2" * 8), attributes=ATTRIBUTES),
        max_size=2,
    ),
    status=st.builds(Status, code=st.integers(0, 3), message=TEXTS),
    flags=st.integers(0, 2**32 - 1),
    trace_state=TEXTS,
    dropped_attributes_count=st.integers(0, 3),
)
REQUESTS = st.builds(
    ExportTraceServiceRequest,
    resource_spans=st.lists(
        st.builds(
            ResourceSpans,
            resource=st.builds(Resource, attributes=ATTRIBUTES),
            scope_spans=st.lists(
                st.builds(
                    ScopeSpans,
                    scope=st.builds(InstrumentationScope, name=TEXTS, version=TEXTS, attributes=ATTRIBUTES),
                    spans=st.lists(SPANS, max_size=3),
                ),
                max_size=2,
            ),
        ),
        max_size=2,
    ),
)


def lines(taken: Taken) -> list[dict[str, Any]]:
    return [json.loads(line) for line in taken.lines]


@COSTLY
@given(REQUESTS)
def test_both_encodings_mean_the_same(sent: ExportTraceServiceRequest) -> None:
    """A request gives the same lines and refuses as many spans, in protobuf and in JSON; every line is an event."""
    binary, text = read_protobuf(sent.SerializeToString()), read_json(json.dumps(as_json(sent)).encode())
    assert lines(binary) == lines(text)
    assert binary.refused == text.refused
    total = sum(len(part.spans) for group in sent.resource_spans for part in group.scope_spans)
    assert len(binary.lines) + binary.refused == total
    assert sum(binary.reasons.values()) == binary.refused
    for line in binary.lines:
        assert b"\n" not in line
        assert isinstance(Otlp().decode(line, Source(agent="otlp", session_id="s")), Event)


LONG = st.text("x", min_size=600, max_size=700)


@given(REQUESTS, st.lists(LONG, min_size=2, max_size=2))
@settings(max_examples=50)
def test_long_resources_stand_once_in_a_trace(sent: ExportTraceServiceRequest, long: list[str]) -> None:
    """However many spans a resource and a scope have: long ones are one line for each trace, and every span finds its
    own there."""
    for group in sent.resource_spans:
        group.resource.attributes.append(KeyValue(key="long", value=AnyValue(string_value=long[0])))
        for part in group.scope_spans:
            part.scope.attributes.append(KeyValue(key="long", value=AnyValue(string_value=long[1])))
    taken = read_protobuf(sent.SerializeToString())
    assert taken.written == read_json(json.dumps(as_json(sent)).encode()).written
    found = [json.loads(line) for line in taken.written[len(taken.lines) :]]
    parts = {(line["trace"], line["digest"]): line for line in found}
    assert len(parts) == len(found)
    for line in lines(taken):
        assert "x" * 600 not in json.dumps(line["resource"]) + json.dumps(line.get("scope"))
        whole = {kind: parts[line["trace"], digest][kind] for kind, digest in line["shared"].items()}
        assert whole["resource"]["long"] == long[0]
        assert whole["scope"]["attributes"]["long"] == long[1]


def amplified(traces: int) -> bytes:
    """A request that is short when compressed: a resource of 256 KiB and 2,000 spans."""
    spans = [span(number + 1, trace=1 + number % traces) for number in range(2_000)]
    return request(*spans, big="x" * (256 << 10)).SerializeToString()


def test_a_large_resource_is_written_once() -> None:
    """It made half a gigabyte of seven kilobytes."""
    assert read_protobuf(amplified(traces=1)).size < 1 << 20


def test_what_a_request_becomes_has_a_limit() -> None:
    """A resource that many traces share is refused where it would become far more than was sent."""
    assert "on the disk" in (reason(lambda: read_protobuf(amplified(traces=2_000))) or "")


@pytest.mark.parametrize("kind", ["spans", "resource", "array"])
def test_parts_are_counted_before_they_are_read(kind: str) -> None:
    """Empty parts take two bytes each and would take a gigabyte of memory."""
    many = [ResourceSpans()] * (MOST_ELEMENTS + 1)
    if kind == "spans":
        many = [ResourceSpans(scope_spans=[ScopeSpans(spans=[Span()] * (MOST_ELEMENTS + 1))])]
    elif kind == "array":
        array = AnyValue(array_value=ArrayValue(values=[AnyValue()] * (MOST_ELEMENTS + 1)))
        many = [ResourceSpans(resource=Resource(attributes=[KeyValue(key="a", value=array)]))]
    body = ExportTraceServiceRequest(resource_spans=many).SerializeToString()
    assert "more than" in (reason(lambda: read_protobuf(body)) or "")
    empty = b",".join([b"{}"] * (2 * MOST_ELEMENTS))
    assert "more than" in (reason(lambda: read_json(b'{"resourceSpans":[%b]}' % empty)) or "")


@COSTLY
@given(REQUESTS)
def test_counting_parts(sent: ExportTraceServiceRequest) -> None:
    """As many as there are, by another way of counting; cut anywhere, counting ends."""
    body, found = sent.SerializeToString(), repeated(sent)
    assert not has_more_elements(body, sent.DESCRIPTOR, found)
    assert not found or has_more_elements(body, sent.DESCRIPTOR, found - 1)
    for cut in range(0, len(body), 7):
        has_more_elements(body[cut:], sent.DESCRIPTOR, found)


def repeated(message: Any) -> int:  # noqa: ANN401 - any message
    found = 0
    for field, held in message.ListFields():
        values = held if field.is_repeated else [held]
        found += len(values) if field.is_repeated else 0
        found += sum(repeated(each) for each in values) if field.message_type is not None else 0
    return found


def nested(depth: int) -> AnyValue:
    found = AnyValue(string_value="deep")
    for _ in range(depth):
        found = AnyValue(array_value=ArrayValue(values=[found]))
    return found


def test_nesting_has_a_limit() -> None:
    """An attribute that is nested deep is refused with its span, in a resource with the request, in both encodings."""
    for depth, kept in ((MOST_DEPTH, True), (MOST_DEPTH + 1, False)):
        deep = request(span(1), span(2))
        deep.resource_spans[0].scope_spans[0].spans[0].attributes.append(KeyValue(key="a", value=nested(depth)))
        for taken in (read_protobuf(deep.SerializeToString()), read_json(json.dumps(as_json(deep)).encode())):
            assert (len(taken.lines), taken.refused) == ((2, 0) if kept else (1, 1))
    shallow = request(span(1))
    shallow.resource_spans[0].resource.attributes.append(KeyValue(key="a", value=nested(MOST_DEPTH + 1)))
    assert "nested" in (reason(lambda: read_protobuf(shallow.SerializeToString())) or "")
    inner = b'{"arrayValue":{"values":[' * 400 + b"{}" + b"]}}" * 400
    body = b'{"resourceSpans":[{"resource":{"attributes":[{"key":"a","value":%b}]}}]}' % inner
    assert reason(lambda: read_json(body))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["resourceSpans", "scopeSpans", "spans", "traceId", "spanId", "attributes", "value", "key", "kind"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=20,
)


@given(st.binary(max_size=300) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_nothing_breaks_reading(body: bytes) -> None:
    """Any bytes are read, or refused with a reason, in both encodings and with both compressions."""
    ways: list[Callable[[], object]] = [
        lambda: read_protobuf(body),
        lambda: read_json(body),
        lambda: unpacked(body, "gzip"),
        lambda: unpacked(body, "deflate"),
    ]
    assert "" not in [reason(way) for way in ways]


def test_many_members_are_refused_in_linear_time() -> None:
    """As many empty gzip members as a body can have are refused; copying the rest for each of them took hours."""
    assert "members" in (reason(lambda: unpacked(gzip.compress(b"") * 700_000, "gzip")) or "")


@given(st.lists(st.binary(max_size=200_000), max_size=5), st.integers(0, 40))
@settings(max_examples=30)
def test_members_are_joined(parts: list[bytes], cut: int) -> None:
    """Members follow each other, wherever the pieces in which they are read end; one that is cut is refused."""
    body = b"".join(map(gzip.compress, parts))
    assert unpacked(body, "gzip") == b"".join(parts)
    if parts and 0 < cut < 18:
        assert reason(lambda: unpacked(body[:-cut], "gzip")) is not None


def reason(read: Callable[[], object]) -> str | None:
    """Why something is refused; None where it is not."""
    try:
        read()
    except IntakeError as error:
        return error.message
    return None
