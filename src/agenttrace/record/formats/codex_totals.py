"""What Codex itself says it used: running totals that begin anew, and the totals of a turn.

``total_token_usage`` is cumulative for as long as a process counts on: it starts again on some resumes, in every
review and in copies. So each run of it is a count of its own, of what was added since its first line. Since 0.166
records carry the total of their turn instead.

``memory`` holds, for this module, ``runs``: for the thread itself and for its reviews the number of the run, what it
began with, and the latest total.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttrace.record.formats.codex_lines import Tokens
from agenttrace.record.ingest import acts as a

Memory = dict[str, Any]


def running(total: Tokens, last: Tokens, memory: Memory, *, stream: str, counted: bool) -> Iterator[a.Act]:
    """The thread's total as a line tells it; ``counted``: its response is not left to another thread."""
    whose = "review" if memory.get("review") else "thread"
    runs: dict[str, list[Any]] = memory.setdefault("runs", {})
    now, step = total.vector(), last.vector()
    number, base, before = runs.get(whose, [0, [], []])
    if not before or now == step != before or any(new < old for new, old in zip(now, before, strict=True)):
        number += 1
        base = before = [max(new - old, 0) for new, old in zip(now, step, strict=True)]
    if not counted:
        base = [old + new - known for old, new, known in zip(base, now, before, strict=True)]
    runs[whose] = [number, base, now]
    added = Tokens(*(new - old for new, old in zip(now, base, strict=True)))
    yield a.Totals(segment=f"{whose} {number}", usage={"": added.usage()}, stream=stream)


def of_turn(turn: str | None, total: Tokens | None, *, stream: str) -> Iterator[a.Act]:
    """The total of a turn as a record tells it."""
    if turn and total is not None:
        yield a.Totals(segment=f"turn {turn}", usage={"": total.usage()}, stream=stream)
