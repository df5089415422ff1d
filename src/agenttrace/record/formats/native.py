"""AgentTrace's own JSONL: what any program may append to be recorded, described in ``docs/native-format.md``.

Only ``type`` and ``session`` are required. A turn or a step whose beginning is left out begins with the first line that
names it; lines with an ``id`` may be written again. One file may have many sessions, as a server writes
them.

``memory`` has ``turn`` and ``step`` (the names of the latest), ``asked`` (whether the turn's prompt is known), and
``turns``, ``steps`` and ``usages`` (how many had no name of their own).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Raw, Struct

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import LineDecoder, LogFormat, agent_directory, first_lines
from agenttrace.record.formats.contract import Content, Memory, Source, Traits
from agenttrace.record.formats.lenient import (
    Count,
    FieldByField,
    Number,
    iso_time,
    number,
    raw_text,
    time_at,
    time_of,
    value_of,
)
from agenttrace.record.ingest import acts as a

#: Numbers of epoch time above these are milliseconds, microseconds.
_MILLISECONDS_FROM, _MICROSECONDS_FROM = 1e11, 1e14
_OUTCOMES = frozenset({"ok", "error", "cancelled"})

Seconds = Annotated[float, msgspec.Meta(ge=0, le=2**33)]
Name = str | Number | None


class NativeTokens(Struct, kw_only=True):
    """Each token in exactly one of the first four; the others are parts of those."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cache_write_1h_tokens: Count = 0
    reasoning_tokens: Count = 0

    def usage(self) -> Usage:
        """The same in the product's own words."""
        return Usage(**msgspec.structs.asdict(self))


class NativeLine(Struct, kw_only=True):
    """Every field of every type; which belong together is a matter of documentation."""

    v: Any = None
    session: str | None = None
    type: str | None = None
    id: str | int | None = None
    ts: float | str | None = None
    turn: Name = None
    step: Name = None
    stream: str | None = None
    agent: str | None = None
    parent: str | None = None
    cwd: str | None = None
    project: str | None = None
    branch: str | None = None
    title: str | None = None
    version: str | None = None
    model: str | None = None
    prompt: str | None = None
    origin: str | None = None
    role: str | None = None
    text: str | None = None
    name: str | None = None
    spawns: str | None = None
    arguments: Raw = Raw()
    result: Raw = Raw()
    status: str | None = None
    error: str | None = None
    finish_reason: str | None = None
    duration: Seconds | None = None
    response: str | None = None
    usage: NativeTokens | None = None
    estimated: bool = False
    kind: str | None = None

    @property
    def call(self) -> str:
        """The tool call; without an id the tool's name has to do."""
        return str(self.id if self.id is not None else f"{self.turn}/{self.step}/{self.name}")

    @property
    def outcome(self) -> str:
        """``ok``, ``error`` or ``cancelled``; an error speaks for itself."""
        if self.status in _OUTCOMES:
            return self.status or "ok"
        return "error" if self.error else "ok"


class Native(LogFormat[NativeLine]):
    """Logs under ``$AGENTTRACE_HOME/logs``, and any other file that is recognised by its lines."""

    name = "agenttrace"
    title = "AgentTrace JSONL"
    #: The run half, which writes most of these logs, calls applications of DashScope.
    traits = Traits(provider="dashscope", mixes_sessions=True)
    decoder = LineDecoder(NativeLine, {"usage": FieldByField(NativeTokens)})

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The default directory for logs of programs."""
        return [agent_directory(environ, home, "AGENTTRACE_HOME", default=".agenttrace") / "logs"]

    def is_log(self, path: Path) -> bool:
        """``*.jsonl``."""
        return path.name.endswith(".jsonl")

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the first line that says ``"v":1``, a session and a type; that session is the file's own."""
        for line in map(self.decoder, first_lines(head, 8)):
            if line is not None and line.v == 1 and line.session and line.type:
                return self.source(path, line.session, name=line.agent)
        return None

    def event(self, line: NativeLine, raw: bytes, source: Source) -> Event:
        """Arguments and results stay as they are written."""
        kind = line.type or "unknown"
        stream = None if line.stream == source.stream else line.stream or None
        session = None if line.session == source.session_id else line.session or None
        return Event(kind, _key(kind, line.id, stream), _micros(line.ts), line, stream, session)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the line means."""
        handler = _HANDLERS.get(event.type)
        return handler(event.body, memory, event, source) if handler else ()

    def content(self, event: Event, source: Source) -> list[Content]:
        """The texts of the line."""
        line: NativeLine = event.body
        call = line.call if event.type.startswith("tool.") else None
        found = [
            Content("prompt", line.prompt or ""),
            Content(_TEXT_KINDS.get(line.role or "", "note"), line.text or ""),
            Content("arguments", _json_text(line.arguments), call),
            Content("result", _json_text(line.result), call),
            Content("error", line.error or "", call),
        ]
        return [content for content in found if content.text]


def _key(kind: str, name: str | int | None, stream: str | None) -> str | None:
    """Ids need to be unique in their stream only: a subagent may count its calls as its caller does."""
    if name is None:
        return None
    return f"{kind}:{name}" if stream is None else f"{kind}:{name}:{stream}"


def _micros(ts: float | str | None) -> int | None:
    """Seconds, milliseconds or microseconds since the epoch, or ISO 8601 (UTC if it names no zone)."""
    if isinstance(ts, str):
        return time_of(iso_time(ts))
    if ts is None or not 0 <= ts < math.inf:
        return None
    scale = 1_000_000 if ts < _MILLISECONDS_FROM else 1000 if ts < _MICROSECONDS_FROM else 1
    return time_at(round(ts * scale))


def _json_text(raw: Raw) -> str:
    value = value_of(raw)
    if value is None:
        return ""
    return value if isinstance(value, str) else raw_text(raw)


_TEXT_KINDS: dict[str, Any] = {"user": "prompt", "assistant": "text", "thinking": "thinking"}

# -- the turn and the step of a line -------------------------------------------------------------------------


def _step_name(line: NativeLine, memory: Memory) -> str | None:
    """Steps are numbered anew in each turn, so a name needs both."""
    if line.step is None:
        return None
    return f"{memory.get('turn') if line.turn is None else line.turn}/{line.step}"


def _stand(line: NativeLine, memory: Memory) -> Iterator[a.Act]:
    """Begin the turn and the step that the line names, if they are new."""
    if line.turn is not None and _is_later(line.turn, memory.get("turn")):
        yield from _begin_turn(line, memory)
    step = _step_name(line, memory)
    if step is not None and step != memory.get("step"):
        memory["step"] = step
        yield a.StepBegin(step, number(line.step), line.model)


def _is_later(turn: str | int, current: str | None) -> bool:
    """Numbered turns only go forward: a late line of an earlier turn does not reopen it."""
    if isinstance(turn, int) and current is not None and len(current) < 20 and current.isdecimal():
        return turn > int(current)
    return str(turn) != current


def _begin_turn(line: NativeLine, memory: Memory, prompt: str | None = None) -> Iterator[a.Act]:
    memory["turns"] = memory.get("turns", 0) + (line.turn is None)
    memory["turn"] = f"turn {memory['turns']}" if line.turn is None else str(line.turn)
    memory["asked"] = prompt is not None
    memory["step"] = None
    yield a.TurnBegin(prompt, line.origin or "user", memory["turn"])


# -- what a line means ---------------------------------------------------------------------------------------


def _session(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    yield a.SessionInfo(
        cwd=line.cwd or line.project,
        branch=line.branch,
        title=line.title,
        version=line.version,
        model=line.model,
        parent=line.parent,
        ended=True if event.type == "session.end" else None,
    )


def _turn_begin(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    yield from _begin_turn(line, memory, line.prompt)


def _turn_end(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    turn = memory.get("turn") if line.turn is None else str(line.turn)
    yield a.TurnEnd(line.outcome, line.error, turn)
    memory["step"] = None
    memory["asked"] = True


def _step_begin(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    if line.step is not None:
        yield from _stand(line, memory)
        return
    memory["steps"] = memory.get("steps", 0) + 1
    memory["step"] = f"step {memory['steps']}" if line.id is None else str(line.id)
    yield a.StepBegin(memory["step"], model=line.model)


def _step_end(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    if line.usage is not None:
        yield from _usage(line, memory, event, source)
    else:
        yield from _stand(line, memory)
    yield a.StepEnd(_step_name(line, memory), line.outcome, line.error, line.finish_reason)


def _message(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    if line.role != "user":
        yield from _stand(line, memory)
    elif line.turn is None and not memory.get("asked", True):
        memory["asked"] = True
        yield a.TurnBegin(line.text, line.origin or "user", memory["turn"])
    else:
        yield from _begin_turn(line, memory, line.text or "")


def _tool_begin(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    yield from _stand(line, memory)
    name = line.name or "tool"
    yield a.ToolBegin(line.call, name, _step_name(line, memory), subagent=line.spawns is not None)
    if line.spawns:
        yield a.Spawned(line.call, line.spawns, name)


def _tool_end(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    duration = None if line.duration is None else round(line.duration * 1_000_000)
    yield a.ToolEnd(line.call, line.outcome, line.error, duration)


def _usage(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    if line.usage is None:
        return
    yield from _stand(line, memory)
    step = _step_name(line, memory) or memory.get("step")
    yield a.ResponseUsage(
        f"agenttrace:{line.response or _own_name(event, source, step, memory)}",
        line.usage.usage(),
        line.model,
        step,
        estimated=line.estimated,
        detached=step is None,
    )


def _own_name(event: Event, source: Source, step: str | None, memory: Memory) -> str:
    """Without a provider's id: a step is one response; else the line's own id, else every line is another."""
    place = f"{event.session or source.session_id}:{event.stream or source.stream}"
    if step is not None:
        return f"{place}:step:{step}"
    if event.key is not None:
        return f"{place}:{event.key}"
    memory["usages"] = memory.get("usages", 0) + 1
    return f"{place}:{event.at}:{memory['usages']}"


def _error(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    yield from _stand(line, memory)
    yield a.Error(line.error or line.text or "error", "turn" if line.step is None else "step")


def _note(line: NativeLine, memory: Memory, event: Event, source: Source) -> Iterator[a.Act]:
    yield a.Waiting() if line.kind == "waiting" else a.Note(line.kind or "note")


_HANDLERS: dict[str, Callable[[NativeLine, Memory, Event, Source], Iterator[a.Act]]] = {
    "session.begin": _session,
    "session.end": _session,
    "turn.begin": _turn_begin,
    "turn.end": _turn_end,
    "step.begin": _step_begin,
    "step.end": _step_end,
    "message": _message,
    "tool.begin": _tool_begin,
    "tool.end": _tool_end,
    "usage": _usage,
    "error": _error,
    "note": _note,
}
