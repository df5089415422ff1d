"""``POST /v1/logs`` and ``/v1/metrics``: taken, refused and limited as spans are, and on the disk with the answer."""

# ruff: noqa: ANN401 - attributes and messages are anything

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import _logs
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource as SdkResource

from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.formats.otlp import Otlp
from agenttrace.serve.intake import records_json, records_protobuf
from agenttrace.serve.intake.lines import MOST_DEPTH, MOST_ELEMENTS, Taken
from agenttrace.serve.intake.rejections import IntakeError, TooLargeError
from example_counts import COSTLY
from serve.intake_rig import JSON, NOW, PROTOBUF, Intake, intake, record, rows, sessions, span, tokens
from serve.intake_rig import as_json as traces_as_json
from serve.intake_rig import request as traces_request
from serve.test_intake_reading import ATTRIBUTES, SPAN_IDS, TEXTS, TIMES, TRACE_IDS, VALUES
from telemetry_rig import claude, conversation, counter, request

LOGS, METRICS = "/v1/logs", "/v1/metrics"
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the body of a test against a server."""

    def run(body: Callable[[Intake], Awaitable[None]], **changes: Any) -> None:
        async def main() -> None:
            async with intake(tmp_path / "home", **changes) as server:
                await body(server)

        asyncio.run(main())

    return run


def as_json(message: Any) -> bytes:
    """A request as OTLP's JSON has it: protobuf's own, but for ids in hex and numbers for enumerations."""
    found = MessageToDict(message, use_integers_for_enums=True)
    for group, told in zip(getattr(message, "resource_logs", ()), found.get("resourceLogs", []), strict=True):
        for part, parts in zip(group.scope_logs, told.get("scopeLogs", []), strict=True):
            for each, one in zip(part.log_records, parts.get("logRecords", []), strict=True):
                one |= {"traceId": each.trace_id.hex(), "spanId": each.span_id.hex()}
    return json.dumps(found).encode()


# -- both encodings -----------------------------------------------------------------------------------------------

RESOURCES = st.builds(Resource, attributes=ATTRIBUTES)
SCOPES = st.builds(InstrumentationScope, name=TEXTS, version=TEXTS, attributes=ATTRIBUTES)
RECORDS = st.builds(
    LogRecord,
    time_unix_nano=TIMES,
    observed_time_unix_nano=TIMES,
    event_name=TEXTS,
    severity_text=TEXTS,
    body=VALUES,
    attributes=ATTRIBUTES,
    trace_id=TRACE_IDS,
    span_id=SPAN_IDS,
    dropped_attributes_count=st.integers(0, 3),
)
LOG_REQUESTS = st.builds(
    ExportLogsServiceRequest,
    resource_logs=st.lists(
        st.builds(
            ResourceLogs,
            resource=RESOURCES,
            scope_logs=st.lists(
                st.builds(ScopeLogs, scope=SCOPES, log_records=st.lists(RECORDS, max_size=3)), max_size=2
            ),
        ),
        max_size=2,
    ),
)
NUMBERS = st.builds(
    NumberDataPoint,
    attributes=ATTRIBUTES,
    start_time_unix_nano=TIMES,
    time_unix_nano=TIMES,
    as_int=st.integers(-(2**63), 2**63 - 1),
) | st.builds(NumberDataPoint, attributes=ATTRIBUTES, time_unix_nano=TIMES, as_double=st.floats())
BUCKETS = st.builds(
    HistogramDataPoint,
    attributes=ATTRIBUTES,
    time_unix_nano=TIMES,
    count=st.integers(0, 9),
    sum=st.floats(0, 9),
    bucket_counts=st.lists(st.integers(0, 9), max_size=3),
)
METRIC_KINDS = (
    st.builds(
        Metric,
        name=TEXTS,
        unit=TEXTS,
        sum=st.builds(Sum, data_points=st.lists(NUMBERS, max_size=3), aggregation_temporality=st.integers(0, 2)),
    )
    | st.builds(Metric, name=TEXTS, gauge=st.builds(Gauge, data_points=st.lists(NUMBERS, max_size=3)))
    | st.builds(Metric, name=TEXTS, histogram=st.builds(Histogram, data_points=st.lists(BUCKETS, max_size=3)))
    | st.builds(Metric, name=TEXTS)
)
METRIC_REQUESTS = st.builds(
    ExportMetricsServiceRequest,
    resource_metrics=st.lists(
        st.builds(
            ResourceMetrics,
            resource=RESOURCES,
            scope_metrics=st.lists(
                st.builds(ScopeMetrics, scope=SCOPES, metrics=st.lists(METRIC_KINDS, max_size=3)), max_size=2
            ),
        ),
        max_size=2,
    ),
)


def _agree(binary: Taken, text: Taken, total: int) -> None:
    """Both are the same lines, each of which is an event or is ignored, and nothing is missing."""
    assert [json.loads(line) for line in binary.lines] == [json.loads(line) for line in text.lines]
    assert binary.refused == text.refused
    assert len(binary.lines) + binary.refused == total
    for line in binary.lines:
        assert b"\n" not in line
        read = Otlp().decode(line, Source(agent="otlp", session_id="s"))
        assert not isinstance(read, Unusable) or read.harmless


@COSTLY
@given(LOG_REQUESTS)
def test_both_encodings_of_logs(sent: ExportLogsServiceRequest) -> None:
    """A request gives the same lines and refuses as many records, in protobuf and in JSON."""
    total = sum(len(part.log_records) for group in sent.resource_logs for part in group.scope_logs)
    _agree(records_protobuf.read_logs(sent.SerializeToString()), records_json.read_logs(as_json(sent)), total)


@COSTLY
@given(METRIC_REQUESTS)
def test_both_encodings_of_metrics(sent: ExportMetricsServiceRequest) -> None:
    """The same holds for every kind of metric."""
    metrics = [each for group in sent.resource_metrics for part in group.scope_metrics for each in part.metrics]
    total = sum(len(each.sum.data_points or each.gauge.data_points or each.histogram.data_points) for each in metrics)
    _agree(records_protobuf.read_metrics(sent.SerializeToString()), records_json.read_metrics(as_json(sent)), total)


READERS = (
    records_protobuf.read_logs,
    records_protobuf.read_metrics,
    records_json.read_logs,
    records_json.read_metrics,
)


@settings(max_examples=150)
@given(
    st.binary(max_size=60)
    | st.builds(
        lambda body, at, byte: body[:at] + bytes([byte]) + body[at + 1 :],
        st.sampled_from(
            [
                request(*conversation()).SerializeToString(),
                as_json(request(*conversation())),
                counter({("m", "input"): 5}, 1).SerializeToString(),
                as_json(counter({("m", "input"): 5}, 1)),
            ]
        ),
        st.integers(0, 900),
        st.integers(0, 255),
    )
)
def test_anything_may_be_sent(body: bytes) -> None:
    """Whatever is sent is read, or refused with a reason."""
    for read in READERS:
        with suppress(IntakeError):
            assert all(b"\n" not in line for line in read(body).lines)


def _nested(depth: int) -> AnyValue:
    value = AnyValue(string_value="x")
    for _ in range(depth):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    return value


def test_nested_too_deep() -> None:
    """A record that is nested too deep is refused, and the others are taken; so it is with its body."""
    deep = claude("user_prompt")
    deep.attributes.add(key="deep").value.CopyFrom(_nested(MOST_DEPTH + 1))
    other = claude("user_prompt")
    other.body.CopyFrom(_nested(MOST_DEPTH + 1))
    sent = request(claude("user_prompt"), deep, other)
    for taken in (records_protobuf.read_logs(sent.SerializeToString()), records_json.read_logs(as_json(sent))):
        assert (len(taken.lines), taken.refused) == (1, 2)
        assert "nested" in taken.reason


def test_too_many_parts() -> None:
    """A small body with very many parts is refused before it takes the memory, and says what to change."""
    attributes = b"\x32\x00" * (MOST_ELEMENTS + 1)
    records = b"\x12" + _length(attributes) + attributes
    scope = b"\x12" + _length(records) + records
    group = b"\x0a" + _length(scope) + scope
    with pytest.raises(TooLargeError, match="OTEL_BLRP_MAX_EXPORT_BATCH_SIZE"):
        records_protobuf.read_logs(group)
    with pytest.raises(TooLargeError, match="log records"):
        records_json.read_logs(b'{"resourceLogs":[' + b"{}," * (2 * MOST_ELEMENTS + 1) + b"{}]}")


def test_points_that_are_none() -> None:
    """A point with half a surrogate pair is taken; one that is nested without end, or no object, is refused."""
    half, deep = r'{"asInt": "5", "x": "\ud800"}', '{"x": ' + "[" * 5000 + "]" * 5000 + "}"
    for kind in ("sum", "histogram"):
        body = '{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "m", "%s": {"dataPoints": [%s]}}]}]}]}'
        taken = records_json.read_metrics((body % (kind, half)).encode())
        assert (len(taken.lines), taken.refused) == (1, 0)
        for point in (deep, "5"):
            with suppress(IntakeError):
                assert records_json.read_metrics((body % (kind, point)).encode()).lines == []


def _length(data: bytes) -> bytes:
    number, found = len(data), bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


# -- over HTTP ----------------------------------------------------------------------------------------------------


def test_a_session_over_http(run: Run) -> None:
    """Telemetry in either encoding, compressed or not, is one session with its tokens; repeats change nothing."""

    async def body(server: Intake) -> None:
        sent, counted = request(*conversation()), counter({("claude-sonnet-4-5", "input"): 30}, 60)
        for path, message in ((LOGS, sent), (METRICS, counted)):
            answers = [
                await server.post(message.SerializeToString(), path=path),
                await server.post(gzip.compress(message.SerializeToString()), path=path, Content_Encoding="gzip"),
                await server.post(as_json(message), JSON, path=path),
            ]
            assert [(each.status, each.body) for each in answers] == [(200, b""), (200, b""), (200, b"{}")]
        record(server.settings)
        (found,) = sessions(server.settings)
        assert (found["session_id"], found["turns"], found["steps"], found["tools"]) == ("s1", 1, 2, 1)
        assert tokens(server.settings)["input_tokens"] == 30

    run(body)


def test_all_signals_at_one_address(run: Run) -> None:
    """Gemini CLI sends spans, logs and metrics to the address that it is given: JSON says which of them it is."""

    async def body(server: Intake) -> None:
        sent = (request(*conversation()), counter({("m", "input"): 5}, 1))
        spans = json.dumps(traces_as_json(traces_request(span()))).encode()
        for message in (*map(as_json, sent), spans):
            assert (await server.post(message, JSON, path=LOGS)).body == b"{}"
        kinds = [("log" in line, "metric" in line, "span" in line) for line in server.lines()]
        assert kinds == [(True, False, False)] * 4 + [(False, True, False), (False, False, True)]

    run(body)


def test_partial_success(run: Run) -> None:
    """What is malformed is counted under the name that its signal has, and the rest is stored."""
    broken = claude("user_prompt")
    broken.trace_id = b"\1\2"
    sent = request(claude("user_prompt"), broken)
    deep = counter({("m", "input"): 5, ("m", "output"): 5}, 1)
    points = deep.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points
    points[0].attributes.add(key="deep").value.CopyFrom(_nested(MOST_DEPTH + 1))

    async def body(server: Intake) -> None:
        logs = await server.post(sent.SerializeToString(), path=LOGS)
        told = ExportLogsServiceResponse.FromString(logs.body).partial_success
        assert (logs.status, told.rejected_log_records) == (200, 1)
        assert "trace_id" in told.error_message
        text = await server.post(as_json(sent), JSON, path=LOGS)
        assert json.loads(text.body)["partialSuccess"]["rejectedLogRecords"] == "1"
        metrics = await server.post(deep.SerializeToString(), path=METRICS)
        assert ExportMetricsServiceResponse.FromString(metrics.body).partial_success.rejected_data_points == 1
        text = await server.post(as_json(deep), JSON, path=METRICS)
        assert json.loads(text.body)["partialSuccess"]["rejectedDataPoints"] == "1"
        assert len(server.lines()) == 4
        async with server.http.get(server.url + "/metrics") as response:
            shown = await response.text()
        assert 'agenttrace_intake_log_records_total{outcome="refused"} 2.0' in shown
        assert 'agenttrace_intake_data_points_total{outcome="kept"} 2.0' in shown

    run(body)


def test_refused_as_a_whole(run: Run) -> None:
    """Malformed bodies, other encodings and senders without a token get the answers that traces get."""

    async def body(server: Intake) -> None:
        for path in (LOGS, METRICS):
            assert (await server.post(b"\xff\xff", path=path)).status == 400
            assert (await server.post(b'{"resourceLogs": 5, "resourceMetrics": 5}', JSON, path=path)).status == 400
            assert (await server.post(b"", "text/plain", path=path)).status == 415
            assert (await server.post(b"x", PROTOBUF, path=path, Content_Encoding="zstd")).status == 415
            assert (await server.post(b"", PROTOBUF, path=path, Host="trace.example.com")).status == 401
        assert server.lines() == []

    run(body)


def test_the_exporters_of_the_sdk(run: Run) -> None:
    """OpenTelemetry's own exporters: events as an agent emits them, with gzip; its counter, delta and cumulative."""
    resource = SdkResource.create({"service.name": "claude-code", "service.version": "2.1.325"})

    def emit(url: str) -> None:
        exporter = OTLPLogExporter(url + LOGS, compression=Compression.Gzip)
        provider = LoggerProvider(resource=resource)
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
        logger = provider.get_logger("com.anthropic.claude_code.events")
        common = {"session.id": "sdk", "prompt.id": "p"}
        usage: dict[str, Any] = {
            "input_tokens": 10,
            "output_tokens": 2,
            "request_id": "req_1",
            "model": "claude-sonnet-4-5",
        }
        for name, attributes in (("user_prompt", {"prompt": "Hi"}), ("api_request", usage)):
            logger.emit(
                _logs.LogRecord(
                    timestamp=NOW,
                    body=f"claude_code.{name}",
                    attributes={**common, "event.name": name, **attributes},
                )
            )
        provider.shutdown()
        for temporality in (AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE):
            reader = PeriodicExportingMetricReader(
                OTLPMetricExporter(url + METRICS, preferred_temporality={Counter: temporality})
            )
            meters = MeterProvider(resource=resource, metric_readers=[reader])
            meter = meters.get_meter("com.anthropic.claude_code")
            sent = meter.create_counter("claude_code.token.usage", unit="tokens")
            sent.add(10, {"session.id": temporality.name, "type": "input", "model": "claude-sonnet-4-5"})
            meter.create_counter("claude_code.session.count").add(1, {"session.id": "sdk"})
            meters.shutdown()

    async def body(server: Intake) -> None:
        await asyncio.to_thread(emit, server.url)
        record(server.settings)
        (found,) = (each for each in sessions(server.settings) if each["session_id"] == "sdk")
        assert (found["first_prompt"], found["turns"], found["steps"]) == ("Hi", 1, 1)
        # Once from the events, and of each session of which there are only metrics.
        assert tokens(server.settings)["input_tokens"] == 10 + 2 * 10
        told = "SELECT s.session_id, t.model, t.input_tokens FROM totals t JOIN sessions s ON s.id = t.session_id"
        assert sorted(rows(server.settings, told)) == [
            ("CUMULATIVE", "claude-sonnet-4-5", 10),
            ("DELTA", "claude-sonnet-4-5", 10),
        ]

    run(body)
