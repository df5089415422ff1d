"""Chat users: they say something over HTTP, and listen to the end or hang up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

from faults.run.rig import Member, Rig
from serve.harness import CHAT, SseEvent, bearer, parse_sse


async def listen(rig: Rig, server: Member, message: str, *, user: str = "u1", **body: Any) -> list[SseEvent]:  # noqa: ANN401
    """All events of a turn; fewer than it should have where the server went away."""
    heard = b""
    with suppress(aiohttp.ClientError):
        async with speaking(rig, server, message, user=user, **body) as response:
            async for piece in response.content.iter_any():
                heard += piece
    whole, _, _ = heard.rpartition(b"\n\n")
    return parse_sse(whole)


@asynccontextmanager
async def speaking(
    rig: Rig,
    server: Member,
    message: str,
    *,
    user: str = "u1",
    **body: Any,  # noqa: ANN401
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A turn that has begun; leaving it closes the connection."""
    response = await rig.http.post(server.url + CHAT, json={"message": message, **body}, headers=bearer(user))
    try:
        assert response.status == 200, await response.text()
        yield response
    finally:
        response.close()


async def hang_up(rig: Rig, server: Member, message: str, *, after: float, user: str = "u1") -> None:
    """Say something and close the connection so many seconds later, whatever has come by then."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = f'{{"message": "{message}"}}'.encode()
    head = [f"POST {CHAT} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    head += ["Content-Type: application/json", *(f"{name}: {value}" for name, value in bearer(user).items())]
    try:
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        await writer.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(after):
                while await reader.read(4096):
                    pass
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
