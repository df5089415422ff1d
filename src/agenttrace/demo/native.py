"""The AgentTrace JSONL format, as a small program of the user would append it."""

from __future__ import annotations

from collections.abc import Iterator

from agenttrace.demo.fake_session import FakeLog, FakeSession, Json, LogLine, json_line, silence
from agenttrace.demo.stories import Story, StoryCall, StoryStep, StoryTurn

_MODEL = "qwen-plus"
_PROGRAM = "nightly-helper"
_ARGUMENTS = {"shell": "command", "read": "path", "search": "pattern", "delegate": "task"}


class _NativeLog:
    """The file, and the current position in the session (or in a subagent's stream)."""

    def __init__(self, fake: FakeSession, session: str, stream: str | None = None) -> None:
        self.fake, self.session, self.stream = fake, session, stream
        self.path = f".agenttrace/logs/{session}.jsonl"
        self.turn = self.step = 0

    def line(self, kind: str, body: Json, delay: float = 0.05) -> LogLine:
        head: Json = {"v": 1, "session": self.session, "type": kind, "ts": self.fake.clock()}
        position = {"stream": self.stream, "turn": self.turn, "step": self.step}
        head |= {name: value for name, value in position.items() if value}
        if "id" not in body:
            head["id"] = self.fake.hexes(16)
        return LogLine(self.path, json_line(head | body), delay)


def session(story: Story, fake: FakeSession) -> Iterator[LogLine]:
    """One log file."""
    log = _NativeLog(fake, f"{_PROGRAM}-{fake.hexes(12)}")
    begun = {"agent": _PROGRAM, "title": story.title, "cwd": story.cwd, "branch": story.branch}
    yield log.line("session.begin", begun)
    for turn in story.turns:
        yield from _turn(log, turn)
    log.turn = 0
    yield log.line("session.end", {})


def _turn(log: _NativeLog, turn: StoryTurn) -> Iterator[LogLine]:
    log.turn += 1
    yield log.line("turn.begin", {"prompt": turn.prompt}, log.fake.pause(0.4, 1.2))
    for number, step in enumerate(turn.steps, 1):
        log.step = number
        yield from _step(log, step)
    log.step = 0
    if turn.refused:
        yield log.line("error", {"error": "429 Requests rate limit exceeded"})
    yield log.line("turn.end", {"status": "error" if turn.refused else "ok"}, log.fake.until_answer(turn))


def _step(log: _NativeLog, step: StoryStep) -> Iterator[LogLine]:
    fake = log.fake
    yield log.line("step.begin", {"model": _MODEL}, fake.writing(step.thinking))
    if step.retried:
        yield log.line("note", {"kind": "retry", "text": "the first attempt timed out"}, 0.5)
    if step.thinking:
        yield log.line("message", {"role": "thinking", "text": step.thinking})
    if step.text:
        yield log.line("message", {"role": "assistant", "text": step.text}, fake.writing(step.text))
    tokens = fake.tokens(step)
    usage = {"input_tokens": tokens.fresh, "output_tokens": tokens.output}
    usage |= {"cache_read_tokens": tokens.cached, "reasoning_tokens": tokens.reasoning}
    yield log.line("usage", {"response": f"resp_{fake.hexes(16)}", "model": _MODEL, "usage": usage})
    calls = [f"call_{fake.hexes(12)}" for _ in step.calls]
    for call, call_id in zip(step.calls, calls, strict=True):
        body: Json = {"id": call_id, "name": call.kind, "arguments": _arguments(call)}
        yield log.line("tool.begin", body | ({"spawns": call_id} if call.work else {}))
    for index in step.completion_order:
        yield from _result(log, step.calls[index], calls[index])
    yield log.line("step.end", {"finish_reason": "tool_calls" if calls else "stop"})


def _result(log: _NativeLog, call: StoryCall, call_id: str) -> Iterator[LogLine]:
    end: Json = {"id": call_id, "name": call.kind, "result": call.output}
    if call.failed:
        end |= {"status": "error", "error": "exit code 1"}
    if call.work:
        child = _NativeLog(log.fake.child(), log.session, stream=call_id)
        yield from _turn(child, StoryTurn(call.subject, call.work))
    else:
        yield silence(call.seconds)
        end["duration"] = call.seconds
    yield log.line("tool.end", end, 0.1)


def _arguments(call: StoryCall) -> Json:
    if call.kind == "edit":
        return {"path": call.subject, "old": call.old, "new": call.new}
    return {_ARGUMENTS[call.kind]: call.subject}


NATIVE = FakeLog(agent="agenttrace", variables=("AGENTTRACE_HOME",), home=".agenttrace", session=session, ends=True)
