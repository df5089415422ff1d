"""Kimi Code 2.1.0: agent records of protocol 1.5, in which a step's usage stands three times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from agenttrace.demo.scenario import Call, Step, Story, Turn
from agenttrace.demo.telling import Format, Line, Teller, Tokens, by_completion, compact, silence
from agenttrace.model import Usage

Json = dict[str, Any]

_ALIAS, _MODEL = "kimi-k2", "kimi-k2-0905-preview"
_NAMES = {"shell": "Bash", "read": "Read", "edit": "Edit", "search": "Grep", "delegate": "Agent"}
_REFUSED = {"code": "provider.api_error", "message": "429 engine overloaded", "name": "APIStatusError"}


class _Session:
    """What all agents of a session share."""

    def __init__(self, story: Story, teller: Teller) -> None:
        self.story = story
        self.id = f"session_{teller.uuid()}"
        self.workspace = f"wd_{story.folder}_{hashlib.sha256(story.cwd.encode()).hexdigest()[:12]}"
        self.folder = f".kimi-code/sessions/{self.workspace}/{self.id}"
        self.created = teller.milliseconds()
        self.agents: Json = {}

    def state(self, teller: Teller) -> Line:
        state = {"id": self.id, "version": 2, "cwd": self.story.cwd, "archived": False, "agents": self.agents}
        state |= {"custom": {}, "createdAt": self.created, "updatedAt": teller.milliseconds()}
        data = compact(state | {"isCustomTitle": True, "title": self.story.title})[:-1]
        return Line(f"{self.folder}/state.json", data, whole=True)

    def add(self, name: str, teller: Teller, parent: str | None = None) -> _Agent:
        place = {"homedir": f"{teller.home}/{self.folder}/agents/{name}", "type": "sub" if parent else "main"}
        if parent:
            labels = {"parentAgentId": parent, "profileName": "coder"}
            self.agents[name] = place | {"parentAgentId": parent, "labels": labels}
        else:
            self.agents[name] = place
        return _Agent(self, name, teller)


class _Agent:
    """One agent's wire file."""

    def __init__(self, session: _Session, name: str, teller: Teller) -> None:
        self.session, self.name, self.teller = session, name, teller
        self.path = f"{session.folder}/agents/{name}/wire.jsonl"
        self.messages: list[Json] = []
        self.length = 0
        #: What this agent spent, for its parent's record of it.
        self.total = [0, 0, 0]

    def record(self, kind: str, body: Json, delay: float = 0.02, *, spent: Usage | None = None) -> Line:
        line = {"type": kind, "agentId": self.name} | body | {"time": self.teller.milliseconds()}
        return Line(self.path, compact(line), delay, spent=spent)

    def loop(self, kind: str, body: Json, delay: float = 0.02) -> Line:
        return self.record("context.append_loop_event", {"event": {"type": kind} | body}, delay)

    def event(self, kind: str, body: Json, at: int) -> Line:
        """An ``agent.*`` record, which carries the time it was made, not the time it was written."""
        return Line(self.path, compact(body | {"type": kind, "time": at, "kind": "event"}))

    def opening(self, profile: str) -> Iterator[Line]:
        header = {"type": "metadata", "protocol_version": "1.5", "created_at": self.teller.milliseconds()}
        yield Line(self.path, compact(header))
        yield self.record("runtime.set_binding", {"workspaceId": self.session.workspace, "runtimeId": "local"})
        bound: Json = {"modelAlias": _ALIAS, "profileName": profile, "thinkingEffort": "on"}
        bound |= {"systemPrompt": "You help with software.", "agentsMdPaths": [], "disallowedTools": []}
        bound |= {
            "environmentDisclosure": {"cwd": self.session.story.cwd},
            "activeToolNames": ["Bash", "Read"],
        }
        yield self.record("profile.bind", bound)
        yield self.record("permission.set_mode", {"mode": "auto"})


def session(story: Story, teller: Teller) -> Iterator[Line]:
    """One session directory with a wire file for each agent."""
    place = _Session(story, teller)
    main = place.add("main", teller)
    entry = {"sessionId": place.id, "sessionDir": f"{teller.home}/{place.folder}", "workDir": story.cwd}
    yield Line(".kimi-code/session_index.jsonl", compact(entry))
    yield place.state(teller)
    yield from main.opening("agent")
    for number, turn in enumerate(story.turns):
        yield from _turn(main, turn, number, {"kind": "user"})
        yield silence(teller.pause(3, 7))
    yield place.state(teller)


def _turn(agent: _Agent, turn: Turn, number: int, origin: Json) -> Iterator[Line]:
    teller, prompt = agent.teller, f"msg_01{agent.teller.letters(24).upper()}"
    began = teller.milliseconds()
    content = [{"type": "text", "text": turn.prompt}]
    yield agent.record("turn.prompt", {"input": content, "origin": origin, "promptId": prompt, "turnId": number})
    message = {"role": "user", "content": content, "id": prompt, "toolCalls": [], "origin": origin}
    yield agent.record("context.append_message", {"message": message})
    meta = {
        "source": "input",
        "promptId": prompt,
        "origin": origin,
        "tracked": True,
        "createdAt": teller.iso(),
    }
    plain = {"message": {"role": "user", "content": content}, "meta": meta | {"userMessageId": prompt}}
    yield agent.event("agent.message.appended", {"message": plain}, began)
    yield agent.event("agent.turn.started", {"turnId": number, "queueItemId": prompt}, began)
    agent.length += 1
    count = 0
    for step in turn.steps:
        if step.retried:
            count += 1
            yield from _failed_step(agent, number, count)
            yield agent.record("turn.step.retrying", _retrying(number, count), 0.6)
        count += 1
        yield from _step(agent, step, number, count)
    if turn.refused:
        yield from _failed_step(agent, number, 1)
        stopped = {"turnId": number, "step": 1, "reason": "error", "message": "[provider.api_error] 429"}
        yield agent.record("turn.step.interrupted", stopped)
    yield from _closing(agent, turn, number, prompt, began)


def _closing(agent: _Agent, turn: Turn, number: int, prompt: str, began: int) -> Iterator[Line]:
    """The end of a turn, after which all of its messages are written once more."""
    teller, reason = agent.teller, "failed" if turn.refused else "completed"
    for message in agent.messages:
        yield agent.event("agent.message.appended", {"message": message}, teller.milliseconds() - 12)
    agent.messages.clear()
    outcome = "failed" if turn.refused else "done"
    yield agent.event("agent.turn.ended", {"turnId": number, "outcome": outcome}, teller.milliseconds() - 12)
    ended: Json = {"turnId": number, "reason": reason, "durationMs": teller.milliseconds() - began}
    ended |= {"error": _REFUSED | {"retryable": True}} if turn.refused else {"traceId": teller.letters(16)}
    yield agent.record("turn.ended", ended)
    size = {"turnId": number, "length": agent.length, "tokens": teller.context}
    yield agent.record("token_counting.turn_recorded", size)
    yield agent.record("prompt.completed", {"promptId": prompt, "finishedAt": teller.iso(), "reason": reason})


def _request(agent: _Agent, turn: int, step: int) -> Line:
    body: Json = {"kind": "loop", "provider": "kimi", "model": _MODEL, "modelAlias": _ALIAS}
    body |= {"thinkingEffort": "on", "thinkingKeep": "all", "maxTokens": 131_072, "toolSelect": False}
    body |= {"systemPromptHash": hashlib.sha256(b"system").hexdigest(), "messageCount": agent.length}
    body |= {"toolsHash": hashlib.sha256(b"tools").hexdigest(), "turnStep": f"{turn}.{step}"}
    return agent.record("llm.request", body, agent.teller.pause(0.6, 1.8))


def _failed_step(agent: _Agent, turn: int, step: int) -> Iterator[Line]:
    place = {"uuid": agent.teller.uuid(), "turnId": str(turn), "step": step}
    yield agent.loop("step.begin", place)
    yield _request(agent, turn, step)
    yield agent.loop("step.end", place | {"finishReason": "error"})


def _retrying(turn: int, step: int) -> Json:
    attempts = {"turnId": turn, "step": step, "failedAttempt": 1, "nextAttempt": 2, "maxAttempts": 10}
    return attempts | {"delayMs": 622.5, "errorName": "APIConnectionError", "errorMessage": "terminated"}


def _step(agent: _Agent, step: Step, turn: int, number: int) -> Iterator[Line]:
    teller, step_uuid = agent.teller, agent.teller.uuid()
    place = {"turnId": str(turn), "step": number}
    inside = place | {"stepUuid": step_uuid}
    yield agent.loop("step.begin", {"uuid": step_uuid} | place)
    yield _request(agent, turn, number)
    figures = teller.tokens(step)
    spent = {"inputOther": figures.fresh, "output": figures.output, "inputCacheRead": figures.cached}
    spent["inputCacheCreation"] = 0
    agent.total = [a + b for a, b in zip(agent.total, (figures.fresh, figures.output, figures.cached), strict=True)]
    counted = {"model": _ALIAS, "usage": spent, "usageScope": "turn"}
    yield agent.record("usage.record", counted, spent=usage(figures))
    yield agent.record("token_counting.measured", {"length": agent.length + 1, "tokens": teller.context})
    for part in _parts(step):
        text = part.get("think") or part["text"]
        body = {"uuid": teller.uuid()} | inside | {"part": part}
        yield agent.loop("content.part", body, teller.writing(text))
    calls = [(teller.uuid(), f"tool_{teller.letters(24)}") for _ in step.calls]
    for call, (call_uuid, call_id) in zip(step.calls, calls, strict=True):
        body = {"uuid": call_uuid} | inside | {"toolCallId": call_id, "name": _NAMES[call.kind]}
        yield agent.loop("tool.call", body | {"args": _args(call), "display": _display(agent, call)})
    message = _message(step, calls, spent, teller)
    agent.messages.append(message)
    for index in by_completion(step.calls):
        yield from _result(agent, step.calls[index], *calls[index])
    agent.length += 1 + len(calls)
    timing = {"llmFirstTokenLatencyMs": 187, "llmStreamDurationMs": 900, "llmRequestBuildMs": 9}
    end = {"uuid": step_uuid} | place | {"finishReason": "tool_use" if calls else "end_turn", "usage": spent}
    reason = "tool_calls" if calls else "completed"
    end |= timing | {"messageId": message["meta"]["messageId"], "providerFinishReason": reason}
    yield agent.loop("step.end", end | {"rawFinishReason": "tool_calls" if calls else "stop"})


def _parts(step: Step) -> list[Json]:
    parts: list[Json] = []
    if step.thinking:
        parts.append({"type": "think", "think": step.thinking, "reasoningKey": "reasoning_content"})
    if step.text:
        parts.append({"type": "text", "text": step.text})
    return parts


def _message(step: Step, calls: list[tuple[str, str]], spent: Json, teller: Teller) -> Json:
    """The answer as ``agent.message.appended`` repeats it at the end of the turn."""
    made = [
        {"type": "function", "id": call_id, "name": _NAMES[call.kind], "arguments": json.dumps(_args(call))}
        for call, (_, call_id) in zip(step.calls, calls, strict=True)
    ]
    message = {"role": "assistant", "content": _parts(step), "toolCalls": made}
    meta: Json = {"model": {"provider": "agent-loop", "model": "agent-loop"}, "source": "llm", "usage": spent}
    meta["finish"] = {"finishReason": "tool_calls" if calls else "completed"}
    return {"message": message, "meta": meta | {"messageId": f"chatcmpl-{teller.letters(24)}"}}


def _args(call: Call) -> Json:
    match call.kind:
        case "shell":
            return {"command": call.subject}
        case "read":
            return {"path": call.subject}
        case "edit":
            return {"path": call.subject, "old_string": call.old, "new_string": call.new}
        case "search":
            return {"pattern": call.subject}
        case _:
            return {"description": call.subject[:40], "prompt": call.subject}


def _display(agent: _Agent, call: Call) -> Json:
    if call.kind == "delegate":
        return {"kind": "agent_call", "agent_name": "coder", "prompt": call.subject}
    return {"kind": "command", "command": call.subject, "cwd": agent.session.story.cwd, "language": "bash"}


def _result(agent: _Agent, call: Call, call_uuid: str, call_id: str) -> Iterator[Line]:
    began = agent.teller.milliseconds()
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
    result["durationMs"] = agent.teller.milliseconds() - began
    yield agent.loop("tool.result", {"parentUuid": call_uuid, "toolCallId": call_id, "result": result})
    content = [{"type": "text", "text": result["output"]}]
    message = {"role": "tool", "content": content, "toolCallId": call_id}
    agent.messages.append({"message": message, "meta": {"source": "tool"}})


def _subagent(parent: _Agent, call: Call, call_id: str, name: str) -> Iterator[Line]:
    teller = parent.teller.child()
    child = parent.session.add(name, teller, parent.name)
    yield parent.session.state(teller)
    spawned: Json = {"subagentId": name, "subagentName": "coder", "parentToolCallId": call_id}
    spawned |= {"parentAgentId": parent.name, "callerAgentId": parent.name, "description": call.subject[:40]}
    spawned |= {"runInBackground": False, "model": _ALIAS, "taskId": f"agent-{teller.hexes(8)}"}
    yield _bare(parent, "subagent.spawned", spawned)
    yield _bare(parent, "subagent.started", {"subagentId": name})
    yield from child.opening("coder")
    origin = {"kind": "system_trigger", "name": "subagent"}
    yield from _turn(child, Turn(prompt=call.subject, steps=call.work), 0, origin)
    fresh, output, cached = child.total
    total = {"inputOther": fresh, "output": output, "inputCacheRead": cached, "inputCacheCreation": 0}
    done: Json = {"subagentId": name, "resultSummary": call.output, "usage": total}
    yield _bare(parent, "subagent.completed", done | {"contextTokens": teller.context})


def _bare(agent: _Agent, kind: str, body: Json) -> Line:
    """A record without ``agentId``."""
    return Line(agent.path, compact({"type": kind} | body | {"time": agent.teller.milliseconds()}), 0.05)


def usage(figures: Tokens) -> Usage:
    """What the log says was spent: this format does not tell reasoning apart."""
    return Usage(input_tokens=figures.fresh, output_tokens=figures.output, cache_read_tokens=figures.cached)


KIMI_CODE = Format(agent="kimi-code", variables=("KIMI_CODE_HOME",), home=".kimi-code", session=session)
