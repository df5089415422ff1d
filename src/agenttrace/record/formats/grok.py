"""Grok Build, the CLI of xAI: ``sessions/<directory>/<session>/updates.jsonl``, the updates that its display gets.

Untested on real logs: made after public descriptions of the files and fixtures that follow them.

A prompt and an answer are pieces. What was used is told at the end of a turn, by model, for all calls of the turn: it
is the last call's here. A fork copies updates: what a turn used is named by its prompt, so that copies count once.

``memory`` holds ``asking``, the prompt whose pieces come; ``asks``, how many prompts there were; ``step``, the open
step; ``last``, the latest one of the turn; ``steps``, how many there were; ``known``, that its facts were told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import LineDecoder, LogFormat, agent_directory, first_lines, usage_of_prompt
from agenttrace.record.formats.contract import Content, Memory, ResumeCommand, Source, Traits
from agenttrace.record.formats.lenient import (
    count,
    duration,
    json_text,
    lookup,
    read_object,
    text_at,
    time_at,
    value_of,
)
from agenttrace.record.ingest import acts as a

LOG_NAME = "updates.jsonl"
_SUMMARY = "summary.json"
_ABSENT = msgspec.Raw()
_ANSWERS = {"agent_message_chunk": "text", "agent_thought_chunk": "thinking"}
_ENDED = {"completed": "ok", "failed": "error"}
_STOPPED = {"cancelled": "cancelled", "refusal": "error"}


class GrokUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line: a notification of the Agent Client Protocol."""

    #: Seconds.
    timestamp: float | None = None
    params: msgspec.Raw = _ABSENT


class Grok(LogFormat[GrokUpdate]):
    """The updates of Grok Build, from version 1.0 on."""

    name = "grok"
    title = "Grok Build"
    traits = Traits(provider="x_ai", integration="grok", variables=("GROK_HOME",))
    decoder = LineDecoder(GrokUpdate)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$GROK_HOME`` or ``~/.grok``."""
        return [agent_directory(environ, home, "GROK_HOME", default=".grok") / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``updates.jsonl`` of a session."""
        return path.name == LOG_NAME

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By one of the first updates; the directory is named after the session."""
        if not any(map(self._is_update, first_lines(head, 8))):
            return None
        summary = read_object(path.with_name(_SUMMARY))
        session = text_at(summary, "info", "id") or path.parent.name
        return self.source(path, session, cwd=text_at(summary, "info", "cwd"), title=_title(summary))

    def _is_update(self, raw: bytes) -> bool:
        line = self.decoder(raw)
        return line is not None and text_at(value_of(line.params), "update", "sessionUpdate") is not None

    def session_name(self, path: Path) -> str:
        """The directory is named after the session."""
        return path.parent.name

    def event(self, line: GrokUpdate, raw: bytes, source: Source) -> Event:
        """The event's id, where there is one."""
        params = value_of(line.params)
        kind = text_at(params, "update", "sessionUpdate") or "unknown"
        millis = lookup(params, "_meta", "agentTimestampMs")
        at = duration(millis if millis is not None else line.timestamp and line.timestamp * 1000)
        return Event(kind, text_at(params, "_meta", "eventId"), None if at is None else time_at(at), params)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the update means."""
        found: list[a.Act] = []
        if not memory.get("known"):
            memory["known"] = True
            found.append(a.SessionInfo(cwd=source.cwd, title=source.title))
        update = lookup(event.body, "update")
        if event.type != "user_message_chunk":
            memory.pop("asking", None)
        match event.type:
            case "user_message_chunk":
                found += _asked(event.body, memory)
            case "agent_message_chunk" | "agent_thought_chunk":
                found.append(_step(memory))
            case "tool_call":
                found += [_step(memory), *_tool(update, memory)]
            case "tool_call_update":
                found += _tool_ended(update, memory)
            case "turn_completed":
                found += _turn_ended(event.body, source, memory)
        return found

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        return [text for text in _texts(event.type, lookup(event.body, "update")) if text.text]

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``grok --resume <session>``."""
        return ResumeCommand(("grok", "--resume", session_id))


def _title(summary: object) -> str | None:
    return text_at(summary, "generated_title") or text_at(summary, "session_summary")


def _asked(params: object, memory: Memory) -> list[a.Act]:
    """A piece of a prompt; the first one begins the turn."""
    memory.pop("step", None)
    if memory.get("asking"):
        return []
    memory["asks"] = memory.get("asks", 0) + 1
    memory["asking"] = text_at(params, "_meta", "promptId") or f"{memory['asks']}"
    return [a.TurnBegin(text_at(params, "update", "content", "text"), turn=memory["asking"])]


def _step(memory: Memory) -> a.Act:
    """The model call that this is a part of."""
    if not memory.get("step"):
        memory["steps"] = memory.get("steps", 0) + 1
        memory["step"] = memory["last"] = f"{memory['steps']}"
    return a.StepBegin(memory["step"], implied=True)


def _tool(update: object, memory: Memory) -> list[a.Act]:
    call = text_at(update, "toolCallId")
    name = text_at(lookup(update, "_meta", "x.ai/tool"), "name") or text_at(update, "title") or "unknown"
    return [] if call is None else [a.ToolBegin(call, name, memory.get("step"))]


def _tool_ended(update: object, memory: Memory) -> list[a.Act]:
    call, status = text_at(update, "toolCallId"), text_at(update, "status") or ""
    if call is None or status not in _ENDED:
        return []
    memory.pop("step", None)
    return [a.ToolEnd(call, _ENDED[status], _pieces(update) if status == "failed" else None)]


def _turn_ended(params: object, source: Source, memory: Memory) -> Iterator[a.Act]:
    memory.pop("step", None)
    update = lookup(params, "update")
    named = text_at(update, "prompt_id") or text_at(params, "_meta", "eventId")
    turn = named or f"{source.session_id}:{memory.get('asks', 0)}"
    last = memory.pop("last", None)
    for model, usage in _used(lookup(update, "usage")):
        yield a.ResponseUsage(f"grok:{turn}:{model}", usage, model or None, last, detached=last is None)
        last = None
    if source.directory:
        # It is written after the first updates, and the title later still.
        summary = read_object(Path(source.directory) / _SUMMARY)
        yield a.SessionInfo(cwd=text_at(summary, "info", "cwd"), title=_title(summary))
    reason = text_at(update, "stop_reason") or ""
    yield a.TurnEnd(_STOPPED.get(reason, "ok"))


def _used(usage: object) -> list[tuple[str, Usage]]:
    """What a turn used, by model; their sum stands beside them."""
    by_model = lookup(usage, "modelUsage")
    if isinstance(by_model, dict) and by_model:
        return [(str(model), _counts(each)) for model, each in by_model.items()]
    return [("", _counts(usage))] if isinstance(usage, dict) else []


def _counts(usage: object) -> Usage:
    names = ("inputTokens", "outputTokens", "cachedReadTokens", "cacheCreationTokens", "reasoningTokens")
    return usage_of_prompt(*(count(lookup(usage, name)) for name in names))


def _pieces(update: object) -> str:
    content = lookup(update, "content")
    parts = content if isinstance(content, list) else []
    return "\n".join(text for part in parts if (text := text_at(part, "content", "text") or text_at(part, "text")))


def _texts(kind: str, update: object) -> Iterator[Content]:
    call = text_at(update, "toolCallId")
    if kind == "user_message_chunk":
        yield Content("prompt", text_at(update, "content", "text") or "")
    elif kind in _ANSWERS:
        text = text_at(update, "content", "text") or ""
        yield Content("text" if kind == "agent_message_chunk" else "thinking", text)
    elif kind == "tool_call" and lookup(update, "rawInput") is not None:
        yield Content("arguments", json_text(lookup(update, "rawInput")), call)
    elif kind == "tool_call_update" and text_at(update, "status") in _ENDED:
        text = _pieces(update) or json_text(lookup(update, "rawOutput"))
        yield Content("error" if text_at(update, "status") == "failed" else "result", text, call)
