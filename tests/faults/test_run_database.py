"""PostgreSQL goes away and comes back in the middle of everything: processes go on by themselves, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from agenttrace.run.postgres import EmbeddedPostgres
from agenttrace.run.postgres.pool import migrate
from faults.run.audit import audit, check_trace
from faults.run.chats import listen
from faults.run.rig import Lasting, Member, Rig, lasting_rig, new_event, until
from run.fixtures import execute
from serve.harness import CHAT, SseEvent, bearer, parse_sse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the server is not ours to kill there"),
]


@dataclass(frozen=True)
class Site:
    """A server and a worker on a PostgreSQL that can be restarted."""

    lasting: Lasting
    postgres: EmbeddedPostgres

    @asynccontextmanager
    async def down(self, how: signal.Signals) -> AsyncIterator[None]:
        """PostgreSQL is ended by this signal, and started again at the end of the block."""
        running = self.postgres._server()
        assert running is not None
        os.kill(running.pid, how)
        await until(lambda: self.postgres._server() is None)
        try:
            yield
        finally:
            await asyncio.to_thread(self.postgres.start)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("restarted")
    postgres = EmbeddedPostgres(root / "data")
    url = postgres.start()
    try:
        migrate(url)
        # Only a crash of the machine would show the difference.
        execute(url, "ALTER SYSTEM SET fsync = off")
        execute(url, "SELECT pg_reload_conf()")
        with lasting_rig(root, url, "serve", "worker") as lasting:
            yield Site(lasting, postgres)
    finally:
        postgres.stop()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_restart_in_the_middle_of_chains_and_chats(site: Site, how: signal.Signals) -> None:
    """Stopped or killed, and started again: the same processes end every accepted trigger exactly once and every chat
    with its answer, whether it began before or meanwhile, and the books agree."""
    site.lasting.run(_check(site, site.lasting.rig, how))


async def _check(site: Site, rig: Rig, how: signal.Signals) -> None:
    server = rig.members[0]
    rig.simulator.latency, rig.simulator.chunk_delay = 0.15, 0.1
    seen, before = len(rig.simulator.calls), len(await rig.rows("SELECT id FROM biz.ai_run_logs"))
    answered: set[int] = set()
    is_over = False

    async def report() -> None:
        async with rig.client(server, retries=5) as client:
            while not is_over:
                answered.add((await client.trigger("consumption", 1, *new_event())).trigger_job_id)
                await asyncio.sleep(0.1)

    talks = [asyncio.create_task(listen(rig, server, f"{how} {n}", user=f"{how}-{n}")) for n in range(5)]
    reports = [asyncio.create_task(report()) for _ in range(2)]
    await until(lambda: len(rig.simulator.calls) >= seen + 20 and len(answered) >= 4)
    async with site.down(how):
        await _noticed(rig, server)
        talks.append(asyncio.create_task(_insist(rig, server, f"{how}-meanwhile")))
        reports.append(asyncio.create_task(report()))
    known = len(answered)
    await until(lambda: len(answered) >= known + 4)
    is_over = True
    await asyncio.gather(*reports)
    heard = await asyncio.gather(*talks)
    assert [events[-1].kind for events in heard] == ["done"] * 6
    accepted = [row[0] for row in await rig.rows("SELECT id FROM biz.ai_trigger_jobs")]
    assert answered <= set(accepted)
    ended = await rig.ended(accepted)
    assert set(ended.values()) <= {"completed", "skipped_duplicate"}
    await rig.closed()
    logs = await audit(rig)
    assert {row.status for row in logs[before:]} == {"success"}
    assert all(member.is_running for member in rig.members)
    await check_trace(rig, logs)


async def _insist(rig: Rig, server: Member, user: str) -> list[SseEvent]:
    """Say something until the server can take it; before that, it says that it cannot."""
    while True:
        async with rig.http.post(server.url + CHAT, json={"message": "还在吗？"}, headers=bearer(user)) as response:
            if response.status == 200:
                return parse_sse(await response.read())
            assert response.status == 503


async def _noticed(rig: Rig, server: Member) -> None:
    """Until the server says that it cannot do its work."""
    while True:
        async with rig.http.get(server.url + "/readyz") as response:
            if response.status == 503:
                return
