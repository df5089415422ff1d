"""Pi: one entry a line after a header, in a tree; a branch stays in the file, a fork is a copy with the same ids.

An assistant message is a whole model response. An attempt that failed is one too, with zero usage; the answer of the
next attempt belongs to the same turn. Ids are unique in their file only: with the time they name a response and its
copies where the provider's id is missing.

``memory`` holds ``turn``, the id of the latest prompt, and ``over``, whether the turn has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from agenttrace.model import Event
from agenttrace.record.formats.base import UUID, LineDecoder, LogFormat, agent_directory, first_lines, usage_of
from agenttrace.record.formats.context import ContextFact, ToolSet, system_prompt, tool_set
from agenttrace.record.formats.contract import Applied, Content, Memory, Outcome, ResumeCommand, Source, Traits
from agenttrace.record.formats.diffs import decoded, diff_change, written
from agenttrace.record.formats.lenient import (
    FieldByField,
    epoch,
    json_object,
    json_text,
    lookup,
    moment,
    text_at,
    time_of,
    value_of,
)
from agenttrace.record.ingest import acts as a

_ABSENT = msgspec.Raw()
_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cacheRead",
    "cache_write_tokens": "cacheWrite",
}
#: Entries that say something of the session, by what they are shown as.
_NOTES = {"compaction": "compaction", "branch_summary": "branch"}
_FAILED = {"error": "error", "aborted": "cancelled"}


class PiMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A message to the model or from it."""

    role: str | None = None
    content: msgspec.Raw = _ABSENT
    model: str | None = None
    usage: msgspec.Raw = _ABSENT
    stop_reason: str | None = None
    response_id: str | None = None
    error_message: str | None = None
    #: Milliseconds: when a call began.
    timestamp: float | None = None
    tool_call_id: str | None = None
    is_error: bool | None = None


class PiEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A line."""

    type: str | None = None
    id: str | None = None
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    version: int | None = None
    cwd: str | None = None
    parent_session: str | None = None
    model_id: str | None = None
    message: PiMessage | None = None
    #: Of ``session_info``.
    name: str | None = None
    #: Of ``compaction`` and ``branch_summary``.
    summary: str | None = None


class Pi(LogFormat[PiEntry]):
    """The log format of the Pi coding agent, from version 3 of its sessions on."""

    name = "pi"
    title = "Pi"
    traits = Traits(integration="pi", variables=("PI_CODING_AGENT_DIR",))
    decoder = LineDecoder(
        PiEntry,
        {"message": FieldByField(PiMessage), "timestamp": moment},
        openings=r'\{"type"',
        is_line=lambda value: isinstance(value.get("id"), str) and isinstance(value.get("timestamp"), str),
    )

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$PI_CODING_AGENT_DIR`` or ``~/.pi/agent``."""
        return [agent_directory(environ, home, "PI_CODING_AGENT_DIR", default=".pi/agent") / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``*.jsonl``."""
        return path.name.endswith(".jsonl")

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the header."""
        header = self.decoder(first_lines(head, 1)[0])
        if header is None or header.type != "session" or not header.id or header.timestamp is None:
            return None
        found = UUID.findall(header.parent_session or "")
        parent = found[-1] if found else None
        return self.source(path, header.id, cwd=header.cwd, parent_session=parent, copied=parent is not None)

    def session_name(self, path: Path) -> str:
        """The id is the last part of the name."""
        return path.stem.rsplit("_", 1)[-1]

    def event(self, line: PiEntry, raw: bytes, source: Source) -> Event:
        """The entry's id; texts stay as they are written."""
        role = line.message.role if line.message is not None else None
        kind = f"{line.type}/{role}" if role else line.type or "unknown"
        return Event(kind, line.id, time_of(line.timestamp), line)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the entry means."""
        entry: PiEntry = event.body
        if entry.message is not None:
            return _meaning(entry, entry.message, memory)
        match entry.type:
            case "session":
                return [a.SessionInfo(cwd=entry.cwd)]
            case "model_change":
                return [a.SessionInfo(model=entry.model_id)]
            case "session_info":
                return [a.SessionInfo(title=entry.name)]
        return [a.Note(_NOTES[entry.type])] if entry.type in _NOTES else []

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The patch in the result of an edit; what a file was written with, once the result is not an error."""
        message = lookup(decoded(raw, b'"patch"', b'"toolName":"write"', b'"name":"write"'), "message")
        if text_at(message, "role") == "toolResult":
            call = text_at(message, "toolCallId")
            if call is None or lookup(message, "isError") is True:
                return
            patch = text_at(message, "details", "patch")
            yield from diff_change(_patched(patch or ""), patch, call)
            yield Applied(call=call)
            return
        parts = lookup(message, "content")
        for part in parts if isinstance(parts, list) else ():
            if text_at(part, "type") == "toolCall" and text_at(part, "name") == "write":
                arguments = lookup(part, "arguments")
                yield from written(text_at(arguments, "path"), text_at(arguments, "content"), text_at(part, "id"))

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        entry: PiEntry = event.body
        if entry.message is None:
            return [Content("note", text) for text in (entry.name, entry.summary) if text]
        return list(_texts(entry.message))

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """The system prompt and the tools, where the log has them, and the conversation."""
        entry: PiEntry = event.body
        if entry.message is not None and entry.message.role == "system":
            yield from _settings(lookup(json_object(raw), "message"), memory)
        yield from super().context(event, source, memory, raw)

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``pi --session <log>``: a log may be in a directory that Pi does not search."""
        log = next((str(log) for log in logs if self.session_name(log) == session_id), session_id)
        return ResumeCommand(("pi", "--session", log))


def _settings(message: object, memory: Memory) -> Iterable[ContextFact]:
    """A system message has the sections of the system prompt, and the tools that came and went."""
    sections, removed = lookup(message, "sections"), lookup(message, "toolsRemoved")
    texts = list(sections.values()) if isinstance(sections, dict) else []
    yield system_prompt([*texts, text_at(message, "content") or ""])
    offered: dict[str, tuple[int, str]] = memory.setdefault("offered", {})
    offered.update(tool_set(lookup(message, "toolsAdded")).tools)
    for name in removed if isinstance(removed, list) else ():
        offered.pop(str(name), None)
    yield ToolSet(dict(offered))


def _meaning(entry: PiEntry, message: PiMessage, memory: Memory) -> list[a.Act]:
    found: list[a.Act] = []
    handle = _MEANINGS.get(message.role or "")
    if handle is not None:
        handle(entry, message, memory, found)
    return found


def _user(entry: PiEntry, message: PiMessage, memory: Memory, found: list[a.Act]) -> None:
    memory["turn"] = entry.id
    memory.pop("over", None)
    prompt = "\n".join(text.text for text in _texts(message))
    found.append(a.TurnBegin(prompt or None, turn=entry.id))


def _assistant(entry: PiEntry, message: PiMessage, memory: Memory, found: list[a.Act]) -> None:
    if memory.pop("over", None) and memory.get("turn"):
        found.append(a.TurnBegin(turn=memory["turn"]))
    if message.stop_reason == "error":
        # If nothing follows, the turn failed; the answer of the next attempt takes it up again.
        found += [a.Note("retry"), a.TurnEnd("error", message.error_message)]
        memory["over"] = True
        return
    found.append(a.StepBegin(entry.id, model=message.model, implied=True, start=epoch(message.timestamp)))
    for part in _parts(message):
        call = text_at(part, "id")
        if text_at(part, "type") == "toolCall" and call:
            found.append(a.ToolBegin(call, text_at(part, "name") or "unknown", entry.id))
    usage = value_of(message.usage)
    if isinstance(usage, dict):
        name = message.response_id or f"{entry.id}:{entry.timestamp}"
        found.append(a.ResponseUsage(f"pi:{name}", usage_of(usage, _COUNTS), message.model, entry.id))
    found.append(a.StepEnd(entry.id, _FAILED.get(message.stop_reason or "", "ok"), finish_reason=message.stop_reason))
    if message.stop_reason != "toolUse":
        memory["over"] = True
        found.append(a.TurnEnd(_FAILED.get(message.stop_reason or "", "ok")))


def _tool_result(entry: PiEntry, message: PiMessage, memory: Memory, found: list[a.Act]) -> None:
    if message.tool_call_id:
        error = "\n".join(text.text for text in _texts(message)) if message.is_error else None
        found.append(a.ToolEnd(message.tool_call_id, "error" if message.is_error else "ok", error))


_MEANINGS: dict[str, Callable[[PiEntry, PiMessage, Memory, list[a.Act]], None]] = {
    "user": _user,
    "assistant": _assistant,
    "toolResult": _tool_result,
}


def _parts(message: PiMessage) -> list[object]:
    value = value_of(message.content)
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return value if isinstance(value, list) else []


def _texts(message: PiMessage) -> Iterable[Content]:
    """Every text in a message; the system prompt is no part of the conversation."""
    if message.role == "system":
        return
    for part in _parts(message):
        if (thought := text_at(part, "thinking")) is not None:
            yield Content("thinking", thought)
        elif text_at(part, "type") == "toolCall" and isinstance(part, dict):
            yield Content("arguments", json_text(part.get("arguments")), text_at(part, "id"))
        elif (text := text_at(part, "text")) is not None:
            if message.role == "toolResult":
                yield Content("error" if message.is_error else "result", text, message.tool_call_id)
            else:
                yield Content("prompt" if message.role == "user" else "text", text)
    if message.error_message:
        yield Content("error", message.error_message)


def _patched(patch: str) -> str | None:
    """The file that a patch names."""
    return next((line[4:].strip() for line in patch.split("\n", 4) if line.startswith("+++ ")), None)
