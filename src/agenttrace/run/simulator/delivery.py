"""How an answer leaves the simulator: whole, frame by frame, or broken off on purpose."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence

from aiohttp import web

JSON_TYPE = "application/json;charset=UTF-8"
SSE_TYPE = "text/event-stream;charset=UTF-8"

#: So much may wait for a client that does not read; then the stream waits too.
_UNREAD_BYTES = 65_536

#: With this set, closing a socket sends a reset instead of an orderly end.
_NO_LINGER = struct.pack("ii", 1, 0)


def whole(body: bytes, *, http: int = 200, content_type: str = JSON_TYPE) -> web.Response:
    """A complete answer."""
    return web.Response(body=body, status=http, headers={"Content-Type": content_type})


def stream_at_once(frames: bytes) -> web.Response:
    """A stream without delays: all frames in one write, which costs a tenth of many."""
    response = whole(frames, content_type=SSE_TYPE)
    response.enable_chunked_encoding()
    return response


async def stream(
    request: web.BaseRequest, frames: Sequence[bytes], delay: float, *, ends: bool = True
) -> web.StreamResponse:
    """The frames, ``delay`` seconds before each; without ``ends`` the stream stays open."""
    response = web.StreamResponse(headers={"Content-Type": SSE_TYPE})
    response.enable_chunked_encoding()
    await response.prepare(request)
    pump = _Pump(request, frames, delay)
    try:
        await pump.done
    finally:
        pump.stop()
    if ends:
        await response.write_eof()
    return response


class _Pump:
    """Writes one frame a tick straight to the connection: a third less work than sleeping and writing in a task."""

    def __init__(self, request: web.BaseRequest, frames: Sequence[bytes], delay: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport, self._delay = request.transport, delay
        self._frames, self._sent = frames, 0
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._timer = self._loop.call_later(delay, self._tick)

    def stop(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        if self.done.done():
            # Cancelled, and the task that will stop this has not run yet.
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            self.done.set_exception(ConnectionResetError("the client hung up"))
            return
        if self._sent < len(self._frames) and transport.get_write_buffer_size() <= _UNREAD_BYTES:
            frame = self._frames[self._sent]
            transport.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            self._sent += 1
        if self._sent == len(self._frames):
            self.done.set_result(None)
        else:
            self._timer = self._loop.call_later(self._delay, self._tick)


async def half_body(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """The first half of a body whose full length was promised."""
    response = web.StreamResponse(headers={"Content-Type": JSON_TYPE, "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    return response


def close(request: web.BaseRequest) -> None:
    """Close the connection in order: what was written still arrives, and then nothing more."""
    if request.transport is not None:
        request.transport.close()


def reset(request: web.BaseRequest) -> None:
    """Reset the connection."""
    transport = request.transport
    if transport is None:
        return
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
