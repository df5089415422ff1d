"""Spans as OTLP bytes: read back by the message types, and compared with the official encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace import Status as SdkStatus
from opentelemetry.trace.status import StatusCode

from agenttrace.export import conventions as c
from agenttrace.export.genai import described
from agenttrace.export.otlp_encoding import SCOPE, request_bytes, service
from agenttrace.export.span import ExportSession, ExportSpan
from agenttrace.model import Usage
from export.fake_otlp import spans_in, values
from export.span_making import START, make_span, span_tree, trees


def decoded(spans: Sequence[ExportSpan], resource: Mapping[str, str] | None = None) -> ExportTraceServiceRequest:
    """A request as a backend decodes it."""
    return ExportTraceServiceRequest.FromString(request_bytes(spans, described, resource or {}))


def arrived(spans: Sequence[ExportSpan]) -> dict[bytes, Span]:
    """The spans of a request by id."""
    read = spans_in(decoded(spans))
    assert len(read) == len(spans)
    return {span.span_id: span for span in read}


@given(trees())
def test_every_span_arrives_with_its_ids_times_and_parent(spans: list[ExportSpan]) -> None:
    """Ids are the same bytes, microseconds are exact, and every parent but the root's is in the tree."""
    read = arrived(spans)
    for span in spans:
        found = read[span.span_id]
        assert found.trace_id == span.trace_id
        assert found.parent_span_id == (span.parent_id or b"")
        assert found.start_time_unix_nano == span.start * 1_000
        assert found.end_time_unix_nano == span.end * 1_000
        assert span.is_root == (not found.parent_span_id)
        assert span.is_root or found.parent_span_id in read


@given(trees())
def test_tokens_survive_the_wire(spans: list[ExportSpan]) -> None:
    """The decoded tokens add up to the usage, and only model calls have any."""
    total = 0
    for span in arrived(spans).values():
        told = values(span)
        tokens = [told.get(key, 0) for key in (c.INPUT_TOKENS, c.OUTPUT_TOKENS)]
        assert all(isinstance(count, int) for count in tokens)
        assert span.kind == Span.SPAN_KIND_CLIENT or tokens == [0, 0]
        total += sum(int(str(count)) for count in tokens)
    assert total == sum(span.usage.total for span in spans if span.usage)


@given(trees())
def test_the_official_encoder_gives_the_same_message(spans: list[ExportSpan]) -> None:
    """The same spans, made of the types of OpenTelemetry's SDK and encoded by it, are the same messages."""
    ours = decoded(spans)
    theirs = encode_spans([_sdk_span(span) for span in spans])
    for message in (span for span in spans_in(theirs)):
        # Whether the parent is on another machine, which is not known here.
        message.flags = 0
    assert spans_in(theirs) == spans_in(ours)
    assert [_resource(each) for each in theirs.resource_spans] == [_resource(each) for each in ours.resource_spans]


def _resource(resource: object) -> object:
    return (resource.resource, [(scope.scope, scope.schema_url) for scope in resource.scope_spans])  # type: ignore[attr-defined]


def _sdk_span(span: ExportSpan) -> ReadableSpan:
    told = described(span)
    codes = {"ok": StatusCode.OK, "error": StatusCode.ERROR, "unset": StatusCode.UNSET}
    context = _context(span.trace_id, span.span_id)
    scope = decoded([make_span()]).resource_spans[0].scope_spans[0].scope
    return ReadableSpan(
        name=told.name,
        context=context,
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=Resource(dict(service(span.session)), c.SCHEMA_URL),
        attributes=told.attributes,
        events=[Event(event.name, event.attributes, event.at * 1_000) for event in told.events],
        kind=SpanKind.CLIENT if told.client else SpanKind.INTERNAL,
        status=SdkStatus(codes[told.status], told.description or None),
        start_time=span.start * 1_000,
        end_time=span.end * 1_000,
        instrumentation_scope=InstrumentationScope(scope.name, scope.version, c.SCHEMA_URL),
    )


def _context(trace_id: bytes, span_id: bytes) -> SpanContext:
    return SpanContext(int.from_bytes(trace_id), int.from_bytes(span_id), False, TraceFlags(1))


def test_an_agent_in_a_version_is_a_service() -> None:
    """Spans of several agents in one request are separate services; the schema is the pinned one."""
    session = ExportSession(session_id="s", agent="codex")
    spans = [*span_tree(1), *span_tree(1, session=session), make_span(session=session)]
    read = decoded(spans, {"deployment.environment.name": "laptop"})
    services = [{each.key: each.value.string_value for each in one.resource.attributes} for one in read.resource_spans]
    assert services == [
        {"service.name": "claude-code", "service.version": "2.1.7", "deployment.environment.name": "laptop"},
        {"service.name": "codex", "deployment.environment.name": "laptop"},
    ]
    assert {one.schema_url for one in read.resource_spans} == {"https://opentelemetry.io/schemas/1.41.1"}
    assert {scope.scope.name for one in read.resource_spans for scope in one.scope_spans} == {SCOPE}


def test_kinds_and_status() -> None:
    """Model calls are client spans, all else is internal; an error has its text in the status."""
    root = make_span()
    failed = make_span(root, kind="tool", status="error", error="exit 1")
    read = arrived([root, make_span(root), failed])
    kinds = [Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_INTERNAL]
    assert [span.kind for span in read.values()] == kinds
    assert read[failed.span_id].status == Status(code=Status.STATUS_CODE_ERROR, message="exit 1")
    assert read[failed.span_id].events[0].time_unix_nano == failed.end * 1_000


@given(st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70), st.integers(0, 2**70))
def test_absurd_numbers_do_not_stop_a_request(start: int, end: int, tokens: int) -> None:
    """Times and tokens that the format has no room for become the nearest that it has."""
    step = make_span(make_span(), start=start, end=end, usage=Usage(input_tokens=tokens), attributes={"n": tokens})
    (read,) = arrived([step]).values()
    assert read.start_time_unix_nano == min(max(start, 0), (2**64 - 1) // 1_000) * 1_000
    assert values(read)[c.INPUT_TOKENS] == min(tokens, 2**63 - 1)


def test_parents_come_before_their_children() -> None:
    """A request has the spans in the order they were given in."""
    spans = span_tree(3, 2, subagents=1, start=START)
    read = spans_in(decoded(spans))
    assert [span.span_id for span in read] == [span.span_id for span in spans]
