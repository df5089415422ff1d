"""Simulates many open pages: forty-nine HTTP clients repeat each request of a real page.

``python -m benchmarks.console_mirror CLIENTS`` reads lines of JSON: a request to make, ``{"end": N}`` when the page has
closed the request with that number, or ``{"report": true}``, which is answered with the requests since the last report.
Fifty Chromium pages would need more than two cores, and a page without CPU makes fewer requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec

#: Set by the client itself.
_OWN = {"host", "connection", "content-length"}


class Mirror:
    """The clients and their requests."""

    def __init__(self, clients: int, session: aiohttp.ClientSession) -> None:
        self._clients, self._session = clients, session
        #: Responses that do not end (streams).
        self._streams: dict[int, set[asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.counts = {"requests": 0, "failed": 0, "bytes": 0}

    def hear(self, line: dict[str, Any]) -> None:
        """Process one line of input."""
        if "end" in line:
            for task in self._streams.pop(line["end"], ()):
                task.cancel()
        elif "report" in line:
            streams = sum(map(len, self._streams.values()))
            state = {"streams": streams, "waiting": len(self._tasks) - streams}
            print(msgspec.json.encode(self.counts | state).decode(), flush=True)
            self.counts = dict.fromkeys(self.counts, 0)
        else:
            self._repeat(line)

    def _repeat(self, line: dict[str, Any]) -> None:
        for _ in range(self._clients):
            task = asyncio.create_task(self._ask(line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, line: dict[str, Any]) -> None:
        self.counts["requests"] += 1
        headers = {name: value for name, value in line["headers"].items() if name not in _OWN and name[0] != ":"}
        body = line["body"].encode() if line["body"] else None
        try:
            async with self._session.request(line["method"], line["url"], headers=headers, data=body) as answer:
                self.counts["failed"] += answer.status >= 400
                with self._streaming(line["number"], answer):
                    async for chunk in answer.content.iter_any():
                        self.counts["bytes"] += len(chunk)
        except (aiohttp.ClientError, TimeoutError):
            self.counts["failed"] += 1

    @contextlib.contextmanager
    def _streaming(self, number: int, answer: aiohttp.ClientResponse) -> Iterator[None]:
        task = asyncio.current_task()
        if task is None or answer.content_type != "text/event-stream":
            yield
            return
        self._streams.setdefault(number, set()).add(task)
        try:
            yield
        finally:
            self._streams.get(number, set()).discard(task)


async def _main(clients: int) -> None:
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    forever = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=forever, auto_decompress=False) as session:
        mirror = Mirror(clients, session)
        while line := await reader.readline():
            mirror.hear(msgspec.json.decode(line))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(int(sys.argv[1])))
