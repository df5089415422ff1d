"""Our own JSONL format, as a small program of the user would append it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from agenttrace.demo.scenario import Call, Step, Story, Turn
from agenttrace.demo.telling import Format, Line, Teller, Tokens, by_completion, compact, silence
from agenttrace.model import Usage

Json = dict[str, Any]

_MODEL = "qwen-plus"
_PROGRAM = "nightly-helper"


class _Log:
    """The file in the making, and where in the session (or in a subagent's stream) we are."""

    def __init__(self, teller: Teller, session: str, stream: str | None = None) -> None:
        self.teller, self.session, self.stream = teller, session, stream
        self.path = f".agenttrace/logs/{session}.jsonl"
        self.turn = self.step = 0

    def line(self, kind: str, body: Json, delay: float = 0.05, *, spent: Usage | None = None) -> Line:
        place: Json = {"v": 1, "session": self.session, "type": kind, "ts": self.teller.clock()}
        if self.stream:
            place["stream"] = self.stream
        if self.turn:
            place["turn"] = self.turn
        if self.step:
            place["step"] = self.step
        if "id" not in body:
            place["id"] = self.teller.hexes(16)
        return Line(self.path, compact(place | body), delay, spent=spent)


def session(story: Story, teller: Teller) -> Iterator[Line]:
    """One log file."""
    log = _Log(teller, f"{_PROGRAM}-{teller.hexes(12)}")
    begun = {"agent": _PROGRAM, "title": story.title, "cwd": story.cwd, "branch": story.branch}
    yield log.line("session.begin", begun)
    for turn in story.turns:
        yield from _turn(log, turn)
    log.turn = 0
    yield log.line("session.end", {})


def _turn(log: _Log, turn: Turn) -> Iterator[Line]:
    log.turn += 1
    yield log.line("turn.begin", {"prompt": turn.prompt}, log.teller.pause(0.4, 1.2))
    for number, step in enumerate(turn.steps, 1):
        log.step = number
        yield from _step(log, step)
    log.step = 0
    if turn.refused:
        yield log.line("error", {"error": "429 Requests rate limit exceeded"})
    yield log.line("turn.end", {"status": "error" if turn.refused else "ok"}, log.teller.pause(3, 7))


def _step(log: _Log, step: Step) -> Iterator[Line]:
    teller = log.teller
    yield log.line("step.begin", {"model": _MODEL}, teller.writing(step.thinking))
    if step.retried:
        yield log.line("note", {"kind": "retry", "text": "the first attempt timed out"}, 0.5)
    if step.thinking:
        yield log.line("message", {"role": "thinking", "text": step.thinking})
    if step.text:
        yield log.line("message", {"role": "assistant", "text": step.text}, teller.writing(step.text))
    figures = teller.tokens(step)
    spent = usage(figures)
    counted = {"response": f"resp_{teller.hexes(16)}", "model": _MODEL, "usage": msgspec.to_builtins(spent)}
    yield log.line("usage", counted, spent=spent)
    calls = [f"call_{teller.hexes(12)}" for _ in step.calls]
    for call, call_id in zip(step.calls, calls, strict=True):
        body: Json = {"id": call_id, "name": call.kind, "arguments": _arguments(call)}
        yield log.line("tool.begin", body | ({"spawns": call_id} if call.work else {}))
    for index in by_completion(step.calls):
        yield from _result(log, step.calls[index], calls[index])
    yield log.line("step.end", {"finish_reason": "tool_calls" if calls else "stop"})


def _result(log: _Log, call: Call, call_id: str) -> Iterator[Line]:
    if call.work:
        child = _Log(log.teller.child(), log.session, stream=call_id)
        yield from _turn(child, Turn(prompt=call.subject, steps=call.work))
    else:
        yield silence(call.seconds)
    end: Json = {"id": call_id, "name": call.kind, "result": call.output}
    if call.failed:
        end |= {"status": "error", "error": "exit code 1"}
    yield log.line("tool.end", end if call.work else end | {"duration": call.seconds}, 0.1)


def _arguments(call: Call) -> Json:
    if call.kind == "edit":
        return {"path": call.subject, "old": call.old, "new": call.new}
    return {{"shell": "command", "search": "pattern", "delegate": "task"}.get(call.kind, "path"): call.subject}


def usage(figures: Tokens) -> Usage:
    """What was spent, each token once."""
    return Usage(
        input_tokens=figures.fresh,
        output_tokens=figures.output,
        cache_read_tokens=figures.cached,
        reasoning_tokens=figures.reasoning,
    )


NATIVE = Format(agent="agenttrace", variables=("AGENTTRACE_HOME",), home=".agenttrace", session=session)
