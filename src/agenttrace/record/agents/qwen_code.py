"""Qwen Code: one record a line, in a tree like Claude Code's, with messages and usage in Gemini's shape.

A record is a whole model response, so its uuid names the response; ``/branch`` copies records with their uuids.
The telemetry that is written beside them repeats every response's usage and is never counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.acts import (
    Act,
    Note,
    ResponseUsage,
    SessionInfo,
    StepBegin,
    StepEnd,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
)
from agenttrace.record.agents.contract import Content, Source, Unusable
from agenttrace.record.agents.lenient import count, time_of, value_of
from agenttrace.record.agents.qwen_lines import (
    ORIGINS,
    Counts,
    Record,
    Result,
    parts_of,
    read_record,
    said,
    text_at,
    texts_of,
    unusable,
)

NAME = "qwen-code"

_PREVIEW = 300
_META_SIZE = 65_536
_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_SUBAGENT_TOOLS = frozenset({"agent", "task"})
_TURN_ENDS = {"completed": "ok", "cancelled": "cancelled", "error": "error"}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: A first line too long for the head.
_CUT_LINE = re.compile(
    rb'\{"uuid": ?"[^"\\]{1,99}", ?"parentUuid": ?(?:null|"[^"\\]{1,99}"), ?"sessionId": ?"([^"\\]{1,199})"'
)


class QwenCode:
    """The log format of Qwen Code."""

    name = NAME
    title = "Qwen Code"

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """``projects`` (``tmp`` in old versions) where ``QWEN_RUNTIME_DIR`` or ``QWEN_HOME`` say."""
        chosen = environ.get("QWEN_RUNTIME_DIR") or environ.get("QWEN_HOME") or "~/.qwen"
        base = home / chosen[2:] if chosen.startswith("~/") else Path(chosen)
        return [base / "projects", base / "tmp"]

    def is_log(self, path: Path) -> bool:
        """A session in ``chats``, or a subagent's transcript."""
        if path.suffix != ".jsonl":
            return False
        folders = path.parts[:-1]
        return "chats" in folders or ("subagents" in folders and path.name.startswith("agent-"))

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A session's file, or the file of one of its subagents."""
        records = [record for raw in head.split(b"\n") if (record := read_record(raw)) is not None]
        cut = _CUT_LINE.match(head)
        if not (any(map(_is_ours, records)) or (not records and cut)):
            return None
        inside = next((record.session_id for record in records if record.session_id), None)
        if inside is None and cut is not None:
            inside = cut[1].decode("utf-8", "replace")
        if path.stem.startswith("agent-"):
            return _subagent_source(path, inside)
        origin = next((r.forked_from.session_id for r in records if r.forked_from is not None), None)
        return Source(
            agent=NAME,
            session_id=path.stem if _UUID.fullmatch(path.stem) else inside or path.stem,
            parent_session=origin,
            copied=origin is not None,
            cwd=next((record.cwd for record in records if record.cwd), None),
            directory=str(path.parent),
        )

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """Decode one line."""
        record = read_record(raw)
        if record is None:
            return unusable(raw)
        kind = record.type or "unknown"
        if record.subtype is not None:
            kind = f"{kind}/{record.subtype}"
        stream = None
        if record.is_sidechain and source.stream == "main":
            stream = record.agent_id or "sidechain"
        return Event(kind, record.uuid or None, time_of(record.timestamp), record, stream)

    def acts(self, event: Event, source: Source, memory: dict[str, Any]) -> Iterable[Act]:
        """What the line means."""
        record: Record = event.body
        main = event.stream is None and source.stream == "main"
        found: list[Act] = []
        if main:
            _note_facts(record, memory, found)
        handle = _MEANINGS.get(record.type or "")
        if handle is not None:
            handle(record, memory, found, main)
        return found

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        record: Record = event.body
        return texts_of(record)


def _is_ours(record: Record) -> bool:
    named = record.uuid is not None and record.session_id is not None and record.type in _TYPES
    in_parts = record.message is not None and record.message.parts is not None
    return named and (in_parts or bool(record.system_payload) or record.tool_call_result is not None)


def _subagent_source(path: Path, inside: str | None) -> Source:
    meta = _meta(path.with_suffix(".meta.json"))
    return Source(
        agent=NAME,
        session_id=text_at(meta, "parentSessionId") or inside or path.parent.name,
        stream=text_at(meta, "agentId") or path.stem.removeprefix("agent-") or path.stem,
        parent_stream=text_at(meta, "parentAgentId") or "main",
        parent_call=text_at(meta, "toolUseId"),
        name=text_at(meta, "agentType"),
        model=text_at(meta, "model"),
        directory=str(path.parent),
    )


def _meta(path: Path) -> object:
    try:
        with path.open("rb") as file:
            return value_of(msgspec.Raw(file.read(_META_SIZE)))
    except OSError:
        return None


def _note_facts(record: Record, memory: dict[str, Any], found: list[Act]) -> None:
    facts = [record.cwd, record.git_branch, record.version, record.model or memory.get("model")]
    if facts != memory.get("facts") and any(facts):
        memory["facts"], memory["model"] = facts, facts[3]
        found.append(SessionInfo(cwd=facts[0], branch=facts[1], version=facts[2], model=facts[3]))


def _user(record: Record, memory: dict[str, Any], found: list[Act], main: bool) -> None:
    text = (text_at(value_of(record.system_payload), "displayText") or said(record))[:_PREVIEW] or None
    if record.subtype == "mid_turn_user_message":
        found.append(Note("steer", text))
    elif record.subtype in ORIGINS or record.delivered_turn:
        origin = ORIGINS.get(record.subtype, "task") if main else "subagent"
        memory["turn"] = record.prompt_id or record.uuid
        memory.pop("over", None)
        found.append(TurnBegin(text, origin, memory["turn"]))
    else:
        # Written down when it came; the turn that answers it, if any, begins with another record.
        found.append(Note("notification", text))


def _assistant(record: Record, memory: dict[str, Any], found: list[Act], main: bool) -> None:
    calls = [part.function_call for part in parts_of(record) if part.function_call is not None]
    step = _step_of(record, memory, bool(calls))
    if step != memory.get("step"):
        if memory.pop("over", None) and memory.get("turn"):
            found.append(TurnBegin(turn=memory["turn"]))
        memory["step"] = step
    found.append(StepBegin(step, None, record.model, implied=True))
    memory.pop("answered", None)
    for call in calls:
        if call.id:
            name = call.name or "unknown"
            found.append(ToolBegin(call.id, name, step, name in _SUBAGENT_TOOLS))
    if record.usage_metadata is not None:
        found.append(_usage(record, record.usage_metadata, step))
    if main:
        found.append(StepEnd(step))
        if not calls:
            memory["over"] = True
            found.append(TurnEnd())


def _step_of(record: Record, memory: dict[str, Any], calls: bool) -> str:
    """Subagents write the calls of a response in records of their own, after the one with text and usage."""
    own = record.uuid or str(record.timestamp)
    if record.agent_run_id is not None and record.agent_round is not None:
        return f"{record.agent_run_id}:{record.agent_round}"
    follows = record.is_sidechain and calls and record.usage_metadata is None and not memory.get("answered")
    return str(memory.get("step") or own) if follows else own


def _usage(record: Record, counts: Counts, step: str) -> ResponseUsage:
    response = f"qwen:{record.uuid or step}"
    prompt, cached = count(counts.prompt_token_count), count(counts.cached_content_token_count)
    output, thoughts = count(counts.candidates_token_count), count(counts.thoughts_token_count)
    total = count(counts.total_token_count)
    estimated = total > 0 and prompt == 0 and output == 0
    if estimated:
        # Some providers report nothing but the total; most of it is always the prompt.
        prompt = total
    if thoughts > output or (thoughts and total >= prompt + output + thoughts):
        # Gemini counts thoughts apart; OpenAI's interface, the usual one here, has them in the output.
        output += thoughts
    usage = Usage(
        input_tokens=max(prompt - cached, 0),
        output_tokens=output,
        cache_read_tokens=min(cached, prompt),
        reasoning_tokens=thoughts,
    )
    return ResponseUsage(response, usage, record.model, step, estimated)


def _tool_result(record: Record, memory: dict[str, Any], found: list[Act], main: bool) -> None:
    memory["answered"] = True
    result = record.tool_call_result or Result()
    answers = [part.function_response for part in parts_of(record) if part.function_response is not None]
    calls = {answer.id: text_at(value_of(answer.response), "error") for answer in answers if answer.id}
    if not calls and result.call_id:
        calls[result.call_id] = None
    for call, error in calls.items():
        status = "ok"
        if result.status in ("error", "cancelled"):
            status, error = result.status, error or text_at({"": value_of(result.result_display)}, "")
        elif error is not None:
            status = "error"
        found.append(ToolEnd(call, status, error[:_PREVIEW] if error else None, _duration(result)))


def _duration(result: Result) -> int | None:
    spent = result.duration_ms
    return round(spent * 1000) if spent is not None and 0 <= spent < 1e12 else None


def _system(record: Record, memory: dict[str, Any], found: list[Act], main: bool) -> None:
    payload = value_of(record.system_payload)
    match record.subtype:
        case "chat_compression":
            found.append(Note("compaction"))
        case "rewind" | "agent_retry":
            found.append(Note(record.subtype.removeprefix("agent_")))
        case "background_task_completed":
            found.append(Note("notification", (text_at(payload, "displayText") or "")[:_PREVIEW] or None))
        case "ui_telemetry" if text_at(payload, "uiEvent", "event.name") == "qwen-code.api_error":
            found.append(Note("retry", (text_at(payload, "uiEvent", "error") or "")[:_PREVIEW] or None))
        case "custom_title":
            _titled(payload, memory, found)
        case "parent_session":
            found.append(SessionInfo(parent=text_at(payload, "parentSessionId")))
        case "session_model":
            found.append(SessionInfo(model=text_at(payload, "modelId")))
        case "turn_result":
            memory["over"] = True
            status = _TURN_ENDS.get(text_at(payload, "state") or "", "ok")
            found.append(TurnEnd(status, text_at(payload, "error", "message")))


def _titled(payload: object, memory: dict[str, Any], found: list[Act]) -> None:
    """A title is written again and again; one that the user gave stays."""
    title, given = text_at(payload, "customTitle"), text_at(payload, "titleSource") != "auto"
    if title and [title, given] != memory.get("title") and (given or not (memory.get("title") or [0, 0])[1]):
        memory["title"] = [title, given]
        found.append(SessionInfo(title=title[:_PREVIEW]))


_MEANINGS: dict[str, Callable[[Record, dict[str, Any], list[Act], bool], None]] = {
    "user": _user,
    "assistant": _assistant,
    "tool_result": _tool_result,
    "system": _system,
}
