"""Sends spans to Phoenix over OTLP; runs in Phoenix's environment, which has the protobuf messages.

``python console_otlp.py URL`` reads lines of JSON, one span per line; an empty line sends the spans before it. For each
batch that the server accepted, the number of its spans is printed.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_BATCH = 400
#: The server refuses when its queue is full.
_PAUSE, _ATTEMPTS = 0.5, 600


def main() -> None:
    """Read, send, answer."""
    url, waiting = f"{sys.argv[1]}/v1/traces", []
    for line in sys.stdin:
        if line.strip():
            waiting.append(json.loads(line))
        if waiting and (len(waiting) >= _BATCH or not line.strip()):
            _post(url, _request(waiting).SerializeToString())
            print(len(waiting), flush=True)
            waiting = []


def _request(spans: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - made by protobuf at run time
    request = ExportTraceServiceRequest()
    for project in sorted({span["project"] for span in spans}):
        group = request.resource_spans.add()
        _set(group.resource.attributes, {"openinference.project.name": project})
        scope = group.scope_spans.add()
        for span in spans:
            if span["project"] == project:
                _fill(scope.spans.add(), span)
    return request


def _fill(target: Any, span: dict[str, Any]) -> None:  # noqa: ANN401
    target.trace_id = bytes.fromhex(span["trace_id"])
    target.span_id = bytes.fromhex(span["span_id"])
    if span["parent_id"]:
        target.parent_span_id = bytes.fromhex(span["parent_id"])
    target.name = span["name"]
    target.start_time_unix_nano = span["start"] * 1000
    target.end_time_unix_nano = span["end"] * 1000
    target.status.code = 2 if span["error"] else 1
    _set(target.attributes, span["attributes"])


def _set(attributes: Any, values: dict[str, Any]) -> None:  # noqa: ANN401
    for name, value in values.items():
        pair = attributes.add()
        pair.key = name
        if isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.string_value = value


def _post(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    for _ in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=120):
                return
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                raise
        time.sleep(_PAUSE)
    raise RuntimeError("the server's queue stays full")


if __name__ == "__main__":
    main()
