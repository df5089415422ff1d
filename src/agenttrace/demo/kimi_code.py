"""Kimi Code 2.1.0: agent records of protocol 1.5, with a step's usage three times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from agenttrace.demo.fake_session import FakeLog, FakeSession, Json, LogLine, StepTokens, json_line, silence
from agenttrace.demo.stories import Story, StoryCall, StoryStep, StoryTurn

_ALIAS, _MODEL = "kimi-k2", "kimi-k2-0905-preview"
_NAMES = {"shell": "Bash", "read": "Read", "edit": "Edit", "search": "Grep", "delegate": "Agent"}
_REFUSED = {"code": "provider.api_error", "message": "429 engine overloaded", "name": "APIStatusError"}


class _Session:
    """What all agents of a session share."""

    def __init__(self, story: Story, fake: FakeSession) -> None:
        self.story = story
        self.id = f"session_{fake.uuid()}"
        self.workspace = f"wd_{story.folder}_{hashlib.sha256(story.cwd.encode()).hexdigest()[:12]}"
        self.folder = f".kimi-code/sessions/{self.workspace}/{self.id}"
        self.created = fake.milliseconds()
        self.agents: Json = {}

    def state(self, fake: FakeSession) -> LogLine:
        state = {"id": self.id, "version": 2, "cwd": self.story.cwd, "archived": False, "agents": self.agents}
        state |= {"custom": {}, "createdAt": self.created, "updatedAt": fake.milliseconds()}
        data = json_line(state | {"isCustomTitle": True, "title": self.story.title})[:-1]
        return LogLine(f"{self.folder}/state.json", data, whole=True)

    def add(self, name: str, fake: FakeSession, parent: str | None = None) -> _Agent:
        place = {"homedir": f"{fake.home}/{self.folder}/agents/{name}", "type": "sub" if parent else "main"}
        if parent:
            labels = {"parentAgentId": parent, "profileName": "coder"}
            self.agents[name] = place | {"parentAgentId": parent, "labels": labels}
        else:
            self.agents[name] = place
        return _Agent(self, name, fake)


class _Agent:
    """One agent's wire file."""

    def __init__(self, session: _Session, name: str, fake: FakeSession) -> None:
        self.session, self.name, self.fake = session, name, fake
        self.path = f"{session.folder}/agents/{name}/wire.jsonl"
        self.messages: list[Json] = []
        #: The usage of this agent, for its parent's record of it.
        self.total = _spent(StepTokens(0, 0, 0, 0))

    def record(self, kind: str, body: Json, delay: float = 0.02) -> LogLine:
        line = {"type": kind, "agentId": self.name} | body | {"time": self.fake.milliseconds()}
        return LogLine(self.path, json_line(line), delay)

    def loop(self, kind: str, body: Json, delay: float = 0.02) -> LogLine:
        return self.record("context.append_loop_event", {"event": {"type": kind} | body}, delay)

    def event(self, kind: str, body: Json, at: int) -> LogLine:
        """An ``agent.*`` record, which carries the time it was made, not the time it was written."""
        return LogLine(self.path, json_line(body | {"type": kind, "time": at, "kind": "event"}))

    def bare(self, kind: str, body: Json) -> LogLine:
        """A record without ``agentId``."""
        return LogLine(self.path, json_line({"type": kind} | body | {"time": self.fake.milliseconds()}), 0.05)

    def opening(self, profile: str) -> Iterator[LogLine]:
        header = {"type": "metadata", "protocol_version": "1.5", "created_at": self.fake.milliseconds()}
        yield LogLine(self.path, json_line(header))
        yield self.record("runtime.set_binding", {"workspaceId": self.session.workspace, "runtimeId": "local"})
        yield self.record("profile.bind", {"modelAlias": _ALIAS, "profileName": profile, "thinkingEffort": "on"})
        yield self.record("permission.set_mode", {"mode": "auto"})


def session(story: Story, fake: FakeSession) -> Iterator[LogLine]:
    """One session directory with a wire file for each agent."""
    place = _Session(story, fake)
    main = place.add("main", fake)
    entry = {"sessionId": place.id, "sessionDir": f"{fake.home}/{place.folder}", "workDir": story.cwd}
    yield LogLine(".kimi-code/session_index.jsonl", json_line(entry))
    yield place.state(fake)
    yield from main.opening("agent")
    for number, turn in enumerate(story.turns):
        yield from _turn(main, turn, number, {"kind": "user"})
        yield silence(fake.until_answer(turn))
    yield place.state(fake)


def _turn(agent: _Agent, turn: StoryTurn, number: int, origin: Json) -> Iterator[LogLine]:
    fake, prompt = agent.fake, f"msg_01{agent.fake.letters(24).upper()}"
    began = fake.milliseconds()
    content = [{"type": "text", "text": turn.prompt}]
    yield agent.record("turn.prompt", {"input": content, "origin": origin, "promptId": prompt, "turnId": number})
    message = {"role": "user", "content": content, "id": prompt, "toolCalls": [], "origin": origin}
    yield agent.record("context.append_message", {"message": message})
    meta = {"source": "input", "promptId": prompt, "origin": origin, "tracked": True, "createdAt": fake.iso()}
    plain = {"message": {"role": "user", "content": content}, "meta": meta | {"userMessageId": prompt}}
    yield agent.event("agent.message.appended", {"message": plain}, began)
    yield agent.event("agent.turn.started", {"turnId": number, "queueItemId": prompt}, began)
    count = 0
    for step in turn.steps:
        if step.retried:
            count += 1
            yield from _failed_step(agent, number, count)
            attempts = {"turnId": number, "step": count, "failedAttempt": 1, "nextAttempt": 2, "maxAttempts": 10}
            error = {"delayMs": 622.5, "errorName": "APIConnectionError", "errorMessage": "terminated"}
            yield agent.record("turn.step.retrying", attempts | error, 0.6)
        count += 1
        yield from _step(agent, step, number, count)
    if turn.refused:
        yield from _failed_step(agent, number, 1)
        stopped = {"turnId": number, "step": 1, "reason": "error", "message": "[provider.api_error] 429"}
        yield agent.record("turn.step.interrupted", stopped)
    yield from _closing(agent, turn, number, prompt, began)


def _closing(agent: _Agent, turn: StoryTurn, number: int, prompt: str, began: int) -> Iterator[LogLine]:
    """The end of a turn, after which all of its messages are written once more."""
    fake, reason = agent.fake, "failed" if turn.refused else "completed"
    for message in agent.messages:
        yield agent.event("agent.message.appended", {"message": message}, fake.milliseconds() - 12)
    agent.messages.clear()
    outcome = "failed" if turn.refused else "done"
    yield agent.event("agent.turn.ended", {"turnId": number, "outcome": outcome}, fake.milliseconds() - 12)
    ended: Json = {"turnId": number, "reason": reason, "durationMs": fake.milliseconds() - began}
    ended |= {"error": _REFUSED | {"retryable": True}} if turn.refused else {"traceId": fake.letters(16)}
    yield agent.record("turn.ended", ended)
    yield agent.record("prompt.completed", {"promptId": prompt, "finishedAt": fake.iso(), "reason": reason})


def _request(agent: _Agent, turn: int, step: int) -> LogLine:
    body = {"kind": "loop", "provider": "kimi", "model": _MODEL, "modelAlias": _ALIAS, "turnStep": f"{turn}.{step}"}
    return agent.record("llm.request", body, agent.fake.pause(0.6, 1.8))


def _failed_step(agent: _Agent, turn: int, step: int) -> Iterator[LogLine]:
    place = {"uuid": agent.fake.uuid(), "turnId": str(turn), "step": step}
    yield agent.loop("step.begin", place)
    yield _request(agent, turn, step)
    yield agent.loop("step.end", place | {"finishReason": "error"})


def _step(agent: _Agent, step: StoryStep, turn: int, number: int) -> Iterator[LogLine]:
    fake, step_uuid = agent.fake, agent.fake.uuid()
    place = {"turnId": str(turn), "step": number}
    inside = place | {"stepUuid": step_uuid}
    yield agent.loop("step.begin", {"uuid": step_uuid} | place)
    yield _request(agent, turn, number)
    spent = _spent(fake.tokens(step))
    agent.total = {name: count + spent[name] for name, count in agent.total.items()}
    yield agent.record("usage.record", {"model": _ALIAS, "usage": spent, "usageScope": "turn"})
    for part in _parts(step):
        text = part.get("think") or part["text"]
        body = {"uuid": fake.uuid()} | inside | {"part": part}
        yield agent.loop("content.part", body, fake.writing(text))
    calls = [(fake.uuid(), f"tool_{fake.letters(24)}") for _ in step.calls]
    for call, (call_uuid, call_id) in zip(step.calls, calls, strict=True):
        body = {"uuid": call_uuid} | inside | {"toolCallId": call_id, "name": _NAMES[call.kind]}
        yield agent.loop("tool.call", body | {"args": _args(call)})
    message = _message(step, calls, spent, fake)
    agent.messages.append(message)
    for index in step.completion_order:
        yield from _result(agent, step.calls[index], *calls[index])
    end = {"uuid": step_uuid} | place | {"finishReason": "tool_use" if calls else "end_turn", "usage": spent}
    yield agent.loop("step.end", end | {"messageId": message["meta"]["messageId"]})


def _parts(step: StoryStep) -> list[Json]:
    parts: list[Json] = []
    if step.thinking:
        parts.append({"type": "think", "think": step.thinking, "reasoningKey": "reasoning_content"})
    if step.text:
        parts.append({"type": "text", "text": step.text})
    return parts


def _message(step: StoryStep, calls: list[tuple[str, str]], spent: Json, fake: FakeSession) -> Json:
    """The answer as ``agent.message.appended`` repeats it at the end of the turn."""
    made = [
        {"type": "function", "id": call_id, "name": _NAMES[call.kind], "arguments": json.dumps(_args(call))}
        for call, (_, call_id) in zip(step.calls, calls, strict=True)
    ]
    message = {"role": "assistant", "content": _parts(step), "toolCalls": made}
    meta: Json = {"model": {"provider": "agent-loop", "model": "agent-loop"}, "source": "llm", "usage": spent}
    meta["finish"] = {"finishReason": "tool_calls" if calls else "completed"}
    return {"message": message, "meta": meta | {"messageId": f"chatcmpl-{fake.letters(24)}"}}


def _args(call: StoryCall) -> Json:
    arguments: dict[str, Json] = {
        "shell": {"command": call.subject},
        "read": {"path": call.subject},
        "edit": {"path": call.subject, "old_string": call.old, "new_string": call.new},
        "search": {"pattern": call.subject},
        "delegate": {"description": call.subject[:40], "prompt": call.subject},
    }
    return arguments[call.kind]


def _result(agent: _Agent, call: StoryCall, call_uuid: str, call_id: str) -> Iterator[LogLine]:
    began = agent.fake.milliseconds()
    output = call.output
    if call.kind == "delegate":
        name = f"agent-{len(agent.session.agents) - 1}"
        yield from _subagent(agent, call, call_id, name)
        head = f"agent_id: {name}\nactual_subagent_type: coder\nstatus: completed\nstop_reason: completed\n"
        output = f"{head}\n[summary]\n{call.output}"
    else:
        yield silence(call.seconds)
    result: Json = {"output": output}
    if call.failed:
        result = {"output": f"{output}Command failed with exit code: 1.", "isError": True}
    result["durationMs"] = agent.fake.milliseconds() - began
    yield agent.loop("tool.result", {"parentUuid": call_uuid, "toolCallId": call_id, "result": result})
    content = [{"type": "text", "text": result["output"]}]
    message = {"role": "tool", "content": content, "toolCallId": call_id}
    agent.messages.append({"message": message, "meta": {"source": "tool"}})


def _subagent(parent: _Agent, call: StoryCall, call_id: str, name: str) -> Iterator[LogLine]:
    fake = parent.fake.child()
    child = parent.session.add(name, fake, parent.name)
    yield parent.session.state(fake)
    spawned: Json = {"subagentId": name, "subagentName": "coder", "parentToolCallId": call_id}
    spawned |= {"parentAgentId": parent.name, "callerAgentId": parent.name, "description": call.subject[:40]}
    spawned |= {"runInBackground": False, "model": _ALIAS, "taskId": f"agent-{fake.hexes(8)}"}
    yield parent.bare("subagent.spawned", spawned)
    yield parent.bare("subagent.started", {"subagentId": name})
    yield from child.opening("coder")
    origin = {"kind": "system_trigger", "name": "subagent"}
    yield from _turn(child, StoryTurn(call.subject, call.work), 0, origin)
    done: Json = {"subagentId": name, "resultSummary": call.output, "usage": child.total}
    yield parent.bare("subagent.completed", done | {"contextTokens": fake.context})


def _spent(tokens: StepTokens) -> dict[str, int]:
    """The usage of a step; this format does not report reasoning."""
    spent = {"inputOther": tokens.fresh, "output": tokens.output, "inputCacheRead": tokens.cached}
    return spent | {"inputCacheCreation": 0}


KIMI_CODE = FakeLog(agent="kimi-code", variables=("KIMI_CODE_HOME",), home=".kimi-code", session=session)
