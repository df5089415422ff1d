"""Cline CLI: ``<session>.messages.json``, a document that is written anew with every message; a subagent has its own.

Facts of the session stand in ``<session>.json`` beside it. An assistant's message is one model call. The sum there, of
runs that are over, is of the agent without its subagents: the messages are checked against it. That in the answer of
``spawn_agent`` counts nothing. Why a run failed is a message that is only displayed.

The hub's events (``db/hub-events-*.db``) are not read: their errors are those of the messages, and their
``usage.updated`` repeats the tokens of messages without naming one, so that a call could not be told from another one
with the same counts. Of calls that were cut off, for which messages have no tokens, the hub has none either.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agenttrace.model import Event
from agenttrace.record.formats.base import (
    LineDecoder,
    LogFormat,
    agent_directory,
    expanded,
    first_lines,
    usage_of_prompt,
)
from agenttrace.record.formats.context import ContextFact, system_prompt
from agenttrace.record.formats.contract import Applied, Content, Memory, Outcome, ResumeCommand, Source, Traits
from agenttrace.record.formats.diffs import asked, decoded, envelope_changes, text_change
from agenttrace.record.formats.lenient import (
    as_moment,
    as_text,
    count,
    document_as,
    epoch,
    json_text,
    lookup,
    number,
    one_line,
    read_object,
    text_at,
    time_of,
    token_sum,
    value_of,
)
from agenttrace.record.ingest import acts as a

_ENDING = ".messages.json"
#: Prompts are wrapped in a tag.
_PROMPT = re.compile(r"\A<user_input\b[^>]*>(.*)</user_input>\s*\Z", re.DOTALL)
_SPAWN = "spawn_agent"
_ABSENT = msgspec.Raw()
#: In the order in which a prompt's usage is counted.
_TOKENS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
#: How a run may have ended.
_OVER = frozenset({"completed", "failed", "cancelled"})


class ClineLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The head of a document, its system prompt, or a message of it."""

    session: str | None = None
    facts: msgspec.Raw = _ABSENT
    system: str | None = None
    id: str | None = None
    role: str | None = None
    content: msgspec.Raw = _ABSENT
    ts: float | None = None
    model_info: msgspec.Raw = msgspec.field(name="modelInfo", default=_ABSENT)
    metrics: msgspec.Raw = _ABSENT
    metadata: msgspec.Raw = _ABSENT


class ClineDocument(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document; what is in its messages is looked at one by one."""

    session_id: msgspec.Raw = msgspec.field(name="sessionId", default=_ABSENT)
    origin: msgspec.Raw = _ABSENT
    system_prompt: msgspec.Raw = _ABSENT
    messages: list[msgspec.Raw]


class Cline(LogFormat[ClineLine]):
    """The documents of Cline CLI, from version 3 on."""

    name = "cline"
    title = "Cline CLI"
    traits = Traits(integration="cline", variables=("CLINE_DIR", "CLINE_DATA_DIR"))
    writes_documents = True
    decoder = LineDecoder(ClineLine)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$CLINE_DATA_DIR``, or under ``data`` in ``$CLINE_DIR`` or ``~/.cline``."""
        named = environ.get("CLINE_DATA_DIR")
        data = (
            expanded(named, home) if named else agent_directory(environ, home, "CLINE_DIR", default=".cline") / "data"
        )
        return [data / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``*.messages.json``."""
        return path.name.endswith(_ENDING)

    def lines_of(self, document: bytes, path: Path) -> list[bytes] | None:
        """The head, the system prompt, and a line for each message."""
        found = document_as(ClineDocument, document)
        if found is None:
            return None
        beside = read_object(path.with_name(path.name.removesuffix(_ENDING) + ".json"))
        facts = {"origin": _origin(value_of(found.origin)), **_facts(beside), **_total(beside)}
        head = {"session": as_text(value_of(found.session_id)), "facts": facts}
        system = as_text(value_of(found.system_prompt))
        firsts = [head] if system is None else [head, {"system": system}]
        return [*map(msgspec.json.encode, firsts), *map(one_line, found.messages)]

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the head; a subagent's names the session that it works for."""
        line = self.decoder(first_lines(head, 1)[0])
        facts = None if line is None else value_of(line.facts)
        if line is None or not line.session or not isinstance(lookup(facts, "origin"), dict):
            return None
        parent, agent = text_at(facts, "origin", "parentThreadId"), text_at(facts, "origin", "subagent")
        if parent is None or agent is None:
            return self.source(path, line.session, cwd=text_at(facts, "cwd"), title=text_at(facts, "title"))
        call = _call_of(path, parent, head)
        return self.source(path, parent, stream=agent, parent_stream="main", parent_call=call, name="subagent")

    def session_name(self, path: Path) -> str:
        """The directory is named after the session."""
        return path.parent.name

    def event(self, line: ClineLine, raw: bytes, source: Source) -> Event:
        """The message's id; one that was written anew is another event."""
        if line.system is not None:
            return Event("system", f"system:{source.stream}:{zlib.crc32(raw):x}", None, line)
        kind = "session" if line.id is None else f"message/{line.role or 'unknown'}"
        return Event(kind, f"{line.id}:{zlib.crc32(raw):x}", epoch(line.ts), line)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the message means."""
        line: ClineLine = event.body
        if line.id is None:
            return _session(line) if source.stream == "main" and line.system is None else []
        if _is_error(line):
            return [a.TurnEnd("error", "\n".join(filter(None, (text_at(part, "text") for part in _parts(line)))))]
        if line.role == "assistant":
            return _answered(line)
        return _asked(line, source, memory)

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """The system prompt, and the conversation."""
        line: ClineLine = event.body
        if line.system is not None:
            return [system_prompt(line.system)]
        return super().context(event, source, memory, raw)

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """What ``apply_patch`` and ``editor`` were called with, once their result says that it was done."""
        parts = lookup(decoded(raw, b'"apply_patch"', b'"editor"'), "content")
        for part in parts if isinstance(parts, list) else ():
            call = text_at(part, "id") or text_at(part, "tool_use_id")
            if text_at(part, "type") == "tool_result" and call and '"success":true' in (text_at(part, "content") or ""):
                yield Applied(call=call)
            elif text_at(part, "name") == "apply_patch":
                yield from asked(envelope_changes(text_at(part, "input", "input") or "", call))
            elif text_at(part, "name") == "editor":
                old, new = text_at(part, "input", "old_text") or "", text_at(part, "input", "new_text") or ""
                yield from asked(text_change(text_at(part, "input", "path"), old, new, call))

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        line: ClineLine = event.body
        return [text for text in _texts(line) if text.text]

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``cline --id <session>``."""
        return ResumeCommand(("cline", "--id", session_id))


def _origin(value: object) -> dict[str, str | None]:
    """Which session a subagent works for."""
    return {name: text_at(value, name) for name in ("mode", "parentThreadId", "subagent")}


def _facts(value: object) -> dict[str, object]:
    """What the document beside the messages says of the session."""
    return {
        "cwd": text_at(value, "cwd"),
        "title": text_at(value, "metadata", "title"),
        "branch": text_at(value, "metadata", "git", "branch"),
        "model": text_at(value, "model"),
        "version": text_at(value, "metadata", "sessionHistoryOrigin", "version"),
    }


def _total(value: object) -> dict[str, object]:
    """The sum of the runs that are over, with the time up to which it counts.

    While a run is at work, and when it was cut off and another process notes its end, the sum is that of earlier runs.
    """
    usage, ended = lookup(value, "metadata", "usage"), time_of(as_moment(lookup(value, "ended_at")))
    cut_off = lookup(value, "metadata", "terminal_marker_at") == lookup(value, "ended_at")
    if not isinstance(usage, dict) or ended is None or cut_off or text_at(value, "status") not in _OVER:
        return {}
    return {"total": {key: token_sum(usage.get(key)) for key in _TOKENS}, "until": ended}


def _call_of(path: Path, parent: str, head: bytes) -> str | None:
    """The call that started a subagent: the one that asks for what its log begins with."""
    texts = [text_at(part, "text") for line in first_lines(head, 3)[1:] for part in _parts_of(line)]
    prompts = {text for text in texts if text}
    messages = read_object(path.with_name(parent + _ENDING)).get("messages")
    for message in messages if isinstance(messages, list) else []:
        content = lookup(message, "content")
        for part in content if isinstance(content, list) else []:
            if text_at(part, "name") == _SPAWN and text_at(part, "input", "task") in prompts:
                return text_at(part, "id")
    return None


def _parts_of(line: bytes) -> list[object]:
    value = lookup(value_of(msgspec.Raw(line)), "content")
    return value if isinstance(value, list) else []


def _session(line: ClineLine) -> list[a.Act]:
    facts = value_of(line.facts)
    cwd, title, branch, model, version = (
        text_at(facts, name) for name in ("cwd", "title", "branch", "model", "version")
    )
    info = a.SessionInfo(cwd=cwd, title=title, branch=branch, model=model, version=version)
    return [info, *_reported(facts)]


def _reported(facts: object) -> Iterator[a.Act]:
    usage = usage_of_prompt(*(token_sum(lookup(facts, "total", key)) for key in _TOKENS))
    if usage.total:
        until = number(lookup(facts, "until"))
        yield a.ReportedTotals(segment="session", usage={"": usage}, stream="main", until=until)


def _parts(line: ClineLine) -> list[object]:
    value = value_of(line.content)
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return value if isinstance(value, list) else []


def _is_error(line: ClineLine) -> bool:
    return text_at(value_of(line.metadata), "displayRole") == "error"


def _prompt(part: object) -> str:
    text = text_at(part, "text") or ""
    found = _PROMPT.match(text)
    return text if found is None else found.group(1)


def _asked(line: ClineLine, source: Source, memory: Memory) -> list[a.Act]:
    """A prompt, or the results of tools."""
    parts = _parts(line)
    results = [part for part in parts if text_at(part, "type") == "tool_result" and text_at(part, "tool_use_id")]
    if results:
        return [_tool_end(part) for part in results]
    prompt = "\n".join(text for part in parts if (text := _prompt(part)))
    return [a.TurnBegin(prompt or None, "user" if source.stream == "main" else "subagent", line.id)]


def _tool_end(part: object) -> a.Act:
    error = _failure(part)
    return a.ToolEnd(text_at(part, "tool_use_id") or "", "ok" if error is None else "error", error)


def _failure(part: object) -> str | None:
    """Why a tool failed; ``None`` where it did not."""
    content = lookup(part, "content")
    for result in content if isinstance(content, list) else []:
        if lookup(result, "success") is False:
            return text_at(result, "error") or text_at(result, "result") or ""
    return "failed" if lookup(part, "is_error") is True else None


def _answered(line: ClineLine) -> list[a.Act]:
    model = text_at(value_of(line.model_info), "id")
    found: list[a.Act] = [a.StepBegin(line.id, model=model, implied=True)]
    calls = [part for part in _parts(line) if text_at(part, "type") == "tool_use" and text_at(part, "id")]
    for call in calls:
        name = text_at(call, "name") or "unknown"
        found.append(a.ToolBegin(text_at(call, "id") or "", name, line.id, name == _SPAWN))
    metrics = value_of(line.metrics)
    if isinstance(metrics, dict):
        usage = usage_of_prompt(*(count(metrics.get(key)) for key in _TOKENS))
        found.append(a.ResponseUsage(f"cline:{line.id}:{line.ts}", usage, model, line.id))
    found.append(a.StepEnd(line.id))
    if not calls:
        found.append(a.FinalAnswer())
    return found


def _texts(line: ClineLine) -> Iterator[Content]:
    for part in _parts(line):
        match text_at(part, "type"):
            case "text" if _is_error(line):
                yield Content("error", text_at(part, "text") or "")
            case "text":
                yield Content("prompt" if line.role == "user" else "text", _prompt(part))
            case "thinking":
                yield Content("thinking", text_at(part, "thinking") or "")
            case "tool_use":
                yield Content("arguments", json_text(lookup(part, "input")), text_at(part, "id"))
            case "tool_result":
                content = lookup(part, "content")
                text = content if isinstance(content, str) else json_text(content)
                yield Content("error" if _failure(part) is not None else "result", text, text_at(part, "tool_use_id"))
