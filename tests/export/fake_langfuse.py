"""A fake Langfuse, after its documents and its source: which spans it refuses and stores, and how they are read."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from export.fake_otlp import parsed, spans_in
from export.faulty_server import FaultyServer

PUBLIC, SECRET = "pk-lf-1234", "sk-lf-5678"


class FakeLangfuse(FaultyServer):
    """One project. Nothing is merged: a span that is sent twice is stored twice."""

    def __init__(self, *, version: int = 4, knows_lists: bool = True, page: int = 1_000) -> None:
        super().__init__()
        self.version = version
        #: Whether a filter may name several traces.
        self.knows_lists = knows_lists
        self.page = page
        #: Taken, and not readable before ``settle``.
        self.taken: list[Span] = []
        self.observations: list[Span] = []
        self.settles_at_once = True
        #: Scores by id: one of the same id, name and day replaces the other.
        self.scores: dict[str, dict[str, Any]] = {}

    def settle(self) -> None:
        """The worker has done its work."""
        self.observations += self.taken
        self.taken = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        token = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {token}":
            return _error(401, "Invalid credentials. Confirm that you've configured the correct host.")
        routes = {
            ("POST", "/api/public/otel/v1/traces"): self._take,
            ("GET", "/api/public/v2/observations"): self._list,
            ("GET", "/api/public/observations"): self._list_old,
        }
        route = routes.get((request.method, request.path))
        if request.path.startswith("/api/public/scores"):
            return self._score(request)
        return route(request) if route else _error(404, "Not found")

    def _take(self, request: web.Request) -> web.Response:
        received = self.received[-1]
        if "application/x-protobuf" not in received.headers.get("content-type", ""):
            return _error(400, "Invalid content type")
        if int(received.headers.get("x-langfuse-ingestion-version", "0")) > 4:
            return _error(400, "Unsupported x-langfuse-ingestion-version")
        try:
            spans = spans_in(parsed(received))
        except (DecodeError, OSError, EOFError):
            return _error(400, "Failed to parse OTel Protobuf Trace")
        # One bad span, and nothing is stored.
        if any(len(span.trace_id) != 16 or len(span.span_id) != 8 for span in spans):
            return _error(400, "Invalid span: traceId:wrong_length")
        self.taken += spans
        if self.settles_at_once:
            self.settle()
        return web.json_response({"id": "job", "name": "otel-ingestion-job"} if spans else {})

    def _score(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            found = self.scores.pop(request.path.rpartition("/")[2], None)
            return web.json_response({"message": "accepted"}, status=202) if found else _error(404, "Not found")
        body = json.loads(self.received[-1].body)
        places = [name for name in ("traceId", "sessionId") if body.get(name)]
        kinds = {"NUMERIC": (int, float), "BOOLEAN": (int,), "CATEGORICAL": (str,)}
        if len(places) != 1 or not body.get("name") or not isinstance(body["value"], kinds[body["dataType"]]):
            return _error(400, "Invalid request data")
        known = self.scores.get(body["id"])
        assert known is None or (known["name"], known["timestamp"][:10]) == (body["name"], body["timestamp"][:10])
        self.scores[body["id"]] = body
        return web.json_response({"id": body["id"]})

    def _list(self, request: web.Request) -> web.Response:
        if self.version < 4:
            return _error(404, "The observations v2 API is only available in a Langfuse v4 write mode.")
        query = request.query
        conditions = json.loads(query["filter"]) if "filter" in query else _conditions(query)
        if not self.knows_lists and any(condition["type"] == "stringOptions" for condition in conditions):
            return _error(400, "Invalid filter type 'stringOptions' for column 'traceId'")
        found = [span for span in self.observations if all(_fulfils(span, condition) for condition in conditions)]
        size, first = min(self.page, int(query.get("limit", "50"))), int(query.get("cursor", "0"))
        if not 0 < int(query.get("limit", "50")) <= 1_000:
            return _error(400, "limit must be between 1 and 1000")
        meta = {"cursor": str(first + size)} if first + size < len(found) else {}
        return web.json_response({"data": [_shown(span) for span in found[first : first + size]], "meta": meta})

    def _list_old(self, request: web.Request) -> web.Response:
        found = [span for span in self.observations if span.trace_id.hex() == request.query["traceId"]]
        size, number = min(self.page, int(request.query["limit"])), int(request.query["page"])
        shown = [_shown(span) for span in found[(number - 1) * size : number * size]]
        meta = {"page": number, "limit": size, "totalItems": len(found), "totalPages": -(-len(found) // size)}
        return web.json_response({"data": shown, "meta": meta})


def _conditions(query: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"type": "string", "column": "traceId", "operator": "=", "value": query["traceId"]}]


def _fulfils(span: Span, condition: dict[str, Any]) -> bool:
    if condition["column"] == "traceId":
        wanted = condition["value"]
        return span.trace_id.hex() in (wanted if isinstance(wanted, list) else [wanted])
    assert condition["column"] == "startTime"
    # Kept to the millisecond.
    start = span.start_time_unix_nano // 1_000_000 / 1_000
    bound = datetime.fromisoformat(condition["value"]).timestamp()
    return start >= bound if condition["operator"] == ">=" else start < bound


def _shown(span: Span) -> dict[str, Any]:
    return {
        "id": span.span_id.hex(),
        "traceId": span.trace_id.hex(),
        "parentObservationId": span.parent_span_id.hex() or None,
        "startTime": _iso(span.start_time_unix_nano),
        "endTime": _iso(span.end_time_unix_nano),
        "type": "SPAN",
        "projectId": "project",
    }


def _iso(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 1_000_000 / 1_000, UTC).isoformat()


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"message": message, "error": message}, status=status)
