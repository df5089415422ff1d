"""Chains of rules as jobs of the run half: PostgreSQL, the simulator as provider, a worker, and its recording."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agenttrace.cli import chain_jobs
from agenttrace.cli.chain_jobs import ChainJobs
from agenttrace.cli.program import app
from agenttrace.cli.session_inputs import SessionInputs
from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.masking import Mask
from agenttrace.rules.actions.chain import LATER, Chain, Kept, Order
from agenttrace.rules.service import run_once
from agenttrace.run import availability
from agenttrace.run.simulator import BUILTIN_APP_IDS, Simulator, environment, faults
from agenttrace.store.questions import SessionFilter
from rules.rig import Rig
from run.fixtures import execute

APPS = ("session-review", "session-score")
REVIEW, SCORE = BUILTIN_APP_IDS["session_review"], BUILTIN_APP_IDS["session_score"]
FACTS = {"language": "en", "session": {"title": "Fix it", "turns": 2, "tools": 3, "errors": 1}}


def order(key: str = "k", apps: tuple[str, ...] = APPS) -> Order:
    return Order(key, apps, FACTS, lambda: "# A session")


def settings_at(home: Path, url: str, **run: object) -> Settings:
    flags = {f"run.{name}": value for name, value in run.items()}
    found = load_settings(
        {"HOME": str(home.parent), "AGENTTRACE_HOME": str(home)}, flags={"database.url": url, **flags}
    )
    ensure_home(found)
    return found


def with_jobs(tmp_path: Path, url: str, body: Callable[[ChainJobs, Simulator], Awaitable[None]], **run: object) -> None:
    """Run a test with a simulator that answers."""

    async def main() -> None:
        async with Simulator() as simulator:
            settings = settings_at(tmp_path / "home", url, retries=0, **run)
            async with ChainJobs(settings, environment(simulator.base_url)) as jobs:
                await body(jobs, simulator)

    asyncio.run(main())


def called(simulator: Simulator) -> list[str]:
    return [call.app_id for call in simulator.calls]


def test_a_chain_is_run_and_its_answers_come_back(tmp_path: Path, database_url: str) -> None:
    """Texts, tokens and the trace's session; a second order has the same, without a call."""

    async def body(jobs: ChainJobs, simulator: Simulator) -> None:
        first = await jobs.run(order())
        assert first.outcome == "done", first
        assert [answer.app for answer in first.answers] == list(APPS)
        assert json.loads(first.answers[1].text)["score"] == 8
        (tokens,) = execute(database_url, "SELECT sum(tokens_used) FROM biz.ai_run_logs")[0]
        assert first.tokens == tokens > 0
        assert str(first.session).startswith("rule-")
        assert await jobs.run(order()) == first
        assert called(simulator) == [REVIEW, SCORE]
        roles = execute(database_url, "SELECT role FROM biz.ai_processes")
        assert roles == [("rules",)]

    with_jobs(tmp_path, database_url, body)
    assert execute(database_url, "SELECT role FROM biz.ai_processes") == []


def test_the_database_is_closed_when_no_chain_is_due(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And opened again for the next one; it is never opened before the first."""
    monkeypatch.setattr(chain_jobs, "IDLE_SECONDS", 0.05)

    async def body(jobs: ChainJobs, simulator: Simulator) -> None:
        for key in ("a", "b"):
            assert execute(database_url, "SELECT role FROM biz.ai_processes") == []
            assert (await jobs.run(order(key))).outcome == "done"
            while execute(database_url, "SELECT role FROM biz.ai_processes"):
                await asyncio.sleep(0.05)
        assert len(simulator.calls) == 4

    with_jobs(tmp_path, database_url, body)


def test_changed_settings_are_those_of_the_next_chain(tmp_path: Path, database_url: str) -> None:
    """An application that is added while the rules run can be called at once."""

    async def body(jobs: ChainJobs, simulator: Simulator) -> None:
        missing = await jobs.run(order("a", ("mine",)))
        assert missing.outcome == "retry"
        assert "'mine' is no application" in missing.reason
        assert (await jobs.run(order("b"))).outcome == "done"
        home = tmp_path / "home"
        (home / "agenttrace.toml").write_text('[apps.mine]\ntype = "mine"\napp_id = "sim-session-summary"\n')
        jobs.use(settings_at(home, database_url))
        assert (await jobs.run(order("a", ("mine",)))).outcome == "done"

    with_jobs(tmp_path, database_url, body)


# -- what cannot be run now -------------------------------------------------------------------------------------------


def test_without_applications_no_database_is_touched(tmp_path: Path) -> None:
    """The reason names the variables; the database, which does not exist, is not asked."""

    async def body() -> None:
        async with ChainJobs(settings_at(tmp_path / "home", "postgresql://x@127.0.0.1:1/x"), {}) as jobs:
            result = await jobs.run(order())
        assert result.outcome == "retry"
        assert "session-review cannot be called" in result.reason
        assert "DASHSCOPE_APP_ID_SESSION_REVIEW" in result.reason
        assert "agenttrace apps" in result.reason

    asyncio.run(body())


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says what to install."""
    monkeypatch.setattr(availability, "is_installed", lambda: False)

    async def body() -> None:
        async with ChainJobs(settings_at(tmp_path / "home", "postgresql://x@127.0.0.1:1/x")) as jobs:
            result = await jobs.run(order())
        assert (result.outcome, result.reason) == ("retry", str(availability.NotInstalledError()))

    asyncio.run(body())


def test_without_a_database(tmp_path: Path) -> None:
    """One that cannot be reached is a reason to try again, not an error of the engine."""

    async def body() -> None:
        settings = settings_at(tmp_path / "home", "postgresql://x@127.0.0.1:1/x")
        async with ChainJobs(settings, environment("http://127.0.0.1:1/api/v1")) as jobs:
            result = await jobs.run(order())
        assert result.outcome == "retry"
        assert "127.0.0.1" in result.reason

    asyncio.run(body())


def test_a_budget_that_is_spent_is_tried_again_later(tmp_path: Path, database_url: str) -> None:
    """Each hour; nothing was paid, and the chain is run once there is a budget."""

    async def spent(jobs: ChainJobs, simulator: Simulator) -> None:
        result = await jobs.run(order())
        assert (result.outcome, result.retry_after, result.tokens) == ("retry", LATER, 0)
        assert "budget_exceeded" in result.reason
        assert not simulator.calls

    async def plenty(jobs: ChainJobs, simulator: Simulator) -> None:
        assert (await jobs.run(order())).outcome == "done"
        assert called(simulator) == [REVIEW, SCORE]

    with_jobs(tmp_path, database_url, spent, daily_tokens=1)
    with_jobs(tmp_path, database_url, plenty)


def test_what_failed_for_free_is_tried_again_and_what_was_billed_is_not(tmp_path: Path, database_url: str) -> None:
    """A step that answered before stays answered; a call that cost tokens and brought nothing is left to the user."""

    async def body(jobs: ChainJobs, simulator: Simulator) -> None:
        simulator.always(SCORE, faults.status("InternalError", http=500))
        free = await jobs.run(order())
        assert (free.outcome, [answer.app for answer in free.answers]) == ("retry", ["session-review"])
        sql = "UPDATE biz.ai_run_logs SET tokens_used = 50 WHERE status = 'failed'"
        execute(database_url, sql)
        simulator.always(SCORE, None)
        assert (await jobs.run(order())).outcome == "done"
        assert called(simulator) == [REVIEW, SCORE, SCORE]

    with_jobs(tmp_path, database_url, body)


def test_a_billed_failure_is_final() -> None:
    """By the last call of each application that has not answered."""
    job = type("Job", (), {"id": 3, "status": "completed", "error_message": "b: timeout: no answer in time"})()
    calls = [{"step": "b", "tokens_used": 0}, {"step": "b", "tokens_used": 70}]
    assert chain_jobs._failure(job, calls, ["b"])["outcome"] == "failed"
    assert chain_jobs._failure(job, calls[::-1], ["b"])["outcome"] == "retry"


def test_a_job_that_a_user_cancelled_stays_cancelled_until_the_rule_is_retried(
    tmp_path: Path, database_url: str
) -> None:
    """The firing fails with the reason; rules retry, which orders it again, runs it."""

    async def body(jobs: ChainJobs, simulator: Simulator) -> None:
        simulator.script(REVIEW, faults.slow(0.5))
        running = asyncio.create_task(jobs.run(order()))
        while not simulator.calls:
            await asyncio.sleep(0.02)
        execute(database_url, "UPDATE biz.ai_trigger_jobs SET cancel_requested = true")
        result = await running
        assert result.outcome == "failed"
        assert "cancelled" in result.reason
        repeated = await jobs.run(order()._replace(only_result=True))
        assert repeated == result, "an engine that was killed before it stored this does not undo it"
        assert (await jobs.run(order())).outcome == "done"
        assert called(simulator) == [REVIEW, SCORE]

    with_jobs(tmp_path, database_url, body)


# -- the whole way --------------------------------------------------------------------------------------------------


def test_what_a_chain_leaves_behind_fires_nothing(tmp_path: Path, database_url: str) -> None:
    """A session ends, is summarised, and the summary's own session is recorded: no rule fires for it."""
    rules = {
        name: {"on": kind, "do": ["summary"], "start": "all", "settle": "0s"}
        for name, kind in (("waits", "session.waiting"), ("ends", "session.ended"), ("fails", "turn.failed"))
    }
    actions = {"summary": {"type": "chain", "apps": list(APPS), "keep": ["note", "score"], "input": "conversation"}}
    rig = Rig(tmp_path / "rig", {"rules": rules, "actions": actions})
    rig.now = 1_794_700_000.0
    kept: dict[str, Kept] = {}

    async def body() -> None:
        async with Simulator() as simulator:
            settings = settings_at(rig.settings.home, database_url)
            async with ChainJobs(settings, environment(simulator.base_url)) as jobs:
                mask = Mask(settings.export.mask)
                texts = SessionInputs(settings, mask.text)
                rig.actions["chain"] = Chain(jobs, texts, mask.value, lambda each: kept.update({each.key: each}))
                rig.restart()
                rig.turn(1)
                await run_once(rig.engine, rig.runner)
                asked = len(simulator.calls)
                assert asked == 4, "two rules fire for the session, with two applications each"
                assert "Go on." in str(simulator.calls[0].body["input"]["prompt"])
                (log,) = (rig.settings.home / "logs").glob("runs-*.jsonl")
                (rig.logs / log.name).write_bytes(log.read_bytes())
                rig.record()
                rig.wait(7200)
                await run_once(rig.engine, rig.runner)
                assert len(simulator.calls) == asked

    try:
        asyncio.run(body())
        sessions = {session.session_id for session in rig.store.sessions(SessionFilter())}
        assert sum(name.startswith("rule-") for name in sessions) == 2
        assert len(sessions) == 3
        assert sorted(each.kind for each in kept.values()) == ["note", "note", "score", "score"]
        assert {(firing.rule, firing.state) for firing in rig.firings()} == {("waits", "done"), ("ends", "done")}
        found: Any = rig.store.rules.actions([firing.number for firing in rig.firings()])
        assert all(action.tokens > 0 for planned in found.values() for action in planned)
    finally:
        rig.close()


def test_enabling_a_rule_says_what_its_chain_lacks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not only when it fires for the first time; nothing is said where nothing is missing."""
    for name in environment(""):
        monkeypatch.delenv(name, raising=False)
    lacking = CliRunner().invoke(app, ["rules", "enable", "summary"])
    assert lacking.exit_code == 0
    assert "DASHSCOPE_APP_ID_SESSION_SUMMARY" in " ".join(lacking.output.split())
    for name, value in environment("http://127.0.0.1:1/api/v1").items():
        monkeypatch.setenv(name, value)
    assert "cannot be called" not in CliRunner().invoke(app, ["rules", "enable", "summary"]).output
    assert not (home / "postgres").exists()
