"""Around every request: its body has a limit, an unforeseen error has a proper end, and all of it is counted."""

from __future__ import annotations

import logging

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenttrace.serve import console
from agenttrace.serve.access.paths import INTAKE
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.problems import ProblemError, problem

logger = logging.getLogger(__name__)

#: What the count of requests says of one whose client has gone before it was whole; never sent.
_GONE = 499
#: The page's files, and whatever else somebody tries.
_LABELS = {console.PATH: "other"}


class Limits:
    """ASGI middleware; written without Starlette's helper class, which would cost a task for each request."""

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
            # Nobody is there to be answered, and nothing is wrong here.
            status = status or _GONE
        except Exception as error:
            logger.error("a request failed: %s", type(error).__name__, exc_info=error)
            if status:
                raise
            await problem(500, "Something went wrong in the server; its log says more.")(scope, receive, noting)
        finally:
            # The path as it was declared: a label for each job id would never end.
            route = getattr(scope.get("route"), "path", console.PATH)
            self._metrics.requests.labels(_LABELS.get(route, route), scope["method"], str(status)).inc()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in INTAKE:
            # Spans come in larger portions, and their senders want errors of another kind.
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
        # What was not read yet would be taken for the next request.
        return ProblemError(413, f"The body is larger than {self._most} bytes.", headers={"Connection": "close"})
