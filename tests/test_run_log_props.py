"""The run log's state machine and what it keeps of a prompt, as admission and settling write it, on PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.errors import DashScopeError
from agenttrace.run.guards.admission import Admissions
from agenttrace.run.guards.breaker import CircuitBreaker
from agenttrace.run.results.run_log import AIRunLogService, RunLogTransitionError
from agenttrace.run.states import RunStatus
from agenttrace.run.upstream.calls import CallOutcome, CallRequest, RateRule
from run.world import SUCCESS, World, call, open_world, settled

PLENTY = 10**12
HELD_APP = "an application whose breaker is held open"
REFUSALS = (RunStatus.BUDGET_EXCEEDED, RunStatus.RATE_LIMITED, RunStatus.CIRCUIT_OPEN)
ENDS = (RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.TIMEOUT)

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=50)
numbers = st.integers(0, 2**31 - 1)
outcomes = st.builds(
    lambda status, text, message, tokens, latency: replace(
        SUCCESS,
        status=status,
        response_text=text if status == RunStatus.SUCCESS else None,
        error_message=None if status == RunStatus.SUCCESS else message,
        tokens_used=tokens,
        latency_ms=latency,
    ),
    st.sampled_from(ENDS),
    texts,
    texts,
    numbers,
    numbers,
)


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with open_world(module_database_url) as world:
        world.run(CircuitBreaker(world.database).hold_open(HELD_APP))
        yield world


def row_of(world: World, request: CallRequest) -> dict[str, Any]:
    [row] = world.run(world.database.rows("SELECT * FROM biz.ai_run_logs WHERE call_key = %s", [request.key]))
    return row


def asked(status: RunStatus, prompt: str = "提示") -> CallRequest:
    """A call that is admitted, or refused for this reason."""
    return call(
        prompt=prompt,
        app_id=HELD_APP if status == RunStatus.CIRCUIT_OPEN else "app-3",
        rate=RateRule(scope="store", limit=0 if status == RunStatus.RATE_LIMITED else PLENTY % 2**31, seconds=3600),
        estimate=0,
    )


def admitted(world: World, request: CallRequest, status: RunStatus) -> int:
    """Ask for admission, as every call does; the row's number, whatever the answer."""
    limit = 0 if status == RunStatus.BUDGET_EXCEEDED else PLENTY
    admissions = Admissions(world.database, process_id=uuid.uuid4(), daily_limit=limit, monthly_limit=PLENTY)
    if status == RunStatus.RUNNING:
        return world.run(admissions.admit(request)).log_id
    with pytest.raises(DashScopeError) as refused:
        world.run(admissions.admit(request))
    assert refused.value.status == status
    return int(row_of(world, request)["id"])


def assert_complete(row: dict[str, Any]) -> None:
    """What property 18 asks of a row in each state."""
    if row["status"] == RunStatus.SUCCESS:
        for name in ("response_text", "tokens_used", "latency_ms", "finished_at"):
            assert row[name] is not None, name
    if row["status"] == RunStatus.FAILED:
        assert row["error_message"] is not None
    assert (row["finished_at"] is None) == (row["status"] in ("pending", "running"))


# Feature: P14-ai-dashscope-migration, Property 18: AI 运行日志状态机
@given(first=st.sampled_from((RunStatus.RUNNING, *REFUSALS)), ends=st.lists(outcomes, min_size=1, max_size=4))
def test_a_call_only_goes_the_legal_ways(world: World, first: RunStatus, ends: list[CallOutcome]) -> None:
    """Admission leaves a running row or a final refusal; a running one is settled once, and then stays as it is."""
    logs, request = AIRunLogService(world.database), asked(first)
    log_id = admitted(world, request, first)
    before = row_of(world, request)
    assert (before["id"], before["status"]) == (log_id, first)
    assert_complete(before)
    for outcome in ends:
        if before["status"] == RunStatus.RUNNING:
            assert world.run(settled(logs, log_id, request, outcome)) == log_id
            after = row_of(world, request)
            assert {name: after[name] for name in ("status", "tokens_used", "latency_ms", "response_text")} == {
                "status": outcome.status,
                "tokens_used": outcome.tokens_used,
                "latency_ms": outcome.latency_ms,
                "response_text": outcome.response_text,
            }
        elif (before["status"], before["error_message"]) == (outcome.status, outcome.error_message):
            # Told twice, because the first acknowledgement was lost: nothing changes.
            assert world.run(settled(logs, log_id, request, outcome)) == log_id
            after = row_of(world, request)
            assert after == before
        else:
            with pytest.raises(RunLogTransitionError):
                world.run(settled(logs, log_id, request, outcome))
            after = row_of(world, request)
            assert after == before
        assert_complete(after)
        before = after


prompts = st.builds(
    lambda text, times, tail: text * times + tail,
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30),
    st.integers(0, 200),
    st.sampled_from(("", "。", "😀", "e\u0301", "\u2028")),
)


# Feature: P14-ai-dashscope-migration, Property 19: Prompt 截断不变量
@given(
    prompt=st.one_of(prompts, st.integers(1990, 2010).map(lambda length: "😀" * length)),
    first=st.sampled_from((RunStatus.RUNNING, *REFUSALS)),
)
def test_a_prompt_is_cut_at_2000_characters(world: World, prompt: str, first: RunStatus) -> None:
    """However a row comes about, it holds the prompt's first 2,000 characters: all of it if it is no longer."""
    asking = asked(first, prompt)
    admitted(world, asking, first)
    # The row of the admission was lost in a crash of the server: settling writes it anew.
    anew = call(prompt=prompt)
    world.run(settled(AIRunLogService(world.database), 2**60, anew))
    for request in (asking, anew):
        stored = row_of(world, request)["request_prompt"]
        assert len(stored) <= 2000
        assert stored == prompt[:2000]
