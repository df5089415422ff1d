"""The service of rules while files change under it: settings, the store, the disk."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from agenttrace.cli import rules_run
from agenttrace.config import Settings, load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.rules import service
from agenttrace.rules.actions.chain import ChainStarter
from agenttrace.rules.engine import RuleEngine
from agenttrace.rules.runner import ActionRunner
from agenttrace.store.current import StoreSource
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.store import SqliteStore
from rules.rig import Rig

ACTIONS = """
[actions.hook]
type = "webhook"
url = "{url}"
allow_private = true
"""
RULE = """
[rules.{name}]
on = "tool.failed"
start = "all"
max_per_day = 1000
do = ["hook"]
"""


class Service:
    """The service in this process, a receiver, and logs that are recorded when a test says so."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home / "agenttrace.toml"
        self.got: list[dict[str, object]] = []
        self.keys: list[str] = []
        self.rig: Rig
        self.failed = 0

    def write(self, *names: str, text: str = "") -> None:
        """The settings file, with these rules."""
        self.file.write_text(ACTIONS.format(url=self.url) + "".join(RULE.format(name=name) for name in names) + text)

    def fail(self) -> None:
        """A tool fails, and that is recorded."""
        self.failed += 1
        self.rig.tool(f"c{self.failed}")

    async def until(self, count: int) -> None:
        """Until so many messages arrived, and no more."""
        for _ in range(600):
            if len(self.got) >= count:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        assert len(self.got) == count

    async def _receive(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers["Idempotency-Key"])
        self.got.append(await request.json())
        return web.Response()

    def run(self, scenario: Callable[[Service], Awaitable[None]]) -> None:
        """Run a test beside the service."""
        asyncio.run(self._run(scenario))

    async def _run(self, scenario: Callable[[Service], Awaitable[None]]) -> None:
        application = web.Application()
        application.router.add_post("/", self._receive)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        self.write("first")
        self.rig = Rig(self.home.parent, {}, home=self.home)
        self.rig.write("turn.begin", turn=1, id="t1")
        rules_run.register_rules(load_settings())
        stop = asyncio.Event()
        serving = asyncio.create_task(rules_run.keep_running(load_settings(), stop))
        try:
            await scenario(self)
        finally:
            stop.set()
            await serving
            self.rig.close()
            await runner.cleanup()


@pytest.fixture
def running(home: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service that notices everything quickly."""
    monkeypatch.setattr(service, "TROUBLE_SECONDS", 0.1)
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(rules_run, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr("agenttrace.cli.child_process._CHECK_SECONDS", 0.05)
    return Service(home)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections of the service to its stores."""
    found: list[sqlite3.Connection] = []
    make = rules_run.make_engine

    def kept(
        settings: Settings, store: RuleStore, chains: ChainStarter, team: StoreSource | None = None
    ) -> tuple[RuleEngine, ActionRunner]:
        assert isinstance(store, SqliteStore)
        found.append(store.connection)
        return make(settings, store, chains, team)

    monkeypatch.setattr(rules_run, "make_engine", kept)
    return found


def test_settings_that_change(running: Service, caplog: pytest.LogCaptureFixture) -> None:
    """A file that cannot be read leaves the rules as they were; rules come, go, and get other names."""
    caplog.set_level(logging.WARNING)

    async def scenario(it: Service) -> None:
        it.fail()
        await it.until(1)
        it.file.write_text(it.file.read_text() + "\n[rules.broken]\non = 'no.such.event'")
        await asyncio.sleep(0.3)
        assert "the rules stay as they were" in caplog.text
        assert "rules.broken.on" in caplog.text
        it.fail()
        await it.until(2)
        it.write("first", "second")
        await asyncio.sleep(0.3)
        it.fail()
        # A new rule looks back.
        await it.until(6)
        it.write("renamed")
        await asyncio.sleep(0.3)
        it.fail()
        await it.until(10)
        it.write()
        await asyncio.sleep(0.3)
        it.fail()
        await it.until(10)
        (it.home / "rules.toml").write_text(RULE.format(name="console"))
        await asyncio.sleep(0.3)
        it.fail()
        await it.until(16)

    running.run(scenario)
    fired = Counter(str(each["rule"]) for each in running.got)
    assert fired == {"first": 3, "second": 3, "renamed": 4, "console": 6}


def test_masks_and_prices_that_change(running: Service) -> None:
    """Messages are masked by the patterns of now, and sessions cost what the prices of now say."""
    mask = '\n[export]\nmask = ["shell-[0-9]+"]\n'
    prices = '\n[prices."own-model"]\ncurrency = "USD"\ninput = 1000000\noutput = 1000000\n'

    async def scenario(it: Service) -> None:
        usage = {"input_tokens": 5, "output_tokens": 5}
        named = {"turn": 1, "id": "1.1", "model": "own-model", "response": "r"}
        it.rig.write("step.begin", **named)
        it.rig.write("step.end", **named, usage=usage)

        async def told(name: str, count: int) -> tuple[str, object]:
            it.rig.tool(name, name=name)
            await it.until(count)
            event: Any = cast("list[Any]", it.got[-1]["events"])[0]
            return event["facts"]["tool"], event["session"]["cost"]

        assert await told("shell-1", 1) == ("shell-1", None)
        it.write("first", text=mask + prices)
        await asyncio.sleep(0.3)
        tool, cost = await told("shell-2", 2)
        assert tool.startswith("[masked:")
        assert cost == 10.0
        (it.home / "prices.toml").write_text("")
        await asyncio.sleep(0.3)
        assert (await told("plain", 3))[1] == 10.0

    running.run(scenario)


def test_a_store_that_is_locked(running: Service, stores: list[sqlite3.Connection]) -> None:
    """Deciding, and even a change of the settings, wait until the other process is done."""

    async def scenario(it: Service) -> None:
        it.fail()
        await it.until(1)
        other = connect(it.home / "agenttrace.db")
        it.rig.write("tool.begin", id="late", name="shell", arguments={})
        it.rig.write("tool.end", id="late", status="error", result="x")
        it.rig.record()
        stores[0].execute("PRAGMA busy_timeout = 20")
        other.execute("BEGIN IMMEDIATE")
        it.write("first", "second")
        await asyncio.sleep(0.5)
        other.execute("ROLLBACK")
        other.close()
        # The rule that came meanwhile is asked, too, and looks back.
        await it.until(4)
        it.fail()
        await it.until(6)

    running.run(scenario)
    assert len(set(running.keys)) == 6


def test_a_full_disk(running: Service, stores: list[sqlite3.Connection], caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be stored now is decided later, once; what was delivered meanwhile has the same key again."""

    async def scenario(it: Service) -> None:
        it.fail()
        await it.until(1)
        for call in range(400):
            it.rig.write("tool.begin", id=f"many{call}", name="shell", arguments={})
            it.rig.write("tool.end", id=f"many{call}", status="error", result="x")
        it.rig.record()
        # The smallest number that SQLite takes is the size of the file.
        stores[0].execute("PRAGMA max_page_count = 1")
        await asyncio.sleep(0.5)
        stores[0].execute("PRAGMA max_page_count = 1000000")
        for _ in range(600):
            if len(set(it.keys)) == 401:
                break
            await asyncio.sleep(0.02)

    running.run(scenario)
    assert len(set(running.keys)) == 401
    assert "full" in caplog.text


def test_a_store_that_is_replaced(running: Service) -> None:
    """Another file in its place, recorded anew from the logs: what fired does not fire again, the rest does."""

    async def scenario(it: Service) -> None:
        it.fail()
        it.fail()
        await it.until(2)
        it.rig.recorder.close()
        for path in it.home.glob("agenttrace.db*"):
            path.unlink()
        it.rig.recorder = Recorder(it.rig.settings, paths=[str(it.rig.logs)])
        it.rig.record()
        rules_run.register_rules(load_settings())
        it.fail()
        await it.until(3)
        it.fail()
        await it.until(4)

    running.run(scenario)
    assert len(set(running.keys)) == 4
