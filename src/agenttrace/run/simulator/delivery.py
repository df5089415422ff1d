"""Ways to send an answer: whole, frame by frame, or cut off on purpose."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence

from aiohttp import web

JSON_TYPE = "application/json;charset=UTF-8"
SSE_TYPE = "text/event-stream;charset=UTF-8"

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
    for frame in frames:
        await asyncio.sleep(delay)
        await response.write(frame)
    if ends:
        await response.write_eof()
    return response


async def half_body(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """The first half of a body, with the full length in its header."""
    response = web.StreamResponse(headers={"Content-Type": JSON_TYPE, "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    return response


def close(request: web.BaseRequest) -> None:
    """Close the connection after the bytes that were written."""
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
