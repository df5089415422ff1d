"""Backends that take OTLP: any of them, and Phoenix with its list of traces."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import unquote

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from export.faulty_server import FaultyServer, Received

PROTOBUF = "application/x-protobuf"
PROJECT = "openinference.project.name"


def parsed(received: Received) -> ExportTraceServiceRequest:
    """The message of a request."""
    return ExportTraceServiceRequest.FromString(received.body)


def spans_in(request: ExportTraceServiceRequest) -> list[Span]:
    """All spans of a request, in order."""
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


def values(span: Span) -> dict[str, object]:
    """The attributes of a span as plain values."""
    return {attribute.key: _plain(attribute.value) for attribute in span.attributes}


def _plain(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    assert kind is not None
    return [_plain(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


class FakeOtlp(FaultyServer):
    """Keeps every span that it is sent, as often as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Span] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        received = self.received[-1]
        if request.method != "POST" or received.headers.get("content-type") != PROTOBUF:
            return web.Response(status=415)
        self.keep(parsed(received))
        return web.Response(content_type=PROTOBUF, body=ExportTraceServiceResponse().SerializeToString())

    def keep(self, request: ExportTraceServiceRequest) -> None:
        """Store the spans of a request."""
        self.spans += spans_in(request)


class FakePhoenix(FakeOtlp):
    """Keeps the first of each span, project by project, and lists traces with the ids of their spans."""

    def __init__(self) -> None:
        super().__init__()
        self.projects: dict[str, dict[bytes, Span]] = {}
        #: Versions before March 2026 cannot.
        self.lists_traces = True
        #: Traces in one page, whatever limit is asked for.
        self.page = 1_000

    def keep(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            told = {each.key: each.value.string_value for each in resource.resource.attributes}
            project = self.projects.setdefault(told.get(PROJECT, "default"), {})
            for scope in resource.scope_spans:
                for span in scope.spans:
                    project.setdefault(span.span_id, span)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        response = await self._handled(request)
        response.headers["x-phoenix-server-version"] = "20.26.1"
        return response

    async def _handled(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            return await super().handle(request)
        if not self.lists_traces:
            return web.json_response({"detail": "Not Found"}, status=404)
        name = unquote(request.rel_url.raw_path.removeprefix("/v1/projects/").removesuffix("/traces"))
        if name not in self.projects:
            return web.json_response({"detail": f"Project with name {name} not found"}, status=404)
        assert request.query["include_spans"] == "true"
        first = int(request.query.get("cursor", "0"))
        size = min(self.page, int(request.query["limit"]))
        known = self._begun(name, _moment(request.query["start_time"]), _moment(request.query["end_time"]))
        shown = [
            {"trace_id": trace_id.hex(), "spans": [{"span_id": span.span_id.hex()} for span in spans]}
            for trace_id, spans in known[first : first + size]
        ]
        following = str(first + size) if first + size < len(known) else None
        return web.json_response({"data": shown, "next_cursor": following})

    def _begun(self, project: str, start: float, end: float) -> list[tuple[bytes, list[Span]]]:
        """The traces whose first span began in this time."""
        traces: dict[bytes, list[Span]] = {}
        for span in self.projects[project].values():
            traces.setdefault(span.trace_id, []).append(span)
        begun = {trace_id: min(span.start_time_unix_nano for span in spans) for trace_id, spans in traces.items()}
        return [item for item in traces.items() if start <= begun[item[0]] / 1e9 < end]


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
