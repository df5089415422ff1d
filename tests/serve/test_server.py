"""The server's life: it listens at its address, stops without losing a message, and handles no signals."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest

from agenttrace.run.simulator import faults
from agenttrace.serve.app import create_app
from agenttrace.serve.server import serve

from .harness import CHAT, CHAT_APP, Stack, bearer, make_settings, parse_sse, run_with


async def opened(stack: Stack) -> tuple[aiohttp.ClientResponse, bytes]:
    """A chat stream whose first bytes have arrived."""
    response = await stack.http.post(stack.url + CHAT, json={"message": "你好"}, headers=bearer())
    return response, await response.content.readany()


def test_a_stop_lets_open_streams_finish(home: Path, database_url: str) -> None:
    """After the stop a stream continues to its ``done``; new connections are refused, and then the server returns."""

    async def body(stack: Stack) -> None:
        stack.sim.chunk_delay = 0.02
        response, begin = await opened(stack)
        stack.stop.set()
        rest = await response.read()
        assert parse_sse(begin + rest)[-1].kind == "done"
        await stack.serving
        assert stack.life.stopping
        with pytest.raises(aiohttp.ClientConnectionError):
            await stack.request("GET", "/healthz")

    run_with(home, database_url, body)


def test_a_stop_ends_streams_that_hang(home: Path, database_url: str) -> None:
    """When the time to drain is over, a stream that hangs is ended by one error event, and its call is written."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.hang(2))
        response, begin = await opened(stack)
        stack.stop.set()
        events = parse_sse(begin + await response.read())
        assert [event.kind for event in events if event.kind != "message"] == ["error"]
        assert events[-1].data["code"] == "stopping"
        await stack.serving
        rows = await stack.rows("SELECT status, error_message FROM biz.ai_run_logs")
        assert rows == [("failed", "the server is stopping")]

    run_with(home, database_url, body, drain=0.2)


def test_while_it_drains_no_new_turn_begins(home: Path, database_url: str) -> None:
    """On a connection that is still open, a new chat is 503, and ``/readyz`` says that the server stops."""

    async def body(stack: Stack) -> None:
        stack.life.stopping = True
        heard = await stack.chat()
        assert heard.status == 503
        assert heard.headers["Retry-After"] == "1"
        ready = await stack.request("GET", "/readyz")
        assert (ready.status, ready.json()["stopping"]) == (503, True)
        assert (await stack.request("GET", "/healthz")).status == 200

    run_with(home, database_url, body)


def test_a_taken_port_is_an_error_of_the_caller(home: Path, database_url: str) -> None:
    """A second server on the same port raises OSError and ends nothing."""

    async def body(stack: Stack) -> None:
        port = int(stack.url.rpartition(":")[2])
        app = create_app(stack.engine, make_settings(home, database_url))
        with pytest.raises(OSError, match="in use"):
            await serve(app, "127.0.0.1", port, asyncio.Event())
        assert (await stack.request("GET", "/healthz")).status == 200

    run_with(home, database_url, body)


def test_signals_stay_with_the_caller(home: Path, database_url: str) -> None:
    """A running server has changed no signal handler."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def body(stack: Stack) -> None:
        assert (await stack.request("GET", "/healthz")).status == 200
        # asyncio.run has its own handler for SIGINT while it runs.
        assert signal.getsignal(signal.SIGTERM) == before[1]

    run_with(home, database_url, body)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_cancelled_server_drains_as_well(home: Path, database_url: str) -> None:
    """When ``serve`` is cancelled instead of stopped, every open turn is written as well."""

    async def body(stack: Stack) -> None:
        stack.sim.script(CHAT_APP, faults.hang(2))
        response, _ = await opened(stack)
        stack.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stack.serving
        response.close()
        rows = await stack.rows("SELECT status, error_message FROM biz.ai_run_logs")
        assert rows == [("failed", "the server is stopping")]

    run_with(home, database_url, body, drain=0.2)
