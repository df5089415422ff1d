"""Kimi CLI 1.49: ``wire.jsonl`` of protocol 1.10, with cut arguments and subagent events written twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator
from typing import Any

from agenttrace.demo.scenario import Call, Step, Story, Turn
from agenttrace.demo.stories import STORIES
from agenttrace.demo.telling import Format, Line, Teller, Tokens, by_completion, numbered, silence
from agenttrace.model import Usage

_CONTEXT = 262_144
_MODEL = "kimi-for-coding"
_CONFIG = f"""default_model = "{_MODEL}"

[models.{_MODEL}]
provider = "kimi"
model = "{_MODEL}"
max_context_size = {_CONTEXT}
"""

Payload = dict[str, Any]
#: Writes one event into every file it belongs to.
Emit = Callable[[str, Payload, float, Usage | None], Iterator[Line]]


def session(story: Story, teller: Teller) -> Iterator[Line]:
    """One session directory."""
    session_id = teller.uuid()
    folder = f".kimi/sessions/{hashlib.md5(story.cwd.encode(), usedforsecurity=False).hexdigest()}/{session_id}"
    yield Line(".kimi/config.toml", _CONFIG.encode(), whole=True)
    places = [{"path": each.cwd, "kaos": "local", "last_session_id": None} for each in STORIES]
    yield Line(".kimi/kimi.json", json.dumps({"work_dirs": places}, indent=2).encode(), whole=True)
    state = {"version": 1, "custom_title": story.title, "title_generated": False, "plan_mode": False}
    yield Line(f"{folder}/state.json", json.dumps(state | {"archived": False}, indent=2).encode(), whole=True)
    wire = f"{folder}/wire.jsonl"
    yield Line(wire, _line({"type": "metadata", "protocol_version": "1.10"}))

    def emit(kind: str, payload: Payload, delay: float, spent: Usage | None = None) -> Iterator[Line]:
        yield Line(wire, _record(teller, kind, payload), delay, spent=spent)

    for turn in story.turns:
        yield from _turn(turn, teller, emit, folder, wire)


def _turn(turn: Turn, teller: Teller, emit: Emit, folder: str, wire: str) -> Iterator[Line]:
    yield from emit("TurnBegin", {"user_input": turn.prompt}, 0.2, None)
    for number, step in enumerate(turn.steps, 1):
        yield from emit("StepBegin", {"n": number}, teller.pause(0.5, 1.5), None)
        yield from _step(number, step, teller, emit, folder, wire)
    if turn.refused:
        yield from emit("StepBegin", {"n": 1}, 1.0, None)
        yield from emit("StepInterrupted", {}, 0.1, None)
    yield from emit("TurnEnd", {}, teller.pause(3, 7), None)


def _step(number: int, step: Step, teller: Teller, emit: Emit, folder: str, wire: str) -> Iterator[Line]:
    if step.retried:
        retry = {"n": number, "next_attempt": 2, "max_attempts": 3, "wait_s": 0.41}
        yield from emit("StepRetry", retry | {"error_type": "APIStatusError", "status_code": 429}, 0.6, None)
    if step.thinking:
        part = {"type": "think", "think": step.thinking, "encrypted": None}
        yield from emit("ContentPart", part, teller.writing(step.thinking), None)
    if step.text:
        yield from emit("ContentPart", {"type": "text", "text": step.text}, teller.writing(step.text), None)
    ids = [f"tool_{teller.letters(24)}" for _ in step.calls]
    finished = yield from _calls(step, ids, emit)
    figures = teller.tokens(step)
    yield from emit("StatusUpdate", _status(figures, teller), 0.1, usage(figures))
    for index in by_completion(step.calls):
        if index not in finished:
            yield from _result(step.calls[index], ids[index], teller, emit, folder, wire)


def _calls(step: Step, ids: list[str], emit: Emit) -> Generator[Line, None, set[int]]:
    """The calls as they stream. A result that arrives meanwhile cuts the second call in two."""
    arguments = [json.dumps(_arguments(call), ensure_ascii=False) for call in step.calls]
    cut = len(ids) > 1 and step.calls[0].kind in ("read", "search")
    for index, call in enumerate(step.calls):
        text, rest = arguments[index], ""
        if cut and index == 1:
            text, rest = text[: len(text) // 2], text[len(text) // 2 :]
        function = {"name": _name(call), "arguments": text}
        payload = {"type": "function", "id": ids[index], "function": function, "extras": None}
        yield from emit("ToolCall", payload, 0.15, None)
        if rest:
            yield from emit("ToolResult", _answer(step.calls[0], ids[0]), 0.05, None)
            yield from emit("ToolCallPart", {"arguments_part": rest}, 0.1, None)
    return {0} if cut else set()


def _result(call: Call, call_id: str, teller: Teller, emit: Emit, folder: str, wire: str) -> Iterator[Line]:
    if call.kind == "delegate":
        answer = yield from _subagent(call, call_id, teller, folder, wire)
    else:
        yield silence(call.seconds)
        answer = _answer(call, call_id)
    yield from emit("ToolResult", answer, 0.1, None)


def _subagent(call: Call, call_id: str, teller: Teller, folder: str, wire: str) -> Generator[Line, None, Payload]:
    """Every event goes into the subagent's own file and, wrapped, into its parent's."""
    agent, child = f"a{teller.hexes(8)}", teller.child()
    own = f"{folder}/subagents/{agent}/wire.jsonl"
    created = teller.clock()
    spec = {"agent_id": agent, "subagent_type": "coder", "model_override": None, "effective_model": None}
    meta: Payload = {
        "agent_id": agent,
        "subagent_type": "coder",
        "status": "idle",
        "description": call.subject[:40],
    }
    meta |= {"created_at": created, "updated_at": created, "last_task_id": None}
    meta["launch_spec"] = spec | {"created_at": created}
    yield Line(f"{folder}/subagents/{agent}/meta.json", json.dumps(meta, indent=2).encode(), whole=True)
    yield Line(own, _line({"type": "metadata", "protocol_version": "1.1"}))
    wrapper = {"parent_tool_call_id": call_id, "agent_id": agent, "subagent_type": "coder"}

    def emit(kind: str, payload: Payload, delay: float, spent: Usage | None = None) -> Iterator[Line]:
        yield Line(own, _record(teller, kind, payload), spent=spent)
        wrapped = wrapper | {"event": {"type": kind, "payload": payload}}
        yield Line(wire, _record(teller, "SubagentEvent", wrapped), delay)

    yield from _turn(Turn(prompt=call.subject, steps=call.work), child, emit, folder, wire)
    report = f"agent_id: {agent}\nresumed: false\nactual_subagent_type: coder\nstatus: completed\n\n[summary]\n"
    value = {"is_error": False, "output": report + call.output, "message": "", "display": [], "extras": None}
    return {"tool_call_id": call_id, "return_value": value}


def _name(call: Call) -> str:
    names = {
        "shell": "Shell",
        "read": "ReadFile",
        "edit": "StrReplaceFile",
        "search": "Grep",
        "delegate": "Agent",
    }
    return names[call.kind]


def _arguments(call: Call) -> Payload:
    match call.kind:
        case "shell":
            return {"command": call.subject}
        case "read":
            return {"path": call.subject}
        case "edit":
            return {"path": call.subject, "edit": {"old": call.old, "new": call.new}}
        case "search":
            return {"pattern": call.subject, "output_mode": "content"}
        case _:
            return {"description": call.subject[:40], "prompt": call.subject}


def _answer(call: Call, call_id: str) -> Payload:
    message, display, output = "Command executed successfully.", [], call.output
    if call.failed:
        message, display = (
            "Command failed with exit code: 1.",
            [{"type": "brief", "text": "Failed with exit code: 1"}],
        )
    elif call.kind == "read":
        message, output = f"{len(call.output.splitlines())} lines read from file.", numbered(call.output)
    elif call.kind == "edit":
        message = "File successfully edited."
        display = [{"type": "diff", "path": call.subject, "old_text": call.old, "new_text": call.new}]
    value = {
        "is_error": call.failed,
        "output": output,
        "message": message,
        "display": display,
        "extras": None,
    }
    return {"tool_call_id": call_id, "return_value": value}


def _status(figures: Tokens, teller: Teller) -> Payload:
    size = figures.fresh + figures.cached
    spent = {"input_other": figures.fresh, "output": figures.output}
    spent |= {"input_cache_read": figures.cached, "input_cache_creation": 0}
    status: Payload = {
        "context_usage": size / _CONTEXT,
        "context_tokens": size,
        "max_context_tokens": _CONTEXT,
    }
    status |= {"token_usage": spent, "message_id": f"chatcmpl-{teller.letters(24)}"}
    return status | {"plan_mode": False, "mcp_status": None}


def usage(figures: Tokens) -> Usage:
    """What the log says was spent: this format does not tell reasoning apart."""
    return Usage(input_tokens=figures.fresh, output_tokens=figures.output, cache_read_tokens=figures.cached)


def _record(teller: Teller, kind: str, payload: Payload) -> bytes:
    return _line({"timestamp": teller.clock(), "message": {"type": kind, "payload": payload}})


def _line(value: Payload) -> bytes:
    # Python's default separators and raw UTF-8, as the CLI writes them.
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


KIMI_CLI = Format(agent="kimi-cli", variables=("KIMI_SHARE_DIR",), home=".kimi", session=session)
