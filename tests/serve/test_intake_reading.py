"""Both encodings of a request mean the same, and nothing that is sent breaks reading it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from agenttrace.model import Event
from agenttrace.record.agents.contract import Source
from agenttrace.record.agents.otlp import Otlp
from agenttrace.serve.intake.body import unpacked
from agenttrace.serve.intake.json_request import read_json
from agenttrace.serve.intake.lines import Taken
from agenttrace.serve.intake.protobuf import read_protobuf
from agenttrace.serve.intake.refusals import RefusedError
from serve.intake_rig import as_json

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
    except RefusedError as error:
        return error.message
    return None
