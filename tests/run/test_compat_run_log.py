"""The specification's step-by-step run log, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.compat.run_log import FIRST_STATES, AIRunLogService
from agenttrace.run.results.run_log import RunLogTransitionError
from run.world import World, open_world

STATES = (*FIRST_STATES, "running", "success", "failed", "timeout")
#: From the document: a call is pending, then on its way, then ended; a refusal is its own end.
LEGAL = {("pending", "running"), ("running", "success"), ("running", "failed"), ("running", "timeout")}

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=50)
numbers = st.integers(0, 2**31 - 1)
moves = st.one_of(
    st.just(("running",)),
    st.tuples(st.just("success"), texts, numbers, numbers),
    st.tuples(st.just("failed"), texts, numbers),
    st.tuples(st.just("timeout"), numbers),
)


@pytest.fixture(scope="module")
def world(module_database_url: str) -> Iterator[World]:
    with open_world(module_database_url) as world:
        yield world


def row_of(world: World, log_id: int) -> dict[str, Any]:
    row = world.run(AIRunLogService(world.database).get(log_id))
    assert row is not None
    return row


def assert_complete(row: dict[str, Any]) -> None:
    """What property 18 asks of a row in each state."""
    if row["status"] == "success":
        for name in ("response_text", "tokens_used", "latency_ms", "finished_at"):
            assert row[name] is not None, name
    if row["status"] == "failed":
        assert row["error_message"] is not None
    assert (row["finished_at"] is None) == (row["status"] in ("pending", "running"))


@given(first=st.sampled_from(FIRST_STATES), steps=st.lists(moves, max_size=6))
def test_a_row_only_goes_the_legal_ways(world: World, first: str, steps: list[tuple[Any, ...]]) -> None:
    """Whatever is asked of a row, it goes only along legal transitions, and otherwise stays exactly as it was."""
    logs = AIRunLogService(world.database)
    log_id = world.run(logs.create_log(1, "app3_clue", "event", status=first))
    before = row_of(world, log_id)
    assert before["status"] == first
    for wanted, *values in steps:
        move = getattr(logs, f"update_{wanted}")
        if (before["status"], wanted) in LEGAL:
            world.run(move(log_id, *values))
            after = row_of(world, log_id)
            assert after["status"] == wanted
            if wanted == "success":
                assert [after["response_text"], after["tokens_used"], after["latency_ms"]] == values
            if wanted == "failed":
                assert [after["error_message"], after["latency_ms"]] == values
        else:
            with pytest.raises(RunLogTransitionError):
                world.run(move(log_id, *values))
            after = row_of(world, log_id)
            assert after == before
        assert_complete(after)
        before = after


@given(status=st.sampled_from(STATES))
def test_a_row_begins_pending_or_refused(world: World, status: str) -> None:
    """A row is created pending or in the state of a refusal, and in no other."""
    logs = AIRunLogService(world.database)
    count = world.one("SELECT count(*) FROM biz.ai_run_logs")
    if status in FIRST_STATES:
        assert_complete(row_of(world, world.run(logs.create_log(1, "app1_chat", "user", status=status))))
        assert world.one("SELECT count(*) FROM biz.ai_run_logs") == count + 1
    else:
        with pytest.raises(RunLogTransitionError):
            world.run(logs.create_log(1, "app1_chat", "user", status=status))
        assert world.one("SELECT count(*) FROM biz.ai_run_logs") == count
