"""Runs the application on uvicorn inside the caller's loop, until it is stopped.

The caller handles signals. At the end no new connection is accepted, open streams may finish for a while, and the
others end with an error event; when ``serve`` returns, everything that was streamed is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI

from agenttrace.serve.connections import connections
from agenttrace.serve.context import ServerContext

if TYPE_CHECKING:
    from agenttrace.run.chat.turn import ChatService

#: For the last bytes of streams that were ended.
_GRACE = 5.0
_BACKLOG = 2048


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: the caller handles signals."""
        yield


async def serve(
    app: FastAPI,
    host: str,
    port: int,
    stop: asyncio.Event,
    *,
    drain_seconds: float = 30.0,
    client_seconds: float = 20.0,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until ``stop`` is set, then drain; ``on_listening`` gets the address. Raises OSError if it is in use.

    ``client_seconds``: how long a client may take to send a request.
    """
    listener = _bound(host, port)
    config = uvicorn.Config(
        app,
        loop="none",
        lifespan="off",
        ws="none",
        http=connections(client_seconds),
        log_config=None,
        # A line for each request would have its query, which may be private.
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=int(drain_seconds + _GRACE) + 1,
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]), name="http server")
    try:
        await _started(server, running)
        if on_listening is not None:
            on_listening(_url(host, listener))
        await _until(stop, running)
    finally:
        await _ended(app, server, running, drain_seconds)
        listener.close()


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _url(host: str, listener: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


async def _started(server: uvicorn.Server, running: asyncio.Task[None]) -> None:
    while not server.started and not running.done():
        await asyncio.sleep(0.005)
    if running.done():
        await running


async def _until(stop: asyncio.Event, running: asyncio.Task[None]) -> None:
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((stopping, running), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()


async def _ended(app: FastAPI, server: uvicorn.Server, running: asyncio.Task[None], drain_seconds: float) -> None:
    context: ServerContext = app.state.context
    chat: ChatService | None = app.state.chat
    context.life.stopping = True
    server.should_exit = True
    # Open live streams would keep the server from stopping.
    context.hub.close()
    if chat is not None:
        await chat.drain(drain_seconds)
    try:
        await running
    finally:
        context.close()
