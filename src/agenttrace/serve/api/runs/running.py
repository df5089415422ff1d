"""The run half as the endpoints of the console reach it, where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttrace.serve.context import Context
from agenttrace.serve.problems import ProblemError

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine

#: Where nobody said more.
NOT_RUNNING = "The run half does not run in this server."


def engine_of(context: Context) -> Engine:
    """The open engine; 503 with the reason where there is none."""
    if context.engine is None:
        raise ProblemError(503, context.run_half.problem or NOT_RUNNING)
    return context.engine
