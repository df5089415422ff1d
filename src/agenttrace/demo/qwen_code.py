"""Qwen Code 0.18: records that point to the one before, usage on the answer and once more as telemetry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agenttrace.demo.scenario import Call, Step, Story
from agenttrace.demo.telling import Format, Line, Teller, Tokens, by_completion, compact, silence
from agenttrace.model import Usage

Json = dict[str, Any]

_MODEL = "qwen3-coder-plus"
_NAMES = {
    "shell": "run_shell_command",
    "read": "read_file",
    "edit": "edit",
    "search": "grep_search",
    "delegate": "task",
}


class _Chat:
    """The file in the making."""

    def __init__(self, story: Story, teller: Teller) -> None:
        self.story, self.teller = story, teller
        self.session = teller.uuid()
        slug = re.sub("[^A-Za-z0-9]", "-", story.cwd)
        self.path = f".qwen/projects/{slug}/chats/{self.session}.jsonl"
        self.parent: str | None = None
        self.prompts = 0

    def record(self, kind: str, body: Json, delay: float = 0.02, *, spent: Usage | None = None) -> Line:
        own = self.teller.uuid()
        line: Json = {"uuid": own, "parentUuid": self.parent, "sessionId": self.session}
        line |= {"timestamp": self.teller.iso(), "type": kind, "cwd": self.story.cwd, "version": "0.18.1"}
        self.parent = own
        return Line(self.path, compact(line | {"gitBranch": self.story.branch} | body), delay, spent=spent)

    def telemetry(self, name: str, figures: Json) -> Line:
        event: Json = {"event.name": f"qwen-code.{name}", "event.timestamp": self.teller.iso()} | figures
        event |= {"prompt_id": f"{self.session}########{self.prompts}", "auth_type": "openai"}
        return self.record("system", {"subtype": "ui_telemetry", "systemPayload": {"uiEvent": event}})


def session(story: Story, teller: Teller) -> Iterator[Line]:
    """One chat file."""
    chat = _Chat(story, teller)
    for turn in story.turns:
        yield chat.record("user", {"message": {"role": "user", "parts": [{"text": turn.prompt}]}}, 0.1)
        snapshot = {"type": "attribution-snapshot", "version": 1, "surface": "cli", "fileStates": {}}
        payload = {"snapshot": snapshot | {"promptCount": chat.prompts + 1}}
        yield chat.record("system", {"subtype": "attribution_snapshot", "systemPayload": payload}, 0.8)
        for step in turn.steps:
            yield from _step(chat, step)
        if turn.refused:
            yield _api_error(chat)
        chat.prompts += 1
        yield silence(teller.pause(3, 7))


def _step(chat: _Chat, step: Step) -> Iterator[Line]:
    teller = chat.teller
    if step.retried:
        yield _api_error(chat)
    yield silence(teller.writing(step.thinking + step.text))
    ids = [f"call_{teller.letters(24)}" for _ in step.calls]
    figures = teller.tokens(step)
    yield chat.telemetry("api_response", _telemetry(figures, teller))
    parts: list[Json] = []
    if step.thinking:
        parts.append({"text": step.thinking, "thought": True})
    if step.text:
        parts.append({"text": step.text})
    for call, call_id in zip(step.calls, ids, strict=True):
        parts.append({"functionCall": {"id": call_id, "name": _NAMES[call.kind], "args": _args(call)}})
    body = {
        "model": _MODEL,
        "message": {"role": "model", "parts": parts},
        "usageMetadata": _metadata(figures),
    }
    yield chat.record("assistant", body, 0.1, spent=usage(figures))
    for index in by_completion(step.calls):
        yield from _result(chat, step.calls[index], ids[index])


def _result(chat: _Chat, call: Call, call_id: str) -> Iterator[Line]:
    yield silence(call.seconds)
    status = "error" if call.failed else "success"
    called: Json = {"function_name": _NAMES[call.kind], "function_args": _args(call), "status": status}
    called |= {"duration_ms": int(call.seconds * 1000), "success": not call.failed, "tool_type": "native"}
    yield chat.telemetry("tool_call", called)
    answer = {"error": call.output} if call.failed else {"output": call.output}
    response = {"id": call_id, "name": _NAMES[call.kind], "response": answer}
    message = {"role": "user", "parts": [{"functionResponse": response}]}
    result: Json = {"callId": call_id, "status": status, "resultDisplay": call.output}
    if call.failed:
        result |= {"error": {}, "errorType": "execution_failed"}
    yield chat.record("tool_result", {"message": message, "toolCallResult": result}, 0.2)


def _args(call: Call) -> Json:
    match call.kind:
        case "shell":
            return {"command": call.subject, "is_background": False}
        case "read":
            return {"absolute_path": call.subject}
        case "edit":
            return {"file_path": call.subject, "old_string": call.old, "new_string": call.new}
        case "search":
            return {"pattern": call.subject}
        case _:
            return {
                "description": call.subject[:40],
                "prompt": call.subject,
                "subagent_type": "general-purpose",
            }


def _api_error(chat: _Chat) -> Line:
    failed = {"model": _MODEL, "duration_ms": 412, "status_code": 429, "error_type": "RateLimitError"}
    return chat.telemetry("api_error", failed | {"error_message": "429 Requests rate limit exceeded"})


def _telemetry(figures: Tokens, teller: Teller) -> Json:
    read = figures.fresh + figures.cached
    said: Json = {"response_id": f"chatcmpl-{teller.letters(24)}", "model": _MODEL, "status_code": 200}
    said |= {"duration_ms": 1_850, "input_token_count": read, "output_token_count": figures.output}
    said |= {"cached_content_token_count": figures.cached, "thoughts_token_count": figures.reasoning}
    return said | {"total_token_count": read + figures.output}


def _metadata(figures: Tokens) -> Json:
    """As OpenAI services count: cached inside the prompt, thoughts inside the candidates."""
    read = figures.fresh + figures.cached
    spent = {"promptTokenCount": read, "candidatesTokenCount": figures.output}
    spent |= {"thoughtsTokenCount": figures.reasoning, "totalTokenCount": read + figures.output}
    return spent | {"cachedContentTokenCount": figures.cached}


def usage(figures: Tokens) -> Usage:
    """What the log says was spent, each token once."""
    return Usage(
        input_tokens=figures.fresh,
        output_tokens=figures.output,
        cache_read_tokens=figures.cached,
        reasoning_tokens=figures.reasoning,
    )


QWEN_CODE = Format(agent="qwen-code", variables=("QWEN_HOME", "QWEN_RUNTIME_DIR"), home=".qwen", session=session)
