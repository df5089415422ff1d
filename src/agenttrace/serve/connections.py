"""HTTP connections of slow clients: they have a deadline, and there is a limit to their number.

uvicorn closes connections that are idle between two requests, and waits for ever for the rest of a request that was
begun, or for the first byte of the first one. Here the whole header has to arrive within ``client_seconds``; a body has
as much time more as it takes at a rate that every network has.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from agenttrace.serve.problems import MEDIA_TYPE

#: Bytes a second; a body that arrives faster is never too slow.
SLOWEST_BODY = 8 << 10
#: Of the request line and all headers.
MOST_HEADER_BYTES = 64 << 10
#: Connections that wait for their client. Beyond that the one that has waited longest is closed.
MOST_WAITING = 400


class Connection(HttpToolsProtocol):
    """A connection with a deadline for its client: see ``connections``."""

    client_seconds: ClassVar[float]
    #: Those that wait for their client, the one that has waited longest first.
    waiting: ClassVar[dict[Connection, None]]

    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0
    _body_bytes = 0
    _header_bytes = 0
    #: Whether a request was begun, whether its header has arrived, and whether all of it has.
    _begun = _in_body = _whole = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for the client."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle data, and wait for more where the request is not whole."""
        in_body = self._in_body
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._begun and not self._whole:
            self._body_bytes += len(data) if in_body else 0
            self._header_bytes += 0 if self._in_body else len(data)
            if self._header_bytes > MOST_HEADER_BYTES:
                self._refuse(431, f"The header is larger than {MOST_HEADER_BYTES >> 10} KiB.")
                return
        if self._is_answering:
            self._stop_waiting()
        elif self._deadline is None:
            self._wait()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._begun, self._in_body, self._whole = True, False, False
        self._header_bytes = self._body_bytes = 0

    def on_headers_complete(self) -> None:
        """The header has arrived; the body has another deadline."""
        super().on_headers_complete()
        self._in_body = True
        self._stop_waiting()

    def on_message_complete(self) -> None:
        """The request has arrived."""
        super().on_message_complete()
        self._whole = True

    @property
    def _is_answering(self) -> bool:
        """Whether the server is answering."""
        return self._whole and self.cycle is not None and not self.cycle.response_complete

    # -- waiting ----------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(self.client_seconds, self._check_deadline)
        self.waiting[self] = None
        if len(self.waiting) > MOST_WAITING:
            next(iter(self.waiting))._give_up()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.waiting.pop(self, None)

    def _check_deadline(self) -> None:
        """Close the connection after its deadline; it does not count while the server itself pauses reading."""
        until = self._since + self.client_seconds + self._body_bytes / SLOWEST_BODY
        if self.flow.read_paused:
            until = self.loop.time() + self.client_seconds
        if self.loop.time() >= until:
            self._give_up()
        else:
            self._deadline = self.loop.call_at(until, self._check_deadline)

    def _give_up(self) -> None:
        self._stop_waiting()
        answered = self._in_body and self.cycle is not None and self.cycle.response_started
        if self._begun and not self._whole and not answered:
            self._refuse(408, "The request took too long to arrive.")
        else:
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        """Answer in place of the application, which sees a disconnect."""
        title = STATUS_LINE[status].split(b" ", 2)[2].strip().decode()
        body = msgspec.json.encode({"title": title, "status": status, "detail": detail})
        head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def connections(client_seconds: float) -> type[Connection]:
    """The protocol class of one server."""
    return type("ServerConnection", (Connection,), {"client_seconds": client_seconds, "waiting": {}})
