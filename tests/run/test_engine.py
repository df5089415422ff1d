"""The engine: put together from the settings, with the variables or without, and with a database that it revives."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agenttrace.config import load_settings
from agenttrace.run import engine as engine_module
from agenttrace.run.engine import Engine, open_engine
from agenttrace.run.errors import DashScopeApiError
from agenttrace.run.jobs.dispatch import fire_event
from agenttrace.run.postgres.pool import AWAY
from agenttrace.run.simulator import BUILTIN_APP_IDS, Simulator, environment, faults
from agenttrace.run.states import CircuitState
from run.world import call


def with_engine(check: Callable[[Engine], Awaitable[None]], environ: dict[str, str], **flags: object) -> None:
    async def main() -> None:
        settings = load_settings(flags=flags)
        async with open_engine(settings, "test", environ=environ) as engine:
            await check(engine)

    asyncio.run(main())


def test_without_variables_everything_but_calls_is_there(home: Path, database_url: str) -> None:
    """What is missing is named; triggers are accepted and wait, budget and breakers can be looked at."""

    async def check(engine: Engine) -> None:
        assert "DASHSCOPE_API_KEY" in engine.missing
        assert (engine.internal_token, engine.calls, engine.chat) == ("", None, None)
        assert (await fire_event("dws_completed", 1)).status == "pending"
        assert (await engine.budget.check_budget()).allowed
        assert await engine.breaker.states() == []

    with_engine(check, {}, **{"database.url": database_url})


def test_breakers_and_retries_are_settings(home: Path, database_url: str) -> None:
    """``[apps.NAME.breaker]`` and ``run.retries`` reach the guards and the client; what is left out is as for all."""
    (home / "agenttrace.toml").write_text("""
[run]
failure_threshold = 4
retries = 1
retry_seconds = 0.01

[apps.mine]
type = "my_app"
app_id = "mine"
breaker = { recovery_seconds = 7.5 }
""")

    async def check(engine: Engine) -> None:
        for _ in range(4):
            assert await engine.breaker.check("mine") is CircuitState.CLOSED
            await engine.breaker.record_failure("mine")
        state, seconds = await engine.breaker.ask("mine")
        assert state is CircuitState.OPEN
        assert 6 < seconds <= 7.5
        assert engine.calls is not None
        with pytest.raises(DashScopeApiError):
            await engine.calls.call(call(app_id=BUILTIN_APP_IDS["app3_clue"]))
        assert len(simulator.calls) == 2

    simulator = Simulator()

    async def main() -> None:
        async with simulator:
            simulator.always(BUILTIN_APP_IDS["app3_clue"], faults.status("InternalError", http=500))
            settings = load_settings(flags={"database.url": database_url})
            async with open_engine(settings, "test", environ=environment(simulator.base_url)) as engine:
                await check(engine)

    asyncio.run(main())


def test_events_can_be_fired_only_while_an_engine_is_open(home: Path, database_url: str) -> None:
    """``fire_event`` belongs to the engine of its process, and says so when there is none."""

    async def check(engine: Engine) -> None:
        first = await fire_event("note_created", 1, 2, {"note": "x"})
        assert (await fire_event("note_created", 1, 2)).duplicate_of == first.job_id
        assert (await fire_event("note_created", 1, 2, is_forced=True)).status == "pending"

    with_engine(check, environment("http://127.0.0.1:1/api/v1"), **{"database.url": database_url})
    with pytest.raises(RuntimeError, match="engine is not open"):
        asyncio.run(fire_event("note_created", 1, 2))


def test_the_business_day_follows_the_settings(home: Path, database_url: str) -> None:
    """The time zone of the settings is the one that the database counts days in."""

    async def check(engine: Engine) -> None:
        late = await engine.database.one("SELECT biz.ai_business_day('2026-11-15T11:00:00Z')::text")
        assert late == ("2026-11-16",)

    with_engine(check, {}, **{"database.url": database_url, "run.timezone": "Pacific/Auckland"})


def test_a_database_of_our_own_that_dies_is_started_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep starts the server again, and what was committed is there."""
    monkeypatch.setattr(engine_module, "_SWEEP_SECONDS", 0.1)

    async def check(engine: Engine) -> None:
        accepted = await fire_event("dws_completed", 1)
        pid = int((home / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        count = "SELECT count(*) FROM biz.ai_trigger_jobs WHERE id = %s"
        with pytest.raises(AWAY):
            await engine.database.one("SELECT pg_sleep(60)")
        assert await engine.database.patiently(lambda: engine.database.one(count, [accepted.job_id])) == (1,)

    with_engine(check, {})
