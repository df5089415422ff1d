"""Gemini CLI: one message a line, written again under its id when it has changed; subagents in files of their own.

A model response is written once with its tokens, and once more with its tool calls when all of them are done. The
snapshots (``$set``) that a resumed session begins with repeat old messages without tokens and with new times: they are
recorded and mean nothing. A session that is resumed in a later minute leaves a second file with its id, which holds no
message.

``memory`` holds ``model``, the latest one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import LineDecoder, LogFormat, agent_directory, first_lines, usage_of_prompt
from agenttrace.record.formats.context import ContextFact, Piece
from agenttrace.record.formats.contract import (
    Content,
    LogCleanup,
    Memory,
    Outcome,
    ResumeCommand,
    Source,
    Traits,
    Unusable,
)
from agenttrace.record.formats.diffs import decoded, diff_change
from agenttrace.record.formats.lenient import (
    FieldByField,
    as_moment,
    count,
    json_text,
    lookup,
    microseconds,
    moment,
    number,
    read_companion,
    read_object,
    text_at,
    time_of,
    value_of,
)
from agenttrace.record.formats.media import Media
from agenttrace.record.ingest import acts as a

_ABSENT = msgspec.Raw()
#: What a session begins with: the program's message, not the user's.
_CONTEXT = "<session_context>"
_NOTES = {"info": "notification", "warning": "warning"}
_DAYS = {"d": 1.0, "w": 7.0, "m": 30.0, "h": 1 / 24}


class GeminiTokens(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Usage of a response; thoughts are no part of the output here."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    thoughts: int | None = None
    tool: int | None = None

    def usage(self) -> Usage:
        """The same in the product's own words."""
        thoughts = count(self.thoughts)
        prompt = count(self.input) + count(self.tool)
        return usage_of_prompt(prompt, count(self.output) + thoughts, count(self.cached), reasoning=thoughts)


class GeminiMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A line: a header, a message, or a change of the whole document."""

    session_id: str | None = None
    start_time: str | None = None
    kind: str | None = None
    id: str | None = None
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    type: str | None = None
    content: msgspec.Raw = _ABSENT
    thoughts: msgspec.Raw = _ABSENT
    tokens: GeminiTokens | None = None
    model: str | None = None
    tool_calls: msgspec.Raw = _ABSENT
    change: msgspec.Raw = msgspec.field(name="$set", default=_ABSENT)


class GeminiCli(LogFormat[GeminiMessage]):
    """The log format of Gemini CLI, since its sessions are lines."""

    name = "gemini-cli"
    title = "Gemini CLI"
    traits = Traits(
        provider="gcp.gemini",
        integration="gemini-cli",
        variables=("GEMINI_CLI_HOME",),
        side_files=re.compile(r"logs\.json"),
    )
    decoder = LineDecoder(
        GeminiMessage,
        {"tokens": FieldByField(GeminiTokens), "timestamp": moment},
        openings=r'\{"id"',
        is_line=lambda value: isinstance(value.get("id"), str) and isinstance(value.get("timestamp"), str),
    )

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The projects under ``.gemini/tmp`` of ``$GEMINI_CLI_HOME`` or of the user's directory."""
        return [agent_directory(environ, home, "GEMINI_CLI_HOME", default="") / ".gemini" / "tmp"]

    def is_log(self, path: Path) -> bool:
        """Lines in a directory ``chats``."""
        return path.suffix == ".jsonl" and "chats" in path.parts[-3:-1]

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the header; the directory of a subagent's file is named after its session."""
        header = self.decoder(first_lines(head, 1)[0])
        if header is None or not header.session_id or header.kind not in ("main", "subagent") or not header.start_time:
            return None
        if header.kind == "main" or path.parent.name == "chats":
            return self.source(path, header.session_id, cwd=_project(path.parent.parent))
        project = _project(path.parent.parent.parent)
        return self.source(path, path.parent.name, stream=header.session_id, cwd=project, name="subagent")

    def event(self, line: GeminiMessage, raw: bytes, source: Source) -> Event | Unusable:
        """The message's id, and what it is like this time."""
        if line.change and not isinstance(lookup(value_of(line.change), "messages"), list):
            return Unusable("bookkeeping of the session", harmless=True)
        if line.change:
            return Event("snapshot", f"snapshot:{zlib.crc32(raw):x}", None, line)
        if line.id is None:
            key = None if line.start_time is None else f"header:{line.start_time}"
            return Event("header", key, None, line)
        kind = f"{line.type or 'unknown'}{'/tools' if line.tool_calls else ''}"
        return Event(kind, f"{line.id}:{zlib.crc32(raw):x}", time_of(line.timestamp), line)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the message means."""
        line: GeminiMessage = event.body
        if line.id is None:
            return []
        match line.type:
            case "user":
                return _asked(line, source)
            case "gemini":
                return _answered(line, event.at, memory)
            case "error":
                return [a.TurnEnd("error", _text(line.content))]
        return [a.Note(_NOTES[line.type])] if line.type in _NOTES else []

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole; with its tool calls a message repeats its text."""
        line: GeminiMessage = event.body
        if line.tool_calls:
            return list(_tool_texts(line))
        return [] if line.id is None else list(_texts(line))

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """What the session begins with, and the conversation."""
        messages = lookup(value_of(event.body.change), "messages") if event.type == "snapshot" else None
        for message in messages if isinstance(messages, list) else ():
            text = _joined(lookup(message, "content"))
            if text.startswith(_CONTEXT):
                yield Piece("context", len(text), _CONTEXT)
        yield from super().context(event, source, memory, raw)

    def media(self, event: Event, raw: bytes) -> list[Media]:
        """Those of messages; a snapshot repeats all of them."""
        return [] if event.type == "snapshot" else super().media(event, raw)

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The diffs in the results of edits."""
        line = decoded(raw, b'"fileDiff"')
        calls = lookup(line, "toolCalls")
        for call in calls if isinstance(calls, list) else ():
            if text_at(call, "status") == "success":
                shown = lookup(call, "resultDisplay")
                yield from diff_change(text_at(shown, "filePath"), text_at(shown, "fileDiff"), text_at(call, "id"))

    def cleanups(self, logs: Sequence[Path]) -> list[LogCleanup]:
        """Sessions are deleted after 30 days unless the settings say otherwise."""
        tops = {
            parent for log in logs for parent in log.parents if parent.name == "tmp" and parent.parent.name == ".gemini"
        }
        found = [_cleanup(top, logs) for top in sorted(tops)]
        return [cleanup for cleanup in found if cleanup is not None]

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``gemini --resume <session>``."""
        return ResumeCommand(("gemini", "--resume", session_id))


def _cleanup(top: Path, logs: Sequence[Path]) -> LogCleanup | None:
    path = top.parent / "settings.json"
    retention = lookup(read_object(path), "general", "sessionRetention")
    if lookup(retention, "enabled") is False:
        return None
    age = re.fullmatch(r"(\d{1,6})([hdwm])", text_at(retention, "maxAge") or "30d")
    if age is None:
        return None
    origin = f"general.sessionRetention.maxAge in {path}" if text_at(retention, "maxAge") else "its default"
    most = number(lookup(retention, "maxCount"))
    if most is None or most < 1:
        return LogCleanup(directory=top, days=int(age[1]) * _DAYS[age[2]], origin=origin)
    surplus = _surplus([log for log in logs if top in log.parents], most)
    return LogCleanup(directory=top, days=int(age[1]) * _DAYS[age[2]], origin=origin, most=most, surplus=surplus)


def _surplus(logs: Iterable[Path], most: int) -> frozenset[Path]:
    """What is beyond the latest sessions of each project when the next one begins, which is one of them."""
    sessions: dict[tuple[Path, str], list[Path]] = {}
    for log in logs:
        if log.parent.name == "chats":
            # A session that was resumed may have two files; their names end alike.
            sessions.setdefault((log.parent, log.stem.rpartition("-")[2]), []).append(log)
    projects: dict[Path, list[list[Path]]] = {}
    for (project, _), files in sessions.items():
        projects.setdefault(project, []).append(files)
    found: set[Path] = set()
    for each in projects.values():
        latest = sorted(each, key=lambda files: max(map(_written, files)), reverse=True)
        found.update(log for files in latest[most - 1 :] for log in files)
    return frozenset(found)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _project(directory: Path) -> str | None:
    """The directory that a project's files are about."""
    return read_companion(directory / ".project_root", 4096).decode("utf-8", "replace").strip() or None


def _text(raw: msgspec.Raw) -> str:
    return _joined(value_of(raw))


def _joined(content: object) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(text for part in parts if (text := text_at(part, "text")))


def _asked(line: GeminiMessage, source: Source) -> list[a.Act]:
    """A prompt; the results of tools come as messages of the user too."""
    prompt = _text(line.content)
    if not prompt or prompt.startswith(_CONTEXT):
        return []
    return [a.TurnBegin(prompt, "user" if source.stream == "main" else "subagent", line.id)]


def _answered(line: GeminiMessage, at: int | None, memory: Memory) -> list[a.Act]:
    found: list[a.Act] = []
    if line.model != memory.get("model"):
        memory["model"] = line.model
        found.append(a.SessionInfo(model=line.model))
    found.append(a.StepBegin(line.id, model=line.model, implied=True))
    calls = _calls(line)
    for call in calls:
        found += _called(call, line.id, at)
    if line.tokens is not None:
        found.append(a.ResponseUsage(f"gemini:{line.id}", line.tokens.usage(), line.model, line.id))
    found.append(a.StepEnd(line.id))
    if not calls:
        # Calls are written when they are done: the log goes on with the turn then.
        found.append(a.FinalAnswer())
    return found


def _calls(line: GeminiMessage) -> list[object]:
    value = value_of(line.tool_calls)
    return [call for call in value if text_at(call, "id")] if isinstance(value, list) else []


def _called(call: object, step: str | None, at: int | None) -> Iterator[a.Act]:
    name, agent = text_at(call, "id") or "", text_at(call, "agentId")
    yield a.ToolBegin(name, text_at(call, "name") or "unknown", step, agent is not None)
    if agent is not None:
        yield a.Spawned(name, agent, text_at(call, "args", "agent_name"))
    status = {"success": "ok", "cancelled": "cancelled"}.get(text_at(call, "status") or "", "error")
    error = None if status == "ok" else _result(call)[1]
    yield a.ToolEnd(name, status, error, _lasted(call, at))


def _lasted(call: object, at: int | None) -> int | None:
    end = as_moment(lookup(call, "timestamp"))
    return None if end is None or at is None else max(0, microseconds(end) - at)


def _result(call: object) -> tuple[bool, str]:
    """Whether a call failed, and what came of it."""
    value = lookup(call, "result")
    for part in value if isinstance(value, list) else []:
        response = lookup(part, "functionResponse", "response")
        if (error := text_at(response, "error")) is not None:
            return True, error
        if (output := text_at(response, "output")) is not None:
            return False, output
    return False, text_at(call, "resultDisplay") or ""


def _texts(line: GeminiMessage) -> Iterator[Content]:
    thoughts = value_of(line.thoughts)
    for thought in thoughts if isinstance(thoughts, list) else []:
        said = [text for key in ("subject", "description") if (text := text_at(thought, key))]
        if said:
            yield Content("thinking", "\n".join(said))
    text = _text(line.content)
    if text and not text.startswith(_CONTEXT):
        kind = {"user": "prompt", "gemini": "text", "error": "error"}.get(line.type or "", "note")
        yield Content(kind, text)  # type: ignore[arg-type]  # one of the kinds above


def _tool_texts(line: GeminiMessage) -> Iterator[Content]:
    for call in _calls(line):
        name = text_at(call, "id")
        arguments = lookup(call, "args")
        if arguments is not None:
            yield Content("arguments", json_text(arguments), name)
        failed, text = _result(call)
        if text:
            yield Content("error" if failed else "result", text, name)
