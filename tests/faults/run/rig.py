"""Servers and workers as processes of their own, on one database and against one simulator that the test holds."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

import aiohttp
import psycopg

import forked
from agenttrace.client import AsyncTriggerClient
from agenttrace.run.simulator import INTERNAL_TOKEN, Simulator, environment
from serve.harness import SECRET

T = TypeVar("T")
Role = Literal["serve", "worker"]

#: So long that a busy machine does not make a living process look dead, and so short that a test can wait for it.
TAKEOVER = 3.0
LOST_AFTER = 4.0
PATIENCE = 90.0
PLENTY = 10**9

_marks = count(1)
#: Nothing in the way of the load, and short times for everything that is waited for.
_DEFAULTS: Mapping[str, object] = {
    "takeover_seconds": TAKEOVER,
    "lost_after_seconds": LOST_AFTER,
    "drain_seconds": 10.0,
    "daily_tokens": PLENTY,
    "monthly_tokens": PLENTY,
    "store_calls_per_hour": 1_000_000,
    "user_calls_per_minute": 1_000_000,
    "failure_threshold": 1_000_000,
}


class Member:
    """A process of the product."""

    def __init__(self, role: Role, process: subprocess.Popen[bytes], log: Path) -> None:
        self.role, self.process, self.log = role, process, log
        #: Where a server listens.
        self.url = ""

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        """What it has written to its log."""
        return self.log.read_text(errors="replace")

    async def announced(self) -> None:
        """Until it says that it is ready."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), PATIENCE)
        assert line, f"the {self.role} has not started: {self.said()}"
        self.url = json.loads(line)["url"] or ""

    async def kill(self) -> None:
        """SIGKILL: no handler, no flush, no goodbye."""
        if self.is_running:
            self.process.kill()
        if self.process.stdout is not None and not self.process.stdout.closed:
            await asyncio.to_thread(self.process.communicate)

    async def stop(self) -> int:
        """SIGTERM; the exit code, once it has left."""
        self.process.terminate()
        await asyncio.to_thread(self.process.communicate, timeout=PATIENCE)
        assert self.process.returncode is not None
        return self.process.returncode

    def freeze(self) -> None:
        """SIGSTOP: alive, and deaf and dumb."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        self.process.send_signal(signal.SIGCONT)


class Rig:
    """One database, one simulator, and as many processes as are started."""

    def __init__(self, home: Path, url: str, simulator: Simulator, http: aiohttp.ClientSession) -> None:
        self.home, self.url, self.simulator, self.http = home, url, simulator, http
        self.members: list[Member] = []
        self.settings: dict[str, object] = dict(_DEFAULTS)

    # -- processes --------------------------------------------------------------------------------------------

    @property
    def environ(self) -> dict[str, str]:
        """What the processes are told; nothing of whoever runs the tests but where programs are."""
        settings = {f"AGENTTRACE_RUN_{name.upper()}": str(value) for name, value in self.settings.items()}
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home.parent),
            "AGENTTRACE_HOME": str(self.home),
            "AGENTTRACE_DATABASE_URL": self.url,
            "AGENTTRACE_JWT_SECRET": SECRET,
            "AGENTTRACE_SERVE_PORT": "0",
            **settings,
            **environment(self.simulator.base_url),
        }

    async def start(self, *roles: Role) -> list[Member]:
        """Start processes side by side; all of them are ready then."""
        started = [await self._launched(role) for role in roles]
        await asyncio.gather(*(member.announced() for member in started))
        return started

    async def _launched(self, role: Role) -> Member:
        log = self.home.parent / f"{role}-{len(self.members)}.log"
        with log.open("wb") as errors:
            command = [sys.executable, "-m", "agenttrace.cli.main", role, "--json"]
            process = forked.popen(command, env=self.environ, stdout=subprocess.PIPE, stderr=errors)
        member = Member(role, process, log)
        self.members.append(member)
        return member

    async def end(self) -> None:
        """Nothing that was started here goes on."""
        for member in self.members:
            await member.kill()

    # -- events -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def client(self, server: Member, **options: Any) -> AsyncIterator[AsyncTriggerClient]:  # noqa: ANN401
        """A client of one server; options as the client has them."""
        async with AsyncTriggerClient(server.url, INTERNAL_TOKEN, **{"timeout": 60.0, **options}) as client:
            yield client

    async def accepted(self, server: Member, number: int, *, event: str = "consumption", site: int = 1) -> list[int]:
        """Report so many events, each of a member of its own; their jobs."""
        async with self.client(server) as client:
            results = await asyncio.gather(*(client.trigger(event, site, *new_event()) for _ in range(number)))
        assert {result.status for result in results} == {"pending"}
        return [result.trigger_job_id for result in results]

    # -- what is in the database ------------------------------------------------------------------------------

    async def rows(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        """What a query gives, as soon as the database is there."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
                    return await (await connection.execute(sql.encode(), params)).fetchall()
            except psycopg.OperationalError:
                assert time.monotonic() < until, "the database does not come back"
                await asyncio.sleep(0.05)

    async def eventually(self, sql: str, expected: object, *params: object) -> None:
        """Until a query gives this."""
        found: object = None
        until = time.monotonic() + PATIENCE
        while (found := await self.rows(sql, *params)) != expected:
            assert time.monotonic() < until, f"{found} instead of {expected}\n{self.told()}"
            await asyncio.sleep(0.05)

    async def ended(self, job_ids: Iterable[int]) -> dict[int, str]:
        """How the jobs have ended, once all have, and nothing is left in the queue."""
        wanted = list(job_ids)
        open_jobs = "SELECT id, status FROM biz.ai_trigger_jobs WHERE id = ANY(%s) AND status IN ('pending', 'running')"
        await self.eventually(open_jobs, [], wanted)
        await self.eventually("SELECT id, status::text FROM agenttrace_queue.procrastinate_jobs", [])
        return dict(await self.rows("SELECT id, status FROM biz.ai_trigger_jobs WHERE id = ANY(%s)", wanted))

    async def closed(self) -> None:
        """Until no call is open in the run log."""
        await self.eventually(
            "SELECT id, app_type, step FROM biz.ai_run_logs WHERE status IN ('pending', 'running')", []
        )

    async def called(self, number: int) -> None:
        """Until the simulator has got so many calls."""
        await until(lambda: len(self.simulator.calls) >= number, lambda: f"{len(self.simulator.calls)} calls")

    def told(self) -> str:
        """The last lines of all logs, for whoever has to find out why a test failed."""
        return "\n".join(f"{member.log.name}: {member.said()[-1500:]}" for member in self.members)


def new_mark() -> int:
    """The number of a member that no other event is about."""
    return next(_marks)


def new_event() -> tuple[int, dict[str, int]]:
    """The member and the payload of an event like no other."""
    mark = new_mark()
    return mark, marked(mark)


def marked(mark: int) -> dict[str, int]:
    """A payload by which the prompts of an event can be told from those of all others; with a coach: five steps."""
    return {"coach_id": 7, "mark": mark}


async def until(condition: Callable[[], bool], shown: Callable[[], object] = str, seconds: float = PATIENCE) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it never became so: {shown()}"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def open_rig(root: Path, url: str, simulator: Simulator | None = None, **settings: object) -> AsyncIterator[Rig]:
    """A rig under ``root``; whatever it started is gone at the end, also when the test has failed."""
    home = root / "home"
    home.mkdir(mode=0o700, parents=True)
    async with (
        simulator or Simulator() as upstream,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE)) as http,
    ):
        rig = Rig(home, url, upstream, http)
        rig.settings |= settings
        try:
            yield rig
        finally:
            await rig.end()


def run_rig(
    root: Path,
    url: str,
    test: Callable[[Rig], Awaitable[None]],
    simulator: Callable[[], Simulator] = Simulator,
    **settings: object,
) -> None:
    """Run the body of a test with a rig of its own."""

    async def main() -> None:
        async with open_rig(root, url, simulator(), **settings) as rig:
            await test(rig)

    asyncio.run(main())


class Lasting:
    """A rig for all tests of a module, and the loop that it lives in."""

    def __init__(self, runner: asyncio.Runner, rig: Rig) -> None:
        self._runner, self.rig = runner, rig

    def run(self, work: Awaitable[T]) -> T:
        async def main() -> T:
            return await work

        return self._runner.run(main())


@contextmanager
def lasting_rig(root: Path, url: str, *roles: Role, **settings: object) -> Iterator[Lasting]:
    """A rig with these processes that outlives a test."""
    with asyncio.Runner() as runner:
        context = open_rig(root, url, None, **settings)
        rig = runner.run(context.__aenter__())
        try:
            runner.run(rig.start(*roles))
            yield Lasting(runner, rig)
        finally:
            runner.run(context.__aexit__(None, None, None))
