"""Roo Code, the extension of VS Code: ``tasks/<task>/ui_messages.json``, a document that is written anew all the time.

Untested on real logs: made after the public source of the program and fixtures that follow it.

A task is a session. ``api_req_started`` is a model call: its text is JSON, which gets the tokens when they are known.
Up to version 3.29.4 the tokens of Anthropic's protocol left out those in the cache; since then they are the whole
prompt. Whether a tool failed is not in the document. The model is named in the texts that are sent to it, in
``api_conversation_history.json`` beside it; the first one counts for the task.

``memory`` holds ``model``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import LineDecoder, LogFormat, agent_directory, first_lines, usage_of_prompt
from agenttrace.record.formats.contract import Content, Memory, Source, Traits
from agenttrace.record.formats.lenient import count, duration, lookup, read_object, text_at, time_at, value_of
from agenttrace.record.ingest import acts as a

LOG_NAME = "ui_messages.json"
_EXTENSION = "rooveterinaryinc.roo-cline"
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_MODEL = re.compile(rb"<model>([^<\\\n]{1,200})</model>")
#: So much of the history is searched for the model: its first message names it.
_OPENING = 1 << 20
#: Milliseconds: from version 3.29.5 on, of this day, tokens of a prompt include the cached ones for every protocol.
_WHOLE_PROMPTS = 1_761_955_200_000
#: Questions that are calls of tools, by the name of the tool where the text does not have it.
_TOOLS = {
    "tool": "tool",
    "command": "execute_command",
    "use_mcp_server": "use_mcp_tool",
    "browser_action_launch": "browser_action",
}
_NOTES = {"condense_context": "compaction", "api_req_retry_delayed": "retry", "api_req_retried": "retry"}
_ABSENT = msgspec.Raw()


class RooLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The head of a document, or a message of it."""

    session: str | None = None
    facts: msgspec.Raw = _ABSENT
    #: Whether it is the message that the task begins with.
    first: bool = False
    ts: float | None = None
    say: str | None = None
    ask: str | None = None
    text: str | None = None


class RooCode(LogFormat[RooLine]):
    """The documents of Roo Code, from version 3 on."""

    name = "roo-code"
    title = "Roo Code"
    traits = Traits(integration="roo-code", variables=("XDG_CONFIG_HOME", "APPDATA"))
    writes_documents = True
    decoder = LineDecoder(RooLine)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The extension's directory in VS Code, in editors made from it, and on machines that are edited remotely."""
        bases = [
            agent_directory(environ, home, "XDG_CONFIG_HOME", default=".config"),
            home / "Library" / "Application Support",
        ]
        if appdata := environ.get("APPDATA"):
            bases.append(Path(appdata))
        users = [base / editor / "User" for base in bases for editor in _EDITORS]
        users += [home / server / "data" / "User" for server in (".vscode-server", ".cursor-server")]
        return [user / "globalStorage" / _EXTENSION / "tasks" for user in users]

    def is_log(self, path: Path) -> bool:
        """``ui_messages.json`` of a task."""
        return path.name == LOG_NAME and _EXTENSION in path.parts

    def lines_of(self, document: bytes, path: Path) -> list[bytes] | None:
        """The head, and a line for each message that is complete."""
        messages = value_of(msgspec.Raw(document))
        if not isinstance(messages, list):
            return None
        lines: list[object] = [{"session": path.parent.name, "facts": _facts(path)}]
        for number, message in enumerate(messages):
            if isinstance(message, dict) and message.get("partial") is not True:
                lines.append({**message, "first": number == 0})
        return [msgspec.json.encode(line) for line in lines]

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the head."""
        line = self.decoder(first_lines(head, 1)[0])
        if line is None or not line.session or not isinstance(value_of(line.facts), dict):
            return None
        facts = value_of(line.facts)
        return self.source(path, line.session, cwd=text_at(facts, "cwd"), model=text_at(facts, "model"))

    def session_name(self, path: Path) -> str:
        """The directory is named after the task."""
        return path.parent.name

    def event(self, line: RooLine, raw: bytes, source: Source) -> Event:
        """The message's time, which is its id; one that was written anew is another event."""
        if line.session is not None:
            return Event("session", f"session:{zlib.crc32(raw):x}", None, line)
        kind = f"say/{line.say}" if line.say else f"ask/{line.ask or 'unknown'}"
        at = duration(line.ts)
        return Event(kind, f"{line.ts}:{zlib.crc32(raw):x}", None if at is None else time_at(at), line)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the message means."""
        line: RooLine = event.body
        if line.session is not None:
            return _session(line, memory)
        if line.first or line.say == "user_feedback":
            return [a.TurnBegin(line.text, turn=f"{line.ts}")]
        return _said(line, source, memory) if line.say else _asked(line)

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        line: RooLine = event.body
        return [text for text in _texts(line) if text.text]


def _facts(path: Path) -> dict[str, object]:
    """What the files beside the messages say of the task."""
    item = read_object(path.with_name("history_item.json"))
    return {"cwd": text_at(item, "workspace"), "title": text_at(item, "task"), "model": _first_model(path)}


def _first_model(path: Path) -> str | None:
    try:
        with open(path.with_name("api_conversation_history.json"), "rb") as file:
            found = _MODEL.search(file.read(_OPENING))
    except OSError:
        return None
    return None if found is None else found[1].decode("utf-8", "replace")


def _session(line: RooLine, memory: Memory) -> list[a.Act]:
    facts = value_of(line.facts)
    memory["model"] = text_at(facts, "model") or memory.get("model")
    return [a.SessionInfo(cwd=text_at(facts, "cwd"), title=text_at(facts, "title"), model=memory["model"])]


def _said(line: RooLine, source: Source, memory: Memory) -> list[a.Act]:
    match line.say:
        case "api_req_started":
            return list(_called(line, source, memory))
        case "completion_result":
            return [a.TurnEnd()]
        case "error":
            return [a.Error(line.text or "failed")]
    return [a.Note(_NOTES[line.say])] if line.say in _NOTES else []


def _called(line: RooLine, source: Source, memory: Memory) -> Iterator[a.Act]:
    """A model call: when it begins, and again when its tokens are known or it was cut off."""
    call, step = _object(line), f"{line.ts}"
    model = memory.get("model")
    yield a.StepBegin(step, model=model)
    usage = _usage(call, line.ts)
    if usage.total:
        yield a.ResponseUsage(f"roo:{source.session_id}:{line.ts}", usage, model, step)
    if reason := text_at(call, "cancelReason"):
        failed = reason == "streaming_failed"
        error = text_at(call, "streamingFailedMessage") if failed else None
        yield a.StepEnd(step, "error" if failed else "cancelled", error)
    elif usage.total:
        yield a.StepEnd(step)


def _usage(call: object, at: float | None) -> Usage:
    names = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
    prompt, output, read, written = (count(lookup(call, name)) for name in names)
    early = text_at(call, "apiProtocol") == "anthropic" and (at or 0) < _WHOLE_PROMPTS
    if early or prompt < read + written:
        return Usage(input_tokens=prompt, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written)
    return usage_of_prompt(prompt, output, read, written)


def _asked(line: RooLine) -> list[a.Act]:
    """A question to the user: a tool that may be used, or that it is the user's turn."""
    if line.ask in _TOOLS:
        call = f"{line.ts}"
        return [a.ToolBegin(call, text_at(_object(line), "tool") or _TOOLS[line.ask]), a.ToolEnd(call)]
    if line.ask == "api_req_failed":
        return [a.TurnEnd("error", line.text)]
    return [a.TurnEnd()] if line.ask in ("completion_result", "followup") else []


def _object(line: RooLine) -> object:
    return value_of(msgspec.Raw((line.text or "").encode("utf-8", "replace")))


def _texts(line: RooLine) -> Iterator[Content]:
    text = line.text or ""
    if line.first or line.say == "user_feedback":
        yield Content("prompt", text)
    elif line.say in ("text", "completion_result") or line.ask == "followup":
        yield Content("text", text)
    elif line.say == "reasoning":
        yield Content("thinking", text)
    elif line.say == "error" or line.ask == "api_req_failed":
        yield Content("error", text)
    elif line.say in ("command_output", "mcp_server_response"):
        yield Content("result", text)
    elif line.ask in _TOOLS:
        yield Content("arguments", text, f"{line.ts}")
