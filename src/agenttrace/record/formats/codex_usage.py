"""Which of Codex's token counts are responses, and how these are named.

**Which count.** ``token_count`` repeats itself and its totals start anew on resume, so its
``last_token_usage`` counts only when the total moved and something says that a model answered: its answer
is before it, or the total moved by exactly that much. The counts of a review are inside the parent's; the
first one after it repeats the last one before it, and is no response. Once a file has ``token_usage_record`` lines,
those count and ``token_count`` does not.

**Where they are.** After the items of their response; in versions 0.36 to 0.65 before them, so there a count begins
a model call.

**What a response is called**, so that its copies share the name and nothing else does. A record has the
provider's id. A ``token_count`` has none: its name is a digest of both breakdowns and of a scope that
copies keep and strangers do not have. The scope is the turn's uuid where turns have one; in older logs what
identifies the answer (call id, encrypted reasoning, text), or, where the count is before the answer, what
is before the count; for a review the prompt, because the parent's copy has neither. Timestamps are of no use:
forks are stamped anew. A thread that was spawned begins with its parent's counts but without the records that alone
hold their ids: turns older than the thread are shown, their tokens left to the parent.

**Totals that Codex reports.** ``total_token_usage`` is cumulative for as long as a process counts on: it starts
again on some resumes, in every review and in copies. So each run of it is a count of its own, of what was added since
its first line. Since 0.166 records carry the total of their turn instead.

``memory`` has, for this module: ``total``, the latest breakdown of the thread; ``outer``, the same while
a ``review`` has its own; ``records``; ``prompt``, ``turn_id``, ``item`` and ``trail``, the scopes; ``step``, the open
one, with ``steps``, how many so far; ``counts_first``, where counts are before their items; ``runs``, for the
thread itself and for its reviews the number of the run, what it began with, and the latest total.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from agenttrace.model import Event
from agenttrace.record.formats.codex_limits import limit_windows
from agenttrace.record.formats.codex_lines import CodexTokens, read_record, read_token_count
from agenttrace.record.formats.contract import Memory, Source
from agenttrace.record.ingest import acts as a


def digest(data: bytes) -> str:
    """A short name for content."""
    return hashlib.sha256(data).hexdigest()[:32]


def enter_review(memory: Memory) -> None:
    """The reviewer counts for itself: the thread's own total waits until it is done."""
    if not memory.get("review"):
        memory.update(review=True, outer=memory.get("total"), total=None, prompt=None)


def leave_review(memory: Memory) -> None:
    """Back to the thread's own total; nothing to do outside a review."""
    if memory.pop("review", None):
        memory["total"] = memory.pop("outer", None)


def token_count(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    """The response that the line counts, if it is not a repetition."""
    count = read_token_count(event.body)
    if count is not None and count.rate_limits is not None:
        yield from limit_windows(count.rate_limits, event.at)
    info = count.info if count and not memory.get("records") else None
    if info is None or info.total_token_usage is None or info.last_token_usage is None:
        return
    total, last = info.total_token_usage.vector(), info.last_token_usage.vector()
    # A context that overflowed is logged as a response of no tokens that filled the window.
    if info.last_token_usage.usage().total and _is_response(total, last, memory):
        if memory.get("counts_first"):
            yield from begin_step(memory)
        name = digest(repr((_scope(source, memory), total, last)).encode("utf-8", "surrogatepass"))
        yield from _responded(f"codex:{name}", info.last_token_usage, source, memory)
    counted = not _is_parents(source, memory)
    yield running_total(info.total_token_usage, info.last_token_usage, memory, stream=source.stream, counted=counted)


def usage_record(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    """The response that the line is the record of."""
    record = read_record(event.body)
    if record is None or record.usage is None:
        return
    memory["records"] = True
    yield from _responded(f"codex:{record.response_id or digest(event.body)}", record.usage, source, memory)
    if record.turn_id and record.turn_token_usage is not None:
        usage = {"": record.turn_token_usage.usage()}
        yield a.ReportedTotals(segment=f"turn {record.turn_id}", usage=usage, stream=source.stream)


def running_total(
    total: CodexTokens, last: CodexTokens, memory: Memory, *, stream: str, counted: bool
) -> a.ReportedTotals:
    """The thread's total as of this line; ``counted``: its response does not count for another thread."""
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
    added = CodexTokens(*(new - old for new, old in zip(now, base, strict=True)))
    return a.ReportedTotals(segment=f"{whose} {number}", usage={"": added.usage()}, stream=stream)


def _is_response(total: list[int], last: list[int], memory: Memory) -> bool:
    """False for a repetition, and for the total that a resumed or spawned thread starts out with."""
    before = memory.get("total")
    memory["total"] = total
    if total == before:
        return False
    grown = [old + new for old, new in zip(before or [0] * len(last), last, strict=True)]
    return bool(memory.get("step")) or total in (last, grown)


def _scope(source: Source, memory: Memory) -> str:
    if memory.get("prompt") and (memory.get("review") or memory.get("delegate")):
        return f"prompt {memory['prompt']}"
    if memory.get("counts_first"):
        return f"after {memory.get('trail') or source.session_id}"
    return memory.get("turn_id") or memory.get("item") or source.session_id


def _responded(name: str, tokens: CodexTokens, source: Source, memory: Memory) -> Iterator[a.Act]:
    step = memory.get("step")
    # A reviewer has another model, which is not in the parent's log.
    model = "unknown" if memory.get("review") else memory.get("model")
    if not _is_parents(source, memory):
        yield a.ResponseUsage(name, tokens.usage(), model, step, detached=step is None)
    if step and not memory.get("counts_first"):
        yield a.StepEnd(step)
        yield from end_of_answer(memory)


def begin_step(memory: Memory) -> Iterator[a.Act]:
    """The next model call begins."""
    forget_step(memory)
    memory["steps"] = memory.get("steps", 0) + 1
    memory["step"] = f"step {memory['steps']}"
    yield a.StepBegin(memory["step"], model=memory.get("model"))


def end_of_answer(memory: Memory) -> Iterator[a.Act]:
    """Old logs do not say when a turn is over: it is when the model speaks and calls nothing."""
    if memory.get("spoke") and not memory.get("called") and not memory.get("turn"):
        yield a.TurnEnd()
    forget_step(memory)


def forget_step(memory: Memory) -> None:
    """The next item of a response begins another step."""
    for key in ("step", "item", "answered", "called", "spoke"):
        memory.pop(key, None)


def _is_parents(source: Source, memory: Memory) -> bool:
    """Whether the turn was copied from the thread that spawned this one, which pays for it."""
    return bool(memory.get("spawned")) and _is_older(memory.get("turn_id"), source.session_id)


def _is_older(turn: str | None, thread: str) -> bool:
    """Both are version 7 UUIDs, which sort by time: a turn older than its thread was copied into it."""
    return turn is not None and turn[14:15] == "7" and thread[14:15] == "7" and turn < thread
