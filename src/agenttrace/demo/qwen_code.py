"""Qwen Code 0.18: records that point to the one before, usage on the answer and once more as telemetry."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agenttrace.demo.fake_session import FakeLog, FakeSession, Json, LogLine, StepTokens, json_line, silence
from agenttrace.demo.stories import Story, StoryCall, StoryStep

_MODEL = "qwen3-coder-plus"
_NAMES = {
    "shell": "run_shell_command",
    "read": "read_file",
    "edit": "edit",
    "search": "grep_search",
    "delegate": "task",
}


class _ChatFile:
    """The chat file of a session."""

    def __init__(self, story: Story, fake: FakeSession) -> None:
        self.story, self.fake = story, fake
        self.session = fake.uuid()
        slug = re.sub("[^A-Za-z0-9]", "-", story.cwd)
        self.path = f".qwen/projects/{slug}/chats/{self.session}.jsonl"
        self.parent: str | None = None
        self.prompts = 0

    def record(self, kind: str, body: Json, delay: float = 0.02) -> LogLine:
        own = self.fake.uuid()
        line: Json = {"uuid": own, "parentUuid": self.parent, "sessionId": self.session}
        line |= {"timestamp": self.fake.iso(), "type": kind, "cwd": self.story.cwd, "version": "0.18.1"}
        self.parent = own
        return LogLine(self.path, json_line(line | {"gitBranch": self.story.branch} | body), delay)

    def telemetry(self, name: str, figures: Json) -> LogLine:
        event: Json = {"event.name": f"qwen-code.{name}", "event.timestamp": self.fake.iso()} | figures
        event |= {"prompt_id": f"{self.session}########{self.prompts}", "auth_type": "openai"}
        return self.record("system", {"subtype": "ui_telemetry", "systemPayload": {"uiEvent": event}})

    def api_error(self) -> LogLine:
        failed = {"model": _MODEL, "duration_ms": 412, "status_code": 429, "error_type": "RateLimitError"}
        return self.telemetry("api_error", failed | {"error_message": "429 Requests rate limit exceeded"})


def session(story: Story, fake: FakeSession) -> Iterator[LogLine]:
    """One chat file."""
    chat = _ChatFile(story, fake)
    for turn in story.turns:
        yield chat.record("user", {"message": {"role": "user", "parts": [{"text": turn.prompt}]}}, 0.1)
        snapshot = {"type": "attribution-snapshot", "version": 1, "surface": "cli", "fileStates": {}}
        payload = {"snapshot": snapshot | {"promptCount": chat.prompts + 1}}
        yield chat.record("system", {"subtype": "attribution_snapshot", "systemPayload": payload}, 0.8)
        for step in turn.steps:
            yield from _step(chat, step)
        if turn.refused:
            yield chat.api_error()
        chat.prompts += 1
        yield silence(fake.until_answer(turn))


def _step(chat: _ChatFile, step: StoryStep) -> Iterator[LogLine]:
    fake = chat.fake
    if step.retried:
        yield chat.api_error()
    yield silence(fake.writing(step.thinking + step.text))
    ids = [f"call_{fake.letters(24)}" for _ in step.calls]
    tokens = fake.tokens(step)
    yield chat.telemetry("api_response", _telemetry(tokens, fake))
    parts: list[Json] = []
    if step.thinking:
        parts.append({"text": step.thinking, "thought": True})
    if step.text:
        parts.append({"text": step.text})
    for call, call_id in zip(step.calls, ids, strict=True):
        parts.append({"functionCall": {"id": call_id, "name": _NAMES[call.kind], "args": _args(call)}})
    body = {"model": _MODEL, "message": {"role": "model", "parts": parts}, "usageMetadata": _metadata(tokens)}
    yield chat.record("assistant", body, 0.1)
    for index in step.completion_order:
        yield from _result(chat, step.calls[index], ids[index])


def _result(chat: _ChatFile, call: StoryCall, call_id: str) -> Iterator[LogLine]:
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


def _args(call: StoryCall) -> Json:
    arguments: dict[str, Json] = {
        "shell": {"command": call.subject, "is_background": False},
        "read": {"absolute_path": call.subject},
        "edit": {"file_path": call.subject, "old_string": call.old, "new_string": call.new},
        "search": {"pattern": call.subject},
        "delegate": {"description": call.subject[:40], "prompt": call.subject, "subagent_type": "general-purpose"},
    }
    return arguments[call.kind]


def _telemetry(tokens: StepTokens, fake: FakeSession) -> Json:
    said: Json = {"response_id": f"chatcmpl-{fake.letters(24)}", "model": _MODEL, "status_code": 200}
    said |= {"duration_ms": 1_850, "input_token_count": tokens.prompt, "output_token_count": tokens.output}
    said |= {"cached_content_token_count": tokens.cached, "thoughts_token_count": tokens.reasoning}
    return said | {"total_token_count": tokens.prompt + tokens.output}


def _metadata(tokens: StepTokens) -> Json:
    """As OpenAI services count: cached inside the prompt, thoughts inside the candidates."""
    spent = {"promptTokenCount": tokens.prompt, "candidatesTokenCount": tokens.output}
    spent |= {"thoughtsTokenCount": tokens.reasoning, "totalTokenCount": tokens.prompt + tokens.output}
    return spent | {"cachedContentTokenCount": tokens.cached}


QWEN_CODE = FakeLog(agent="qwen-code", variables=("QWEN_HOME", "QWEN_RUNTIME_DIR"), home=".qwen", session=session)
