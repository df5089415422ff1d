"""Claude Code 2.1.197: one content block a line, the usage of a response on each of its lines."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from agenttrace.demo.fake_session import FakeLog, FakeSession, Json, LogLine, StepTokens, json_line, numbered, silence
from agenttrace.demo.stories import Story, StoryCall, StoryStep

#: Chosen for each session.
_MODELS = ("claude-sonnet-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5")
_NAMES = {"shell": "Bash", "read": "Read", "edit": "Edit", "search": "Grep", "delegate": "Agent"}


class _ClaudeLog:
    """A log file: its path, and the fields that every line repeats."""

    def __init__(self, story: Story, fake: FakeSession, path: str, session: str) -> None:
        self.story, self.fake, self.path, self.session = story, fake, path, session
        self.agent: str | None = None
        self.parent: str | None = None
        self.prompt = fake.uuid()
        self.model = fake.rng.choice(_MODELS)

    def entry(self, body: Json, delay: float, *, parent: str | None = None) -> LogLine:
        """A line with the common fields, a child of ``parent`` or of the line before."""
        own = self.fake.uuid()
        line: Json = {"parentUuid": parent or self.parent, "isSidechain": self.agent is not None}
        if self.agent:
            line["agentId"] = self.agent
        line |= body | {"uuid": own, "timestamp": self.fake.iso(), "userType": "external", "entrypoint": "cli"}
        line |= {"cwd": self.story.cwd, "sessionId": self.session, "version": "2.1.197"}
        self.parent = own
        return LogLine(self.path, json_line(line | {"gitBranch": self.story.branch}), delay)


def session(story: Story, fake: FakeSession) -> Iterator[LogLine]:
    """One session file, and one more for each subagent."""
    session_id = fake.uuid()
    folder = f".claude/projects/{re.sub('[^A-Za-z0-9]', '-', story.cwd)}"
    log = _ClaudeLog(story, fake, f"{folder}/{session_id}.jsonl", session_id)
    mode = {"type": "permission-mode", "permissionMode": "default", "sessionId": session_id}
    yield LogLine(log.path, json_line(mode))
    for number, turn in enumerate(story.turns):
        began = fake.clock()
        yield from _prompt(log, turn.prompt, first=number == 0)
        for step in turn.steps:
            yield from _step(log, step, f"{folder}/{session_id}/subagents")
        if turn.refused:
            yield log.entry(_refusal(fake), 0.1)
        took = {"durationMs": int((fake.clock() - began) * 1000), "messageCount": len(turn.steps), "isMeta": False}
        yield log.entry({"type": "system", "subtype": "turn_duration"} | took, fake.until_answer(turn))
    title = {"type": "custom-title", "customTitle": story.title, "sessionId": session_id}
    yield LogLine(log.path, json_line(title))


def _prompt(log: _ClaudeLog, text: str, *, first: bool) -> Iterator[LogLine]:
    log.prompt = log.fake.uuid()
    snapshot = {"messageId": log.prompt, "trackedFileBackups": {}, "timestamp": log.fake.iso()}
    kind = {"type": "file-history-snapshot", "messageId": log.prompt}
    yield LogLine(log.path, json_line(kind | {"snapshot": snapshot, "isSnapshotUpdate": False}))
    yield log.entry(_user(log, text) | {"permissionMode": "default"}, 0.1)
    if first:
        listing = {"type": "skill_listing", "content": "- tidy: Tidy up a module.", "skillCount": 1}
        yield log.entry({"attachment": listing | {"isInitial": True}, "type": "attachment"}, 0.1)
    yield silence(log.fake.pause(0.6, 1.6))


def _step(log: _ClaudeLog, step: StoryStep, subagents: str) -> Iterator[LogLine]:
    fake = log.fake
    if step.retried:
        yield log.entry(_api_error(), 1.2)
    ids = [f"toolu_01{fake.letters(22)}" for _ in step.calls]
    blocks = _blocks(step, ids, fake)
    tokens = fake.tokens(step)
    identity = (f"msg_01{fake.letters(22)}", f"req_011{fake.letters(21)}")
    owners = []
    for block in blocks:
        # Each line repeats the usage of the response.
        line = _assistant(log.model, identity, block, tokens, "tool_use" if step.calls else "end_turn")
        yield log.entry(line, fake.writing(str(block)) / 2)
        owners.append(log.parent)
    for index in step.completion_order:
        owner = owners[len(blocks) - len(ids) + index]
        yield from _result(log, step.calls[index], ids[index], owner, subagents)


def _blocks(step: StoryStep, ids: list[str], fake: FakeSession) -> list[Json]:
    blocks: list[Json] = []
    if step.thinking:
        blocks.append({"type": "thinking", "thinking": step.thinking, "signature": fake.letters(120)})
    if step.text:
        blocks.append({"type": "text", "text": step.text})
    for call, name in zip(step.calls, ids, strict=True):
        blocks.append({"type": "tool_use", "id": name, "name": _NAMES[call.kind], "input": _input(call)})
    return blocks


def _assistant(model: str, identity: tuple[str, str], block: Json, tokens: StepTokens, stop_reason: str | None) -> Json:
    # Fresh input goes into the cache, but for a few tokens. A subagent's last line has a placeholder for the output.
    uncached = min(tokens.fresh, 3 + tokens.output % 9)
    written = {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": tokens.fresh - uncached}
    figures: Json = {"input_tokens": uncached, "cache_creation_input_tokens": tokens.fresh - uncached}
    figures |= {"cache_read_input_tokens": tokens.cached, "output_tokens": tokens.output if stop_reason else 2}
    figures |= {"server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0}, "service_tier": "standard"}
    figures |= {"cache_creation": written, "inference_geo": "", "iterations": [], "speed": "standard"}
    message: Json = {"id": identity[0], "type": "message", "role": "assistant", "model": model}
    message |= {"content": [block], "stop_reason": stop_reason, "stop_sequence": None, "usage": figures}
    return {"message": message | {"stop_details": None}, "requestId": identity[1], "type": "assistant"}


def _user(log: _ClaudeLog, content: str | list[Json]) -> Json:
    return {"promptId": log.prompt, "type": "user", "message": {"role": "user", "content": content}}


def _input(call: StoryCall) -> Json:
    inputs: dict[str, Json] = {
        "shell": {"command": call.subject, "description": "Run it"},
        "read": {"file_path": call.subject},
        "edit": {"file_path": call.subject, "old_string": call.old, "new_string": call.new},
        "search": {"pattern": call.subject, "output_mode": "content"},
        "delegate": {"description": call.subject[:40], "prompt": call.subject, "subagent_type": "Explore"},
    }
    return inputs[call.kind]


def _result(log: _ClaudeLog, call: StoryCall, call_id: str, owner: str | None, subagents: str) -> Iterator[LogLine]:
    content: str | list[Json] = call.output
    detail: Json | str = {"stdout": call.output, "stderr": "", "interrupted": False, "isImage": False}
    if call.kind == "delegate":
        content, detail = yield from _subagent(log, call, call_id, subagents)
    else:
        yield silence(call.seconds)
    if call.failed:
        content = f"Exit code 1\n{call.output}"
        detail = f"Error: {content}"
    elif call.kind == "read":
        file = {"filePath": call.subject, "content": call.output, "numLines": call.output.count("\n")}
        content, detail = numbered(call.output), {"type": "text", "file": file | {"startLine": 1}}
    elif call.kind == "edit":
        content = f"The file {call.subject} has been updated."
        detail = {"filePath": call.subject, "oldString": call.old, "newString": call.new, "userModified": False}
        detail["structuredPatch"] = [_hunk(call)]
    block = {"tool_use_id": call_id, "type": "tool_result", "content": content, "is_error": call.failed}
    body = _user(log, [block])
    if not log.agent:
        body["toolUseResult"] = detail
    yield log.entry(body | {"sourceToolAssistantUUID": owner}, 0.2, parent=owner)


def _hunk(call: StoryCall) -> Json:
    old, new = call.old.splitlines(), call.new.splitlines()
    lines = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    return {"oldStart": 1, "oldLines": len(old), "newStart": 1, "newLines": len(new), "lines": lines}


def _subagent(
    log: _ClaudeLog, call: StoryCall, call_id: str, folder: str
) -> Generator[LogLine, None, tuple[list[Json], Json]]:
    """The subagent's file; returns the content and the detail of the result that its parent logs."""
    fake = log.fake.child()
    agent = f"a{fake.hexes(16)}"
    meta = {"agentType": "Explore", "description": call.subject[:40], "toolUseId": call_id, "spawnDepth": 1}
    yield LogLine(f"{folder}/agent-{agent}.meta.json", json_line(meta)[:-1], whole=True)
    child = _ClaudeLog(log.story, fake, f"{folder}/agent-{agent}.jsonl", log.session)
    child.agent, child.prompt = agent, log.prompt
    began = fake.clock()
    yield child.entry(_user(child, call.subject), 0.8)
    for step in call.work[:-1]:
        yield from _step(child, step, folder)
    answer = {"type": "text", "text": call.output}
    tokens = fake.tokens(call.work[-1])
    identity = (f"msg_01{fake.letters(22)}", f"req_011{fake.letters(21)}")
    yield child.entry(_assistant(child.model, identity, answer, tokens, None), 0.5)
    detail: Json = {"status": "completed", "prompt": call.subject, "agentId": agent, "agentType": "Explore"}
    detail |= {"content": [answer], "totalDurationMs": int((fake.clock() - began) * 1000)}
    detail |= {"totalTokens": tokens.prompt + tokens.output, "totalToolUseCount": len(call.work) - 1}
    return [answer, {"type": "text", "text": f"agentId: {agent}"}], detail


def _api_error() -> Json:
    cause = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    line = {"type": "system", "subtype": "api_error", "level": "error", "error": {"status": 529, "error": cause}}
    return line | {"retryInMs": 551.9, "retryAttempt": 1, "maxRetries": 10}


def _refusal(fake: FakeSession) -> Json:
    """The line that the program writes instead of a response when the provider refuses."""
    counts = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    text = {"type": "text", "text": "API Error: 529 Overloaded. Try again in a moment."}
    message: Json = {"id": fake.uuid(), "container": None, "model": "<synthetic>", "role": "assistant"}
    message |= {
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": dict.fromkeys(counts, 0),
    }
    message |= {"content": [text], "context_management": None}
    return {"type": "assistant", "message": message, "error": "overloaded_error", "isApiErrorMessage": True}


CLAUDE_CODE = FakeLog(agent="claude-code", variables=("CLAUDE_CONFIG_DIR",), home=".claude", session=session)
