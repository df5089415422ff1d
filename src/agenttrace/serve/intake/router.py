"""``POST /v1/traces``: spans of any program that OpenTelemetry knows, acknowledged once they are on the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from agenttrace.run.catalog.config import usable_token
from agenttrace.serve.access.gate import address_of, needs_login
from agenttrace.serve.auth import INTAKE_SENDERS
from agenttrace.serve.intake import responses as answers
from agenttrace.serve.intake.body import JSON, MOST_BYTES, PROTOBUF, READERS, coding, media_type, too_large, unpacked
from agenttrace.serve.intake.rejections import (
    BusyError,
    NotHereError,
    OnlyPostError,
    RefusedError,
    TooManyError,
    WrongTokenError,
)
from agenttrace.serve.intake.routes import LANGFUSE, LOGS, METRICS, TRACES
from agenttrace.serve.intake.sender import check_sender
from agenttrace.serve.problems import ProblemError

if TYPE_CHECKING:
    from agenttrace.serve.context import Context
    from agenttrace.serve.intake.lines import Taken

#: Of all bodies that are being received or wait to be written.
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
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Every span that was not refused is on the disk.", "content": _CONTENT},
    400: {"description": "The body is malformed."},
    401: {"description": "The token is missing or wrong; from this machine none is needed."},
    413: {"description": "The body is too large."},
    415: {"description": "Another content type or encoding."},
    503: {"description": "Not now: stopping, busy, or the disk is full. Nothing was kept; try again."},
}


def intake_router(context: Context) -> APIRouter:
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
        return answers.refused(OnlyPostError("Spans are sent here, with POST; they are shown by the console."), JSON)

    @router.post(METRICS, include_in_schema=False)
    @router.post(LOGS, include_in_schema=False)
    async def other_signals(request: Request) -> Response:
        kind = request.url.path.rpartition("/")[2]
        fix = f"Set OTEL_{kind.upper()}_EXPORTER=none where they come from."
        given = request.headers.get("content-type", "").partition(";")[0]
        return answers.refused(NotHereError(f"AgentTrace takes traces, not {kind}. {fix}"), given)

    return router


class Intake:
    """From a request to its answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._writer = context.intake
        self._token_always = needs_login(context.settings.serve)
        self._held = 0

    async def answer(self, request: Request) -> Response:
        """Take what the request brings."""
        kind = JSON
        try:
            kind = media_type(request.headers.get("content-type", ""))
            taken = await self._taken(request, kind)
        except RefusedError as error:
            return answers.refused(error, kind)
        counts = self._context.metrics.spans
        counts.labels("kept").inc(len(taken.lines))
        counts.labels("refused").inc(taken.refused)
        return answers.accepted(taken, kind)

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
            check_sender(request, token_always=self._token_always, token=self._token)
        except WrongTokenError:
            try:
                await self._context.access.refusals.wrong(address_of(request.scope), "intake")
            except ProblemError as error:
                raise TooManyError(error.detail) from None
            raise

    @property
    def _token(self) -> str | None:
        engine = self._context.engine
        return usable_token(os.environ) if engine is None else engine.internal_token
