"""Kimi CLI 1.49: ``wire.jsonl`` of protocol 1.10, with cut arguments and subagent events written twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator

from agenttrace.demo.fake_session import FakeLog, FakeSession, Json, LogLine, numbered, silence
from agenttrace.demo.stories import STORIES, Story, StoryCall, StoryStep, StoryTurn

_CONTEXT = 262_144
_MODEL = "kimi-for-coding"
_CONFIG = f"""default_model = "{_MODEL}"

[models.{_MODEL}]
provider = "kimi"
model = "{_MODEL}"
max_context_size = {_CONTEXT}
"""
_NAMES = {"shell": "Shell", "read": "ReadFile", "edit": "StrReplaceFile", "search": "Grep", "delegate": "Agent"}


class _Wire:
    """A wire file; the events of a subagent are also written, wrapped, to the file of the session."""

    def __init__(self, fake: FakeSession, folder: str, agent: str = "", wrapper: Json | None = None) -> None:
        self.fake, self.folder, self.wrapper = fake, folder, wrapper
        self.session_path = f"{folder}/wire.jsonl"
        self.path = f"{folder}/subagents/{agent}/wire.jsonl" if agent else self.session_path

    def header(self, version: str) -> LogLine:
        return LogLine(self.path, _line({"type": "metadata", "protocol_version": version}))

    def emit(self, kind: str, payload: Json, delay: float) -> Iterator[LogLine]:
        event = {"type": kind, "payload": payload}
        yield LogLine(self.path, self._record(event), 0.0 if self.wrapper else delay)
        if self.wrapper:
            wrapped = {"type": "SubagentEvent", "payload": self.wrapper | {"event": event}}
            yield LogLine(self.session_path, self._record(wrapped), delay)

    def _record(self, message: Json) -> bytes:
        return _line({"timestamp": self.fake.clock(), "message": message})


def session(story: Story, fake: FakeSession) -> Iterator[LogLine]:
    """One session directory."""
    session_id = fake.uuid()
    folder = f".kimi/sessions/{hashlib.md5(story.cwd.encode(), usedforsecurity=False).hexdigest()}/{session_id}"
    yield LogLine(".kimi/config.toml", _CONFIG.encode(), whole=True)
    paths = [f"{story.work}/{each.folder}" for each in STORIES]
    places = [{"path": path, "kaos": "local", "last_session_id": None} for path in paths]
    yield _state_file(".kimi/kimi.json", {"work_dirs": places})
    state = {"version": 1, "custom_title": story.title, "title_generated": False, "plan_mode": False}
    yield _state_file(f"{folder}/state.json", state | {"archived": False})
    wire = _Wire(fake, folder)
    yield wire.header("1.10")
    for turn in story.turns:
        yield from _turn(wire, turn)


def _turn(wire: _Wire, turn: StoryTurn) -> Iterator[LogLine]:
    yield from wire.emit("TurnBegin", {"user_input": turn.prompt}, 0.2)
    for number, step in enumerate(turn.steps, 1):
        yield from wire.emit("StepBegin", {"n": number}, wire.fake.pause(0.5, 1.5))
        yield from _step(wire, number, step)
    if turn.refused:
        yield from wire.emit("StepBegin", {"n": 1}, 1.0)
        yield from wire.emit("StepInterrupted", {}, 0.1)
    yield from wire.emit("TurnEnd", {}, wire.fake.until_answer(turn))


def _step(wire: _Wire, number: int, step: StoryStep) -> Iterator[LogLine]:
    fake = wire.fake
    if step.retried:
        retry = {"n": number, "next_attempt": 2, "max_attempts": 3, "wait_s": 0.41}
        yield from wire.emit("StepRetry", retry | {"error_type": "APIStatusError", "status_code": 429}, 0.6)
    if step.thinking:
        part = {"type": "think", "think": step.thinking, "encrypted": None}
        yield from wire.emit("ContentPart", part, fake.writing(step.thinking))
    if step.text:
        yield from wire.emit("ContentPart", {"type": "text", "text": step.text}, fake.writing(step.text))
    ids = [f"tool_{fake.letters(24)}" for _ in step.calls]
    finished = yield from _calls(wire, step, ids)
    tokens = fake.tokens(step)
    # This format does not report reasoning tokens.
    spent = {"input_other": tokens.fresh, "output": tokens.output}
    spent |= {"input_cache_read": tokens.cached, "input_cache_creation": 0}
    status: Json = {"context_usage": tokens.prompt / _CONTEXT, "context_tokens": tokens.prompt}
    status |= {"max_context_tokens": _CONTEXT, "token_usage": spent, "message_id": f"chatcmpl-{fake.letters(24)}"}
    status |= {"plan_mode": False, "mcp_status": None}
    yield from wire.emit("StatusUpdate", status, 0.1)
    for index in step.completion_order:
        if index not in finished:
            yield from _result(wire, step.calls[index], ids[index])


def _calls(wire: _Wire, step: StoryStep, ids: list[str]) -> Generator[LogLine, None, set[int]]:
    """The calls as they stream. A result that arrives meanwhile cuts the second call in two."""
    cut = len(ids) > 1 and step.calls[0].kind in ("read", "search")
    for index, call in enumerate(step.calls):
        text, rest = json.dumps(_arguments(call), ensure_ascii=False), ""
        if cut and index == 1:
            text, rest = text[: len(text) // 2], text[len(text) // 2 :]
        function = {"name": _NAMES[call.kind], "arguments": text}
        payload = {"type": "function", "id": ids[index], "function": function, "extras": None}
        yield from wire.emit("ToolCall", payload, 0.15)
        if rest:
            yield from wire.emit("ToolResult", _answer(step.calls[0], ids[0]), 0.05)
            yield from wire.emit("ToolCallPart", {"arguments_part": rest}, 0.1)
    return {0} if cut else set()


def _result(wire: _Wire, call: StoryCall, call_id: str) -> Iterator[LogLine]:
    if call.kind == "delegate":
        answer = yield from _subagent(wire, call, call_id)
    else:
        yield silence(call.seconds)
        answer = _answer(call, call_id)
    yield from wire.emit("ToolResult", answer, 0.1)


def _subagent(wire: _Wire, call: StoryCall, call_id: str) -> Generator[LogLine, None, Json]:
    """The subagent's directory and events; returns the result that its parent logs."""
    agent, fake = f"a{wire.fake.hexes(8)}", wire.fake.child()
    created = fake.clock()
    spec = {"agent_id": agent, "subagent_type": "coder", "model_override": None, "effective_model": None}
    meta: Json = {"agent_id": agent, "subagent_type": "coder", "status": "idle", "description": call.subject[:40]}
    meta |= {"created_at": created, "updated_at": created, "last_task_id": None}
    yield _state_file(
        f"{wire.folder}/subagents/{agent}/meta.json", meta | {"launch_spec": spec | {"created_at": created}}
    )
    wrapper = {"parent_tool_call_id": call_id, "agent_id": agent, "subagent_type": "coder"}
    child = _Wire(fake, wire.folder, agent, wrapper)
    yield child.header("1.1")
    yield from _turn(child, StoryTurn(call.subject, call.work))
    report = f"agent_id: {agent}\nresumed: false\nactual_subagent_type: coder\nstatus: completed\n\n[summary]\n"
    value = {"is_error": False, "output": report + call.output, "message": "", "display": [], "extras": None}
    return {"tool_call_id": call_id, "return_value": value}


def _arguments(call: StoryCall) -> Json:
    arguments: dict[str, Json] = {
        "shell": {"command": call.subject},
        "read": {"path": call.subject},
        "edit": {"path": call.subject, "edit": {"old": call.old, "new": call.new}},
        "search": {"pattern": call.subject, "output_mode": "content"},
        "delegate": {"description": call.subject[:40], "prompt": call.subject},
    }
    return arguments[call.kind]


def _answer(call: StoryCall, call_id: str) -> Json:
    message, display, output = "Command executed successfully.", [], call.output
    if call.failed:
        message = "Command failed with exit code: 1."
        display = [{"type": "brief", "text": "Failed with exit code: 1"}]
    elif call.kind == "read":
        message, output = f"{len(call.output.splitlines())} lines read from file.", numbered(call.output)
    elif call.kind == "edit":
        message = "File successfully edited."
        display = [{"type": "diff", "path": call.subject, "old_text": call.old, "new_text": call.new}]
    value = {"is_error": call.failed, "output": output, "message": message, "display": display, "extras": None}
    return {"tool_call_id": call_id, "return_value": value}


def _state_file(path: str, state: Json) -> LogLine:
    return LogLine(path, json.dumps(state, indent=2).encode(), whole=True)


def _line(value: Json) -> bytes:
    # Python's default separators and raw UTF-8, as the CLI writes them.
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


KIMI_CLI = FakeLog(agent="kimi-cli", variables=("KIMI_SHARE_DIR",), home=".kimi", session=session)
