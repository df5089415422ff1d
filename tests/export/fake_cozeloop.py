"""A fake CozeLoop: how its OTLP endpoint converts spans, which it drops without an error, and what can be read back.

The mapping is that of docs.coze.cn/cozeloop/opentelemetry_field_mapping and of coze-dev/coze-loop
(lib/otel/otel_convert.go and consts.go); what is dropped and cut is in domain/trace/entity/loop_span/span.go; the
numbers of errors are in pkg/errno; the endpoint of the SDK is ``/v1/loop/traces/ingest``.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from export.fake_otlp import PROTOBUF, parsed, spans_in, values
from export.faulty_server import FaultyServer, Received

TOKEN = "pat_0123456789abcdef"
WORKSPACE = "7480000000000000001"

_TYPES = {
    "chat": "model",
    "execute_tool": "tool",
    "generate_content": "model",
    "text_completion": "model",
    "TOOL": "tool",
    "LLM": "model",
    "AGENT": "agent",
    "": "custom",
}
#: Of each field the attributes that it is read from, the first that is there.
_FIELDS = {
    "thread_id": ("session.id",),
    "user_id": ("user.id",),
    "message_id": ("messaging.message.id",),
    "model_provider": ("gen_ai.system",),
    "model_name": ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name"),
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
}
_TYPE_KEYS = ("cozeloop.span_type", "gen_ai.request.type", "gen_ai.operation.name", "openinference.span.kind")
#: Attributes with these prefixes become the input, the output or the error.
_PREFIXES = {
    "input": ("llm.input_messages", "tool", "gen_ai.prompt"),
    "output": ("llm.output_messages", "gen_ai.completion"),
    "error": ("error", "exception"),
}
_INPUTS = ("input.value", "spring.ai.tool.call.arguments", "cozeloop.input")
_OUTPUTS = ("output.value", "spring.ai.tool.call.result", "cozeloop.output")


class FakeCozeLoop(FaultyServer):
    """One workspace, with the permissions of a key."""

    def __init__(self, *, wrapped: bool = False, may_read: bool = True) -> None:
        super().__init__()
        #: As a self-hosted server does: the answer to OTLP in JSON.
        self.wrapped = wrapped
        self.may_read = may_read
        #: Refuses so many spans of the next requests, and why.
        self.rejects = 0
        self.because = ""
        #: Taken, but not yet written where it can be read.
        self.queue: list[dict[str, Any]] = []
        #: Every span as often as it came.
        self.table: list[dict[str, Any]] = []
        self.dropped = 0
        #: Spans that came through the endpoint of the SDK.
        self.native: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        received = self.received[-1]
        if received.headers.get("authorization") != f"Bearer {TOKEN}":
            return web.json_response({"code": 4100, "msg": "authentication is invalid"}, status=401)
        match request.path:
            case "/v1/loop/opentelemetry/v1/traces":
                return self._taken(received)
            case "/v1/loop/traces/search_tree":
                return self._listed(json.loads(received.body))
            case "/v1/loop/traces/ingest":
                self.native += json.loads(received.body)["spans"]
                return web.json_response({"code": 0, "msg": ""})
        return web.json_response({"detail": "not found"}, status=404)

    def _taken(self, received: Received) -> web.Response:
        if not received.body:
            return _error(600904002, "req body is nil")
        if received.headers.get("content-type") != PROTOBUF:
            return _error(600904002, "contentType is invalid")
        if received.headers.get("cozeloop-workspace-id") != WORKSPACE:
            return _error(600900101, "no permission")
        rejected = self.rejects
        if not rejected:
            self._enqueue(parsed(received))
        said = ExportTraceServiceResponse()
        said.partial_success.rejected_spans = rejected
        said.partial_success.error_message = self.because
        body = said.SerializeToString()
        if self.wrapped:
            return web.json_response({"body": base64.b64encode(body).decode(), "content_type": PROTOBUF})
        return web.Response(content_type=PROTOBUF, body=body)

    def _enqueue(self, request: ExportTraceServiceRequest) -> None:
        now = time.time() * 1_000_000
        for span in spans_in(request):
            found = loop_span(span)
            if now - 24 * 3600e6 <= found["started_at_micros"] <= now + 3600e6:
                self.queue.append(found)
            else:
                self.dropped += 1

    def settle(self) -> None:
        """Make accepted spans readable."""
        self.table += self.queue
        self.queue.clear()

    def _listed(self, asked: Mapping[str, Any]) -> web.Response:
        if not self.may_read:
            return _error(600900101, "no permission")
        start, end = int(asked["start_time"]) * 1_000, int(asked["end_time"]) * 1_000
        rows = [
            row
            for row in self.table
            if row["trace_id"] == asked["trace_id"] and start <= row["started_at_micros"] <= end
        ]
        unique = {(row["trace_id"], row["span_id"]): row for row in rows}
        told = [{"trace_id": row["trace_id"], "span_id": row["span_id"]} for row in unique.values()]
        return web.json_response({"code": 0, "msg": "", "data": {"spans": told[: asked["limit"]]}})


def _error(code: int, text: str) -> web.Response:
    """Errors come with status 200."""
    return web.json_response({"code": code, "msg": text})


def loop_span(span: Span) -> dict[str, Any]:
    """An OpenTelemetry span in the fields of CozeLoop's own, as its SDK sends them."""
    told = values(span)
    tags: dict[str, Any] = {}
    for field, keys in _FIELDS.items():
        found = next((told[key] for key in keys if key in told), None)
        if found is not None:
            tags[field] = found
    if "input_tokens" in tags or "output_tokens" in tags:
        tags["tokens"] = tags.get("input_tokens", 0) + tags.get("output_tokens", 0)
    failed = {key: value for key, value in told.items() if key.startswith(_PREFIXES["error"])}
    if failed or any(event.name == "exception" for event in span.events):
        tags["error"] = json.dumps(failed)
    known = {key for keys in _FIELDS.values() for key in keys} | {*_TYPE_KEYS, *_INPUTS, *_OUTPUTS}
    taken = tuple(prefix for prefixes in _PREFIXES.values() for prefix in prefixes)
    tags |= {key: value for key, value in told.items() if key not in known and not key.startswith(taken)}
    return {
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_id": span.parent_span_id.hex(),
        "span_name": span.name,
        "span_type": _type(told, _TYPE_KEYS),
        # The documents say that the operation goes first, the source that it does not.
        "span_type_as_documented": _type(told, _TYPE_KEYS[1:] + _TYPE_KEYS[:1]),
        "started_at_micros": span.start_time_unix_nano // 1_000,
        "duration_micros": (span.end_time_unix_nano - span.start_time_unix_nano) // 1_000,
        "status_code": -1 if "error" in tags else 0,
        "input": _content(told, "input", _INPUTS),
        "output": _content(told, "output", _OUTPUTS),
        "tags": tags,
    }


def _type(told: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    found = next((str(told[key]) for key in keys if key in told), "")
    return _TYPES.get(found, found)


def _content(told: Mapping[str, Any], field: str, keys: tuple[str, ...]) -> str:
    """Attributes with one of the beginnings go before those with one of the names."""
    foreign = {key: value for key, value in told.items() if key.startswith(_PREFIXES[field])}
    if foreign:
        return json.dumps(foreign)
    return next((str(told[key]) for key in keys if key in told), "")
