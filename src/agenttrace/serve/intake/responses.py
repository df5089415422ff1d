"""Answers as OTLP wants them: in the encoding of the request, errors as a ``google.rpc.Status``."""

from __future__ import annotations

import msgspec
from fastapi import Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from agenttrace.serve.intake.body import JSON, PROTOBUF
from agenttrace.serve.intake.lines import Taken
from agenttrace.serve.intake.rejections import RefusedError


def accepted(taken: Taken, media_type: str) -> Response:
    """Everything that could be kept is on disk; what could not be is counted, and must not be sent again."""
    if media_type == JSON:
        partial = {"rejectedSpans": str(taken.refused), "errorMessage": taken.reason}
        return Response(msgspec.json.encode({"partialSuccess": partial} if taken.refused else {}), 200, {}, JSON)
    answer = ExportTraceServiceResponse()
    if taken.refused:
        partial_success = ExportTracePartialSuccess(rejected_spans=taken.refused, error_message=taken.reason)
        answer.partial_success.CopyFrom(partial_success)
    return Response(answer.SerializeToString(), 200, {}, PROTOBUF)


def refused(error: RefusedError, media_type: str) -> Response:
    """Nothing was kept, and why. Whoever sent neither encoding can read JSON."""
    if media_type == PROTOBUF:
        return Response(_status(error.code, error.message), error.status, error.headers, PROTOBUF)
    body = msgspec.json.encode({"code": error.code, "message": error.message})
    return Response(body, error.status, error.headers, JSON)


def _status(code: int, message: str) -> bytes:
    """A ``google.rpc.Status``: two fields are not worth a dependency."""
    text = message.encode("utf-8", "replace")
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
