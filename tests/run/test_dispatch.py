"""Jobs from trigger to end: atomic acceptance, duplicates under concurrency, every error's consequence, take-over."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException

import forked
from agenttrace.run.catalog.catalog import DIMENSIONS
from agenttrace.run.jobs import dispatch
from agenttrace.run.jobs.dispatch import AIDispatcher, fire_event, use_dispatcher
from agenttrace.run.jobs.jobs import TriggerEvent
from agenttrace.run.jobs.queue import JobUnfinishedError
from agenttrace.run.simulator import Simulator, faults
from run.crew import APP_IDS, KEYS, Crew, facts_of, new_member, open_crew

Test = Callable[[Crew], Awaitable[None]]
ENTRIES = "SELECT count(*) FROM agenttrace_queue.procrastinate_jobs"


def with_crew(url: str, test: Test, **options: Any) -> None:  # noqa: ANN401 - those of open_crew
    async def run() -> None:
        async with Simulator() as simulator, open_crew(url, simulator, **options) as crew:
            await test(crew)

    asyncio.run(run())


def consumption(coach: int | None = None, **more: Any) -> TriggerEvent:  # noqa: ANN401 - fields of the event
    payload = None if coach is None else {"coach_id": coach}
    event = TriggerEvent(event_type="consumption", site_id=1, member_id=new_member(), payload=payload)
    return replace(event, **more)


async def called(crew: Crew, number: int) -> None:
    while len(crew.simulator.calls) < number:
        await asyncio.sleep(0.01)


# ── accepting ──


def test_a_job_and_its_entry_are_written_together_or_not_at_all(database_url: str) -> None:
    """With the queue broken nothing is accepted; with it, both are there."""

    async def check(crew: Crew) -> None:
        await crew.dispatcher.handle_trigger(consumption())
        assert await crew.database.one(ENTRIES) == (1,)
        await crew.database.execute("ALTER TABLE agenttrace_queue.procrastinate_jobs RENAME TO elsewhere")
        with pytest.raises(ConnectorException):
            await crew.dispatcher.handle_trigger(consumption())
        assert await crew.database.one("SELECT count(*) FROM biz.ai_trigger_jobs") == (1,)

    with_crew(database_url, check)


def test_of_equal_triggers_at_the_same_instant_one_runs(database_url: str) -> None:
    """Thirty at once, over two pools: one is pending, the others name it; forced ones all run."""

    async def check(crew: Crew) -> None:
        async with open_crew(database_url, crew.simulator) as other:
            event = consumption()
            twice = [each.dispatcher.handle_trigger(event) for _ in range(15) for each in (crew, other)]
            accepted = await asyncio.gather(*twice)
            pending = [job_id for job_id, status, _ in accepted if status == "pending"]
            assert len(pending) == 1
            skipped = [await crew.job(job_id) for job_id, _, first in accepted if first == pending[0]]
            assert {job.error_message for job in skipped} == {f"duplicate of job {pending[0]}"}
            assert len(skipped) == 29
            forced = consumption(member_id=event.member_id, is_forced=True)
            all_forced = await asyncio.gather(*[crew.dispatcher.handle_trigger(forced) for _ in range(3)])
            assert [each.status for each in all_forced] == ["pending"] * 3
            assert await crew.database.one(ENTRIES) == (4,)

    with_crew(database_url, check)


_RACER = """
import asyncio, sys
sys.path[:0] = sys.argv[2:]
from agenttrace.run.jobs.jobs import TriggerEvent
from agenttrace.run.simulator import Simulator
from run.crew import open_crew

async def main():
    async with Simulator() as simulator, open_crew(sys.argv[1], simulator) as crew:
        print("ready", flush=True)
        sys.stdin.readline()
        for member in range(60):
            event = TriggerEvent(event_type="note_created", site_id=5, member_id=member)
            forced = TriggerEvent(event_type="note_created", site_id=5, member_id=member, is_forced=True)
            await asyncio.gather(crew.dispatcher.handle_trigger(event), crew.dispatcher.handle_trigger(forced))

asyncio.run(main())
"""


def test_processes_agree_on_what_is_a_duplicate(database_url: str) -> None:
    """Two processes that race through the same events: each event runs once unforced, and every forced one runs."""
    command = [sys.executable, "-c", _RACER, database_url, *sys.path]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [forked.popen(command, late=True, **pipes) for _ in range(2)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    assert [racer.communicate("go\n") and racer.returncode for racer in racers] == [0, 0]
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT is_forced, status, count(*), count(DISTINCT member_id) FROM biz.ai_trigger_jobs GROUP BY 1, 2"
        ).fetchall()
        queued = connection.execute(ENTRIES.encode()).fetchone()
    assert sorted(rows) == [
        (False, "pending", 60, 60),
        (False, "skipped_duplicate", 60, 60),
        (True, "pending", 120, 60),
    ]
    assert queued == (180,)


def test_accepting_outlives_connections_that_were_cut(database_url: str) -> None:
    """Every connection of the pool dead: the trigger is accepted all the same, once."""

    async def check(crew: Crew) -> None:
        await asyncio.gather(*[crew.database.one("SELECT pg_sleep(0.05)") for _ in range(5)])
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert (await crew.dispatcher.handle_trigger(consumption())).status == "pending"
        assert await crew.database.one("SELECT count(*) FROM biz.ai_trigger_jobs") == (1,)

    with_crew(database_url, check)


def test_odd_payloads_are_taken(database_url: str) -> None:
    """NUL and halves of surrogate pairs, which PostgreSQL refuses, do not stop an event."""

    async def check(crew: Crew) -> None:
        job = await crew.run(consumption(payload={"note": "a\x00b\ud800", "coach_id": None}))
        assert (job.status, job.payload) == ("completed", {"note": "a\ufffdb\ufffd", "coach_id": None})

    with_crew(database_url, check)


def test_events_from_the_same_process(database_url: str) -> None:
    """``fire_event`` hands them to the dispatcher that is in use, and says so if there is none."""

    async def check(crew: Crew) -> None:
        with pytest.raises(RuntimeError, match="no dispatcher"):
            await fire_event("note_created", 1)
        use_dispatcher(crew.dispatcher)
        try:
            accepted = await fire_event("note_created", 1, 77, {"note_id": 5}, connector_type="other")
            job = await crew.job(accepted.job_id)
            assert (job.event_type, job.member_id, job.payload) == ("note_created", 77, {"note_id": 5})
            assert (job.connector_type, job.app_chain) == ("other", "app6→app8")
        finally:
            use_dispatcher(None)

    with_crew(database_url, check)
    assert dispatch._current is None


# ── errors ──


def test_a_refused_key_stops_the_steps_that_use_it(database_url: str) -> None:
    """401: with this key no further step is called, in no lane, and the job has failed."""

    async def check(crew: Crew) -> None:
        crew.simulator.always(APP_IDS["app3"], faults.status(401))
        crew.simulator.always(APP_IDS["app4"], faults.status(401))
        job = await crew.run(consumption(coach=1))
        assert job.status == "failed"
        assert "failed: " in (job.error_message or "")
        assert (job.error_message or "").count("skipped: its key was refused") == 3
        assert set(crew.asked(job)) == {"app3", "app4"}

    with_crew(database_url, check)


#: Which models answer 401 or 403, which are called, and how the job ends.
REFUSALS = {
    "the key of DashScope": ({"app3": 401}, ["app3", "one", "two", "three"], "completed"),
    "a key of two models": ({"one": 401}, ["app3", "one", "three", "app7"], "completed"),
    "the right to a model": ({"one": 403}, ["app3", "one", "two", "three", "app7"], "completed"),
    "every key": ({"app3": 401, "one": 401, "three": 401}, ["app3", "one", "three"], "failed"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_key_concerns_only_the_applications_that_use_it(database_url: str, case: str) -> None:
    """Steps with another key are called, in the same lane too, and their results count."""
    refused, called, status = REFUSALS[case]

    async def check() -> None:
        async with Simulator() as simulator:
            there = {"provider": "openai", "base_url": simulator.openai_url}
            models = {name: {**there, "type": name, "model": name} for name in ("one", "two", "three")}
            # Another endpoint, and so another key.
            models["three"]["base_url"] += "/"
            lanes = {"mixed": {"lanes": ["app3 → one → two → three → app7"]}}
            for name, code in refused.items():
                simulator.always(APP_IDS.get(name, name), faults.status(code))
            async with open_crew(database_url, simulator, table={"apps": models, "events": lanes}) as crew:
                job = await crew.run(TriggerEvent(event_type="mixed", site_id=1, member_id=new_member()))
        assert [KEYS.get(call.app_id, call.app_id) for call in simulator.calls] == called
        assert job.status == status
        assert all(f"{name}: failed: " in (job.error_message or "") for name in refused)

    asyncio.run(check())


def test_an_open_circuit_skips_its_step_only(database_url: str) -> None:
    """The refusal is a row of the run log, the application is not called, and the others are."""

    async def check(crew: Crew) -> None:
        await crew.breaker.hold_open(APP_IDS["app8"])
        job = await crew.run(consumption())
        assert sorted(crew.asked(job)) == ["app3", "app7"]
        assert job.status == "completed"
        assert (job.error_message or "").startswith("app8: circuit_open: ")
        view = await crew.dispatcher.jobs.view(job.id)
        assert view is not None
        assert {step.step: step.status for step in view.steps} == {
            "app3": "success",
            "app8": "circuit_open",
            "app7": "success",
        }

    with_crew(database_url, check)


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [({"daily_limit": 0}, "budget_exceeded", "budget_exceeded: "), ({"store_limit": 0}, "failed", "rate_limited: ")],
)
def test_a_job_whose_steps_are_all_refused(database_url: str, options: dict[str, int], status: str, told: str) -> None:
    """It ends as budget_exceeded if the budget was one of the reasons, else as failed, with each step's reason."""

    async def check(crew: Crew) -> None:
        job = await crew.run(consumption(coach=1))
        assert job.status == status
        assert (job.error_message or "").count(told) == 5
        assert crew.simulator.calls == []
        assert await crew.cache.list() == []

    with_crew(database_url, check, **options)


def test_clues_that_cannot_be_written_are_the_jobs_error(database_url: str) -> None:
    """App8's call stays recorded, nothing of its transaction does, later steps get its result, the job tells."""

    async def check(crew: Crew) -> None:
        await crew.database.execute("ALTER TABLE biz.member_retention_clue RENAME TO elsewhere")
        crew.simulator.answer(APP_IDS["app8"], {"clues": [{"summary": "s"}]})
        job = await crew.run(consumption())
        assert job.status == "completed"
        assert (job.error_message or "").startswith("app8: its result was not written: ")
        assert crew.asked(job)["app7"][0]["inputs"]["app8"] == {"clues": [{"summary": "s"}]}
        assert sorted(await crew.run_logs.finished_steps(job.id)) == ["app3", "app7", "app8"]
        assert await crew.cache.list(cache_type="app8_clue_consolidated") == []

    with_crew(database_url, check)


def test_clues_are_those_of_the_events_day(database_url: str) -> None:
    """One row for member and day, with the job that wrote it and a summary."""

    async def check(crew: Crew) -> None:
        crew.simulator.answer(APP_IDS["app8"], {"clues": [{"summary": "周末到店"}, {"summary": "爱打八球"}]})
        job = await crew.run(consumption())
        again = await crew.run(consumption(member_id=job.member_id, is_forced=True))
        (row,) = await crew.clues.of_member(1, job.member_id or 0)
        assert (row["clue_date"], row["trigger_job_id"]) == (job.event_date, again.id)
        assert row["summary"] == "周末到店;爱打八球"

    with_crew(database_url, check)


def test_an_unexpected_error_ends_the_job_with_its_reason(database_url: str) -> None:
    """A fault of our own is no reason for a job to hang."""

    async def check(crew: Crew) -> None:
        await crew.database.execute("ALTER TABLE biz.ai_cache RENAME TO elsewhere")
        job = await crew.run(consumption())
        assert job.status == "failed"
        assert "UndefinedTable" in (job.error_message or "")
        assert job.finished_at is not None

    with_crew(database_url, check)


def test_without_the_variables_triggers_are_accepted_and_nothing_is_called(database_url: str) -> None:
    """A dispatcher without a client accepts; run there, a job fails with the reason."""

    async def check(crew: Crew) -> None:
        bare = AIDispatcher(
            crew.database,
            crew.dispatcher.catalog,
            None,
            cache=crew.cache,
            run_logs=crew.run_logs,
            clues=crew.clues,
            queue=crew.queue,
        )
        accepted = await bare.handle_trigger(consumption())
        assert accepted.status == "pending"
        assert await bare.execute(accepted.job_id) == "failed"
        assert "not set" in ((await crew.job(accepted.job_id)).error_message or "")

    with_crew(database_url, check)


# ── take-over, stop, cancel ──


def test_a_job_is_taken_over_without_calling_finished_steps_again(database_url: str) -> None:
    """The earlier worker is refused, even if its call still succeeds; every token is counted once."""

    async def check(crew: Crew) -> None:
        crew.simulator.script(APP_IDS["app8"], faults.slow(1.5))
        accepted = await crew.dispatcher.handle_trigger(consumption())
        first = asyncio.create_task(crew.dispatcher.execute(accepted.job_id))
        await called(crew, 2)
        assert await crew.dispatcher.execute(accepted.job_id) == "completed"
        assert await first == "superseded"
        job = await crew.job(accepted.job_id)
        assert (job.status, job.error_message, job.claim) == ("completed", None, 2)
        asked = {step: len(calls) for step, calls in crew.asked(job).items()}
        assert asked == {"app3": 1, "app8": 2, "app7": 1}
        rows = await crew.run_logs.list(job=job.id)
        assert sorted(row["status"] for row in rows) == ["failed", "failed", "success", "success", "success"]
        assert all(row["tokens_used"] for row in rows if row["status"] == "success")

    with_crew(database_url, check)


def test_a_result_that_comes_late_is_used(database_url: str) -> None:
    """The worker taken for dead finishes its call before its successor does: the successor goes on with that result."""

    async def check(crew: Crew) -> None:
        crew.simulator.script(APP_IDS["app8"], faults.slow(0.6), faults.slow(1.5))
        numbers = iter(range(9))
        crew.simulator.answer(APP_IDS["app8"], lambda _: {"answer": next(numbers)})
        accepted = await crew.dispatcher.handle_trigger(consumption())
        first = asyncio.create_task(crew.dispatcher.execute(accepted.job_id))
        await called(crew, 2)
        second = asyncio.create_task(crew.dispatcher.execute(accepted.job_id))
        await called(crew, 3)
        assert (await first, await second) == ("superseded", "completed")
        job = await crew.job(accepted.job_id)
        (kept,) = [row for row in await crew.run_logs.list(job=job.id, bodies=True) if _kept(row, "app8")]
        (asked,) = crew.asked(job)["app7"]
        assert asked["inputs"]["app8"] == json.loads(kept["response_text"])
        cached = await crew.cache.get("app8_clue_consolidated", 1, str(job.member_id))
        assert cached is not None
        assert cached["result_json"] == asked["inputs"]["app8"]
        assert await crew.cache.list(status="generating") == []

    with_crew(database_url, check)


def _kept(row: dict[str, Any], step: str) -> bool:
    return (row["step"], row["status"]) == (step, "success")


def test_a_stop_leaves_the_job_for_another_worker(database_url: str) -> None:
    """The running call finishes, no step is begun after it, and the next worker does exactly the rest."""

    async def check(crew: Crew) -> None:
        stopping = asyncio.Event()
        crew.simulator.script(APP_IDS["app3"], faults.slow(0.3))
        accepted = await crew.dispatcher.handle_trigger(consumption(coach=1))
        first = asyncio.create_task(crew.dispatcher.execute(accepted.job_id, stopping=stopping.is_set))
        await called(crew, 1)
        stopping.set()
        with pytest.raises(JobUnfinishedError):
            await first
        job = await crew.job(accepted.job_id)
        assert job.status == "running"
        assert "app3" in await crew.run_logs.finished_steps(job.id)
        assert "app8" not in crew.asked(job)
        assert await crew.dispatcher.execute(job.id) == "completed"
        asked = crew.asked(job)
        assert sorted(asked) == ["app3", "app4", "app5", "app7", "app8"]
        assert all(len(calls) == 1 for calls in asked.values())

    with_crew(database_url, check)


def test_a_job_that_is_over_is_not_run_again(database_url: str) -> None:
    """Executing it tells its status and calls nothing; so does one that never was."""

    async def check(crew: Crew) -> None:
        job = await crew.run(consumption())
        number = len(crew.simulator.calls)
        assert await crew.dispatcher.execute(job.id) == "completed"
        assert await crew.dispatcher.execute(999_999) == "missing"
        assert len(crew.simulator.calls) == number
        assert await crew.job(job.id) == job

    with_crew(database_url, check)


def test_cancelling(database_url: str) -> None:
    """A waiting job ends at once, a running one before its next step, one that is over not at all."""

    async def check(crew: Crew) -> None:
        waiting = await crew.dispatcher.handle_trigger(consumption())
        assert await crew.dispatcher.jobs.cancel(waiting.job_id)
        assert await crew.dispatcher.execute(waiting.job_id) == "cancelled"
        assert crew.simulator.calls == []
        crew.simulator.script(APP_IDS["app3"], faults.slow(0.3))
        accepted = await crew.dispatcher.handle_trigger(consumption())
        running = asyncio.create_task(crew.dispatcher.execute(accepted.job_id))
        await called(crew, 1)
        assert await crew.dispatcher.jobs.cancel(accepted.job_id)
        assert await running == "cancelled"
        job = await crew.job(accepted.job_id)
        assert list(crew.asked(job)) == ["app3"]
        assert job.finished_at is not None
        assert not await crew.dispatcher.jobs.cancel(job.id)
        assert not await crew.dispatcher.jobs.cancel(999_999)
        assert await crew.cache.list(status="generating") == []

    with_crew(database_url, check)


def test_running_again(database_url: str) -> None:
    """A re-run is a forced job of its own with the same event, which names the first; of nothing there is none."""

    async def check(crew: Crew) -> None:
        job = await crew.run(consumption(coach=4))
        again = await crew.dispatcher.rerun(job.id)
        assert again is not None
        assert again.status == "pending"
        await crew.dispatcher.execute(again.job_id)
        second = await crew.job(again.job_id)
        assert (second.is_forced, second.rerun_of, second.payload) == (True, job.id, job.payload)
        assert second.status == "completed"
        assert all(len(calls) == 2 for calls in crew.asked(job).values())
        assert await crew.dispatcher.rerun(999_999) is None

    with_crew(database_url, check)


# ── what can be seen ──


def test_jobs_are_listed_by_what_they_are(database_url: str) -> None:
    """Each filter leaves exactly the jobs that match, the newest first; pages follow each other without a gap."""

    async def check(crew: Crew) -> None:
        events = [consumption(site_id=site) for site in (1, 2, 1, 2, 1)]
        accepted = [await crew.dispatcher.handle_trigger(event) for event in events]
        ids = [each.job_id for each in accepted]
        await crew.dispatcher.execute(ids[0])
        jobs = crew.dispatcher.jobs.list
        assert [job.id for job in await jobs()] == ids[::-1]
        assert [job.id for job in await jobs(site_id=2)] == [ids[3], ids[1]]
        assert [job.id for job in await jobs(status="completed")] == [ids[0]]
        assert [job.id for job in await jobs(member_id=events[2].member_id)] == [ids[2]]
        assert await jobs(event_type="note_created") == []
        page = await jobs(limit=2)
        assert [job.id for job in await jobs(limit=9, before_id=page[-1].id)] == ids[2::-1]
        third = (await crew.job(ids[2])).created_at
        assert [job.id for job in await jobs(since=third)] == ids[:1:-1]
        assert [job.id for job in await jobs(until=third)] == ids[1::-1]

    with_crew(database_url, check)


def test_a_job_is_shown_with_its_steps(database_url: str) -> None:
    """Prompt, answer, tokens and attempts of each step are there; an unknown job is None."""

    async def check(crew: Crew) -> None:
        crew.simulator.script(APP_IDS["app3"], faults.status(500))
        job = await crew.run(consumption())
        view = await crew.dispatcher.jobs.view(job.id)
        assert view is not None
        assert view.job == job
        step = view.steps[0]
        assert (step.step, step.app_type, step.status, step.attempts) == ("app3", "app3_clue", "success", 2)
        assert json.loads(step.response or "")
        assert step.tokens_used > 0
        assert str(job.member_id) in (step.prompt or "")
        assert await crew.dispatcher.jobs.view(999_999) is None

    with_crew(database_url, check)


def test_the_same_facts_give_the_same_prompt(database_url: str) -> None:
    """Prompts of two runs of one event are equal to the letter, whatever the order of the payload's keys."""

    async def check(crew: Crew) -> None:
        first = await crew.run(consumption(payload={"a": 1, "b": {"d": 2, "c": 3}}))
        same = {"b": {"c": 3, "d": 2}, "a": 1}
        await crew.run(consumption(payload=same, member_id=first.member_id, is_forced=True))
        prompts = [call.body["input"]["prompt"] for call in crew.simulator.calls if call.app_id == APP_IDS["app3"]]
        assert len(prompts) == 2
        assert prompts[0] == prompts[1]

    with_crew(database_url, check)


def test_steps_of_all_lanes_share_the_limit_of_a_job(database_url: str) -> None:
    """With two at a time, never more than two of the eight dimensions are under way."""

    async def check(crew: Crew) -> None:
        crew.dispatcher._step_concurrency = 2
        most = 0

        def answer(_: dict[str, Any]) -> dict[str, Any]:
            nonlocal most
            most = max(most, sum(call.outcome == "running" for call in crew.simulator.calls))
            return {}

        crew.simulator.answer(APP_IDS["app2"], answer)
        crew.simulator.always(APP_IDS["app2"], faults.slow(0.02))
        job = await crew.run(TriggerEvent(event_type="dws_completed", site_id=3))
        assert len(crew.asked(job)) == len(DIMENSIONS)
        assert most == 2

    with_crew(database_url, check)


def test_what_an_earlier_worker_did_not_write_to_the_trace_is_written_by_the_next(
    database_url: str, tmp_path: Path
) -> None:
    """After a take-over, the end of every call stands in the log, under the number of its run log."""

    async def check(crew: Crew) -> None:
        stopping = asyncio.Event()
        crew.simulator.script(APP_IDS["app3"], faults.slow(0.2))
        accepted = await crew.dispatcher.handle_trigger(consumption())
        first = asyncio.create_task(crew.dispatcher.execute(accepted.job_id, stopping=stopping.is_set))
        await called(crew, 1)
        stopping.set()
        with pytest.raises(JobUnfinishedError):
            await first
        for path in tmp_path.iterdir():
            path.unlink()
        await crew.dispatcher.execute(accepted.job_id)
        lines = [json.loads(line) for path in tmp_path.iterdir() for line in path.read_text("utf-8").splitlines()]
        ends = {line["id"]: line["step"] for line in lines if line["type"] == "step.end"}
        rows = await crew.run_logs.list(job=accepted.job_id)
        assert ends == {str(row["id"]): f"{row['step']}#{row['id']}" for row in rows}
        assert {line["session"] for line in lines} == {(await crew.job(accepted.job_id)).session_id}
        assert lines[-1]["type"] == "session.end"

    with_crew(database_url, check, logs=tmp_path)


# ── results of events without a member, and of workers that died ──


def test_events_without_a_member_share_no_result(database_url: str) -> None:
    """Two customers without a number: neither finds, nor replaces, what the applications said about the other."""

    async def check(crew: Crew) -> None:
        first = await crew.run(consumption(member_id=None))
        second = await crew.run(consumption(member_id=None, is_forced=True))
        rows = await crew.database.all("SELECT target_id, status FROM biz.ai_cache WHERE cache_type = 'app3_clue'")
        assert sorted(rows) == [(f"job:{first.id}", "valid"), (f"job:{second.id}", "valid")]
        # A third one whose first step fails gets nothing from the others.
        crew.simulator.always(APP_IDS["app3"], faults.status(400))
        await crew.run(consumption(member_id=None, is_forced=True))
        asked = [facts_of(call.body) for call in crew.simulator.calls if call.app_id == APP_IDS["app8"]][-1]
        assert (asked["inputs"], asked["missing_inputs"]) == ({}, ["app3", "app6"])

    with_crew(database_url, check)


def test_a_takeover_frees_what_the_dead_worker_was_generating(database_url: str) -> None:
    """The next worker of the job finds no lease of the dead one in the cache."""

    async def check(crew: Crew) -> None:
        accepted = await crew.dispatcher.handle_trigger(consumption())
        job = await crew.dispatcher._claim(accepted.job_id)
        assert job is not None
        where = ("app3_clue", job.site_id, str(job.member_id))
        dead = await crew.cache.begin_generating(*where, f"job_{job.id}")
        other = await crew.cache.begin_generating("app3_clue", job.site_id, "other", "job_999")
        assert await crew.dispatcher._claim(accepted.job_id) is not None
        left = "SELECT id FROM biz.ai_cache WHERE status = 'generating'"
        assert await crew.database.all(left) == [(other,)]
        assert dead != other
        assert await crew.cache.begin_generating(*where, f"job_{job.id}") is not None

    with_crew(database_url, check)
