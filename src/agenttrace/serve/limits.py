"""Middleware around every request: limits its body, answers unexpected errors with 500, and counts requests."""

from __future__ import annotations

import logging

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenttrace.serve import console
from agenttrace.serve.access.paths import INTAKE, TEAM
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import ProblemError

logger = logging.getLogger(__name__)

#: The status in the metrics of a request whose client has gone; never sent.
_GONE = 499
#: The page's files, and unknown paths.
_LABELS = {console.PATH: "other"}


class Limits:
    """ASGI middleware, without Starlette's helper class, which costs a task for each request."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, metrics: Metrics) -> None:
        self._app = app
        self._most = max_body_bytes
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._handle(scope, receive, noting)
        except ClientDisconnect:
            # There is no client to answer, and no error.
            status = status or _GONE
        except Exception as error:
            logger.error("a request failed: %s", type(error).__name__, exc_info=error)
            if status:
                raise
            failure = ProblemError(500, "Something went wrong in the server; its log says more.")
            await failure.response()(scope, receive, noting)
        finally:
            # The path as it was declared, not a label for each job id.
            route = getattr(scope.get("route"), "path", console.PATH)
            self._metrics.requests.labels(_LABELS.get(route, route), scope["method"], str(status)).inc()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in INTAKE or scope["path"].startswith(TEAM):
            # Spans and rows have other limits and another format of errors.
            await self._app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > self._most:
            await self._too_large().response()(scope, receive, send)
            return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                if size > self._most:
                    raise self._too_large()
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> ProblemError:
        # The server would take the rest of the body for the next request.
        return ProblemError(413, f"The body is larger than {self._most} bytes.", headers={"Connection": "close"})
