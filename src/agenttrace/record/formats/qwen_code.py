"""Qwen Code: one record a line, in a tree like Claude Code's, with messages and usage in Gemini's shape.

A record is a whole model response, so its uuid names the response; copies in forks have uuids of their own and name
the record they are of. The telemetry beside them repeats the same calls, and has some that no record has: those of the
helpers that maintain the memory. A call of telemetry and the record of the same call have one name. In the main log
they are matched by their position and their counts. The records of a subagent are in a separate file, so there the
counts themselves, with the subagent's id, are the name: it does not matter which file is read first.

``memory`` has, for this: ``told``, the latest calls of telemetry without a record, and ``said``, the counts of the
latest records without telemetry; ``prompt`` and ``prompts``, the names of the turn and of the turns before it in
telemetry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import UUID, LogFormat, agent_directory, first, usage_of_prompt
from agenttrace.record.formats.contract import Content, Memory, Outcome, ResumeCommand, Source, Traits
from agenttrace.record.formats.diffs import decoded, diff_change
from agenttrace.record.formats.lenient import (
    count,
    duration,
    lookup,
    microseconds,
    read_object,
    text_at,
    time_at,
    time_of,
    value_of,
)
from agenttrace.record.formats.qwen_lines import (
    LINES,
    ORIGINS,
    ApiCall,
    GeminiCounts,
    QwenRecord,
    QwenResult,
    parts_of,
    read_call,
    said,
    texts_of,
)
from agenttrace.record.ingest import acts as a

#: How many unmatched calls of telemetry and of records are remembered; matching ones are close together.
_REMEMBERED = 8
_PROMPTS = 16
#: Helpers that write no records.
_WITHOUT_RECORDS = "managed-"
#: What the prompts of the main conversation are called; those of helpers have their id in between.
_MAIN_PROMPT = "########"
_TYPES = frozenset({"user", "assistant", "tool_result", "system"})
_SUBAGENT_TOOLS = frozenset({"agent", "task"})
_TURN_ENDS = {"completed": "ok", "cancelled": "cancelled", "error": "error"}
#: A first line too long for the head.
_CUT_LINE = re.compile(
    rb'\{"uuid": ?"[^"\\]{1,99}", ?"parentUuid": ?(?:null|"[^"\\]{1,99}"), ?"sessionId": ?"([^"\\]{1,199})"'
)


class QwenCode(LogFormat[QwenRecord]):
    """The log format of Qwen Code."""

    name = "qwen-code"
    title = "Qwen Code"
    traits = Traits(provider="dashscope", integration="qwen-code", variables=("QWEN_HOME", "QWEN_RUNTIME_DIR"))
    decoder = LINES

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """``projects`` (``tmp`` in old versions) where ``QWEN_RUNTIME_DIR`` or ``QWEN_HOME`` say."""
        base = agent_directory(environ, home, "QWEN_RUNTIME_DIR", "QWEN_HOME", default=".qwen")
        return [base / "projects", base / "tmp"]

    def is_log(self, path: Path) -> bool:
        """A session in ``chats``, or a subagent's transcript."""
        if path.suffix != ".jsonl":
            return False
        folders = path.parts[:-1]
        return "chats" in folders or ("subagents" in folders and path.name.startswith("agent-"))

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A session's file, or the file of one of its subagents."""
        records = [record for raw in head.split(b"\n") if (record := LINES(raw)) is not None]
        cut = _CUT_LINE.match(head)
        if not (any(map(_is_ours, records)) or (not records and cut)):
            return None
        inside = first(record.session_id for record in records) or (cut and cut[1].decode("utf-8", "replace"))
        if path.stem.startswith("agent-"):
            return self._subagent(path, inside)
        origin = next((r.forked_from.session_id for r in records if r.forked_from is not None), None)
        return self.source(
            path,
            path.stem if UUID.fullmatch(path.stem) else inside or path.stem,
            parent_session=origin,
            copied=origin is not None,
            cwd=first(record.cwd for record in records),
        )

    def _subagent(self, path: Path, inside: str | None) -> Source:
        meta = read_object(path.with_suffix(".meta.json"))
        return self.source(
            path,
            text_at(meta, "parentSessionId") or inside or path.parent.name,
            stream=text_at(meta, "agentId") or path.stem.removeprefix("agent-") or path.stem,
            parent_stream=text_at(meta, "parentAgentId") or "main",
            parent_call=text_at(meta, "toolUseId"),
            name=text_at(meta, "agentType"),
            model=text_at(meta, "model"),
        )

    def event(self, line: QwenRecord, raw: bytes, source: Source) -> Event:
        """A record's uuid is its key."""
        kind = line.type or "unknown"
        if line.subtype is not None:
            kind = f"{kind}/{line.subtype}"
        stream = None
        if line.is_sidechain and source.stream == "main":
            stream = line.agent_id or "sidechain"
        return Event(kind, line.uuid or None, time_of(line.timestamp), line, stream)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the line means."""
        record: QwenRecord = event.body
        main = event.stream is None and source.stream == "main"
        found: list[a.Act] = []
        if main:
            _note_facts(record, memory, found)
        handle = _MEANINGS.get(record.type or "")
        if handle is not None:
            handle(record, memory, found, main)
        return found

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The diff in the result of an edit."""
        result = lookup(decoded(raw, b'"fileDiff"'), "toolCallResult")
        if text_at(result, "status") in (None, "success"):
            shown = lookup(result, "resultDisplay")
            path = text_at(shown, "filePath") or text_at(shown, "fileName")
            yield from diff_change(path, text_at(shown, "fileDiff"), text_at(result, "callId"))

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        return texts_of(event.body)

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``qwen --resume <session>``."""
        return ResumeCommand(("qwen", "--resume", session_id))


def _is_ours(record: QwenRecord) -> bool:
    named = record.uuid is not None and record.session_id is not None and record.type in _TYPES
    in_parts = record.message is not None and record.message.parts is not None
    return named and (in_parts or bool(record.system_payload) or record.tool_call_result is not None)


def _note_facts(record: QwenRecord, memory: Memory, found: list[a.Act]) -> None:
    facts = [record.cwd, record.git_branch, record.version, record.model or memory.get("model")]
    if facts != memory.get("facts") and any(facts):
        memory["facts"], memory["model"] = facts, facts[3]
        found.append(a.SessionInfo(cwd=facts[0], branch=facts[1], version=facts[2], model=facts[3]))


def _user(record: QwenRecord, memory: Memory, found: list[a.Act], main: bool) -> None:
    if record.subtype == "mid_turn_user_message":
        found.append(a.Note("steer"))
    elif record.subtype in ORIGINS or record.delivered_turn:
        origin = ORIGINS.get(record.subtype, "task") if main else "subagent"
        memory["turn"] = record.prompt_id or record.uuid
        memory.pop("over", None)
        if prompt := memory.pop("prompt", None):
            memory["prompts"] = [*memory.get("prompts", []), prompt][-_PROMPTS:]
        text = text_at(value_of(record.system_payload), "displayText") or said(record)
        found.append(a.TurnBegin(text or None, origin, memory["turn"]))
    else:
        # Logged when it arrived; the turn that answers it, if any, begins with another record.
        found.append(a.Note("notification"))


def _assistant(record: QwenRecord, memory: Memory, found: list[a.Act], main: bool) -> None:
    calls = [part.function_call for part in parts_of(record) if part.function_call is not None]
    step = _step_of(record, memory, bool(calls))
    if step != memory.get("step"):
        if memory.pop("over", None) and memory.get("turn"):
            found.append(a.TurnBegin(turn=memory["turn"]))
        memory["step"] = step
    response, start = _response(record, memory) if record.usage_metadata is not None else ("", None)
    found.append(a.StepBegin(step, None, record.model, implied=True, start=start))
    memory.pop("answered", None)
    for call in calls:
        if call.id:
            name = call.name or "unknown"
            found.append(a.ToolBegin(call.id, name, step, name in _SUBAGENT_TOOLS))
    if record.usage_metadata is not None:
        usage, estimated = _counted(record.usage_metadata)
        found.append(a.ResponseUsage(response, usage, record.model, step, estimated))
    found.append(a.StepEnd(step))
    if main and not calls:
        memory["over"] = True
        found.append(a.TurnEnd())
    elif not calls:
        # A subagent's calls follow in a separate record.
        found.append(a.FinalAnswer())


def _response(record: QwenRecord, memory: Memory) -> tuple[str, int | None]:
    """The name of a record's response, and when the call began where telemetry has that."""
    counts = _key_of(record.usage_metadata or GeminiCounts())
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


def _original(record: QwenRecord) -> str:
    """What names a record and its copies."""
    copied = record.forked_from.message_uuid if record.forked_from is not None else None
    return copied or record.uuid or str(record.timestamp)


def _helper_response(agent: str, counts: str) -> str:
    return f"qwen:{agent}:{counts}"


def _key_of(counts: GeminiCounts) -> str:
    numbers = (
        counts.prompt_token_count,
        counts.candidates_token_count,
        counts.cached_content_token_count,
        counts.thoughts_token_count,
    )
    return ":".join(str(count(number)) for number in numbers)


def _step_of(record: QwenRecord, memory: Memory, calls: bool) -> str:
    """Subagents write the calls of a response in separate records, after the one with text and usage."""
    own = record.uuid or str(record.timestamp)
    if record.agent_run_id is not None and record.agent_round is not None:
        return f"{record.agent_run_id}:{record.agent_round}"
    follows = record.is_sidechain and calls and record.usage_metadata is None and not memory.get("answered")
    return str(memory.get("step") or own) if follows else own


def _counted(counts: GeminiCounts) -> tuple[Usage, bool]:
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
    return usage_of_prompt(prompt, output, cached, reasoning=thoughts), estimated


def _tool_result(record: QwenRecord, memory: Memory, found: list[a.Act], main: bool) -> None:
    memory["answered"] = True
    result = record.tool_call_result or QwenResult()
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
        found.append(a.ToolEnd(call, status, error, duration(result.duration_ms)))


def _telemetry(record: QwenRecord, memory: Memory, found: list[a.Act], main: bool) -> None:
    call = read_call(record.system_payload)
    if call.name == "qwen-code.api_response":
        _api_response(record, call, memory, found)
    elif call.name == "qwen-code.api_error":
        _api_error(call, memory, found, main)


def _api_response(record: QwenRecord, call: ApiCall, memory: Memory, found: list[a.Act]) -> None:
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
        return  # of a version that does not log who made the call: its records count
    found.append(
        a.SideCall(response=name, usage=usage, model=call.model, name=call.subagent_name, duration=call.duration)
    )


def _is_main(call: ApiCall) -> bool:
    return call.prompt_id is None or _MAIN_PROMPT in call.prompt_id


def _api_error(call: ApiCall, memory: Memory, found: list[a.Act], main: bool) -> None:
    """An attempt that failed. If nothing follows, so did the turn; an answer takes it up again."""
    found.append(a.Note("retry"))
    if not main or call.subagent_id is not None or not _is_main(call):
        return
    # Another process may still be at an earlier turn of this session.
    earlier = call.prompt_id in memory.get("prompts", ()) or memory.get("prompt", call.prompt_id) != call.prompt_id
    if not earlier and memory.get("turn") and not memory.get("over"):
        memory.update(prompt=call.prompt_id, over=True)
        found.append(a.TurnEnd("error", call.error_message or call.error or None))


def _system(record: QwenRecord, memory: Memory, found: list[a.Act], main: bool) -> None:
    payload = value_of(record.system_payload)
    match record.subtype:
        case "chat_compression":
            found.append(a.Note("compaction"))
        case "rewind" | "agent_retry":
            found.append(a.Note(record.subtype.removeprefix("agent_")))
        case "background_task_completed":
            found.append(a.Note("notification"))
        case "ui_telemetry":
            _telemetry(record, memory, found, main)
        case "custom_title":
            _titled(payload, memory, found)
        case "parent_session":
            found.append(a.SessionInfo(parent=text_at(payload, "parentSessionId")))
        case "session_model":
            found.append(a.SessionInfo(model=text_at(payload, "modelId")))
        case "turn_result":
            memory["over"] = True
            status = _TURN_ENDS.get(text_at(payload, "state") or "", "ok")
            found.append(a.TurnEnd(status, text_at(payload, "error", "message")))


def _titled(payload: object, memory: Memory, found: list[a.Act]) -> None:
    """A title is written again and again; one that the user gave stays."""
    title, given = text_at(payload, "customTitle"), text_at(payload, "titleSource") != "auto"
    if title and [title, given] != memory.get("title") and (given or not (memory.get("title") or [0, 0])[1]):
        memory["title"] = [title, given]
        found.append(a.SessionInfo(title=title))


_MEANINGS: dict[str, Callable[[QwenRecord, Memory, list[a.Act], bool], None]] = {
    "user": _user,
    "assistant": _assistant,
    "tool_result": _tool_result,
    "system": _system,
}
