"""Clients that keep the server waiting are disconnected, and never keep others waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agenttrace.serve import connections
from serve.intake_rig import Intake, intake

_HEAD = (
    b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 65536\r\n\r\n"
)
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the body of a test against a server with little patience."""

    def run(body: Callable[[Intake], Awaitable[None]], seconds: float = 0.3) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), intake(tmp_path / "home", client_timeout_seconds=seconds) as server:
                await body(server)

        asyncio.run(main())

    return run


async def connected(server: Intake, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(sent)
    return reader, writer


async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What the server has to say until it disconnects."""
    found = b""
    with suppress(ConnectionError):
        found = await reader.read()
    writer.close()
    return found


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", False),
        (b"\r\n", False),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", True),
        (_HEAD, True),
        (_HEAD + b"[", True),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /", True),
    ],
)
def test_half_a_request(run: Run, sent: bytes, answered: bool) -> None:
    """A connection on which a request does not go on is closed; a request that was begun is answered with 408."""

    async def body(server: Intake) -> None:
        answer = await rest(*await connected(server, sent))
        assert (b" 408 " in answer) is answered

    run(body)


def test_a_header_that_never_ends(run: Run) -> None:
    """A client that sends a byte now and then is cut off all the same."""

    async def body(server: Intake) -> None:
        reader, writer = await connected(server, b"GET / HTTP/1.1\r\n")

        async def drip() -> None:
            while True:
                writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        answer = await rest(reader, writer)
        # Bytes that arrive after the end make the system forget an answer that was not read yet.
        assert b" 408 " in answer or not answer
        dripping.cancel()

    run(body)


def test_a_body_in_no_hurry(run: Run) -> None:
    """A body that keeps arriving may take longer than the deadline of a header."""

    async def body(server: Intake) -> None:
        reader, writer = await connected(server, _HEAD)
        for part in (b'{"resourceSpans":[]', *[b" " * 16_128] * 4):
            await asyncio.sleep(0.3)
            writer.write(part)
        writer.write(b" " * (65_536 - 19 - 4 * 16_128 - 1) + b"}")
        assert b" 200 " in await reader.readline()
        writer.close()

    run(body, 1.0)


def test_a_header_beyond_all_measure(run: Run) -> None:
    """A header that grows without end is refused."""

    async def body(server: Intake) -> None:
        reader, writer = await connected(server, b"GET / HTTP/1.1\r\nX-A: " + b"x" * connections.MOST_HEADER_BYTES)
        assert b" 431 " in await rest(reader, writer)

    run(body, 20.0)


def test_many_that_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit those that have waited longest are closed, and whole requests are answered meanwhile."""
    monkeypatch.setattr(connections, "MOST_WAITING", 5)

    async def body(server: Intake) -> None:
        async with AsyncExitStack() as stack:
            held = [await connected(server, b"GET /") for _ in range(15)]
            for _, writer in held:
                stack.callback(writer.close)
            for number in range(8):
                assert b" 408 " in await held[number][0].read()
            async with server.http.get(f"{server.url}/healthz") as response:
                assert response.status == 200

    run(body, 60.0)
