"""``POST /v1/traces``: spans of any program that OpenTelemetry knows, acknowledged once they are on the disk."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request, Response
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from starlette.datastructures import Headers

from agenttrace.run.catalog.config import usable_token
from agenttrace.serve.access.gate import address_of, authorization, came_by_proxy, needs_login
from agenttrace.serve.access.hosts import host_of
from agenttrace.serve.access.paths import LANGFUSE, LOGS, METRICS, TRACES
from agenttrace.serve.auth import INTAKE_SENDERS
from agenttrace.serve.intake.body import JSON, MOST_BYTES, PROTOBUF, READERS, coding, media_type, too_large, unpacked
from agenttrace.serve.intake.rejections import BusyError, IntakeError, NoTokenError, WrongSenderTokenError
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
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "An `ExportTraceServiceRequest`; `Content-Encoding: gzip` and `deflate` are understood.",
        "content": _CONTENT,
    }
}
#: For a sender without a valid token.
_FIX = "Send the header Authorization: Bearer TOKEN (OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN)"
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Every span that was not refused is on the disk.", "content": _CONTENT},
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
        openapi_extra=_BODY | INTAKE_SENDERS,
    )
    @router.post(LANGFUSE, include_in_schema=False)
    async def traces(request: Request) -> Response:
        return await intake.answer(request)

    @router.get(TRACES, include_in_schema=False)
    async def looking(request: Request) -> Response:
        detail = "Spans are sent here, with POST; they are shown by the console."
        return _refused(IntakeError(detail, 405, 12, {"Allow": "POST"}), JSON)

    @router.post(METRICS, include_in_schema=False)
    @router.post(LOGS, include_in_schema=False)
    async def other_signals(request: Request) -> Response:
        kind = request.url.path.rpartition("/")[2]
        fix = f"Set OTEL_{kind.upper()}_EXPORTER=none where they come from."
        given = request.headers.get("content-type", "").partition(";")[0]
        return _refused(IntakeError(f"AgentTrace takes traces, not {kind}. {fix}", 501, 12), given)

    return router


class Intake:
    """Receives requests within limits, and answers them."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._writer = context.intake
        self._token_always = needs_login(context.settings.serve)
        self._held = 0

    async def answer(self, request: Request) -> Response:
        """Read the spans of a request, and answer it."""
        kind = JSON
        try:
            kind = media_type(request.headers.get("content-type", ""))
            taken = await self._taken(request, kind)
        except IntakeError as error:
            return _refused(error, kind)
        counts = self._context.metrics.spans
        counts.labels("kept").inc(len(taken.lines))
        counts.labels("refused").inc(taken.refused)
        return _accepted(taken, kind)

    async def _taken(self, request: Request, kind: str) -> Taken:
        await self._check(request)
        if self._context.life.stopping:
            raise BusyError("The server is stopping.")
        how = coding(request.headers.get("content-encoding", ""))
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > MOST_BYTES:
            raise too_large()
        read = READERS[kind]
        parts: list[bytes] = []
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                self._held += len(part)
                if size > MOST_BYTES:
                    raise too_large()
                if self._held > _MOST_HELD:
                    raise BusyError("Too much is being received at once.")
                parts.append(part)
            return await self._writer.take(lambda: read(unpacked(b"".join(parts), how)))
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
        raise NoTokenError("Spans from other machines need a token: set INTERNAL_API_TOKEN where AgentTrace runs.")
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
    """200: all spans but those that were refused are on disk; those are counted, and must not be sent again."""
    if media_type == JSON:
        partial = {"rejectedSpans": str(taken.refused), "errorMessage": taken.reason}
        return Response(msgspec.json.encode({"partialSuccess": partial} if taken.refused else {}), 200, {}, JSON)
    answer = otlp.ExportTraceServiceResponse()
    if taken.refused:
        partial_success = otlp.ExportTracePartialSuccess(rejected_spans=taken.refused, error_message=taken.reason)
        answer.partial_success.CopyFrom(partial_success)
    return Response(answer.SerializeToString(), 200, {}, PROTOBUF)


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
