"""The states are defined once: what takes them as text elsewhere has the same ones."""

from __future__ import annotations

from enum import StrEnum
from typing import get_args

import pytest

from agenttrace import client
from agenttrace.cli.asking import STYLES
from agenttrace.run import errors
from agenttrace.run.guards.breaker import CircuitState as BreakersState
from agenttrace.run.states import (
    OPEN_JOBS,
    CacheStatus,
    CircuitState,
    ConversationEntry,
    JobStatus,
    RunStatus,
    StepStatus,
)
from agenttrace.serve.api.typescript import typescript
from agenttrace.serve.chat import ChatRequest


@pytest.mark.parametrize("states", [JobStatus, RunStatus, StepStatus, CacheStatus, CircuitState])
def test_the_console_has_the_same_states(states: type[StrEnum]) -> None:
    """The generated TypeScript names every state; the tables are compared with PostgreSQL in ``test_migrations``."""
    values = " | ".join(f'"{state}"' for state in states)
    assert f"export type {states.__name__} = {values};" in typescript()


def test_other_lists_of_states_agree() -> None:
    """The client for other programs imports nothing of ours, and errors and colours are plain text."""
    assert set(JobStatus) - set(OPEN_JOBS) == client.FINAL
    assert client.FINAL > client.GOOD
    assert get_args(ChatRequest.model_fields["entry"].annotation) == tuple(ConversationEntry)
    known = {*JobStatus, *RunStatus, *CacheStatus, *CircuitState}
    assert set(STYLES) <= known
    assert known - set(STYLES) == {JobStatus.PENDING}
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "status")]
    assert {each.status for each in kinds} <= set(RunStatus)
    assert BreakersState is CircuitState
    assert {*StepStatus} == {*RunStatus, "waiting", "skipped"}
