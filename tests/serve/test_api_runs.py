"""Jobs, chains and calls as the console shows them: lists that lose nothing, graphs that are the catalog's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.compat.run_log import AIRunLogService
from agenttrace.config import load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.run.jobs.jobs import ChainOrder

from .harness import Heard, Running, Stack, run_with
from .seeds import API, EVENTS, audit, change, finished, get, pages, seed, trigger

Row = dict[str, Any]

RUN_BODIES = {"request_prompt", "response_text"}
#: Every GET endpoint of the run half, and the names of its parameters.
ENDPOINTS = {
    "/jobs": ("status", "event", "app", "site", "member", "since", "until", "limit", "cursor"),
    "/runs": ("status", "app", "site", "member", "job", "since", "until", "limit", "cursor"),
    "/cache": ("type", "site", "target", "status", "limit", "cursor"),
    "/guards": (),
    "/catalog": (),
    "/exports": (),
}
ITEMS = ("/jobs/", "/runs/", "/cache/")

job_filters = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["pending", "completed", "failed", "cancelled", "skipped_duplicate"]),
        "event": st.sampled_from([*EVENTS, "unheard_of"]),
        "app": st.sampled_from(["app2", "app3", "app3_clue", "app5", "app6_note", "app8", "app1", "nothing"]),
        "site": st.integers(0, 4),
        "member": st.integers(0, 14),
        "since": st.integers(0, 17),
        "until": st.integers(0, 17),
    },
)
run_filters = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["success", "failed", "running", "rate_limited"]),
        "app": st.sampled_from(["app1", "app2", "app3_clue", "app6", "nothing"]),
        "site": st.integers(0, 4),
        "member": st.integers(0, 14),
        "job": st.integers(0, 20),
        "since": st.integers(0, 17),
        "until": st.integers(0, 17),
    },
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("server")
    server = Running(home, module_database_url, run={"daily_tokens": 10**9, "monthly_tokens": 10**9})
    server.run(seed(server.stack))
    yield server
    server.close()


@pytest.fixture(scope="module")
def jobs(server: Running) -> list[Row]:
    """All jobs, each with its chain."""
    listed = server.run(pages(server.stack, "/jobs", {}, 500))
    return [server.run(get(server.stack, f"/jobs/{job['id']}")) for job in listed]


@pytest.fixture(scope="module")
def runs(server: Running) -> list[Row]:
    """All calls, whole."""
    listed = server.run(pages(server.stack, "/runs", {}, 500))
    return [server.run(get(server.stack, f"/runs/{run['id']}")) for run in listed]


def is_problem(heard: Heard, status: int) -> str:
    """What the problem says that the answer is."""
    assert heard.status == status, heard.body
    assert heard.headers["Content-Type"] == "application/problem+json"
    detail: str = heard.json()["detail"]
    return detail


def wanted(filters: Row, times: list[str], names: Callable[[Row], set[str]]) -> tuple[Row, Callable[[Row], bool]]:
    """The filters as a query, with times that there are, and which rows they mean."""
    query = dict(filters)
    for name in ("since", "until"):
        if name in query:
            query[name] = times[query[name] % len(times)]
    columns = {"status": "status", "event": "event_type", "site": "site_id", "member": "member_id"}
    columns |= {"job": "trigger_job_id"}

    def fits(row: Row) -> bool:
        return (
            all(row[columns[name]] == value for name, value in query.items() if name in columns)
            and ("app" not in query or query["app"] in names(row))
            and query.get("since", "") <= row["created_at"] < query.get("until", "3000")
        )

    return query, fits


# ── lists ──


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(filters=job_filters, limit=st.integers(1, 9))
def test_the_pages_of_jobs_are_those_that_fit(server: Running, jobs: list[Row], filters: Row, limit: int) -> None:
    """Whatever the filters and the size of a page: all pages together are the jobs that fit, newest first."""
    types = {app.key: app.app_type for app in server.stack.engine.catalog.apps.values()}

    def names(row: Row) -> set[str]:
        keys = {step["app"] for job in jobs if job["id"] == row["id"] for step in job["steps"]}
        return keys | {types[key] for key in keys}

    query, fits = wanted(filters, [job["created_at"] for job in jobs], names)
    found = server.run(pages(server.stack, "/jobs", query, limit))
    assert [row["id"] for row in found] == [job["id"] for job in jobs if fits(job)]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(filters=run_filters, limit=st.integers(1, 9))
def test_the_pages_of_calls_are_those_that_fit(server: Running, runs: list[Row], filters: Row, limit: int) -> None:
    """Whatever the filters and the size of a page: all pages together are the calls that fit, newest first."""

    def names(row: Row) -> set[str]:
        return {row["app_type"], row["app_type"].partition("_")[0]}

    query, fits = wanted(filters, [run["created_at"] for run in runs], names)
    found = server.run(pages(server.stack, "/runs", query, limit))
    assert [row["id"] for row in found] == [run["id"] for run in runs if fits(run)]


def test_lists_say_the_same_as_details_but_hold_no_texts(server: Running, jobs: list[Row], runs: list[Row]) -> None:
    """A row of a list is its detail without payload, steps, prompt and answer."""
    listed = server.run(pages(server.stack, "/jobs", {}, 7))
    assert listed == [{name: job[name] for name in job if name not in ("payload", "steps")} for job in jobs]
    listed = server.run(pages(server.stack, "/runs", {}, 7))
    assert listed == [{name: run[name] for name in run if name not in RUN_BODIES} for run in runs]
    assert any(run["request_prompt"] and run["response_text"] for run in runs)
    assert any(job["payload"] for job in jobs)
    unburdened = server.run(server.stack.engine.dispatcher.jobs.list(payloads=False, limit=500))
    assert [(job.id, job.payload) for job in unburdened] == [(job["id"], None) for job in jobs]


def test_what_has_not_changed_is_not_sent_again(home: Path, database_url: str) -> None:
    """The tag of an answer gives 304 without a body until something changes."""

    async def body(stack: Stack) -> None:
        await finished(stack, "note_created")
        for path in ("/jobs", "/jobs/1", "/runs", "/runs/1", "/catalog", "/exports"):
            first = await stack.request("GET", API + path)
            again = await stack.request("GET", API + path, headers={"If-None-Match": first.headers["ETag"]})
            assert (first.status, again.status, again.body) == (200, 304, b"")
        tag = (await stack.request("GET", f"{API}/jobs")).headers["ETag"]
        await trigger(stack)
        assert (await stack.request("GET", f"{API}/jobs", headers={"If-None-Match": tag})).status == 200

    run_with(home, database_url, body)


values = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.sampled_from([str(2**63 - 1), str(2**63), str(-(2**63)), "1e400", "\x00", "7d", "999999w", "0001-01-01"]),
    st.sampled_from(["9999-12-31T23:59:59-23:59", "2026-11-01T00:00+00:00:00.000001", "W10", "WzFd", "WzFlOTld"]),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_question_breaks_the_server(server: Running, data: st.DataObject) -> None:
    """For any query or path the answer is a page, or says what is wrong with the request."""
    path = data.draw(st.sampled_from([*ENDPOINTS, *ITEMS]))
    if path in ITEMS:
        # A slash would name another endpoint, a lone dot none at all.
        path += data.draw(values.filter(lambda text: text.strip("./") != "" and not set(text) & set("/?#%")))
    names = ENDPOINTS.get(path, ())
    query = data.draw(st.dictionaries(st.sampled_from(names), values, max_size=3)) if names else {}
    heard = server.run(server.stack.request("GET", API + path, params=query))
    assert heard.status in (200, 400, 404, 422), (path, query, heard.body)


@pytest.mark.parametrize("path", ["/jobs", "/runs", "/cache"])
@pytest.mark.parametrize("number", [-1, 2**63, 10**30])
def test_numbers_that_no_column_holds_are_refused(server: Running, path: str, number: int) -> None:
    """A number beyond the database's is 422, and names its parameter."""
    assert "site" in is_problem(server.run(server.stack.request("GET", f"{API}{path}?site={number}")), 422)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("7d", 200),
        ("2026-11-01", 200),
        ("2026-11-01T00:00+00:00:00.000001", 200),
        ("0001-01-01T00:00+23:59", 200),
        ("9999-12-31T23:59:59-23:59", 200),
        ("the day before", 400),
        ("1e400", 400),
        ("7d" * 60, 422),
    ],
)
def test_times_are_what_the_command_line_takes(server: Running, text: str, status: int) -> None:
    """A span, a day or an ISO time of whatever zone is understood; anything else is refused in a sentence."""
    for path in ("/jobs", "/runs"):
        for name in ("since", "until"):
            heard = server.run(server.stack.request("GET", API + path, params={name: text}))
            assert heard.status == status, heard.body


@pytest.mark.parametrize("cursor", ["x", "W10", "WzEsMl0", "WyJhIl0", "Wy0xXQ", "WzkyMjMzNzIwMzY4NTQ3NzU4MDhd"])
def test_a_cursor_of_another_list_is_refused(server: Running, cursor: str) -> None:
    """A cursor that no page gave is 400."""
    assert "cursor" in is_problem(server.run(server.stack.request("GET", f"{API}/jobs?cursor={cursor}")), 400)


# ── chains ──


def test_the_graph_of_a_job_is_the_catalog_s(server: Running, jobs: list[Row]) -> None:
    """Steps, their order and what each waits for are those that the catalog has for the event and its payload."""
    catalog = server.stack.engine.catalog
    for job in jobs:
        chain = catalog.chain(job["event_type"], job["payload"])
        shown = [(step["name"], step["app"], step["after"]) for step in job["steps"]]
        assert shown == [(step.name, step.app, list(step.after)) for step in chain.steps]
        assert [step["title"] for step in job["steps"]] == [catalog.apps[step.app].title for step in chain.steps]


def test_a_step_has_the_calls_of_the_run_log(server: Running, jobs: list[Row], runs: list[Row]) -> None:
    """Each call of a job is in the graph once, under its step, with the texts that the run log has."""
    for job in jobs:
        calls = [(step["name"], call) for step in job["steps"] for call in step["calls"]]
        of_job = [run for run in runs if run["trigger_job_id"] == job["id"]]
        assert {call["run_id"]: name for name, call in calls} == {run["id"]: run["step"] for run in of_job}
        texts = {(call["run_id"], call["prompt"], call["response"], call["error"]) for _, call in calls}
        assert texts == {
            (run["id"], run["request_prompt"], run["response_text"], run["error_message"]) for run in of_job
        }


def test_a_step_that_was_not_called_waits_or_is_skipped(jobs: list[Row]) -> None:
    """A step is in the state of its last call; without one it waits while the job is not over, and is skipped then."""
    seen = set()
    for job in jobs:
        for step in job["steps"]:
            otherwise = "waiting" if job["status"] in ("pending", "running") else "skipped"
            assert step["status"] == (step["calls"][-1]["status"] if step["calls"] else otherwise)
            seen.add(step["status"])
    assert {"success", "failed", "waiting", "skipped"} <= seen


def test_a_call_that_the_catalog_no_longer_has_is_shown(home: Path, database_url: str) -> None:
    """Steps that only the run log knows stand beside the catalog's, or alone where it has forgotten the event."""

    async def body(stack: Stack) -> None:
        job_id = await trigger(stack, "note_created", member_id=5)
        logs = AIRunLogService(stack.engine.database)
        await logs.create_log(1, "app99_gone", "event", trigger_job_id=job_id, step="app99", request_prompt="问")
        lost = await logs.create_log(1, "app3_clue", "event", trigger_job_id=job_id, step="app3:old")
        await logs.update_running(lost)
        await logs.update_failed(lost, "lost", 5)
        await logs.create_log(1, "app3_clue", "event", trigger_job_id=job_id, step="app3:old")
        steps = (await get(stack, f"/jobs/{job_id}"))["steps"]
        assert [(step["name"], step["app"], step["after"], step["status"]) for step in steps] == [
            ("app6", "app6", [], "waiting"),
            ("app8", "app8", ["app6"], "waiting"),
            ("app99", "app99_gone", [], "pending"),
            ("app3:old", "app3", [], "pending"),
        ]
        assert [call["status"] for call in steps[-1]["calls"]] == ["failed", "pending"]
        await stack.engine.database.execute("UPDATE biz.ai_trigger_jobs SET event_type = 'of_old'")
        steps = (await get(stack, f"/jobs/{job_id}"))["steps"]
        assert [step["name"] for step in steps] == ["app99", "app3:old"]
        assert "of_old" in is_problem(await change(stack, f"/jobs/{job_id}/rerun"), 422)
        assert [job["id"] for job in await pages(stack, "/jobs", {"app": "app99_gone"}, 5)] == [job_id]

    run_with(home, database_url, body)


# ── changes ──


def test_jobs_are_cancelled_and_run_again(home: Path, database_url: str) -> None:
    """Cancelling ends a waiting job, running again makes a forced one; each leaves one row in the audit log."""

    async def body(stack: Stack) -> None:
        waiting = await trigger(stack, member_id=1)
        cancelled = (await change(stack, f"/jobs/{waiting}/cancel")).json()
        assert (cancelled["id"], cancelled["status"]) == (waiting, "cancelled")
        again = (await change(stack, f"/jobs/{waiting}/rerun")).json()
        job = await get(stack, f"/jobs/{again['job_id']}")
        assert (job["status"], job["is_forced"], job["rerun_of"]) == (again["status"], True, waiting)
        over = is_problem(await change(stack, f"/jobs/{waiting}/cancel"), 409)
        absent = is_problem(await change(stack, "/jobs/999/cancel"), 404)
        unknown = is_problem(await change(stack, "/jobs/999/rerun"), 404)
        assert await audit(stack) == [
            ("job.cancel", str(waiting), "done"),
            ("job.rerun", str(waiting), "done"),
            ("job.cancel", str(waiting), over),
            ("job.cancel", "999", absent),
            ("job.rerun", "999", unknown),
        ]

    run_with(home, database_url, body)


def test_a_chain_that_a_rule_ordered(home: Path, database_url: str) -> None:
    """Its graph is that of the applications it names, in pages too; run again, it is a job of its own."""

    async def body(stack: Stack) -> None:
        apps = ("session-summary", "session-score")
        ordered = ChainOrder(key="k", apps=apps, payload={"rule": "r", "language": "en", "text": "# A session"})
        job_id = await stack.engine.dispatcher.order(ordered)
        waiting = await get(stack, f"/jobs/{job_id}")
        assert [(step["name"], step["status"], step["after"]) for step in waiting["steps"]] == [
            ("session-summary", "waiting", []),
            ("session-score", "waiting", ["session-summary"]),
        ]
        await stack.engine.dispatcher.execute(job_id)
        (row,) = (await get(stack, "/jobs"))["items"]
        assert (row["event_type"], row["status"], row["app_chain"]) == ("rule", "completed", "→".join(apps))
        assert row["session_id"].startswith("rule-")
        again = (await change(stack, f"/jobs/{job_id}/rerun")).json()
        assert again["job_id"] != job_id
        await stack.engine.database.execute("UPDATE biz.ai_trigger_jobs SET apps = '{gone}'")
        assert (await change(stack, f"/jobs/{job_id}/rerun")).status == 422
        assert (await get(stack, f"/jobs/{job_id}"))["steps"]

    run_with(home, database_url, body)


def test_an_event_is_started(home: Path, database_url: str) -> None:
    """It becomes a job like one that a program reports; the same again is a duplicate; each is in the audit log."""

    async def body(stack: Stack) -> None:
        event = {"event_type": "consumption", "site_id": 3, "member_id": 9, "payload": {"coach_id": 8}}
        started = (await change(stack, "/jobs", event)).json()
        job = await get(stack, f"/jobs/{started['job_id']}")
        assert (job["event_type"], job["site_id"], job["member_id"]) == ("consumption", 3, 9)
        assert (job["payload"], job["is_forced"], job["schedule"]) == ({"coach_id": 8}, False, None)
        again = (await change(stack, "/jobs", event)).json()
        assert (again["status"], again["duplicate_of"]) == ("skipped_duplicate", started["job_id"])
        forced = (await change(stack, "/jobs", event | {"is_forced": True})).json()
        assert forced["status"] == "pending"
        unknown = is_problem(await change(stack, "/jobs", event | {"event_type": "nothing"}), 422)
        is_problem(await change(stack, "/jobs", {"event_type": "consumption"}), 422)
        ids = [one["job_id"] for one in (started, again, forced)]
        assert await audit(stack) == [
            *(("job.start", f"consumption of store 3: job {number}", "done") for number in ids),
            ("job.start", "nothing of store 3", unknown),
        ]

    run_with(home, database_url, body)


# ── traces ──


def test_the_keys_are_those_of_the_recorded_sessions(home: Path, database_url: str) -> None:
    """The session of a job and of each of its calls, or of a chat's, is the one that the recorder makes of the log."""
    keys: dict[str, str] = {}

    async def body(stack: Stack) -> None:
        await finished(stack, "note_created", member_id=1)
        await stack.chat()
        for row in [*await pages(stack, "/jobs", {}, 9), *await pages(stack, "/runs", {}, 9)]:
            keys[row["session_id"]] = row["session_key"]
        assert await AIRunLogService(stack.engine.database).create_log(1, "app3_clue", "event")
        assert (await get(stack, "/runs", limit=1))["items"][0]["session_key"] is None

    run_with(home, database_url, body)
    recorder = Recorder(load_settings({"HOME": str(home.parent), "AGENTTRACE_HOME": str(home)}))
    recorder.scan()
    recorder.drain()
    sessions = dict(recorder.connection.execute("SELECT session_id, printf('%016x', id) FROM sessions"))
    recorder.close()
    assert keys == sessions
    assert {name.partition("_")[0] for name in keys} == {"job", "conv"}


# ── when there is no database ──


def test_a_database_that_is_away_is_reported(home: Path, database_url: str) -> None:
    """While the database is away every question about it is a 503 that says so; what needs none is answered."""

    async def body(stack: Stack) -> None:
        await stack.engine.database.close()
        for path in ("/jobs", "/jobs/1", "/runs", "/runs/1", "/guards", "/cache", "/cache/1"):
            assert "database" in is_problem(await stack.request("GET", API + path), 503)
        for path in ("/jobs/1/cancel", "/jobs/1/rerun", "/guards/breakers/app1/open", "/cache/1/invalidate"):
            assert "database" in is_problem(await change(stack, path), 503)
        assert not any(outcome == "done" for _, _, outcome in await audit(stack))
        for path in ("/catalog", "/exports"):
            assert (await stack.request("GET", API + path)).status == 200

    run_with(home, database_url, body)
