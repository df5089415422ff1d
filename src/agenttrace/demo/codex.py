"""Codex 0.166: a rollout in paginated mode, each call's usage once as a record and once as a count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from agenttrace.demo.fake_session import FakeLog, FakeSession, Json, LogLine, StepTokens, json_line, silence
from agenttrace.demo.stories import Story, StoryCall, StoryStep, StoryTurn

_MODEL = "gpt-5.2-codex"
_WINDOW = 258_400
_RATES: Json = {"limit_id": "codex", "limit_name": None, "primary": None, "secondary": None, "credits": None}


class _Rollout:
    """The rollout file, with ordinals without gaps and running totals."""

    def __init__(self, story: Story, fake: FakeSession) -> None:
        self.story, self.fake = story, fake
        self.thread = fake.uuid7()
        local = datetime.fromtimestamp(fake.clock()).astimezone()
        self.path = f".codex/sessions/{local:%Y/%m/%d}/rollout-{local:%Y-%m-%dT%H-%M-%S}-{self.thread}.jsonl"
        self.ordinal = 0
        self.turn = ""
        self.turn_total = self.total = dict.fromkeys(_figures(StepTokens(0, 0, 0, 0)), 0)

    def item(self, kind: str, payload: Json, delay: float = 0.01) -> LogLine:
        line: Json = {"timestamp": self.fake.iso(), "ordinal": self.ordinal, "type": kind, "payload": payload}
        if kind == "response_item" and payload["type"] != "reasoning":
            line["metadata"] = {"client_authored": False}
        self.ordinal += 1
        return LogLine(self.path, json_line(line), delay)

    def event(self, kind: str, payload: Json, delay: float = 0.01) -> LogLine:
        return self.item("event_msg", {"type": kind} | payload, delay)

    def response(self, payload: Json, delay: float = 0.01) -> LogLine:
        passthrough = {"turn_id": self.turn, "create_time": self.fake.clock()}
        body = payload | {"internal_chat_message_metadata_passthrough": passthrough}
        return self.item("response_item", body, delay)

    def completed(self, item: Json, started: int) -> LogLine:
        body = {"thread_id": self.thread, "turn_id": self.turn, "item": item, "started_at_ms": started}
        return self.event("item_completed", body | {"completed_at_ms": self.fake.milliseconds()})


def session(story: Story, fake: FakeSession) -> Iterator[LogLine]:
    """One rollout file."""
    log = _Rollout(story, fake)
    meta: Json = {"session_id": log.thread, "id": log.thread, "timestamp": fake.iso(), "cwd": story.cwd}
    meta |= {"runtime_workspace_roots": [story.cwd], "originator": "codex_cli_rs", "cli_version": "0.166.0"}
    meta |= {"source": "cli", "thread_source": "user", "model_provider": "openai", "history_mode": "paginated"}
    meta |= {"base_instructions": {"text": "You help with software."}, "git": {"branch": story.branch}}
    yield log.item("session_meta", meta | {"context_window": {"window_id": fake.uuid7()}})
    for turn in story.turns:
        yield from _turn(log, turn)


def _turn(log: _Rollout, turn: StoryTurn) -> Iterator[LogLine]:
    fake = log.fake
    log.turn, began = fake.uuid7(), fake.milliseconds()
    log.turn_total = dict.fromkeys(log.total, 0)
    both = {"turn_id": log.turn, "root_turn_id": log.turn}
    started = both | {"started_at": began // 1000, "model_context_window": _WINDOW}
    yield log.event("task_started", started | {"collaboration_mode_kind": "default"})
    context: Json = both | {"cwd": log.story.cwd, "approval_policy": "never", "model": _MODEL, "effort": "medium"}
    context |= {"sandbox_policy": {"type": "workspace-write"}, "summary": "auto"}
    yield log.item("turn_context", context)
    yield from _prompt(log, turn.prompt)
    yield silence(fake.pause(0.6, 1.6))
    for step in turn.steps:
        yield from _step(log, step)
    if turn.refused:
        yield log.event("turn_aborted", {"turn_id": log.turn, "reason": "interrupted"}, fake.until_answer(turn))
        return
    done: Json = both | {"last_agent_message": turn.steps[-1].text, "started_at": began // 1000}
    done |= {"completed_at": int(fake.clock()), "duration_ms": fake.milliseconds() - began}
    yield log.event("task_complete", done | {"time_to_first_token_ms": 640}, fake.until_answer(turn))


def _prompt(log: _Rollout, text: str) -> Iterator[LogLine]:
    name = log.fake.uuid7()
    content = [{"type": "input_text", "text": text}]
    yield log.response({"type": "message", "id": f"msg_{name}", "role": "user", "content": content})
    said = [{"type": "text", "text": text, "text_elements": []}]
    yield log.completed({"type": "UserMessage", "id": name, "content": said}, log.fake.milliseconds())


def _step(log: _Rollout, step: StoryStep) -> Iterator[LogLine]:
    fake = log.fake
    if step.thinking:
        yield from _reasoning(log, step.thinking)
    if step.text:
        yield from _said(log, step.text)
    ids = [f"call_{fake.letters(24)}" for _ in step.calls]
    for call, call_id in zip(step.calls, ids, strict=True):
        yield log.response(_asked(call, call_id, fake), 0.2)
    figures = _figures(fake.tokens(step))
    log.turn_total = {name: log.turn_total[name] + figures[name] for name in figures}
    log.total = {name: log.total[name] + figures[name] for name in figures}
    record: Json = {"thread_id": log.thread, "turn_id": log.turn, "session_id": log.thread}
    record |= {"root_turn_id": log.turn, "response_id": f"resp_{fake.letters(40)}", "usage": figures}
    record |= {"turn_token_usage": log.turn_total, "thread_token_usage": log.total}
    yield log.item("token_usage_record", record, 0.1)
    for index in step.completion_order:
        yield from _result(log, step.calls[index], ids[index])
    # The same figures once more, for clients of older versions.
    info: Json = {"total_token_usage": log.total, "last_token_usage": figures, "model_context_window": _WINDOW}
    yield log.event("token_count", {"info": info, "rate_limits": _RATES}, fake.pause(0.5, 1.5))


def _reasoning(log: _Rollout, text: str) -> Iterator[LogLine]:
    name, began = f"rs_{log.fake.letters(24)}", log.fake.milliseconds()
    yield silence(log.fake.writing(text))
    yield log.completed({"type": "Reasoning", "id": name, "summary_text": [text], "raw_content": []}, began)
    summary = [{"type": "summary_text", "text": text}]
    body = {"type": "reasoning", "id": name, "summary": summary, "content": None}
    yield log.response(body | {"encrypted_content": log.fake.letters(64)})


def _said(log: _Rollout, text: str) -> Iterator[LogLine]:
    name, began = f"msg_{log.fake.letters(24)}", log.fake.milliseconds()
    yield silence(log.fake.writing(text))
    yield log.completed({"type": "AgentMessage", "id": name, "content": [{"type": "Text", "text": text}]}, began)
    content = [{"type": "output_text", "text": text, "annotations": []}]
    yield log.response({"type": "message", "id": name, "role": "assistant", "content": content})


def _command(call: StoryCall) -> str:
    """This agent reads and searches with commands, too."""
    commands = {
        "read": f"sed -n '1,200p' {call.subject}",
        "search": f"rg -n '{call.subject}'",
        "delegate": f"./ci/report '{call.subject[:40]}'",
    }
    return commands.get(call.kind, call.subject)


def _patch(call: StoryCall) -> str:
    old = "\n".join("-" + line for line in call.old.splitlines())
    new = "\n".join("+" + line for line in call.new.splitlines())
    return f"*** Begin Patch\n*** Update File: {call.subject}\n@@\n{old}\n{new}\n*** End Patch"


def _asked(call: StoryCall, call_id: str, fake: FakeSession) -> Json:
    if call.kind == "edit":
        made = {"type": "custom_tool_call", "id": f"ctc_{fake.letters(24)}", "status": "completed"}
        return made | {"call_id": call_id, "name": "apply_patch", "input": _patch(call)}
    arguments = json.dumps({"cmd": _command(call)}, ensure_ascii=False)
    made = {"type": "function_call", "id": f"fc_{fake.letters(24)}", "name": "exec_command"}
    return made | {"arguments": arguments, "call_id": call_id}


def _result(log: _Rollout, call: StoryCall, call_id: str) -> Iterator[LogLine]:
    began, code = log.fake.milliseconds(), int(call.failed)
    yield silence(call.seconds)
    if call.kind == "edit":
        item: Json = {"type": "FileChange", "id": call_id, "status": "completed"}
        item["changes"] = {call.subject: {"type": "update", "unified_diff": _patch(call), "move_path": None}}
        kind, output = "custom_tool_call_output", f"Success. Updated the following files:\nM {call.subject}\n"
    else:
        item = {"type": "CommandExecution", "id": call_id, "command": ["/bin/bash", "-lc", _command(call)]}
        item |= {"cwd": f"file://{log.story.cwd}", "status": "failed" if code else "completed"}
        item |= {"aggregated_output": call.output, "exit_code": code}
        item["duration"] = {"secs": int(call.seconds), "nanos": int(call.seconds % 1 * 1e9)}
        head = f"Chunk ID: {log.fake.hexes(6)}\nWall time: {call.seconds:.4f} seconds\n"
        kind, output = "function_call_output", f"{head}Process exited with code {code}\nOutput:\n{call.output}"
    yield log.completed(item, began)
    name = f"fco_{log.fake.uuid7()}"
    yield log.response({"type": kind, "id": name, "call_id": call_id, "output": output})


def _figures(tokens: StepTokens) -> dict[str, int]:
    """As OpenAI counts: cached tokens inside the input, reasoning inside the output."""
    return {
        "input_tokens": tokens.prompt,
        "cached_input_tokens": tokens.cached,
        "cache_write_input_tokens": 0,
        "output_tokens": tokens.output,
        "reasoning_output_tokens": tokens.reasoning,
        "total_tokens": tokens.prompt + tokens.output,
    }


CODEX = FakeLog(agent="codex", variables=("CODEX_HOME",), home=".codex", session=session)
