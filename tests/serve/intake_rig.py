"""A server that takes spans over real HTTP, requests to send to it, and what the recorder makes of them."""

# ruff: noqa: ANN401 - attributes and options are anything

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from agenttrace.config import ServeSettings, Settings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.serve.app import create_app
from agenttrace.serve.intake.span_log import SpanWriter, log_directory

from .servers import Answer, listening

TRACES = "/v1/traces"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
SECOND = 1_000_000_000
NOW = 1_794_732_814 * SECOND


class IntakeAnswer(Answer):
    """An answer in either encoding."""

    @property
    def partial(self) -> tuple[int, str]:
        """How many spans were refused, and why, in either encoding."""
        if self.headers["Content-Type"] == JSON:
            told = json.loads(self.body).get("partialSuccess", {})
            return int(told.get("rejectedSpans", 0)), told.get("errorMessage", "")
        success = ExportTraceServiceResponse.FromString(self.body).partial_success
        return success.rejected_spans, success.error_message

    @property
    def problem(self) -> tuple[int, str]:
        """Code and message of an error, in either encoding."""
        if self.headers["Content-Type"] == JSON:
            told = json.loads(self.body)
            return told["code"], told["message"]
        status = Status.FromString(self.body)
        return status.code, status.message


@dataclass
class Intake:
    """A server, and a client of it."""

    url: str
    http: aiohttp.ClientSession
    settings: Settings
    app: Any
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def writer(self) -> SpanWriter:
        found: SpanWriter = self.app.state.context.intake
        return found

    async def post(
        self, body: bytes, content_type: str | None = PROTOBUF, *, path: str = TRACES, **headers: str
    ) -> IntakeAnswer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            named["Content-Type"] = content_type
        skipped = ["Content-Type"] if content_type is None else []
        async with self.http.post(
            self.url + path, data=io.BytesIO(body), headers=named, skip_auto_headers=skipped
        ) as response:
            return IntakeAnswer(response.status, response.headers, await response.read())

    async def send(self, *spans: Span, **resource: Any) -> IntakeAnswer:
        return await self.post(request(*spans, **resource).SerializeToString())

    def lines(self) -> list[dict[str, Any]]:
        return lines_in(self.settings)


@asynccontextmanager
async def intake(home: Path, **changes: Any) -> AsyncIterator[Intake]:
    """A server without the run half, on any free port."""
    settings = Settings(home=home, serve=ServeSettings(port=0, **changes))
    ensure_home(settings)
    app = create_app(None, settings, problem="not needed here")
    seconds = settings.serve.client_timeout_seconds
    async with (
        listening(app, drain_seconds=5, client_seconds=seconds) as server,
        aiohttp.ClientSession(auto_decompress=False) as http,
    ):
        yield Intake(server.url, http, settings, app, server.stopping)


# -- requests -----------------------------------------------------------------------------------------------------


def value(of: Any) -> AnyValue:
    """A value as protobuf has it."""
    match of:
        case bool():
            return AnyValue(bool_value=of)
        case int():
            return AnyValue(int_value=of)
        case float():
            return AnyValue(double_value=of)
        case str():
            return AnyValue(string_value=of)
        case bytes():
            return AnyValue(bytes_value=of)
        case list():
            return AnyValue(array_value=ArrayValue(values=[value(each) for each in of]))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=pairs(of)))
    return AnyValue()


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=name, value=value(each)) for name, each in attributes.items()]


def span(
    number: int = 1,
    *,
    trace: int = 1,
    parent: int | None = None,
    name: str = "work",
    start: int = 0,
    seconds: float = 1,
    attributes: Mapping[str, Any] | None = None,
    **more: Any,
) -> Span:
    """A span; its ids and its times are small numbers."""
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
        name=name,
        start_time_unix_nano=NOW + start * SECOND,
        end_time_unix_nano=NOW + start * SECOND + round(seconds * SECOND),
        attributes=pairs(attributes or {}),
        **more,
    )


def request(*spans: Span, service: str = "shop", **resource: Any) -> ExportTraceServiceRequest:
    """A request of one program."""
    attributes = pairs({"service.name": service, **resource})
    group = ResourceSpans(resource=Resource(attributes=attributes), scope_spans=[ScopeSpans(spans=spans)])
    return ExportTraceServiceRequest(resource_spans=[group])


def as_json(message: ExportTraceServiceRequest) -> dict[str, Any]:
    """The request as OTLP's JSON has it: protobuf's own, but for ids in hex and numbers for enumerations."""
    found = MessageToDict(message, use_integers_for_enums=True)
    for group, told in zip(message.resource_spans, found.get("resourceSpans", []), strict=True):
        for part, parts in zip(group.scope_spans, told.get("scopeSpans", []), strict=True):
            for each, one in zip(part.spans, parts.get("spans", []), strict=True):
                _hex_ids(each, one)
                for link, linked in zip(each.links, one.get("links", []), strict=True):
                    _hex_ids(link, linked)
    return found


def _hex_ids(message: Any, found: dict[str, Any]) -> None:
    for name, camel in (("trace_id", "traceId"), ("span_id", "spanId"), ("parent_span_id", "parentSpanId")):
        if camel in found:
            found[camel] = getattr(message, name).hex()


# -- what became of them ------------------------------------------------------------------------------------------


def lines_in(settings: Settings) -> list[dict[str, Any]]:
    """All whole lines of the log."""
    found = []
    for path in sorted(log_directory(settings.home).glob("spans-*.jsonl")):
        found += [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return found


def record(settings: Settings) -> None:
    """Have everything that is there recorded."""
    recorder = Recorder(settings, environ={"HOME": str(settings.home.parent)})
    try:
        recorder.run_once()
    finally:
        recorder.close()


def rows(settings: Settings, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of the store."""
    with closing(sqlite3.connect(settings.home / "agenttrace.db")) as connection:
        return connection.execute(query, values).fetchall()


def tokens(settings: Settings) -> dict[str, int]:
    """All tokens that count."""
    names = ("requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
    return dict(zip(names, rows(settings, f"SELECT {sums} FROM usage_rollup")[0], strict=True))


def sessions(settings: Settings) -> Iterator[dict[str, Any]]:
    """The sessions that a list shows."""
    columns = ("session_id", "project", "title", "first_prompt", "model", "state", "turns", "steps", "tools", "errors")
    for row in rows(settings, f"SELECT {', '.join(columns)} FROM sessions WHERE events > 0 ORDER BY session_id"):
        yield dict(zip(columns, row, strict=True))
