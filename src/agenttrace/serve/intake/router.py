"""``POST /v1/traces``, ``/v1/logs`` and ``/v1/metrics``: OTLP of any program, acknowledged once it is on the disk."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request, Response
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as otlp_logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as otlp_metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp_traces
from starlette.datastructures import Headers

from agenttrace.run.catalog.config import usable_token
from agenttrace.serve.access.gate import address_of, authorization, came_by_proxy, needs_login
from agenttrace.serve.access.hosts import host_of
from agenttrace.serve.access.paths import LANGFUSE, LOGS, METRICS, TRACES
from agenttrace.serve.auth import INTAKE_SENDERS
from agenttrace.serve.intake import signals
from agenttrace.serve.intake.body import JSON, MOST_BYTES, PROTOBUF, coding, media_type, read_body, too_large, unpacked
from agenttrace.serve.intake.rejections import BusyError, IntakeError, NoTokenError, WrongSenderTokenError
from agenttrace.serve.intake.signals import Signal
from agenttrace.serve.problems import ProblemError

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.serve.intake.lines import Taken

#: Bytes of all bodies that are being received or wait to be written.
_MOST_HELD = 64 << 20

_CONTENT: dict[str, Any] = {
    PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
    JSON: {"schema": {"type": "object"}},
}


def _body(signal: Signal) -> dict[str, Any]:
    """What OpenAPI says of a request."""
    about = f"An `{signal.message}`; `Content-Encoding: gzip` and `deflate` are understood."
    return {"requestBody": {"required": True, "description": about, "content": _CONTENT}}


#: For a sender without a valid token.
_FIX = "Send the header Authorization: Bearer TOKEN (OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN)"
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Everything that was not refused is on the disk.", "content": _CONTENT},
    400: {"description": "The body is malformed."},
    401: {"description": "The token is missing or wrong; from this machine none is needed."},
    413: {"description": "The body is too large."},
    415: {"description": "Another content type or encoding."},
    503: {"description": "Not now: stopping, busy, or the disk is full. Nothing was stored; retry."},
}


def intake_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(tags=["intake"])
    intake = Intake(context)

    @router.post(
        TRACES,
        summary="Send spans (OTLP over HTTP)",
        response_class=Response,
        responses=_ANSWERS,
        openapi_extra=_body(signals.TRACES) | INTAKE_SENDERS,
    )
    @router.post(LANGFUSE, include_in_schema=False)
    async def traces(request: Request) -> Response:
        return await intake.answer(request, signals.TRACES)

    @router.post(
        LOGS,
        summary="Send log records (OTLP over HTTP)",
        response_class=Response,
        responses=_ANSWERS,
        openapi_extra=_body(signals.LOGS) | INTAKE_SENDERS,
    )
    async def logs(request: Request) -> Response:
        return await intake.answer(request, signals.LOGS)

    @router.post(
        METRICS,
        summary="Send metrics (OTLP over HTTP)",
        response_class=Response,
        responses=_ANSWERS,
        openapi_extra=_body(signals.METRICS) | INTAKE_SENDERS,
    )
    async def metrics(request: Request) -> Response:
        return await intake.answer(request, signals.METRICS)

    @router.get(TRACES, include_in_schema=False)
    @router.get(LOGS, include_in_schema=False)
    @router.get(METRICS, include_in_schema=False)
    async def looking(request: Request) -> Response:
        detail = "OTLP is sent here, with POST; what was received is shown by the console."
        return _refused(IntakeError(detail, 405, 12, {"Allow": "POST"}), JSON)

    return router


class Intake:
    """Receives requests within limits, and answers them."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._writer = context.intake
        self._token_always = needs_login(context.settings.serve)
        self._held = 0

    async def answer(self, request: Request, signal: Signal) -> Response:
        """Read what a request has, and answer it."""
        kind = JSON
        try:
            kind = media_type(request.headers.get("content-type", ""))
            taken = await self._taken(request, kind, signal)
        except IntakeError as error:
            return _refused(error, kind)
        counts = self._context.metrics.received[taken.signal]
        counts.labels("kept").inc(len(taken.lines))
        counts.labels("refused").inc(taken.refused)
        return _accepted(taken, kind)

    async def _taken(self, request: Request, kind: str, signal: Signal) -> Taken:
        await self._check(request)
        if self._context.life.stopping:
            raise BusyError("The server is stopping.")
        how = coding(request.headers.get("content-encoding", ""))
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > MOST_BYTES:
            raise too_large(signal)
        parts: list[bytes] = []
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                self._held += len(part)
                if size > MOST_BYTES:
                    raise too_large(signal)
                if self._held > _MOST_HELD:
                    raise BusyError("Too much is being received at once.")
                parts.append(part)
            return await self._writer.take(lambda: read_body(unpacked(b"".join(parts), how, signal), kind, signal))
        finally:
            self._held -= size

    async def _check(self, request: Request) -> None:
        try:
            _check_sender(request, token_always=self._token_always, token=self._token)
        except WrongSenderTokenError:
            try:
                await self._context.access.refusals.wrong(address_of(request.scope), "intake")
            except ProblemError as error:
                raise IntakeError(error.detail, 429, 8, {"Retry-After": "2", "Connection": "close"}) from None
            raise

    @property
    def _token(self) -> str | None:
        engine = self._context.engine
        return usable_token(os.environ) if engine is None else engine.internal_token


# -- the sender ---------------------------------------------------------------------------------------------------


def _check_sender(request: Request, *, token_always: bool, token: str | None) -> None:
    """Raise 401 unless the program is on this machine or has the internal token.

    ``token_always``: other machines can reach the server, so that every program needs it.
    """
    if not token_always and _is_local(request):
        return
    if not token:
        raise NoTokenError("Senders on other machines need a token: set INTERNAL_API_TOKEN where AgentTrace runs.")
    given = _credentials(request.headers)
    if not given:
        raise NoTokenError(f"{_FIX} with the server's INTERNAL_API_TOKEN.")
    # As bytes: comparing text that is not ASCII would raise.
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        raise WrongSenderTokenError("The token is not the one of this server.")


def _is_local(request: Request) -> bool:
    """Whether it can only be from this machine; a page that uses DNS rebinding has its own name as host."""
    host = host_of(request.headers)
    return host is not None and host.is_loopback and not came_by_proxy(request.scope, request.headers)


def _credentials(headers: Headers) -> str:
    """The token in any of the schemes that senders can use; of a name and a password, the password."""
    scheme, given = authorization(headers)
    if scheme in ("bearer", "internal-token"):
        return given
    if scheme != "basic":
        return ""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


# -- answers ------------------------------------------------------------------------------------------------------


def _accepted(taken: Taken, media_type: str) -> Response:
    """200: everything but what was refused is on disk; that is counted, and must not be sent again."""
    if media_type == JSON:
        partial = {taken.signal.rejected: str(taken.refused), "errorMessage": taken.reason}
        return Response(msgspec.json.encode({"partialSuccess": partial} if taken.refused else {}), 200, {}, JSON)
    return Response(_partial_success(taken).SerializeToString(), 200, {}, PROTOBUF)


def _partial_success(taken: Taken) -> Message:
    count, reason = taken.refused, taken.reason
    if taken.signal == signals.LOGS:
        logs = otlp_logs.ExportLogsPartialSuccess(rejected_log_records=count, error_message=reason)
        return otlp_logs.ExportLogsServiceResponse(partial_success=logs if count else None)
    if taken.signal == signals.METRICS:
        points = otlp_metrics.ExportMetricsPartialSuccess(rejected_data_points=count, error_message=reason)
        return otlp_metrics.ExportMetricsServiceResponse(partial_success=points if count else None)
    spans = otlp_traces.ExportTracePartialSuccess(rejected_spans=count, error_message=reason)
    return otlp_traces.ExportTraceServiceResponse(partial_success=spans if count else None)


def _refused(error: IntakeError, media_type: str) -> Response:
    """An error as a ``google.rpc.Status`` in the encoding of the request; JSON where it has neither."""
    if media_type == PROTOBUF:
        return Response(_status(error.code, error.message), error.status, error.headers, PROTOBUF)
    body = msgspec.json.encode({"code": error.code, "message": error.message})
    return Response(body, error.status, error.headers, JSON)


def _status(code: int, message: str) -> bytes:
    """The status in protobuf: two fields are not worth a dependency."""
    text = message.encode("utf-8", "replace")
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
