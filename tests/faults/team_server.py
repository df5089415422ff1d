"""A team's server as a process that is killed and started again, and the connection of machines to it, which breaks."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import forked
from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.serve.access.access_store import open_access
from faults import store_rig


class TeamServer:
    """``agenttrace team serve`` on 127.0.0.1."""

    def __init__(self, home: Path, target: str) -> None:
        self._home, self._target = home, target
        self._process: subprocess.Popen[bytes] | None = None
        #: The connection ends it in a thread of its own.
        self._changing = threading.Lock()
        self.port = 0
        ensure_home(self.settings)

    @property
    def settings(self) -> Settings:
        """Those of the server."""
        return load_settings({"AGENTTRACE_HOME": str(self._home), "HOME": str(self._home.parent)})

    def ensure(self) -> None:
        """Start it unless it runs."""
        with self._changing:
            self._start()

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        command = [*store_rig.CLI, "team", "serve", "--port", "0", "--store", self._target, "--json"]
        environ = store_rig.environ_of(self._home)
        told = self._home / "stderr.txt"
        with told.open("wb") as errors:
            self._process = forked.popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready, told.read_text()
        self.port = int(str(json.loads(ready)["url"]).rpartition(":")[2].strip("/"))

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it; by default it does not notice."""
        with self._changing:
            process, self._process = self._process, None
            if process is not None:
                process.send_signal(number)
                process.wait(60)
                assert process.stdout is not None
                process.stdout.close()

    def code(self, person: str) -> str:
        """What ``agenttrace team invite`` prints."""
        with open_access(self.settings) as access:
            return access.machines.invite(person)[0]


class Connection:
    """Stands between machines and the server: cuts requests, loses answers, and ends the server in between."""

    def __init__(self, server: TeamServer) -> None:
        self._server = server
        #: What happened to connections so far.
        self.happened: list[str] = []
        #: What happens to the next connection after so many bytes to the server.
        self.plan: tuple[str, int] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="connection", daemon=True)
        self._thread.start()
        self._listener = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def _run(self, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - what it returns
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop).result(60)

    def close(self) -> None:
        """Serve nothing any more."""
        self._listener.close()
        self._run(_ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plan, self.plan = self.plan or ("", 1 << 60), None
        try:
            there = await asyncio.open_connection("127.0.0.1", self._server.port)
        except OSError:
            writer.close()
            return
        lost = asyncio.Event()
        ways = [
            asyncio.create_task(self._forward(reader, there[1], plan, lost)),
            asyncio.create_task(_back(there[0], writer, lost)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for each in (writer, there[1]):
            each.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plan: tuple[str, int], lost: asyncio.Event
    ) -> None:
        what, left = plan
        while data := await reader.read(1 << 14):
            writer.write(data[: max(0, left)] if what in ("cut", "kill") else data)
            left -= len(data)
            await writer.drain()
            if left <= 0 and what:
                self.happened.append(what)
            if left <= 0 and what == "lose":
                lost.set()
            elif left <= 0 and what:
                if what == "kill":
                    await asyncio.to_thread(self._server.end)
                return


async def _back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
    while (data := await reader.read(1 << 14)) and not lost.is_set():
        writer.write(data)
        await writer.drain()


async def _awaited(work: Awaitable[Any]) -> Any:  # noqa: ANN401 - what it returns
    return await work


async def _ended() -> None:
    """End what is open."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    with suppress(Exception):
        await asyncio.gather(*others, return_exceptions=True)


#: What is called between the pages of a push.
Between = Callable[[], None]
