"""Events start the right chains, failures do not stop them, duplicates are skipped: on PostgreSQL, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.catalog.catalog import DIMENSIONS, AppCatalog, UnknownEventError
from agenttrace.run.jobs.chain import target_of
from agenttrace.run.jobs.jobs import TriggerEvent, TriggerJob
from agenttrace.run.simulator import faults
from example_counts import COSTLY
from run.crew import APP_IDS, Crew, lasting_crew, new_member
from run.world import written

#: What the document says each event starts, lane by lane.
LANES: dict[tuple[str, bool], list[list[str]]] = {
    ("consumption", False): [["app3", "app8", "app7"]],
    ("consumption", True): [["app3", "app8", "app7"], ["app4", "app5"]],
    ("note_created", False): [["app6", "app8"]],
    ("note_created", True): [["app6", "app8"]],
    ("task_assigned", False): [["app4", "app5"]],
    ("task_assigned", True): [["app4", "app5"]],
    ("dws_completed", False): [[f"app2:{dimension}"] for dimension in DIMENSIONS],
    ("dws_completed", True): [[f"app2:{dimension}"] for dimension in DIMENSIONS],
}
INPUTS = {"app8": ("app3", "app6"), "app7": ("app8",), "app5": ("app4",)}
EVENTS = st.sampled_from(["consumption", "note_created", "task_assigned", "dws_completed"])
COACHES = st.none() | st.integers(1, 9)
FAULTS = st.sampled_from([faults.status(500), faults.status(400), faults.bad_json(), faults.html(), faults.reset()])

Bench = tuple[asyncio.Runner, Crew]


@pytest.fixture(scope="module")
def bench(module_database_url: str) -> Iterator[Bench]:
    with lasting_crew(module_database_url) as found:
        yield found


def triggered(event_type: str, coach: int | None, **more: Any) -> TriggerEvent:  # noqa: ANN401 - fields of the event
    payload = {"coach_id": coach, "note": "备注"}
    return TriggerEvent(event_type=event_type, site_id=1, member_id=new_member(), payload=payload, **more)


# Feature: P14-ai-dashscope-migration, Property 9: 事件类型到调用链映射
@given(event_type=EVENTS, coach=COACHES, forced=st.booleans())
def test_an_event_runs_its_chain(bench: Bench, event_type: str, coach: int | None, forced: bool) -> None:
    """Each event calls exactly the applications of the document, once each, every lane in its order."""
    runner, crew = bench
    crew.simulator.clear("calls")
    job = runner.run(crew.run(triggered(event_type, coach, is_forced=forced)))
    lanes = LANES[event_type, coach is not None]
    asked = crew.asked(job)
    assert (job.status, job.error_message) == ("completed", None)
    assert sorted(asked) == sorted(step for lane in lanes for step in lane)
    assert all(len(calls) == 1 for calls in asked.values())
    order = list(asked)
    assert all([step for step in order if step in lane] == lane for lane in lanes)


@given(event_type=EVENTS, coach=COACHES | st.just(0) | st.just(""))
def test_the_catalog_has_the_lanes_of_the_document(event_type: str, coach: object) -> None:
    """A coach is there when the payload names one that is not null, and the chain's text fits its column."""
    chain = AppCatalog.load(None).chain(event_type, {"coach_id": coach})
    assert [[step.name for step in lane] for lane in chain.lanes] == LANES[event_type, coach is not None]
    assert all(step.after == ((before.name,) if before else ()) for before, step in _neighbours(chain.lanes))
    assert 0 < len(chain.text) <= 100


def _neighbours(lanes: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - tuples of steps
    for lane in lanes:
        yield from zip((None, *lane), lane, strict=False)


@given(st.text().filter(lambda name: name not in {event for event, _ in LANES}))
def test_an_unknown_event_is_refused(name: str) -> None:
    """What no chain is known for is an error that says what is known."""
    with pytest.raises(UnknownEventError, match="consumption"):
        AppCatalog.load(None).chain(name, None)


# Feature: P14-ai-dashscope-migration, Property 10: 调用链容错不中断
@COSTLY
@given(
    event_type=EVENTS,
    coach=COACHES,
    failing=st.dictionaries(st.sampled_from(sorted(APP_IDS)), FAULTS, min_size=1),
    cached=st.sets(st.sampled_from(sorted({key for keys in INPUTS.values() for key in keys}))),
)
def test_a_failed_step_does_not_stop_its_chain(
    bench: Bench, event_type: str, coach: int | None, failing: dict[str, faults.Fault], cached: set[str]
) -> None:
    """Whatever fails, every step is tried; later ones get this run's result, else the cached one, else its name."""
    runner, crew = bench
    crew.simulator.clear("calls")
    for key, app_id in APP_IDS.items():
        crew.simulator.always(app_id, failing.get(key))
        crew.simulator.answer(app_id, {"fresh": key})
    try:
        job = runner.run(_with_cache(crew, triggered(event_type, coach), cached))
    finally:
        crew.simulator.clear("faults")
        crew.simulator.clear("answers")
    steps = [step for lane in LANES[event_type, coach is not None] for step in lane]
    failed = {step for step in steps if step.partition(":")[0] in failing}
    asked = crew.asked(job)
    assert sorted(asked) == sorted(steps)
    for step, key in ((name, key) for name in steps for key in INPUTS.get(name, ())):
        fact = asked[step][0]
        fresh = key in steps and key not in failed
        expected = {"fresh": key} if fresh else {"old": key} if key in cached else None
        assert fact["inputs"].get(key) == expected, (step, key)
        assert (key in fact["missing_inputs"]) == (expected is None)
        assert (key in fact["cached_inputs"]) == (expected == {"old": key})
    assert job.status == ("failed" if failed == set(steps) else "completed")
    named = {part.partition(": ")[0] for part in (job.error_message or "").split("; ") if part}
    assert failed <= named
    assert not (set(steps) - failed) & named


async def _with_cache(crew: Crew, event: TriggerEvent, cached: set[str]) -> TriggerJob:
    accepted = await crew.dispatcher.handle_trigger(event)
    job = await crew.job(accepted.job_id)
    for key in sorted(cached):
        app = crew.dispatcher.catalog.apps[key]
        assert app.cache is not None
        step = crew.dispatcher.catalog.chain(event.event_type, event.payload).steps[0]
        where = (app.cache.cache_type, job.site_id, target_of(app, step, job))
        async with crew.database.transaction() as connection:
            await written(connection, crew.cache.storing(*where, {"old": key}, crew.cache.expiry(app.cache)))
    await crew.dispatcher.execute(job.id)
    return await crew.job(job.id)


DAY = datetime(2026, 11, 15, 12, tzinfo=UTC)
TRIGGERS = st.tuples(
    st.sampled_from(["consumption", "note_created"]),
    st.none() | st.integers(1, 2),
    st.integers(1, 2),
    # Around midnight in Shanghai, which is 16:00 in UTC.
    st.sampled_from([DAY, DAY.replace(hour=15, minute=59), DAY.replace(hour=16), DAY + timedelta(days=1)]),
    st.booleans(),
)


# Feature: P14-ai-dashscope-migration, Property 12: 事件去重与强制执行
@COSTLY
@given(st.lists(TRIGGERS, min_size=2, max_size=12))
def test_only_the_first_of_equal_events_runs_and_forced_ones_always(
    bench: Bench, triggers: list[tuple[str, int | None, int, datetime, bool]]
) -> None:
    """An event is skipped iff the same (type, member, site, business day) came before unforced; it names that job."""
    runner, crew = bench
    site = new_member() * 1000
    first: dict[tuple[Any, ...], int] = {}

    async def check() -> None:
        for event_type, member, store, at, forced in triggers:
            crew.dispatcher._clock = lambda at=at: at
            event = TriggerEvent(event_type=event_type, site_id=site + store, member_id=member, is_forced=forced)
            key = (event_type, member, store, at.astimezone(ZoneInfo("Asia/Shanghai")).date())
            duplicate = not forced and key in first
            job_id, status, _ = await crew.dispatcher.handle_trigger(event)
            assert status == ("skipped_duplicate" if duplicate else "pending")
            job = await crew.job(job_id)
            assert (job.status, job.event_date) == (status, key[3])
            assert job.error_message == (f"duplicate of job {first[key]}" if duplicate else None)
            if not forced:
                first.setdefault(key, job_id)

    try:
        runner.run(check())
    finally:
        crew.dispatcher._clock = None
