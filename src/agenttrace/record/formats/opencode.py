"""OpenCode, and Kilo, which is made from it: the table ``event`` of a database, one row an event, one session a number.

A message and its parts are written again whenever they change. A user's message begins a turn; an assistant's message
is one model call, whose tokens come when its tools are done and stand in three events. A subagent is a session with a
parent: its events are a stream of the topmost session. A fork copies messages under new ids and keeps their times, so a
response is named by when it began and what it used. The sums of ``session.updated`` are those of one session, with what
it copied and without its subagents: the calls are checked against them.

``memory`` holds ``asked``, the latest prompts by message; ``names``, the names of the latest responses by message;
``over``, messages that have ended; ``facts``, what was last said of the session; ``created``, when the session began;
``told``, the latest sum of its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import LineDecoder, LogFormat, agent_directory, expanded, first_lines, remember
from agenttrace.record.formats.context import ContextFact, conversation
from agenttrace.record.formats.contract import Content, Memory, Outcome, ResumeCommand, Source, Table, Traits
from agenttrace.record.formats.diffs import decoded, diff_change
from agenttrace.record.formats.lenient import (
    count,
    epoch,
    json_text,
    lookup,
    number,
    text_at,
    token_sum,
    value_of,
)
from agenttrace.record.ingest import acts as a

#: The topmost session of an event's own: a subagent's has a parent.
_ROOT = """(
    WITH RECURSIVE above(id, parent) AS (
        SELECT id, parent_id FROM session WHERE id = event.aggregate_id
        UNION SELECT session.id, session.parent_id FROM session JOIN above ON session.id = above.parent
    ) SELECT id FROM above WHERE parent IS NULL
)"""
#: What a session is called until it has a title.
_UNTITLED = "New session - "
_STATUS = {"completed": "ok", "error": "error"}
#: So much of a fact of the session is remembered to notice that it changed.
_FACT = 300


class OpenCodeEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row."""

    id: str | None = None
    aggregate_id: str | None = None
    seq: int | None = None
    type: str | None = None
    data: msgspec.Raw = msgspec.Raw()
    root: str | None = None


class OpenCode(LogFormat[OpenCodeEvent]):
    """The database of OpenCode, from version 1.18 on."""

    name = "opencode"
    title = "OpenCode"
    traits = Traits(integration="opencode", variables=("OPENCODE_DB", "XDG_DATA_HOME"), mixes_sessions=True)
    table = Table(
        "event", ("id", "aggregate_id", "seq", "type", "data"), {"root": _ROOT}, ("id", "aggregate_id", "seq")
    )
    decoder = LineDecoder(OpenCodeEvent)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """``opencode`` in the directory for data, or the database that ``$OPENCODE_DB`` names."""
        return _databases("opencode", environ.get("OPENCODE_DB"), environ, home)

    def is_log(self, path: Path) -> bool:
        """``opencode.db``, or that of another channel."""
        return path.suffix == ".db" and path.stem.split("-")[0] == self.name

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the first row."""
        line = self.decoder(first_lines(head, 1)[0])
        if line is None or not line.aggregate_id or line.seq is None or not line.type:
            return None
        return self.source(path, line.root or line.aggregate_id)

    def event(self, line: OpenCodeEvent, raw: bytes, source: Source) -> Event:
        """The event's session, and its id."""
        own = line.aggregate_id or source.session_id
        root = line.root or own
        stream = None if own == root else own
        session = None if root == source.session_id else root
        kind = (line.type or "unknown").removesuffix(".1")
        data = value_of(line.data)
        part = text_at(data, "part", "type")
        # Of a database that was restored from an older copy, the numbers begin again where that one ended.
        key = line.id or (None if line.seq is None else f"{own}:{line.seq}")
        return Event(f"{kind}/{part}" if part else kind, key, _time_of(data), data, stream, session)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the event means."""
        found: list[a.Act] = []
        handle = _MEANINGS.get(event.type.split("/")[0])
        if handle is not None:
            handle(event.body, memory, found, event.stream is None)
        if handle is _session:
            found.extend(_totals(event.body, memory, event.stream or "main"))
        return found

    def content(self, event: Event, source: Source) -> list[Content]:
        """The texts of a part that is complete; why a model call failed."""
        part = lookup(event.body, "part")
        if isinstance(part, dict):
            return [text for text in _texts(part) if text.text]
        error = _error(lookup(event.body, "info"))
        return [Content("error", error)] if error else []

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """The conversation; texts that OpenCode adds by itself are sent, too."""
        return conversation(self.acts(event, source, memory), self.content(event, source), notes_sent=True)

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The diffs of a completed tool call."""
        part = lookup(decoded(raw, b'"filediff"', b'"metadata":{"diff"', b'"files":[{'), "data", "part")
        if text_at(part, "type") != "tool" or text_at(part, "state", "status") != "completed":
            return
        call, facts = text_at(part, "callID"), lookup(part, "state", "metadata")
        several = lookup(facts, "files")
        for each in several if isinstance(several, list) else [lookup(facts, "filediff")]:
            path = text_at(each, "file") or text_at(each, "filePath") or text_at(part, "state", "input", "filePath")
            patch = text_at(each, "patch") or text_at(each, "diff") or text_at(facts, "diff")
            yield from diff_change(path, patch, call)

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``opencode -s <session>``, or the same of Kilo."""
        return ResumeCommand((self.name, "-s", session_id))


class Kilo(OpenCode):
    """The database of Kilo CLI."""

    name = "kilo"
    title = "Kilo CLI"
    traits = Traits(integration="kilo", variables=("KILO_DB", "XDG_DATA_HOME"), mixes_sessions=True)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """``kilo`` in the directory for data, or the database that ``$KILO_DB`` names."""
        return _databases("kilo", environ.get("KILO_DB"), environ, home)


def _databases(name: str, named: str | None, environ: Mapping[str, str], home: Path) -> list[Path]:
    """Databases alone: beside them are snapshots of whole projects, which must not be searched."""
    directory = agent_directory(environ, home, "XDG_DATA_HOME", default=".local/share") / name
    if named:
        # Relative to the directory for data, as the program reads it; one in memory is no file.
        return [] if named == ":memory:" else [directory / expanded(named, home)]
    return [directory / f"{name}.db", directory / f"{name}-*.db"]


def _time_of(data: object) -> int | None:
    """When something happened: events have no time of their own."""
    times = lookup(data, "info", "time")
    value = lookup(data, "time") or lookup(times, "completed") or lookup(times, "updated") or lookup(times, "created")
    return epoch(value)


def _session(data: object, memory: Memory, found: list[a.Act], main: bool) -> None:
    info = lookup(data, "info")
    if "created" not in memory:
        memory["created"] = number(lookup(info, "time", "created"))
    title = text_at(info, "title") or ""
    facts = [
        text_at(info, "directory"),
        None if title.startswith(_UNTITLED) else title or None,
        text_at(info, "version"),
        text_at(info, "model", "id"),
    ]
    known = [fact and fact[:_FACT] for fact in facts]
    if main and known != memory.get("facts"):
        memory["facts"] = known
        found.append(a.SessionInfo(cwd=facts[0], title=facts[1], version=facts[2], model=facts[3]))


def _totals(data: object, memory: Memory, stream: str) -> Iterator[a.Act]:
    """The sum of a session, where it is another one: a call may be over before it is counted."""
    usage = _usage(lookup(data, "info", "tokens"), token_sum)
    counts = list(msgspec.structs.astuple(usage))
    if usage.total and counts != memory.get("told"):
        memory["told"] = counts
        yield a.ReportedTotals(segment="session", usage={"": usage}, stream=stream)


def _message(data: object, memory: Memory, found: list[a.Act], main: bool) -> None:
    info = lookup(data, "info")
    name = text_at(info, "id")
    if name is None:
        return
    _note_copy(info, memory, found, main)
    if text_at(info, "role") == "user":
        asked: dict[str, Any] = memory.setdefault("asked", {})
        if name not in asked:
            remember(asked, name, 1)
            found.append(a.TurnBegin(None, "user" if main else "subagent", name))
    elif text_at(info, "role") == "assistant":
        _answer(info, name, memory, found)


def _note_copy(info: object, memory: Memory, found: list[a.Act], main: bool) -> None:
    """A message that is older than its session was copied from another one."""
    created, begun = lookup(info, "time", "created"), memory.get("created")
    older = isinstance(created, int) and isinstance(begun, int) and created < begun
    if main and older and not memory.get("copied"):
        memory["copied"] = True
        found.append(a.SessionInfo(copied=True))


def _answer(info: object, name: str, memory: Memory, found: list[a.Act]) -> None:
    model, turn = text_at(info, "modelID"), text_at(info, "parentID")
    over: dict[str, Any] = memory.setdefault("over", {})
    if name in over:
        return
    if turn is not None:
        found.append(a.TurnBegin(turn=turn))
    found.append(a.StepBegin(name, model=model, start=epoch(lookup(info, "time", "created"))))
    usage = _usage(lookup(info, "tokens"))
    if usage.total:
        found.append(a.ResponseUsage(_response(info, name, usage, memory), usage, model, name))
    error = lookup(info, "error")
    reason = text_at(info, "finish")
    if isinstance(error, dict):
        aborted = text_at(error, "name") == "MessageAbortedError"
        remember(over, name, 1)
        found.append(a.StepEnd(name, "cancelled" if aborted else "unclosed", finish_reason=reason))
        found.append(a.TurnEnd("cancelled" if aborted else "error", _error(info), turn))
    elif lookup(info, "time", "completed") is not None:
        remember(over, name, 1)
        found.append(a.StepEnd(name, finish_reason=reason))
        if reason != "tool-calls":
            found.append(a.TurnEnd(turn=turn))


def _error(info: object) -> str | None:
    """Why a model call failed."""
    return text_at(info, "error", "data", "message") or text_at(info, "error", "name")


def _usage(tokens: object, counted: Callable[[object], int] = count) -> Usage:
    reasoning = counted(lookup(tokens, "reasoning"))
    return Usage(
        input_tokens=counted(lookup(tokens, "input")),
        output_tokens=counted(lookup(tokens, "output")) + reasoning,
        cache_read_tokens=counted(lookup(tokens, "cache", "read")),
        cache_write_tokens=counted(lookup(tokens, "cache", "write")),
        reasoning_tokens=reasoning,
    )


def _response(info: object, message: str, usage: Usage, memory: Memory) -> str:
    """What a response and its copies are called; it keeps its name should more be said of it."""
    names: dict[str, str] = memory.setdefault("names", {})
    if message not in names:
        numbers = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        began = epoch(lookup(info, "time", "created"))
        remember(names, message, f"opencode:{began}:{':'.join(map(str, numbers))}")
    return names[message]


def _part(data: object, memory: Memory, found: list[a.Act], main: bool) -> None:
    part = lookup(data, "part")
    message = text_at(part, "messageID")
    match text_at(part, "type"):
        case "text" if message in memory.get("asked", {}) and lookup(part, "synthetic") is not True:
            found.append(a.TurnBegin(_prompt(part), "user" if main else "subagent", message))
        case "tool":
            _tool(part, message, found)
        case "compaction":
            found.append(a.Note("compaction"))
        case "retry":
            found.append(a.Note("retry"))


def _prompt(part: object) -> str:
    """What the user asked; ``opencode run`` puts it into quotes."""
    text = text_at(part, "text") or ""
    quoted = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]
    return text[1:-1] if quoted else text


def _tool(part: object, message: str | None, found: list[a.Act]) -> None:
    call, state = text_at(part, "callID") or text_at(part, "id"), lookup(part, "state")
    if call is None:
        return
    name, status = text_at(part, "tool") or "unknown", text_at(state, "status") or ""
    agent = text_at(state, "metadata", "sessionId")
    found.append(a.ToolBegin(call, name, message, agent is not None))
    if agent is not None:
        found.append(a.Spawned(call, agent, text_at(state, "input", "subagent_type")))
    if status in _STATUS:
        begun, ended = (epoch(lookup(state, "time", key)) for key in ("start", "end"))
        lasted = None if begun is None or ended is None else max(0, ended - begun)
        found.append(a.ToolEnd(call, _STATUS[status], text_at(state, "error"), lasted))


_MEANINGS: dict[str, Callable[[object, Memory, list[a.Act], bool], None]] = {
    "session.created": _session,
    "session.updated": _session,
    "message.updated": _message,
    "message.part.updated": _part,
}


def _texts(part: dict[str, Any]) -> Iterator[Content]:
    state = lookup(part, "state")
    call = text_at(part, "callID") or text_at(part, "id")
    # The texts of a model have times, and an end when they are complete; a prompt has none.
    match part.get("type"):
        case "text" if "time" not in part:
            yield Content("note" if part.get("synthetic") else "prompt", _prompt(part))
        case "text" if lookup(part, "time", "end") is not None:
            yield Content("text", text_at(part, "text") or "")
        case "reasoning" if lookup(part, "time", "end") is not None:
            yield Content("thinking", text_at(part, "text") or "")
        case "tool" if text_at(state, "status") != "pending":
            yield Content("arguments", json_text(lookup(state, "input")), call)
            yield Content("result", text_at(state, "output") or "", call)
            yield Content("error", text_at(state, "error") or "", call)
