"""GitHub Copilot CLI: ``events.jsonl`` of a session, one event a line; subagents write into the same file.

A model call is what ``assistant.turn_start`` and ``assistant.turn_end`` stand around, with the calls of its tools; the
user's turn is what follows a ``user.message``. Usage stands in ``session.usage_record``, that of a compaction only in
``session.compaction_complete``. The totals of ``session.shutdown`` are cumulative, also over what a fork copied, and
leave compactions out: the calls are checked against them. A fork repeats all lines with their ids and times.

``memory`` holds ``began``, the time of the first line, because a copy goes on with lines that are older; ``step``, the
name of the open model call, ``spoke``, whether the model answered, ``final``, whether it asked for nothing, and
``compacted``, the tokens of all compactions with the model of the latest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import UUID, LineDecoder, LogFormat, agent_directory, first_lines, usage_of_prompt
from agenttrace.record.formats.context import Compacted, ContextFact, Piece, conversation, system_prompt
from agenttrace.record.formats.contract import Content, Memory, Outcome, ResumeCommand, Source, Traits
from agenttrace.record.formats.diffs import decoded, diff_change
from agenttrace.record.formats.lenient import (
    as_moment,
    count,
    json_text,
    lookup,
    moment,
    read_companion,
    text_at,
    time_of,
    token_sum,
    value_of,
)
from agenttrace.record.ingest import acts as a

LOG_NAME = "events.jsonl"
_FACTS = "workspace.yaml"
#: What is shown as a note on the span that is open.
_NOTES = {
    "session.compaction_start": "compaction",
    "session.truncation": "truncation",
    "session.warning": "warning",
    "session.info": "notification",
    "system.notification": "notification",
    "hook.start": "hook",
    "permission.requested": "approval",
}
#: In the order in which a prompt's usage is counted.
_TOKENS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_NONE = [0] * len(_TOKENS)
#: Lines of a subagent that are about it: its parent's.
_OF_PARENT = "subagent."

_DIFF = re.compile(r"^diff --git ", re.MULTILINE)


class CopilotEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A line."""

    type: str | None = None
    data: msgspec.Raw = msgspec.Raw()
    id: str | None = None
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    agent_id: str | None = None


class Copilot(LogFormat[CopilotEvent]):
    """The log format of the GitHub Copilot CLI, from version 1.0 on."""

    name = "copilot-cli"
    title = "GitHub Copilot CLI"
    parts_not_in_log = frozenset()
    traits = Traits(provider="github", integration="copilot-cli", variables=("COPILOT_HOME",))
    decoder = LineDecoder(
        CopilotEvent,
        {"timestamp": moment},
        openings=r'\{"type"',
        is_line=lambda value: isinstance(value.get("id"), str) and isinstance(value.get("data"), dict),
    )

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$COPILOT_HOME`` or ``~/.copilot``."""
        return [agent_directory(environ, home, "COPILOT_HOME", default=".copilot") / "session-state"]

    def is_log(self, path: Path) -> bool:
        """``events.jsonl``."""
        return path.name == LOG_NAME

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the first line."""
        lines = [line for line in map(self.decoder, first_lines(head, 1)) if line is not None]
        if not lines or lines[0].type != "session.start":
            return None
        data = value_of(lines[0].data)
        session = text_at(data, "sessionId")
        if session is None:
            return None
        return self.source(path, session, cwd=text_at(data, "context", "cwd"), title=_name_of(path.parent / _FACTS))

    def session_name(self, path: Path) -> str:
        """The directory is named after the session."""
        return path.parent.name

    def event(self, line: CopilotEvent, raw: bytes, source: Source) -> Event:
        """The event's id; what it says stays as it is written."""
        kind = line.type or "unknown"
        stream = None if kind.startswith(_OF_PARENT) else line.agent_id
        return Event(kind, line.id, time_of(line.timestamp), line, stream)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the event means."""
        line: CopilotEvent = event.body
        found: list[a.Act] = []
        began = memory.pop("began", None)
        if began is not None and event.at is not None and event.at < began:
            found.append(a.SessionInfo(copied=True))
        if line.type in _MEANINGS:
            _MEANINGS[line.type](_Said(line, value_of(line.data), memory, found, event.stream is None))
            if event.stream is None and source.directory and any(isinstance(act, a.TurnEnd) for act in found):
                # A session may be named at any time.
                found.append(a.SessionInfo(title=_name_of(Path(source.directory) / _FACTS)))
            return found
        return [*found, a.Note(_NOTES[line.type])] if line.type in _NOTES else found

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        line: CopilotEvent = event.body
        return [text for text in _texts(line.type or "", value_of(line.data)) if text.text]

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """The system prompt, what is added to prompts, and the conversation; a summary takes its place."""
        line: CopilotEvent = event.body
        data = value_of(line.data)
        texts = self.content(event, source)
        acts = [act for act in self.acts(event, source, memory) if not isinstance(act, a.Note)]
        match line.type:
            case "system.message":
                yield system_prompt(text_at(data, "content") or "")
            case "session.compaction_complete":
                yield Compacted()
            case "user.message":
                added = len(text_at(data, "transformedContent") or "") - sum(len(each.text) for each in texts)
                yield Piece("context", max(0, added))
        yield from conversation(acts, texts, notes_sent=line.type == "session.compaction_complete")

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The diffs in the result of an edit."""
        data = lookup(decoded(raw, b'"detailedContent":"\\ndiff --git'), "data")
        if lookup(data, "success") is not True:
            return
        edits = lookup(data, "fileEdits")
        paths = [text_at(edit, "path") for edit in edits] if isinstance(edits, list) else []
        diffs = _DIFF.split(text_at(data, "result", "detailedContent") or "")[1:]
        for place, diff in enumerate(diffs):
            path = paths[place] if len(paths) == len(diffs) else _path_in(diff)
            changes = diff_change(path, diff, text_at(data, "toolCallId"))
            yield from (change for change in changes if change.added or change.removed)  # reading shows a diff, too

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``copilot --resume=<session>``."""
        return ResumeCommand(("copilot", f"--resume={session_id}"))


class _Said:
    """A line, what its stream remembers, and the acts that it means."""

    def __init__(self, line: CopilotEvent, data: object, memory: Memory, found: list[a.Act], main: bool) -> None:
        self.line, self.data, self.memory, self.main = line, data, memory, main
        self.add = found.append

    def text(self, *keys: str) -> str | None:
        return text_at(self.data, *keys)


def _name_of(path: Path) -> str | None:
    """The name of a session, from the small file beside its log."""
    lines = read_companion(path, 10_000).decode("utf-8", "replace").splitlines()
    facts = dict(line.split(": ", 1) for line in lines if ": " in line)
    named = facts.get("user_named") == "true"
    return facts["name"].strip().strip("\"'") or None if named and "name" in facts else None


def _start(said: _Said) -> None:
    said.memory["began"] = time_of(said.line.timestamp)
    context = lookup(said.data, "context")
    said.add(
        a.SessionInfo(
            cwd=text_at(context, "cwd"),
            branch=text_at(context, "branch"),
            version=said.text("copilotVersion"),
            model=said.text("selectedModel"),
        )
    )


def _info(said: _Said) -> None:
    names = UUID.findall(said.text("message") or "") if said.text("infoType") == "fork" else []
    if len(names) > 1:  # of the original and of the copy; the original names the copy alone
        said.add(a.SessionInfo(parent=names[0]))
    else:
        said.add(a.Note("notification"))


def _user(said: _Said) -> None:
    said.memory.pop("final", None)
    origin = "user" if said.main else "subagent"
    said.add(a.TurnBegin(said.text("content"), origin, said.text("messageId")))


def _step_begin(said: _Said) -> None:
    step = f"{said.text('interactionId')}:{said.text('turnId')}"
    said.memory["step"] = step
    said.memory.pop("final", None)
    said.add(a.StepBegin(step))


def _usage(said: _Said) -> None:
    usage = lookup(said.data, "usage")
    name = text_at(usage, "apiCallId") or text_at(usage, "accounting", "usageId") or said.line.id
    said.add(a.ResponseUsage(f"copilot:{name}", _counts(usage), text_at(usage, "model"), said.memory.get("step")))


def _counts(usage: object) -> Usage:
    numbers = (count(lookup(usage, key)) for key in _TOKENS)
    return usage_of_prompt(*numbers)


def _message(said: _Said) -> None:
    step, model = said.memory.get("step"), said.text("model")
    said.add(a.StepBegin(step, model=model))
    requests = lookup(said.data, "toolRequests")
    calls = [call for call in requests if text_at(call, "toolCallId")] if isinstance(requests, list) else []
    for call in calls:
        name = text_at(call, "name") or "unknown"
        said.add(a.ToolBegin(text_at(call, "toolCallId") or "", name, step, name == "task"))
    said.memory["spoke"] = True
    if not calls:
        said.memory["final"] = True
    said.add(a.StepEnd(step))


def _step_end(said: _Said) -> None:
    if said.memory.pop("final", None):
        said.add(a.TurnEnd())
    elif not said.memory.pop("spoke", None):
        said.add(a.StepEnd(said.memory.get("step"), "unclosed"))


def _tool_begin(said: _Said) -> None:
    if call := said.text("toolCallId"):
        said.add(a.ToolBegin(call, said.text("toolName") or "unknown", said.memory.get("step")))


def _tool_end(said: _Said) -> None:
    if call := said.text("toolCallId"):
        failed = lookup(said.data, "success") is False
        said.add(a.ToolEnd(call, "error" if failed else "ok", said.text("error", "message") if failed else None))


def _spawned(said: _Said) -> None:
    call = said.text("toolCallId")
    if call and said.line.agent_id:
        said.add(a.Spawned(call, said.line.agent_id, said.text("agentName")))


def _failed(said: _Said) -> None:
    said.add(a.TurnEnd("error", said.text("message")))


def _compacted(said: _Said) -> None:
    used = lookup(said.data, "compactionTokensUsed")
    if isinstance(used, dict):
        name = said.text("requestId") or said.line.id
        model = text_at(used, "model")
        said.add(a.ResponseUsage(f"copilot:{name}", _counts(used), model, detached=True))
        sums = (before + count(used.get(key)) for before, key in zip(_compactions(said)[1], _TOKENS, strict=True))
        said.memory["compacted"] = [model or "", *sums]


def _model(said: _Said) -> None:
    if said.main:
        said.add(a.SessionInfo(model=said.text("newModel")))


def _shutdown(said: _Said) -> None:
    said.add(a.SessionInfo(ended=True))
    began, told = lookup(said.data, "sessionStartTime"), lookup(said.data, "modelMetrics")
    since = time_of(as_moment(began))
    if since is None or not isinstance(told, dict) or not told:
        return
    sums = {model: [token_sum(lookup(of, "usage", key)) for key in _TOKENS] for model, of in told.items()}
    model, compacted = _compactions(said)
    if any(compacted):
        sums[model] = [sum(both) for both in zip(sums.get(model, _NONE), compacted, strict=True)]
    usage = {model: usage_of_prompt(*numbers) for model, numbers in sums.items()}
    said.add(a.ReportedTotals(segment=f"copilot:{began}", usage=usage, since=since))


def _compactions(said: _Said) -> tuple[str, list[int]]:
    """The tokens of all compactions so far, which totals leave out, with the model of the latest."""
    model, *sums = said.memory.get("compacted") or ["", *_NONE]
    return model, sums


_MEANINGS: dict[str, Callable[[_Said], None]] = {
    "session.start": _start,
    "session.resume": _start,
    "session.info": _info,
    "session.model_change": _model,
    "session.shutdown": _shutdown,
    "session.error": _failed,
    "session.compaction_complete": _compacted,
    "session.usage_record": _usage,
    "user.message": _user,
    "assistant.turn_start": _step_begin,
    "assistant.message": _message,
    "assistant.turn_end": _step_end,
    "tool.execution_start": _tool_begin,
    "tool.execution_complete": _tool_end,
    "subagent.started": _spawned,
}


def _texts(kind: str, data: object) -> Iterator[Content]:
    call = text_at(data, "toolCallId")
    match kind:
        case "user.message":
            yield Content("prompt", text_at(data, "content") or "")
        case "assistant.message":
            yield Content("thinking", text_at(data, "reasoningText") or "")
            yield Content("text", text_at(data, "content") or "")
        case "tool.execution_start":
            yield Content("arguments", json_text(lookup(data, "arguments")), call)
        case "tool.execution_complete":
            yield Content("result", text_at(data, "result", "content") or "", call)
            yield Content("error", text_at(data, "error", "message") or "", call)
        case "session.error":
            yield Content("error", text_at(data, "message") or "")
        case "session.compaction_complete":
            yield Content("note", text_at(data, "summaryContent") or "")
        case "session.info" | "session.warning":
            yield Content("note", text_at(data, "message") or "")


def _path_in(diff: str) -> str | None:
    """The file that a diff names: the new one, or the one that was deleted."""
    names = [line[5:].strip() for line in diff.split("\n", 8)[:8] if line.startswith(("--- a/", "+++ b/"))]
    return names[-1] if names else None
