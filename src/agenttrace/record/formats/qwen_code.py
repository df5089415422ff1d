"""Qwen Code: one record a line, in a tree like Claude Code's, with messages and usage in Gemini's shape.

A record is a whole model response, so its uuid names the response; copies in forks have uuids of their own and name
the record they are of. The telemetry beside them tells the same calls once more, and some that no record has: those of
the helpers that keep the memory. A call of telemetry and the record of the same call have one name. In the main log
they find each other by their place and their counts. The records of a subagent stand in a file of its own, so there the
counts themselves, with the subagent's id, are the name: it does not matter which file is read first.

``memory`` holds, for this: ``told``, the latest calls of telemetry that no record was found for, and ``said``, the
counts of the latest records that no telemetry was found for; ``prompt`` and ``prompts``, what telemetry calls the
turn and the turns before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Content, Source, Traits, Unusable
from agenttrace.record.formats.lenient import count, microseconds, time_at, time_of, value_of
from agenttrace.record.formats.qwen_lines import (
    ORIGINS,
    ApiCall,
    Counts,
    Record,
    Result,
    microseconds_of,
    parts_of,
    read_call,
    read_record,
    said,
    text_at,
    texts_of,
    unusable,
)
from agenttrace.record.ingest.acts import (
    Act,
    Answered,
    Note,
    ResponseUsage,
    SessionInfo,
    SideCall,
    StepBegin,
    StepEnd,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
)

NAME = "qwen-code"

_PREVIEW = 300
#: How many calls of telemetry and of records wait for each other; they stand side by side.
_REMEMBERED = 8
_PROMPTS = 16
#: Helpers that write no records.
_WITHOUT_RECORDS = "managed-"
#: What the prompts of the main conversation are called; those of helpers have their id in between.
_MAIN_PROMPT = "########"
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
    traits = Traits(provider="dashscope", integration="qwen-code", variables=("QWEN_HOME", "QWEN_RUNTIME_DIR"))

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
        if prompt := memory.pop("prompt", None):
            memory["prompts"] = [*memory.get("prompts", []), prompt][-_PROMPTS:]
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
    response, start = _response(record, memory) if record.usage_metadata is not None else ("", None)
    found.append(StepBegin(step, None, record.model, implied=True, start=start))
    memory.pop("answered", None)
    for call in calls:
        if call.id:
            name = call.name or "unknown"
            found.append(ToolBegin(call.id, name, step, name in _SUBAGENT_TOOLS))
    if record.usage_metadata is not None:
        usage, estimated = _counted(record.usage_metadata)
        found.append(ResponseUsage(response, usage, record.model, step, estimated))
    found.append(StepEnd(step))
    if main and not calls:
        memory["over"] = True
        found.append(TurnEnd())
    elif not calls:
        # A subagent's calls follow in a record of their own.
        found.append(Answered())


def _response(record: Record, memory: dict[str, Any]) -> tuple[str, int | None]:
    """The name of a record's response, and when the call began where telemetry tells."""
    counts = _key_of(record.usage_metadata or Counts())
    if record.is_sidechain and record.agent_id:
        return _helper_response(record.agent_id, counts), None
    told: list[list[Any]] = memory.get("told", [])
    for entry in reversed(told):
        uuid, name, of_call, began = entry
        if uuid == record.parent_uuid or of_call == counts:
            memory["told"] = [other for other in told if other is not entry]
            return name, began
    memory["said"] = [*memory.get("said", []), counts][-_REMEMBERED:]
    return f"qwen:{_original(record)}", None


def _original(record: Record) -> str:
    """What names a record and its copies."""
    copied = record.forked_from.message_uuid if record.forked_from is not None else None
    return copied or record.uuid or str(record.timestamp)


def _helper_response(agent: str, counts: str) -> str:
    return f"qwen:{agent}:{counts}"


def _key_of(counts: Counts) -> str:
    numbers = (
        counts.prompt_token_count,
        counts.candidates_token_count,
        counts.cached_content_token_count,
        counts.thoughts_token_count,
    )
    return ":".join(str(count(number)) for number in numbers)


def _step_of(record: Record, memory: dict[str, Any], calls: bool) -> str:
    """Subagents write the calls of a response in records of their own, after the one with text and usage."""
    own = record.uuid or str(record.timestamp)
    if record.agent_run_id is not None and record.agent_round is not None:
        return f"{record.agent_run_id}:{record.agent_round}"
    follows = record.is_sidechain and calls and record.usage_metadata is None and not memory.get("answered")
    return str(memory.get("step") or own) if follows else own


def _counted(counts: Counts) -> tuple[Usage, bool]:
    """The usage, and whether it is only an estimate."""
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
    return usage, estimated


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
        spent = microseconds_of(result.duration_ms)
        found.append(ToolEnd(call, status, error[:_PREVIEW] if error else None, spent))


def _telemetry(record: Record, memory: dict[str, Any], found: list[Act], main: bool) -> None:
    call = read_call(record.system_payload)
    if call.name == "qwen-code.api_response":
        _api_response(record, call, memory, found)
    elif call.name == "qwen-code.api_error":
        _api_error(call, memory, found, main)


def _api_response(record: Record, call: ApiCall, memory: dict[str, Any], found: list[Act]) -> None:
    counts = _key_of(call.counts)
    usage, _ = _counted(call.counts)
    if not usage.total:
        return
    helper = call.subagent_id
    if helper is not None:
        name = _helper_response(helper, counts)
    elif _is_main(call):
        memory.setdefault("prompt", call.prompt_id)
        said: list[str] = memory.get("said", [])
        if counts in said:
            memory["said"] = [other for place, other in enumerate(said) if place != said.index(counts)]
            return
        name = f"qwen:{_original(record)}"
        began = None if record.timestamp is None else time_at(microseconds(record.timestamp) - call.duration)
        memory["told"] = [*memory.get("told", []), [record.uuid, name, counts, began]][-_REMEMBERED:]
    elif (call.subagent_name or "").startswith(_WITHOUT_RECORDS):
        name = f"qwen:{_original(record)}"
    else:
        return  # of a version that does not say whose call it was: its records count
    found.append(
        SideCall(response=name, usage=usage, model=call.model, name=call.subagent_name, duration=call.duration)
    )


def _is_main(call: ApiCall) -> bool:
    return call.prompt_id is None or _MAIN_PROMPT in call.prompt_id


def _api_error(call: ApiCall, memory: dict[str, Any], found: list[Act], main: bool) -> None:
    """An attempt that failed. If nothing follows, so did the turn; an answer takes it up again."""
    text = (call.error_message or call.error or "")[:_PREVIEW] or None
    found.append(Note("retry", text))
    if not main or call.subagent_id is not None or not _is_main(call):
        return
    # Another process may still be at an earlier turn of this session.
    earlier = call.prompt_id in memory.get("prompts", ()) or memory.get("prompt", call.prompt_id) != call.prompt_id
    if not earlier and memory.get("turn") and not memory.get("over"):
        memory.update(prompt=call.prompt_id, over=True)
        found.append(TurnEnd("error", text))


def _system(record: Record, memory: dict[str, Any], found: list[Act], main: bool) -> None:
    payload = value_of(record.system_payload)
    match record.subtype:
        case "chat_compression":
            found.append(Note("compaction"))
        case "rewind" | "agent_retry":
            found.append(Note(record.subtype.removeprefix("agent_")))
        case "background_task_completed":
            found.append(Note("notification", (text_at(payload, "displayText") or "")[:_PREVIEW] or None))
        case "ui_telemetry":
            _telemetry(record, memory, found, main)
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
