"""The commands of the run half: against a real server and worker, a real PostgreSQL and the simulated DashScope."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.cli.budget import bar
from agenttrace.client import AsyncTriggerClient, TriggerClient
from agenttrace.config import load_settings
from agenttrace.run.guards.budget import BudgetStatus
from agenttrace.run.simulator import BUILTIN_APP_IDS, Simulator, environment, faults
from agenttrace.views.run import budget_fields
from run.fixtures import execute

from .conftest import Program

SECRET = "a secret of at least thirty-two characters"
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "running-apps.md"
PASSWORD = "the-password-of-the-database"
COACHED = json.dumps({"coach_id": 8})

GROUPS = {
    "jobs": ("list", "show", "cancel", "rerun"),
    "runs": ("list", "show"),
    "breakers": ("list", "open", "close"),
    "cache": ("list", "show", "invalidate"),
    "token": ("create", "list", "revoke", "chat"),
}
COMMANDS = ("trigger", "apps", "budget", *GROUPS)


@dataclass
class Running:
    """A server with a worker on a separate database, and a program that uses them."""

    program: Program
    simulator: Simulator
    url: str
    loop: asyncio.AbstractEventLoop

    def order(self, action: Callable[[Simulator], None]) -> None:
        """Tell the simulator something, in its own loop."""

        async def told() -> None:
            action(self.simulator)

        asyncio.run_coroutine_threadsafe(told(), self.loop).result(30)

    def run_job(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Trigger something and wait for its end; the job as the server shows it."""
        job: dict[str, Any] = self.program.json("trigger", *arguments, "--wait", code=code)["job"]
        return job


@pytest.fixture(scope="module")
def running(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    user = tmp_path_factory.mktemp("runner") / "user"
    user.mkdir()
    program = Program(user)
    program.environment |= {"AGENTTRACE_DATABASE_URL": module_database_url, "AGENTTRACE_JWT_SECRET": SECRET}
    ready: list[Running] = []
    up, failed = threading.Event(), []
    stop: list[Callable[[], object]] = []

    async def main() -> None:
        from agenttrace.serve.process import ServerReady, run_process

        loop, ending = asyncio.get_running_loop(), asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(ending.set))
        async with Simulator() as simulator:
            program.environment |= environment(simulator.base_url)
            settings = load_settings({**program.environment, "AGENTTRACE_SERVE_PORT": "0"})

            def on_ready(told: ServerReady) -> None:
                assert told.url is not None
                ready.append(Running(program, simulator, told.url, loop))
                up.set()

            await run_process(
                settings,
                role="up",
                server=True,
                worker=True,
                stop=ending,
                on_ready=on_ready,
                environ=program.environment,
            )

    def thread() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failed.append(error)
        finally:
            up.set()

    worker = threading.Thread(target=thread)
    worker.start()
    assert up.wait(60)
    try:
        assert not failed, failed
        program.environment["AGENTTRACE_URL"] = ready[0].url
        yield ready[0]
    finally:
        for end in stop:
            end()
        worker.join(60)
    assert not failed, failed


@pytest.fixture
def alone(program: Program, database_url: str) -> Program:
    """A user with a database, and nothing that serves or works on it."""
    program.environment["AGENTTRACE_DATABASE_URL"] = database_url
    return program


# ── events, jobs, runs ──


def test_a_chain_from_the_shell(running: Running) -> None:
    """A trigger with --wait ends with the job; job, runs, cache and budget then tell the same story."""
    before = running.program.json("budget")["day"]["used"]
    job = running.run_job("consumption", "--site", "1", "--member", "100", "--payload", COACHED)
    assert (job["status"], job["app_chain"], job["payload"]) == (
        "completed",
        "app3→app8→app7+app4→app5",
        {"coach_id": 8},
    )
    assert {step["step"]: step["status"] for step in job["steps"]} == dict.fromkeys(
        ("app3", "app8", "app7", "app4", "app5"), "success"
    )
    seen = running.program.json("jobs", str(job["id"]))
    assert {name: seen[name] for name in ("id", "status", "payload", "event_date")} == {
        name: job[name] for name in ("id", "status", "payload", "event_date")
    }
    assert [step["response"] for step in seen["steps"]] == [step["response"] for step in job["steps"]]
    runs = running.program.json("runs", "--job", str(job["id"]))
    assert {run["id"]: run["tokens_used"] for run in runs} == {s["log_id"]: s["tokens_used"] for s in job["steps"]}
    assert running.program.json("budget")["day"]["used"] - before == sum(run["tokens_used"] for run in runs)
    kept = running.program.json("cache", "list", "--site", "1", "--target", "100")
    assert {row["cache_type"] for row in kept} == {"app3_clue", "app8_clue_consolidated", "app7_customer_analysis"}


def test_tables_for_people(running: Running) -> None:
    """What the tables show is what is there: status, event, step, prompt, answer; nothing needs --json."""
    job = running.run_job("task_assigned", "--site", "1", "--member", "101", "--payload", COACHED)
    number = str(job["id"])
    listing = running.program.run("jobs", "--member", "101").stdout
    assert [number in listing, "task_assigned" in listing, "completed" in listing] == [True] * 3
    shown = running.program.run("jobs", number).stdout
    assert [step["step"] in shown and str(step["log_id"]) in shown for step in job["steps"]] == [True] * 2
    run = running.program.json("runs", str(job["steps"][0]["log_id"]))
    text = running.program.run("runs", str(run["id"])).stdout
    assert run["request_prompt"].split()[0] in text
    assert all(str(key) in text for key in json.loads(run["response_text"]))
    assert "app4_analysis" in running.program.run("runs", "--job", number).stdout


def test_a_second_trigger_of_the_day(running: Running) -> None:
    """It is skipped without an error; a forced one runs."""
    arguments = ("dws_completed", "--site", "7")
    first = running.run_job(*arguments)
    assert len(first["steps"]) == 8
    again = running.program.json("trigger", *arguments, "--wait")
    assert again["status"] == "skipped_duplicate"
    assert "--forced" in running.program.run("trigger", *arguments).stdout
    forced = running.run_job(*arguments, "--forced")
    assert (forced["status"], forced["is_forced"]) == ("completed", True)


def test_jobs_are_filtered_and_limited(running: Running) -> None:
    """Each filter keeps what it names and nothing else, newest first."""
    for member in ("201", "202"):
        running.run_job("task_assigned", "--site", "20", "--member", member)
    jobs = running.program.json("jobs", "--site", "20")
    assert [job["member_id"] for job in jobs] == [202, 201]
    assert [job["member_id"] for job in running.program.json("jobs", "list", "--site", "20", "--limit", "1")] == [202]
    assert [job["member_id"] for job in running.program.json("jobs", "--site", "20", "--member", "201")] == [201]
    assert running.program.json("jobs", "--site", "20", "--status", "failed") == []
    assert running.program.json("jobs", "--site", "20", "--event", "consumption") == []
    assert len(running.program.json("jobs", "--site", "20", "--since", "1h", "--limit", "0")) == 2
    runs = running.program.json("runs", "--site", "20", "--app", "app4")
    assert {run["app_type"] for run in runs} == {"app4_analysis"}
    assert len(running.program.json("runs", "--site", "20", "--limit", "3", "--status", "success")) == 3


def test_a_failed_step_is_shown_with_its_reason(running: Running) -> None:
    """The chain goes on; the run that failed, and the job, say why."""
    running.order(
        lambda simulator: simulator.script(BUILTIN_APP_IDS["app6_note"], faults.status("InvalidParameter", 400))
    )
    job = running.run_job("note_created", "--site", "1", "--member", "300")
    assert (job["status"], job["steps"][0]["status"], job["steps"][1]["status"]) == ("completed", "failed", "success")
    [run] = running.program.json("runs", "--status", "failed", "--member", "300")
    assert run["step"] == "app6"
    assert run["error_message"]
    assert "failed" in running.program.run("runs", "--member", "300").stdout


def test_waiting_for_a_job_that_fails_is_exit_code_1(running: Running) -> None:
    """Scripts see that nothing came of it: a refused key ends the chain."""
    running.order(lambda simulator: simulator.script(None, faults.status("InvalidApiKey", 401)))
    job = running.run_job("task_assigned", "--site", "1", "--member", "301", code=1)
    assert job["status"] == "failed"
    text = running.program.run("jobs", str(job["id"])).stdout
    assert job["error_message"].split()[0] in text


def test_a_job_that_is_over_is_not_cancelled(running: Running) -> None:
    """Exit code 1 and how it ended; one that does not exist is exit code 1, too."""
    job = running.run_job("task_assigned", "--site", "1", "--member", "302")
    assert "is completed already" in running.program.run("jobs", "cancel", str(job["id"]), code=1).stderr
    for command in ("cancel", "show", "rerun"):
        assert "there is no job 999999" in running.program.run("jobs", command, "999999", code=1).stderr


def test_a_job_that_waits_is_cancelled_and_run_again(alone: Program, database_url: str) -> None:
    """A pending job is cancelled at once; rerun makes a new, forced job of the same event."""
    insert = """INSERT INTO biz.ai_trigger_jobs (site_id, event_type, member_id, payload, app_chain, event_date)
                VALUES (1, 'consumption', 2, '{"coach_id": 8}', 'app3', '2026-11-15') RETURNING id"""
    [(number,)] = execute(database_url, insert)
    assert alone.json("jobs", "cancel", str(number))["status"] == "cancelled"
    again = alone.json("jobs", "rerun", str(number))
    assert (again["status"], again["rerun_of"]) == ("pending", number)
    job = alone.json("jobs", "show", str(again["trigger_job_id"]))
    assert (job["is_forced"], job["rerun_of"], job["member_id"], job["payload"]) == (True, number, 2, {"coach_id": 8})
    assert "No step has run yet" in alone.run("jobs", str(again["trigger_job_id"])).stdout
    assert [job["status"] for job in alone.json("jobs")] == ["pending", "cancelled"]


def test_an_event_that_is_no_longer_known_is_not_run_again(alone: Program, database_url: str) -> None:
    """The error names the event; nothing is queued."""
    insert = """INSERT INTO biz.ai_trigger_jobs (site_id, event_type, event_date, status)
                VALUES (1, 'forgotten', '2026-11-15', 'completed') RETURNING id"""
    [(number,)] = execute(database_url, insert)
    assert "'forgotten'" in alone.run("jobs", "rerun", str(number), code=1).stderr
    assert len(alone.json("jobs")) == 1


# ── the trigger's own errors ──


def test_the_server_refuses(running: Running) -> None:
    """A wrong token and an unknown event are errors with a fix, exit code 1, and the token is not repeated."""
    wrong = running.program.run(
        "trigger", "consumption", "--site", "1", code=1, env={"INTERNAL_API_TOKEN": "wrong-secret"}
    )
    assert "401" in wrong.stderr
    assert "INTERNAL_API_TOKEN" in wrong.stderr
    assert "wrong-secret" not in wrong.stderr
    unknown = running.program.run("trigger", "consumtion", "--site", "1", code=1).stderr
    assert "unknown event type" in unknown


def test_the_payload_may_be_a_file(running: Running, tmp_path: Path) -> None:
    """@file is read; what is no JSON object is exit code 2 before anything is sent."""
    path = tmp_path / "payload.json"
    path.write_text(json.dumps({"note": "很满意"}), encoding="utf-8")
    job = running.run_job("note_created", "--site", "1", "--member", "310", "--payload", f"@{path}")
    assert job["payload"] == {"note": "很满意"}
    for wrong in ("[1]", "{", f"@{tmp_path / 'nowhere.json'}", "3"):
        arguments = ("trigger", "note_created", "--site", "1", "--member", "311", "--payload", wrong)
        assert "payload" in running.program.run(*arguments, code=2).stderr
    assert running.program.json("jobs", "--member", "311") == []


def test_without_a_token_or_a_server(program: Program) -> None:
    """Each is one clear error with its fix."""
    assert "Set INTERNAL_API_TOKEN" in program.run("trigger", "consumption", "--site", "1", code=1).stderr
    environ = {"INTERNAL_API_TOKEN": "x", "AGENTTRACE_URL": "http://127.0.0.1:1"}
    assert "agenttrace up" in program.run("trigger", "consumption", "--site", "1", code=1, env=environ).stderr


def test_the_client_against_the_server(running: Running) -> None:
    """Both clients and the real server understand each other: trigger, duplicate, job, end."""
    token = running.program.environment["INTERNAL_API_TOKEN"]
    with TriggerClient(running.url, token) as client:
        result = client.trigger("consumption", 1, 400, {"coach_id": 9})
        assert result.status == "pending"
        job = client.wait(result.trigger_job_id, 60)
        assert (job["status"], len(job["steps"])) == ("completed", 5)
        assert client.job(result.trigger_job_id) == job

    async def once_more() -> None:
        async with AsyncTriggerClient(running.url, token) as client:
            result = await client.trigger("consumption", 1, 400)
            assert result.status == "skipped_duplicate"
            ended = await client.wait(result.trigger_job_id, 60)
            assert ended["status"] == "skipped_duplicate"

    asyncio.run(once_more())


# ── guards ──


def test_a_breaker_is_opened_and_closed_manually(running: Running) -> None:
    """While it is held open the application is not called; closed, it is."""
    app_id = BUILTIN_APP_IDS["app5_tactics"]
    opened = running.program.json("breakers", "open", "app5")
    assert (opened["app_id"], opened["state"], opened["held"]) == (app_id, "open", True)
    assert "held open" in running.program.run("breakers").stdout
    job = running.run_job("task_assigned", "--site", "1", "--member", "500")
    assert {step["step"]: step["status"] for step in job["steps"]} == {"app4": "success", "app5": "circuit_open"}
    closed = running.program.json("breakers", "close", "app5_tactics")
    assert (closed["state"], closed["held"], closed["failure_count"]) == ("closed", False, 0)
    forced = running.run_job("task_assigned", "--site", "1", "--member", "500", "--forced")
    assert {step["status"] for step in forced["steps"]} == {"success"}
    listed = running.program.json("breakers")
    assert {line["app_type"] for line in listed} == set(BUILTIN_APP_IDS)
    assert {line["state"] for line in listed} == {"closed"}


def test_a_breaker_of_nothing(running: Running) -> None:
    """A name that is none is exit code 2, with the nearest one that is."""
    assert "Did you mean app3_clue?" in running.program.run("breakers", "open", "app3_cluee", code=2).stderr


def test_an_application_without_an_id_has_no_breaker(alone: Program) -> None:
    """Nothing is opened under an empty name; the list says what to do."""
    assert "has no id" in alone.run("breakers", "open", "app3", code=1).stderr
    assert alone.json("breakers") == []
    assert "agenttrace apps" in alone.run("breakers").stdout


def test_the_budget_adds_up(alone: Program, database_url: str) -> None:
    """Used, failed and reserved come from the run log; what refuses is what is shown."""
    insert = """INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, status, tokens_used, tokens_reserved,
                                             response_text, latency_ms, finished_at, error_message)
                VALUES (1, 'app3_clue', 'event', 'success', 700, 0, '{}', 1, now(), NULL),
                       (1, 'app3_clue', 'event', 'failed', 200, 0, NULL, 1, now(), 'x'),
                       (1, 'app3_clue', 'event', 'running', 0, 50, NULL, NULL, NULL, NULL)"""
    execute(database_url, insert)
    limits = {"AGENTTRACE_RUN_DAILY_TOKENS": "1000", "AGENTTRACE_RUN_MONTHLY_TOKENS": "950"}
    found = alone.json("budget", env=limits)
    day, month = found["day"], found["month"]
    assert (day["used"], day["failed"], day["reserved"], day["limit"], day["left"]) == (700, 200, 50, 1000, 50)
    assert (month["left"], found["allowed"], found["reason"]) == (0, False, "monthly_exceeded")
    text = alone.run("budget", env=limits).stdout
    assert "950 of 1,000 tokens (95%)" in text
    assert "Calls are refused (monthly_exceeded)" in text
    assert "Calls are refused" not in alone.run("budget").stdout


@given(
    parts=st.tuples(*[st.integers(0, 3_000_000)] * 3),
    limit=st.integers(1, 2_000_000),
)
def test_a_bar_has_room_for_everything(parts: tuple[int, int, int], limit: int) -> None:
    """It is 40 cells wide whatever the numbers, what is left is never negative, and nothing that is there is hidden."""
    from datetime import UTC, datetime

    used, failed, reserved = parts
    status = BudgetStatus(
        allowed=True,
        daily_used=used,
        monthly_used=used,
        daily_limit=limit,
        monthly_limit=limit,
        daily_reserved=reserved,
        monthly_reserved=reserved,
        daily_failed=failed,
        monthly_failed=failed,
    )
    day = budget_fields(status, datetime(2026, 11, 15, tzinfo=UTC))["day"]
    assert day["left"] == max(0, limit - sum(parts))
    drawn = bar(day)
    assert len(drawn.plain) == 40
    if used and used <= limit:
        assert drawn.plain[0] == "█"
    if not sum(parts):
        assert drawn.plain == "░" * 40


# ── results ──


def test_results_are_shown_and_taken_out_of_use(running: Running) -> None:
    """One by its number, then all of a member; what is invalidated stays to be looked at."""
    running.run_job("consumption", "--site", "1", "--member", "600")
    kept = running.program.json("cache", "list", "--target", "600")
    assert {row["status"] for row in kept} == {"valid"}
    one = next(row for row in kept if row["cache_type"] == "app3_clue")
    shown = running.program.json("cache", "show", str(one["id"]))
    assert isinstance(shown["result_json"], dict)
    text = running.program.run("cache", str(one["id"])).stdout
    assert all(f'"{key}"' in text for key in shown["result_json"])
    assert running.program.json("cache", "invalidate", str(one["id"])) == {"invalidated": 1}
    assert "no valid result" in running.program.run("cache", "invalidate", str(one["id"]), code=1).stderr
    assert running.program.json("cache", "invalidate", "--site", "1", "--target", "600") == {"invalidated": 2}
    left = running.program.json("cache", "list", "--target", "600", "--status", "invalidated")
    assert len(left) == 3
    assert "app3_clue" in running.program.run("cache", "list", "--type", "app3_clue").stdout


def test_which_results_has_to_be_said(alone: Program) -> None:
    """Neither nothing nor both ways at once: that would take too much, or the wrong thing, out of use."""
    assert "either an ID or filters" in alone.run("cache", "invalidate", code=2).stderr
    assert "either an ID or filters" in alone.run("cache", "invalidate", "3", "--site", "1", code=2).stderr
    assert "there is no cached result 3" in alone.run("cache", "show", "3", code=1).stderr


# ── the catalog ──


def test_apps_needs_no_database(program: Program) -> None:
    """The whole catalog, each id set or not, and which variables are missing, without anything being started."""
    environ = {"AGENTTRACE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x", "DASHSCOPE_APP_ID_3_CLUE": "clue-id"}
    found = program.json("apps", env=environ)
    ids = {app["app"]: app["app_id"] for app in found["apps"]}
    sessions = dict.fromkeys(("session-summary", "session-review", "session-score"))
    assert ids == dict.fromkeys(f"app{number}" for number in range(1, 9)) | sessions | {"app3": "clue-id"}
    assert not any("SESSION" in name for name in found["missing"]), "they are optional"
    assert "DASHSCOPE_APP_ID_3_CLUE" not in found["missing"]
    assert {"DASHSCOPE_API_KEY", "INTERNAL_API_TOKEN", "DASHSCOPE_APP_ID_8_CONSOLIDATE"} <= set(found["missing"])
    steps = {event["event"]: event["steps"] for event in found["events"]}
    assert steps["consumption"] == ["app3", "app8", "app7", "app4", "app5"]
    assert len(steps["dws_completed"]) == 8
    text = program.run("apps", env=environ | {"COLUMNS": "80", "BAILIAN_API_KEY": "old-secret"}).stdout
    assert "BAILIAN_API_KEY is now called DASHSCOPE_API_KEY" in text
    assert "old-secret" not in text
    assert len(text.splitlines()) <= 24
    assert not (program.home / "postgres").exists()


def test_apps_when_everything_is_set(program: Program) -> None:
    """Nothing is missing, and no secret is shown."""
    environ = environment("http://127.0.0.1:1/api/v1") | {"DASHSCOPE_API_KEY": "the-key-itself"}
    done = program.run("apps", env=environ)
    assert "All variables are set." in done.stdout
    assert all(app_id in done.stdout for app_id in BUILTIN_APP_IDS.values())
    assert "the-key-itself" not in done.stdout + done.stderr
    assert program.json("apps", env=environ)["missing"] == []


def test_apps_of_ones_own(program: Program) -> None:
    """What agenttrace.toml adds is shown; what cannot be is exit code 2 and names the table."""
    program.home.mkdir(mode=0o700)
    file = program.home / "agenttrace.toml"
    file.write_text(
        '[apps.extra]\ntype = "extra_app"\napp_id = "own-id"\ntitle = "Mine"\n[events.mine]\nlanes = ["extra → app3"]\n'
    )
    found = program.json("apps")
    assert next(app["app_id"] for app in found["apps"] if app["app"] == "extra") == "own-id"
    assert next(event["steps"] for event in found["events"] if event["event"] == "mine") == ["extra", "app3"]
    model = 'type = "talk"\nprovider = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m-1"\n'
    limit = 'rate_limit = { calls = 30 }\ntitle = { en = "Talk", zh = "聊天" }\n'
    file.write_text(
        f'[catalog]\nbase = "none"\n[apps.talk]\n{model}api_key_env = "MY_KEY"\n[apps.local]\n{model}{limit}'
    )
    found = program.json("apps")
    assert [(app["rate_limit"], app["titles"]) for app in found["apps"]] == [
        (None, {}),
        ({"limit": 30, "seconds": 60}, {"en": "Talk", "zh": "聊天"}),
    ]
    assert "30 a minute in all" in program.run("apps", env={"COLUMNS": "200"}).stdout
    assert [(app["app"], app["provider"], app["model"], app["missing"]) for app in found["apps"]] == [
        ("talk", "openai", "m-1", ["MY_KEY"]),
        ("local", "openai", "m-1", []),
    ]
    assert found["missing"] == ["MY_KEY", "INTERNAL_API_TOKEN"]
    shown = program.run("apps").stdout
    assert "MY_KEY" in shown
    assert "1 application can be called." in shown
    file.write_text('[events.mine]\nlanes = ["nothing"]\n')
    assert "events.mine" in program.run("apps", code=2).stderr


# ── tokens ──


def test_a_token_opens_the_chat(running: Running) -> None:
    """The token that is printed is one that the server takes, for that user and store."""
    token = running.program.run("token", "--user", "u1", "--site", "3").stdout.strip()
    claims = jwt.decode(token, SECRET, algorithms=["HS256"])
    assert (claims["sub"], claims["site_id"], claims["exp"] - claims["iat"]) == ("u1", 3, 30 * 86_400)
    answer = httpx.post(
        f"{running.url}/api/xcx/chat/stream",
        headers={"Authorization": f"Bearer {token}"},
        json={"message": "你好"},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 200
    events = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert set(events[:-1]) == {"message"}
    assert events[-1] == "done"
    [run] = running.program.json("runs", "--app", "app1")
    assert (run["user_id"], run["site_id"], run["status"]) == ("u1", 3, "success")


def test_a_token_needs_a_secret(program: Program) -> None:
    """Without one the error names the variable to set; a short one and a wrong user are refused."""
    assert "AGENTTRACE_JWT_SECRET" in program.run("token", "--user", "u1", "--site", "1", code=1).stderr
    short = program.run("token", "--user", "u1", "--site", "1", code=2, env={"AGENTTRACE_JWT_SECRET": "tooshort"})
    assert "at least 32 characters" in short.stderr
    assert "tooshort" not in short.stderr
    found = program.json("token", "--user", "u1", "--site", "1", "--days", "1", env={"AGENTTRACE_JWT_SECRET": SECRET})
    assert (found["user"], found["site_id"]) == ("u1", 1)
    for user in ("", "x" * 101, "line\nbreak"):
        program.run("token", "--user", user, "--site", "1", code=2, env={"AGENTTRACE_JWT_SECRET": SECRET})


# ── all of them ──


@pytest.mark.parametrize("command", [("jobs",), ("runs",), ("budget",), ("breakers",), ("cache", "list")])
def test_a_database_that_is_not_there(program: Program, command: tuple[str, ...]) -> None:
    """Exit code 1, one clear error with its fix, and no password in it."""
    for url in (f"postgresql://me:{PASSWORD}@127.0.0.1:1/x", f"postgresql//me:{PASSWORD}@127.0.0.1"):
        done = program.run(*command, code=1, env={"AGENTTRACE_DATABASE_URL": url})
        assert "the database cannot be used" in done.stderr
        assert "AGENTTRACE_DATABASE_URL" in done.stderr
        assert PASSWORD not in done.stdout + done.stderr


def test_a_database_that_may_not_be_used(alone: Program, database_url: str) -> None:
    """Without the rights to make its tables it is one clear error, not a traceback."""
    execute(database_url, "CREATE ROLE stranger LOGIN")
    try:
        execute(database_url, "DROP SCHEMA biz CASCADE")
        parts = urlsplit(database_url)
        stranger = parts._replace(netloc="stranger@" + parts.netloc.rpartition("@")[2]).geturl()
        done = alone.run("jobs", code=1, env={"AGENTTRACE_DATABASE_URL": stranger})
        assert "permission denied" in done.stderr
    finally:
        execute(database_url, "DROP ROLE stranger")


def test_a_number_that_no_row_can_have(alone: Program) -> None:
    """Nothing has it, or it is a usage error; never a failure of the database."""
    beyond = str(10**20)
    assert f"there is no job {beyond}" in alone.run("jobs", beyond, code=1).stderr
    assert "too large" in alone.run("runs", "--site", beyond, code=2).stderr


def test_the_embedded_database_serves_as_well(program: Program) -> None:
    """Without a server of one's own everything works all the same, and the database stops with the command."""
    assert program.json("jobs") == []
    assert program.json("budget")["allowed"] is True
    assert "No call matches" in program.run("runs").stdout
    assert not (program.home / "postgres" / "postmaster.pid").exists()


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_without_being_asked_to(program: Program, group: str) -> None:
    """Options without a command are those of the list; help stays help, and wrong words are usage errors."""
    assert "Commands" in program.run(group, "--help").stdout
    assert f"agenttrace {group} list" in program.run(group, "list", "-h").stdout
    assert "No such option" in program.run(group, "--nonsense", code=2).stderr
    assert "No such command" in program.run(group, "nonsense", code=2).stderr


def documented_lines() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("line", documented_lines())
def test_documented_command_lines_work(alone: Program, line: str) -> None:
    """Every line that the guide shows in a console block runs without a server and ends with 0."""
    name, *arguments = shlex.split(line)
    assert name == "agenttrace"
    assert alone.run(*arguments).stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_and_speaks_json(program: Program, command: str) -> None:
    """Examples fit on 80 columns, and --json is there for the command or each command of the group."""
    text = program.run(command, "--help", env={"COLUMNS": "80"}).stdout
    examples = text.split("Examples")[1]
    assert f"agenttrace {command}" in examples
    assert all(len(line.rstrip()) <= 80 for line in examples.splitlines())
    for part in GROUPS.get(command, ("",)):
        assert "--json" in program.run(*filter(None, (command, part)), "--help").stdout
