"""Continue CLI: one document a session, written at the end of a turn; it has neither times nor ids.

An item of the history is named by all messages up to it, so that the copies in a fork have the names of the originals.
What else stands in an item (states of tools, a summary) may change: it is another event of the same name then.
Turns that failed or were killed are never written. The document's own sum leaves out what a fork copied.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import UUID, LineDecoder, LogFormat, agent_directory, first_lines, usage_of_prompt
from agenttrace.record.formats.contract import Content, Memory, Outcome, ResumeCommand, Source, Traits
from agenttrace.record.formats.diffs import decoded, diff_change
from agenttrace.record.formats.lenient import (
    as_text,
    count,
    document_as,
    epoch,
    lookup,
    one_line,
    read_as,
    read_companion,
    text_at,
    token_sum,
    value_of,
)
from agenttrace.record.ingest import acts as a

_UNTITLED = "Untitled Session"
_ABSENT = msgspec.Raw()
_STATUS = {"errored": "error", "canceled": "cancelled", "cancelled": "cancelled"}


class ContinueLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The head of a document, or an item of its history with its name."""

    session: str | None = None
    facts: msgspec.Raw = _ABSENT
    name: str | None = None
    item: msgspec.Raw = _ABSENT


class ContinueItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An item of the history, of which the message names it."""

    message: msgspec.Raw = _ABSENT


class ContinueMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message, of which its tokens say what kind of prompt they count."""

    usage: msgspec.Raw = _ABSENT


class ContinueDocument(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A document; what is in its history is looked at one by one."""

    session_id: msgspec.Raw = _ABSENT
    title: msgspec.Raw = _ABSENT
    workspace_directory: msgspec.Raw = _ABSENT
    history: list[msgspec.Raw]
    usage: msgspec.Raw = _ABSENT


class ContinueCli(LogFormat[ContinueLine]):
    """The documents of Continue CLI."""

    name = "continue"
    title = "Continue CLI"
    traits = Traits(integration="continue", variables=("CONTINUE_GLOBAL_DIR",))
    writes_documents = True
    decoder = LineDecoder(ContinueLine)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$CONTINUE_GLOBAL_DIR`` or ``~/.continue``."""
        return [agent_directory(environ, home, "CONTINUE_GLOBAL_DIR", default=".continue") / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``<uuid>.json`` in a directory ``sessions``."""
        return path.suffix == ".json" and UUID.fullmatch(path.stem) is not None and path.parent.name == "sessions"

    def lines_of(self, document: bytes, path: Path) -> list[bytes] | None:
        """The head, and a line for each item of the history."""
        found = document_as(ContinueDocument, document)
        if found is None:
            return None
        session, title, directory = (
            as_text(value_of(raw)) for raw in (found.session_id, found.title, found.workspace_directory)
        )
        facts = {"cwd": directory, "title": title, "created": _created(path), **_total(found)}
        lines = [msgspec.json.encode({"session": session or path.stem, "facts": facts})]
        chain = hashlib.sha256()
        for item in map(one_line, found.history):
            chain.update(bytes(read_as(ContinueItem, item).message) or item)
            lines.append(msgspec.json.encode({"name": chain.hexdigest()[:32], "item": msgspec.Raw(item)}))
        return lines

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the head."""
        line = self.decoder(first_lines(head, 1)[0])
        facts = None if line is None else value_of(line.facts)
        if line is None or not line.session or not isinstance(facts, dict) or "created" not in facts:
            return None
        return self.source(path, line.session, cwd=text_at(facts, "cwd"))

    def event(self, line: ContinueLine, raw: bytes, source: Source) -> Event:
        """The item's name; the session has the only time there is."""
        if line.name is None:
            return Event("session", None, epoch(lookup(value_of(line.facts), "created")), line)
        role = text_at(value_of(line.item), "message", "role") or "unknown"
        return Event(f"message/{role}", f"{line.name}:{zlib.crc32(raw):x}", None, line)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the item means."""
        line: ContinueLine = event.body
        if line.name is None:
            facts = value_of(line.facts)
            title = text_at(facts, "title")
            info = a.SessionInfo(cwd=text_at(facts, "cwd"), title=None if title == _UNTITLED else title)
            return [info, *_reported(facts)]
        item = value_of(line.item)
        match text_at(item, "message", "role"):
            case "user":
                return [a.TurnBegin(_text(item), turn=line.name)]
            case "assistant":
                return _answered(item, line.name, memory)
        return []

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The diff in the output of an edit."""
        states = lookup(decoded(raw, b"\\nDiff:\\n"), "item", "toolCallStates")
        for state in states if isinstance(states, list) else ():
            outputs = lookup(state, "output")
            for output in outputs if isinstance(outputs, list) and text_at(state, "status") == "done" else ():
                _, _, diff = (text_at(output, "content") or "").partition("\nDiff:\n")
                path = text_at(state, "parsedArgs", "file_path") or text_at(state, "parsedArgs", "filepath")
                yield from diff_change(path, diff or None, text_at(state, "toolCallId"))

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        line: ContinueLine = event.body
        return [] if line.name is None else [text for text in _texts(value_of(line.item)) if text.text]

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``cn --resume`` goes on with the session that was written last; of another one there is only a copy."""
        if any(_is_latest(log) for log in logs if log.stem == session_id):
            return ResumeCommand(("cn", "--resume"), "latest_only")
        return ResumeCommand(("cn", "--fork", session_id), "copy")


def _is_latest(log: Path) -> bool:
    """Whether no other session in its directory was written later."""
    try:
        others = [path for path in log.parent.iterdir() if UUID.fullmatch(path.stem) and path.suffix == ".json"]
        return log.stat().st_mtime_ns >= max(path.stat().st_mtime_ns for path in others)
    except (OSError, ValueError):
        return False


def _created(path: Path) -> object:
    """When the session began, from the index of all sessions."""
    index = value_of(msgspec.Raw(read_companion(path.parent / "sessions.json")))
    for entry in index if isinstance(index, list) else []:
        if text_at(entry, "sessionId") == path.stem:
            created = text_at(entry, "dateCreated") or ""
            return int(created) if re.fullmatch("[0-9]{1,16}", created) else None
    return None


def _text(item: object) -> str:
    content = lookup(item, "message", "content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text for part in parts if (text := text_at(part, "text")))


def _states(item: object) -> list[object]:
    value = lookup(item, "toolCallStates")
    return [state for state in value if text_at(state, "toolCallId")] if isinstance(value, list) else []


def _answered(item: object, name: str, memory: Memory) -> list[a.Act]:
    usage = lookup(item, "message", "usage")
    model = text_at(usage, "model")
    found: list[a.Act] = []
    if model and model != memory.get("model"):
        memory["model"] = model
        found.append(a.SessionInfo(model=model))
    found.append(a.StepBegin(name, model=model, implied=True))
    states = _states(item)
    for state in states:
        call, tool = text_at(state, "toolCallId") or "", text_at(state, "toolCall", "function", "name")
        found.append(a.ToolBegin(call, tool or "unknown", name))
        status = _STATUS.get(text_at(state, "status") or "", "ok")
        found.append(a.ToolEnd(call, status, None if status == "ok" else _output(state)))
    if isinstance(usage, dict):
        found.append(a.ResponseUsage(f"continue:{name}", _usage(usage), model, name))
    found.append(a.StepEnd(name))
    if not states:
        found.append(a.TurnEnd())
    return found


def _is_apart(usage: object) -> bool:
    """Whether a prompt has no cached tokens in it: Anthropic's has not, everybody else's has."""
    return lookup(usage, "prompt_tokens_details", "cache_read_tokens") is not None


def _usage(usage: object) -> Usage:
    details = lookup(usage, "prompt_tokens_details")
    prompt, output = count(lookup(usage, "prompt_tokens")), count(lookup(usage, "completion_tokens"))
    written = count(lookup(details, "cache_write_tokens"))
    read = count(lookup(details, "cache_read_tokens"))
    if not _is_apart(usage):
        return usage_of_prompt(prompt, output, count(lookup(details, "cached_tokens")), written)
    return Usage(input_tokens=prompt, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written)


def _total(found: ContinueDocument) -> dict[str, object]:
    """The sum of a document, and what its prompts are; of several providers that is not known."""
    total = value_of(found.usage)
    messages = (read_as(ContinueItem, item).message for item in found.history)
    usages = [value_of(read_as(ContinueMessage, message).usage) for message in messages]
    apart = {_is_apart(usage) for usage in usages if isinstance(usage, dict)}
    return {"total": total, "apart": apart != {False}} if isinstance(total, dict) and len(apart) < 2 else {}


def _reported(facts: object) -> Iterator[a.Act]:
    """The head has the time of all items: the sum is that of all."""
    total, details = lookup(facts, "total"), lookup(facts, "total", "promptTokensDetails")
    prompt, output = token_sum(lookup(total, "promptTokens")), token_sum(lookup(total, "completionTokens"))
    read, written = token_sum(lookup(details, "cachedTokens")), token_sum(lookup(details, "cacheWriteTokens"))
    usage = Usage(input_tokens=prompt, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written)
    if lookup(facts, "apart") is False:
        usage = usage_of_prompt(prompt, output, read, written)
    if usage.total:
        yield a.ReportedTotals(segment="session", usage={"": usage}, stream="main")


def _output(state: object) -> str:
    value = lookup(state, "output")
    parts = value if isinstance(value, list) else []
    return "\n".join(text for part in parts if (text := text_at(part, "content")))


def _texts(item: object) -> Iterator[Content]:
    role = text_at(item, "message", "role")
    kind = {"user": "prompt", "assistant": "text"}.get(role or "", "note")
    yield Content(kind, _text(item))  # type: ignore[arg-type]  # one of the kinds above
    for state in _states(item):
        call = text_at(state, "toolCallId")
        yield Content("arguments", text_at(state, "toolCall", "function", "arguments") or "", call)
        failed = _STATUS.get(text_at(state, "status") or "") == "error"
        yield Content("error" if failed else "result", _output(state), call)
