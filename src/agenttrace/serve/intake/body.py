"""The body of a request: its content type, and its bytes without compression, within a limit."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

from agenttrace.serve.intake import records_json, records_protobuf
from agenttrace.serve.intake.json_request import read_json
from agenttrace.serve.intake.lines import Taken
from agenttrace.serve.intake.protobuf import read_protobuf
from agenttrace.serve.intake.rejections import IntakeError, TooLargeError, UnsupportedError
from agenttrace.serve.intake.signals import LOGS, METRICS, TRACES, Signal

#: Bytes of a body, as it came and unpacked.
MOST_BYTES = 16 << 20
#: gzip members in one body. Senders write one; tools that compress in blocks write one for each 64 KiB.
MOST_MEMBERS = 1_000
#: Bytes that are unpacked at once.
_PIECE = 64 << 10

PROTOBUF, JSON = "application/x-protobuf", "application/json"
READERS: dict[Signal, dict[str, Callable[[bytes], Taken]]] = {
    TRACES: {PROTOBUF: read_protobuf, JSON: read_json},
    LOGS: {PROTOBUF: records_protobuf.read_logs, JSON: records_json.read_logs},
    METRICS: {PROTOBUF: records_protobuf.read_metrics, JSON: records_json.read_metrics},
}

#: How a body in JSON begins: some programs send all signals to one address.
_FIRST_KEY = re.compile(rb'\s*\{\s*"(resourceSpans|resourceLogs|resourceMetrics)"')
_KEYS = {b"resourceSpans": TRACES, b"resourceLogs": LOGS, b"resourceMetrics": METRICS}

_GRPC = "application/grpc"
#: As zlib has them: gzip, and zlib's own format, which HTTP calls deflate.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def media_type(content_type: str) -> str:
    """The content type of a body: one of the two that are supported."""
    found = content_type.partition(";")[0].strip().lower()
    if found in (PROTOBUF, JSON):
        return found
    if found.startswith(_GRPC):
        raise UnsupportedError(
            "This is OTLP over HTTP, not gRPC. Set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or use the HTTP exporter."
        )
    raise UnsupportedError(f"Send Content-Type: {PROTOBUF} or {JSON}, not {found or 'nothing'}.")


def read_body(body: bytes, kind: str, signal: Signal) -> Taken:
    """What a body has; in JSON it says itself which signal it is, wherever it was sent."""
    said = _FIRST_KEY.match(body) if kind == JSON else None
    return READERS[_KEYS[said[1]] if said is not None else signal][kind](body)


def coding(content_encoding: str) -> str:
    """How a body is compressed; empty where it is not."""
    found = content_encoding.strip().lower()
    if found in ("", "identity"):
        return ""
    if found not in _WINDOWS:
        raise UnsupportedError(f"Send Content-Encoding: gzip, deflate or none, not {found[:50]}.")
    return found


def too_large(signal: Signal = TRACES) -> TooLargeError:
    """The error for a request that is too large."""
    limit = f"{MOST_BYTES >> 20} MiB"
    return TooLargeError(f"The body is larger than {limit}. {signal.fewer}")


def unpacked(body: bytes, how: str, signal: Signal = TRACES) -> bytes:
    """The body without its compression; unpacks no more than the limits, in time linear in the body."""
    if not how:
        return body
    parts: list[bytes] = []
    left, members = MOST_BYTES, 0
    unpacker = None
    for start in range(0, len(body), _PIECE):
        # In pieces, because zlib copies what follows the end of a member.
        piece = body[start : start + _PIECE]
        while piece:
            if unpacker is None:
                members += 1
                if members > MOST_MEMBERS:
                    raise IntakeError(f"The body has more than {MOST_MEMBERS} {how} members. Compress it as one.")
                unpacker = zlib.decompressobj(_WINDOWS[how])
            try:
                parts.append(unpacker.decompress(piece, left + 1))
            except zlib.error as error:
                raise IntakeError(f"The body is not {how}: {error}.") from None
            left -= len(parts[-1])
            if left < 0:
                raise too_large(signal)
            piece, unpacker = (unpacker.unused_data, None) if unpacker.eof else (b"", unpacker)
    if unpacker is not None:
        raise IntakeError(f"The body is not {how}: it ends in the middle.")
    return b"".join(parts)
