"""A fake LangSmith that accepts and refuses the same requests as the real one, with its texts where they are known.

The rules: docs.langchain.com/langsmith/trace-with-api and run-data-format; the refusals: langsmith-sdk #751, #1529 and
#2236, litellm #37269, vercel/ai #4843; the window: langsmith-data-migration-tool #152; what it does with runs that it
has: GoogleCloudPlatform/BigQuery-Agent-Analytics-SDK #414.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Any
from uuid import UUID

import zstandard
from aiohttp import web

from export.faulty_server import FaultyServer, Received

KEY = "lsv2_pt_0123456789abcdef"
CONFLICT = '{"error":"Conflict: payload already received: payloads already received"}'
_SEGMENT = re.compile(r"(\d{8}T\d{12}Z)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDED = ("id", "trace_id", "dotted_order", "name", "run_type", "start_time", "session_name")
_PARTS = ("inputs", "outputs", "events", "extra", "error", "serialized")
_RUN_TYPES = ("tool", "chain", "llm", "retriever", "embedding", "prompt", "parser")


class RefusedError(Exception):
    """A request that the server refuses."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class FakeLangSmith(FaultyServer):
    """One workspace."""

    def __init__(self, *, zstd: bool = False, window: bool = False) -> None:
        super().__init__()
        self.zstd = zstd
        self.window = window
        #: Each run as it was first sent.
        self.runs: dict[str, dict[str, Any]] = {}
        self.feedback: dict[str, dict[str, Any]] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        received = self.received[-1]
        if request.path == "/info":
            return web.json_response(self.info)
        if received.headers.get("x-api-key") != KEY:
            return web.json_response({"error": "Unauthorized"}, status=401)
        if request.path == "/sessions":
            return web.json_response([{"name": "default"}])
        if request.path.startswith("/feedback"):
            return self._take_feedback(request.method, request.path.rpartition("/")[2], received)
        if request.path != "/runs/multipart":
            return web.json_response({"detail": "Not Found"}, status=404)
        try:
            return self.take(received)
        except RefusedError as refusal:
            return web.json_response({"error": str(refusal)}, status=refusal.status)

    def _take_feedback(self, method: str, name: str, request: Received) -> web.Response:
        """Feedback belongs to a run; the first version of an id stays until it is changed as such."""
        body = json.loads(request.body or b"{}")
        if method == "POST":
            if body["run_id"] not in self.runs:
                return web.json_response({"detail": "Run not found"}, status=404)
            if body["id"] in self.feedback:
                return web.json_response({"detail": "Feedback already exists"}, status=409)
            self.feedback[body["id"]] = body
        elif name not in self.feedback:
            return web.json_response({"detail": "Feedback not found"}, status=404)
        elif method == "PATCH":
            self.feedback[name] |= body
        else:
            del self.feedback[name]
        return web.json_response({})

    @property
    def info(self) -> dict[str, Any]:
        """The answer of ``/info``."""
        return {
            "version": "0.13.0",
            "instance_flags": {"zstd_compression_enabled": self.zstd},
            "batch_ingest_config": {"use_multipart_endpoint": True, "size_limit": 100, "size_limit_bytes": 20_971_520},
        }

    def take(self, request: Received) -> web.Response:
        """Take a body, all of it or nothing."""
        body = _plain(request)
        if len(body) > 20_971_520:
            raise RefusedError(413, "Payload too large")
        runs = read_runs(request.headers.get("content-type", ""), body)
        if len(runs) > 100:
            raise RefusedError(413, "too many runs")
        for run in runs.values():
            judge(run)
            self._judge_parent(run, runs)
            self._judge_window(run)
        news = {run_id: run for run_id, run in runs.items() if run_id not in self.runs}
        self.runs |= news
        if not news:
            return web.Response(status=409, text=CONFLICT, content_type="application/json")
        return web.json_response({"message": "Runs batch ingested"}, status=202)

    def _judge_parent(self, run: dict[str, Any], others: Mapping[str, dict[str, Any]]) -> None:
        parent = others.get(run.get("parent_run_id", "")) or self.runs.get(run.get("parent_run_id", ""))
        if parent is not None and run["dotted_order"].rpartition(".")[0] != parent["dotted_order"]:
            raise RefusedError(400, f"dotted_order of {run['id']} is not below that of its parent")

    def _judge_window(self, run: dict[str, Any]) -> None:
        hours = abs(time.time() - datetime.fromisoformat(run["start_time"]).timestamp()) / 3600
        if self.window and hours > 24:
            raise RefusedError(422, f"run {run['id']}: start_time is outside the allowed time window of 24 hours")


def _plain(request: Received) -> bytes:
    if request.headers.get("content-encoding") != "zstd":
        return request.body
    assert request.headers["x-post-compressed-size"] == str(len(request.raw))
    body = zstandard.ZstdDecompressor().decompressobj().decompress(request.raw)
    assert request.headers["x-pre-compressed-size"] == str(len(body))
    return body


def read_runs(content_type: str, body: bytes) -> dict[str, dict[str, Any]]:
    """The runs of a multipart body; a malformed one is refused."""
    runs: dict[str, dict[str, Any]] = {}
    for name, value in _parts(content_type, body):
        match name.split("."):
            case ["post", run_id]:
                runs[run_id] = json.loads(value) | runs.get(run_id, {})
                _is(422, runs[run_id].get("id") == run_id, f"error parsing run for {name}: id")
            case ["post", run_id, part] if part in _PARTS:
                _is(422, run_id in runs, f"{name} without its run")
                runs[run_id][part] = json.loads(value)
            case _:
                raise RefusedError(422, f"unexpected part {name}")
    _is(422, bool(runs), "no runs")
    return runs


def _parts(content_type: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    kind = Message()
    kind["Content-Type"] = content_type
    boundary = kind.get_param("boundary")
    _is(400, kind.get_content_type() == "multipart/form-data" and isinstance(boundary, str), "no multipart body")
    edge = b"--" + str(boundary).encode()
    first, *pieces, last = body.split(edge)
    _is(400, first == b"" and last == b"--\r\n", "the body does not begin and end with its boundary")
    for piece in pieces:
        head, _, value = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        headers = BytesHeaderParser().parsebytes(head + b"\r\n\r\n")
        _is(422, headers.get_content_type() == "application/json", "a part is not JSON")
        value = value.removesuffix(b"\r\n")
        _is(
            422, headers["Content-Length"] == str(len(value)), f"content length of {headers['Content-Length']} is wrong"
        )
        name = headers.get_param("name", header="Content-Disposition")
        _is(422, isinstance(name, str), "a part has no name")
        yield str(name), value


def judge(run: dict[str, Any]) -> None:
    """Whether a run is one that the server takes."""
    for name in _NEEDED:
        _is(422, bool(run.get(name)), f"error parsing run for post.{run.get('id')}: schema validation failed: {name}")
    _is(422, run["run_type"] in _RUN_TYPES, "run_type")
    _is(422, isinstance(run.get("inputs"), dict), "inputs must be an object")
    _is(422, isinstance(run.get("outputs", {}), dict), "outputs must be an object")
    _is(422, isinstance(run.get("extra", {}), dict), "extra must be an object")
    _is(422, run.get("error") is None or isinstance(run["error"], str), "error must be a text")
    start = datetime.fromisoformat(run["start_time"])
    end = datetime.fromisoformat(run.get("end_time") or run["start_time"])
    _is(422, start.tzinfo is not None and start <= end, "start_time must be an ISO 8601 timestamp before end_time")
    _is(422, "\\u0000" not in json.dumps(run), "unsupported Unicode escape sequence")
    _judge_order(run, start)


def _judge_order(run: dict[str, Any], start: datetime) -> None:
    segments = [_SEGMENT.fullmatch(segment) for segment in run["dotted_order"].split(".")]
    _is(400, all(segments), f"invalid dotted_order {run['dotted_order']}")
    times, ids = zip(*(segment.groups() for segment in segments if segment), strict=True)
    _is(400, ids[0] == run["trace_id"], f"trace_id {run['trace_id']} does not match first part of dotted_order")
    _is(400, ids[-1] == run["id"], "run_id does not match last part of dotted_order")
    parent = run.get("parent_run_id")
    if parent is None:
        _is(400, len(ids) == 1, f"dotted_order must contain a single part for root runs for run_id:{run['id']}")
    else:
        _is(400, len(ids) > 1 and ids[-2] == parent, "parent_run_id does not match dotted_order")
    _is(400, list(times) == sorted(times), "dotted_order: a run begins before its parent")
    _is(400, times[-1] == f"{start.astimezone(UTC):%Y%m%dT%H%M%S%fZ}", "start_time does not match dotted_order")
    _is(400, len(set(ids)) == len(ids), "a run is below itself")
    run_id = UUID(run["id"])
    _is(422, run_id.version == 7, "run id must be a UUID v7")
    _is(422, run_id.int >> 80 == (start - _EPOCH) // timedelta(milliseconds=1), "run id and start_time differ in time")


def _is(status: int, fine: bool, detail: str) -> None:
    if not fine:
        raise RefusedError(status, detail)
