"""Breakers, limits, budget and catalog as the console shows them, and breakers opened and closed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.run.simulator import BUILTIN_APP_IDS, faults
from agenttrace.serve.access import passwords
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.visitor import admin
from agenttrace.serve.api.runs.applications import catalog_router, guards_router
from agenttrace.serve.api.runs.cache import cache_router
from agenttrace.serve.api.runs.jobs import jobs_router
from agenttrace.serve.api.runs.run_state import run_state
from agenttrace.serve.api.runs.runs import runs_router
from agenttrace.serve.api.settings.exports import exports_router
from agenttrace.serve.app import create_app
from agenttrace.serve.chat import chat_trial_router
from agenttrace.serve.context import RunHalf
from agenttrace.serve.server import serve

from .harness import CHAT_APP, Heard, Running, Stack, run_with
from .seeds import API, audit, change, finished, get, log_in, pages, seed, trigger

APPS = [name.partition("_")[0] if name.startswith("app") else name.replace("_", "-") for name in BUILTIN_APP_IDS]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("server")
    server = Running(home, module_database_url)
    yield server
    server.close()


def is_problem(heard: Heard, status: int) -> str:
    """What the problem says that the answer is."""
    assert heard.status == status, heard.body
    assert heard.headers["Content-Type"] == "application/problem+json"
    detail: str = heard.json()["detail"]
    return detail


# ── breakers ──


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(actions=st.lists(st.tuples(st.sampled_from(APPS), st.sampled_from(["open", "close"])), max_size=6))
def test_breakers_are_as_they_were_left_by_hand(server: Running, actions: list[tuple[str, str]]) -> None:
    """Every application has a breaker, in the state of the last action; each action is one row of the audit log."""

    async def body(stack: Stack) -> None:
        await stack.engine.database.execute("DELETE FROM biz.ai_breakers")
        before = len(await audit(stack))
        expected = dict.fromkeys(APPS, ("closed", False))
        for app, action in actions:
            row = (await change(stack, f"/guards/breakers/{app}/{action}")).json()
            expected[app] = ("open", True) if action == "open" else ("closed", False)
            assert (row["app"], row["state"], row["held"]) == (app, *expected[app])
        shown = (await get(stack, "/guards"))["breakers"]
        assert {row["app"]: (row["state"], row["held"]) for row in shown} == expected
        assert [row["app_id"] for row in shown] == list(BUILTIN_APP_IDS.values())
        assert (await audit(stack))[before:] == [(f"breaker.{action}", app, "done") for app, action in actions]

    server.run(body(server.stack))


def test_a_breaker_that_failures_opened_is_shown(home: Path, database_url: str) -> None:
    """An application that failed as often as it may is open, with its failures and the time of the next probe."""

    async def body(stack: Stack) -> None:
        for _ in range(2):
            await stack.engine.breaker.record_failure(CHAT_APP)
        row = (await get(stack, "/guards"))["breakers"][0]
        assert (row["app"], row["app_type"], row["state"]) == ("app1", "app1_chat", "open")
        assert (row["failure_count"], row["held"]) == (2, False)
        assert 0 < row["retry_after"] <= 60
        assert row["last_failure_at"] <= row["changed_at"]

    run_with(home, database_url, body, run={"failure_threshold": 2})


def test_an_application_is_named_by_its_key_or_its_type(home: Path, database_url: str) -> None:
    """Names that are neither are 404, and an application without an id has no breaker to open."""

    async def body(stack: Stack) -> None:
        assert (await change(stack, "/guards/breakers/app3_clue/open")).json()["app"] == "app3"
        assert "app99" in is_problem(await change(stack, "/guards/breakers/app99/open"), 404)
        is_problem(await change(stack, f"/guards/breakers/{'x' * 101}/open"), 422)

    async def unconfigured(stack: Stack) -> None:
        shown = (await get(stack, "/guards"))["breakers"]
        assert [(row["app"], row["app_id"], row["state"]) for row in shown] == [(app, None, "closed") for app in APPS]
        is_problem(await change(stack, "/guards/breakers/app3/open"), 409)
        assert "DASHSCOPE_API_KEY" in (await get(stack, "/catalog"))["missing"]

    run_with(home, database_url, body)
    run_with(home, database_url, unconfigured, configured=False)


# ── limits and budget ──


@given(turns=st.dictionaries(st.integers(1, 5), st.integers(1, 4), max_size=3))
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_windows_hold_the_calls_that_were_made(server: Running, turns: dict[int, int]) -> None:
    """A user's window counts the user's turns, beside the limit that the next one is judged by."""

    async def body(stack: Stack) -> None:
        await stack.engine.database.execute("DELETE FROM biz.ai_rate_windows")
        await stack.engine.database.execute("DELETE FROM biz.ai_breakers")
        for user, count in turns.items():
            for _ in range(count):
                assert (await stack.chat(user=f"u{user}")).last.kind == "done"
        shown = (await get(stack, "/guards"))["limits"]
        found = {(row["scope"], row["key"]): (row["calls"], row["limit"], row["seconds"]) for row in shown}
        assert found == {("user", f"u{user}"): (count, 10, 60) for user, count in turns.items()}

    server.run(body(server.stack))


def test_reservations_are_what_the_budget_holds_back(home: Path, database_url: str) -> None:
    """Calls under way are listed with what they reserved: together the budget's reservation; ended, they are used."""

    async def body(stack: Stack) -> None:
        await finished(stack, "note_created")
        stack.sim.script(CHAT_APP, faults.hang(1))
        async with stack.chatting() as response:
            await response.content.readany()
            guards = await get(stack, "/guards")
            (run,) = guards["reservations"]
            day = guards["budget"]["day"]
            assert (run["app_type"], run["status"], run["user_id"]) == ("app1_chat", "running", "u1")
            assert run["tokens_reserved"] == day["reserved"] > 0
            assert day["left"] == day["limit"] - day["used"] - day["reserved"]
            runs = (await get(stack, "/runs", status="success"))["items"]
            assert day["used"] == sum(row["tokens_used"] for row in runs) > 0
        assert stack.engine.chat is not None
        await stack.engine.chat.drain(20)
        guards = await get(stack, "/guards")
        assert (guards["reservations"], guards["budget"]["day"]["reserved"]) == ([], 0)

    run_with(home, database_url, body)


# ── catalog and exports ──


def test_the_catalog_has_every_application_and_event(server: Running) -> None:
    """Applications with their limits, and for each event all steps that it may start."""
    catalog = server.stack.engine.catalog
    shown = server.run(get(server.stack, "/catalog"))
    assert [app["app"] for app in shown["apps"]] == list(catalog.apps)
    for row in shown["apps"]:
        app = catalog.apps[row["app"]]
        assert (row["app_type"], row["title"], row["app_id"]) == (app.app_type, app.title, app.app_id)
        assert (row["rate_scope"], row["rate_limit"], row["rate_seconds"]) == (
            app.rate.scope,
            app.rate.limit,
            app.rate.seconds,
        )
    steps = {row["event"]: row["steps"] for row in shown["events"]}
    assert steps.keys() == catalog.events.keys()
    for event, names in steps.items():
        assert names == [step.name for step in catalog.chain(event, {"coach_id": 1}).steps]
    assert shown["missing"] == []


def test_nothing_is_exported_anywhere(server: Running) -> None:
    """There are no destinations, and the endpoint says so."""
    found = server.run(get(server.stack, "/exports"))
    assert found == {"exporter": {"running": False, "pid": None}, "destinations": []}


# ── at a glance ──


def test_the_state_counts_what_the_lists_have(home: Path, database_url: str) -> None:
    """Jobs at work, in the queue and failed today, breakers and budget are those of the lists and of the guards."""

    async def body(stack: Stack) -> None:
        await seed(stack)
        await stack.engine.database.execute("UPDATE biz.ai_trigger_jobs SET status = 'running' WHERE id = 3")
        yesterday = (
            "UPDATE biz.ai_trigger_jobs SET status = 'failed', finished_at = now() - interval '1 day' WHERE id = 1"
        )
        await stack.engine.database.execute(yesterday)
        await stack.engine.breaker.hold_open(CHAT_APP)
        state = await run_state(stack.app.state.context)
        guards = await get(stack, "/guards")
        assert (state.available, state.reason, state.missing) == (True, None, [])
        assert (state.breakers[0].app, state.breakers[0].state) == ("app1", "open")
        assert msgspec.to_builtins(state.budget) == guards["budget"]
        counted = {}
        for status in ("running", "pending", "failed"):
            counted[status] = len(await pages(stack, "/jobs", {"status": status}, 500))
        assert (state.running_jobs, state.waiting_jobs) == (counted["running"], counted["pending"])
        assert state.failed_jobs_today == counted["failed"] - 1 > 0

    run_with(home, database_url, body)


def test_without_a_run_half_there_is_a_reason(home: Path, database_url: str) -> None:
    """Where no engine runs the state says why, and every endpoint of the run half is a 503 with just that."""
    reason = "PostgreSQL does not start: there is no room on the disk."

    async def body(stack: Stack) -> None:
        state = await run_state(replace(stack.app.state.context, run_half=RunHalf(problem=reason)))
        assert (state.available, state.reason, state.budget, state.breakers) == (False, reason, None, [])
        without = create_app(None, stack.app.state.context.settings, problem=reason)
        listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(without, "127.0.0.1", 0, stop, on_listening=listening.set_result))
        stack.url = await listening
        for path in ("/jobs", "/jobs/1", "/runs", "/runs/1", "/guards", "/cache", "/cache/1", "/catalog"):
            assert is_problem(await stack.request("GET", API + path), 503) == reason
        for path in ("/jobs/1/cancel", "/jobs/1/rerun", "/guards/breakers/app1/open", "/cache/1/invalidate"):
            assert is_problem(await change(stack, path), 503) == reason
        assert is_problem(await change(stack, "/chat", {"message": "你好", "site_id": 1}), 503) == reason
        assert (await get(stack, "/exports"))["destinations"] == []
        stop.set()
        await serving

    run_with(home, database_url, body)


def test_a_database_that_is_away_does_not_hold_the_state_back(home: Path, database_url: str) -> None:
    """While the database is gone, or does not answer, the state says so in words; it is no error and does not wait."""

    async def body(stack: Stack) -> None:
        context = stack.app.state.context
        async with stack.engine.database.transaction() as connection:
            # A count of the jobs waits until this connection releases the table.
            await connection.execute("LOCK TABLE biz.ai_trigger_jobs")
            state = await run_state(context)
            assert (state.available, state.running_jobs) == (False, 0)
        assert (await run_state(context)).available
        await stack.engine.database.close()
        gone = await run_state(context)
        assert not gone.available
        assert gone.reason == state.reason
        assert "database" in str(gone.reason)

    run_with(home, database_url, body)


def test_a_fault_of_ours_does_not_spoil_the_first_page(
    home: Path, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error is shown as unavailable too, and its text is only in the log."""

    async def body(stack: Stack) -> None:
        await stack.engine.database.execute("DROP TABLE biz.ai_breakers CASCADE")
        state = await run_state(stack.app.state.context)
        assert not state.available
        assert "ai_breakers" not in str(state)

    run_with(home, database_url, body)
    assert any(record.exc_info and "run_state" in record.name for record in caplog.records)


# ── who may ──


def test_a_viewer_sees_everything_and_changes_nothing(home: Path, database_url: str) -> None:
    """Every list is a viewer's to read; every change is 403, and nothing happened, not even in the audit log."""
    changes = {
        "/jobs/1/cancel": None,
        "/jobs/1/rerun": None,
        "/guards/breakers/app1/open": None,
        "/guards/breakers/app1/close": None,
        "/cache/1/invalidate": None,
        "/cache/invalidate": {"site_id": 1},
        "/chat": {"message": "你好", "site_id": 1},
        **dict.fromkeys(f"/exports/there/{action}" for action in ("pause", "resume", "retry", "accept", "backfill")),
    }

    async def body(stack: Stack) -> None:
        access: AccessStore = stack.app.state.access
        access.users.add("vera", "viewer", passwords.hashed("a long password"))
        await log_in(stack, "vera", "a long password")
        await finished(stack, "note_created")
        await trigger(stack)
        paths = ["/jobs", "/jobs/1", "/runs", "/runs/1", "/guards", "/cache", "/cache/1", "/catalog", "/exports"]
        before = [await get(stack, path) for path in paths]
        told = access.audit.page(100)
        for path, sent in changes.items():
            is_problem(await change(stack, path, sent), 403)
        assert [await get(stack, path) for path in paths] == before
        access.refusals.close()
        refused = [entry for entry in access.audit.page(100) if entry not in told]
        assert {(entry.user, entry.outcome) for entry in refused} == {("vera", "refused")}
        assert {entry.target for entry in refused} == {f"POST /api/v1{path}" for path in changes}

    run_with(home, database_url, body, serve={"login": "always"})


def test_every_change_asks_for_an_admin_itself(server: Running) -> None:
    """No endpoint of the run half that changes something relies on the gate alone."""
    context = server.stack.app.state.context
    changes = 0
    for make in (
        jobs_router,
        runs_router,
        guards_router,
        cache_router,
        chat_trial_router,
        catalog_router,
        exports_router,
    ):
        for route in make(context).routes:
            assert isinstance(route, APIRoute)
            if route.methods != {"GET"}:
                assert any(dependency.call is admin for dependency in route.dependant.dependencies), route.path
                changes += 1
    assert changes == 13
