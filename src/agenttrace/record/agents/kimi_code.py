"""Kimi Code's ``wire.jsonl``: one agent record a line, one file for each agent of a session.

The usage of a step stands in four records; only ``usage.record`` is counted. Messages stand in three; only
``turn.prompt`` and the loop events are folded. Lines are in order, their times are not.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.acts import (
    Act,
    Note,
    ResponseUsage,
    SessionInfo,
    Spawned,
    StepBegin,
    StepEnd,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
    Waiting,
)
from agenttrace.record.agents.contract import Content, Source, Unusable
from agenttrace.record.agents.kimi_cli import (
    LOG_NAME,
    as_text,
    cut,
    read_as,
    read_object,
    shorten,
    text_of,
)
from agenttrace.record.agents.lenient import (
    DECODING_ERRORS,
    FieldByField,
    count,
    mended,
    microseconds,
    value_of,
    whole_objects,
)

LOOP = "context.append_loop_event"
#: Tools that hand the work to subagents.
AGENT_TOOLS = frozenset({"Agent", "AgentSwarm", "Task"})
#: What ``kimi migrate`` names the sessions that it copies from Kimi CLI.
IMPORT_PREFIX = "ses_"
#: What the macOS desktop application keeps instead of ``~/.kimi-code``.
DESKTOP_HOME = "Library/Application Support/kimi-desktop/daimon-share/daimon/runtime/kimi-code/home"
#: How record types begin; how they go on is too much and too new to list.
FAMILIES = re.compile(
    r"(?:agent|config|context|cron|full_compaction|goal|interaction|llm|mcp|micro_compaction|permission|plan_mode"
    r"|plugin|profile|prompt|runtime|subagent|swarm_mode|task|token_counting|tools|turn|usage)\."
)
#: Who begins a turn, by the kind of a prompt's origin; whatever is not here is the system.
ORIGINS = {
    "user": "user",
    "skill_activation": "user",
    "plugin_command": "user",
    "shell_command": "user",
    "hook_result": "hook",
    "task": "task",
    "cron_job": "task",
    "cron_missed": "task",
}
CANCELLED = frozenset({"aborted", "blocked", "cancelled", "interrupted", "user_cancelled"})

_RAW = msgspec.Raw()


class _Loop(msgspec.Struct, gc=False, rename="camel"):
    """An event of the agent's loop inside its record."""

    type: str = "unknown"
    uuid: Any = None
    turn_id: Any = None
    step: Any = None
    step_uuid: Any = None
    parent_uuid: Any = None
    tool_call_id: Any = None
    name: Any = None
    finish_reason: Any = None
    args: msgspec.Raw = _RAW
    part: msgspec.Raw = _RAW
    result: msgspec.Raw = _RAW


class _Record(msgspec.Struct, gc=False, rename="camel"):
    """The fields of all records that acts and texts are made of, over all types."""

    type: str = "unknown"
    time: Any = None
    agent_id: Any = None
    event: _Loop | None = None
    protocol_version: Any = msgspec.field(default=None, name="protocol_version")
    turn_id: Any = None
    step_id: Any = None
    reason: Any = None
    error: msgspec.Raw = _RAW
    error_name: Any = None
    error_message: Any = None
    input: msgspec.Raw = _RAW
    origin: msgspec.Raw = _RAW
    message: msgspec.Raw = _RAW
    summary: msgspec.Raw = _RAW
    kind: Any = None
    id: Any = None
    tool_call_id: Any = None
    request: msgspec.Raw = _RAW
    response: msgspec.Raw = _RAW
    result: msgspec.Raw = _RAW
    model: Any = None
    model_alias: Any = None
    usage: msgspec.Raw = _RAW
    usage_scope: Any = None
    subagent_id: Any = None
    subagent_name: Any = None
    parent_agent_id: Any = None
    parent_tool_call_id: Any = None
    cwd: Any = None
    environment_disclosure: msgspec.Raw = _RAW


class _ToolResult(msgspec.Struct, gc=False, rename="camel"):
    output: msgspec.Raw = _RAW
    is_error: Any = None
    duration_ms: Any = None


class _Scene(msgspec.Struct):
    """What an act's author may look at besides the record."""

    event: Event
    source: Source
    memory: dict[str, Any]


_Author = Callable[[_Record, _Scene], Iterator[Act]]
_LoopAuthor = Callable[[_Loop, _Record, _Scene], Iterator[Act]]
_RECORD = msgspec.json.Decoder(_Record)
_by_field = FieldByField(_Record, {"event": FieldByField(_Loop)})
_OPENING = re.compile(r'\{"(?:type|message|turnId)":')


class KimiCode:
    """The log format of Kimi Code, from protocol 1.0 on."""

    name = "kimi-code"
    title = "Kimi Code"

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$KIMI_CODE_HOME`` or ``~/.kimi-code``, and the desktop application's."""
        own = environ.get("KIMI_CODE_HOME")
        main = Path(own).expanduser() if own else home / ".kimi-code"
        return [main / "sessions", home / DESKTOP_HOME / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``wire.jsonl`` of one of a session's agents."""
        return path.name == LOG_NAME

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A header with ``created_at``, or records of one of the known families."""
        if not _is_wire(head):
            return None
        if path.name != LOG_NAME:
            return Source(agent=self.name, session_id=path.stem, directory=str(path.parent))
        if path.parent.parent.name != "agents":
            return Source(agent=self.name, session_id=path.parent.name, directory=str(path.parent))
        return _agent_source(path)

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """The record's type, time and key; long parts stay undecoded until somebody asks."""
        try:
            record = _RECORD.decode(raw)
        except DECODING_ERRORS:
            better = mended(raw)
            odd = _by_field(better) if better is not None else None
            if odd is None:
                salvaged = whole_objects(raw, _OPENING, _is_record)
                return Unusable("not a JSON object", harmless=not raw.strip(), salvaged=salvaged)
            record = odd
        return _event(record, raw, source)

    def acts(self, event: Event, source: Source, memory: dict[str, Any]) -> Iterable[Act]:
        """What the record means."""
        record: _Record = event.body
        scene = _Scene(event, source, memory)
        acts: list[Act] = []
        if record.event is not None:
            loop_author = _LOOP_ACTS.get(record.event.type)
            if loop_author is not None:
                acts = list(loop_author(record.event, record, scene))
        else:
            author = _ACTS.get(record.type)
            if author is not None:
                acts = list(author(record, scene))
        if acts and memory.get("waiting") and not isinstance(acts[-1], Waiting):
            acts.append(Waiting())
        return acts

    def content(self, event: Event, source: Source) -> list[Content]:
        """The texts of the record, unless it only repeats those of another."""
        record: _Record = event.body
        if record.event is not None:
            loop_speaker = _LOOP_CONTENT.get(record.event.type)
            found = loop_speaker(record.event) if loop_speaker is not None else iter(())
        else:
            speaker = _CONTENT.get(record.type)
            found = speaker(record) if speaker is not None else iter(())
        return [content for content in found if content.text]


# What a file is


def _is_wire(head: bytes) -> bool:
    """Whether the first lines are Kimi Code's; its protocol numbers are Kimi CLI's over again."""
    for raw in head.split(b"\n")[:32]:
        value = value_of(msgspec.Raw(raw))
        if not isinstance(value, dict):
            continue
        if value.get("type") == "metadata" and "protocol_version" in value:
            if "created_at" in value:
                return True
            continue
        return _is_record(value)
    return False


def _is_record(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and "v" not in value and FAMILIES.match(kind) is not None


def _agent_source(path: Path) -> Source:
    session = path.parent.parent.parent
    stream = path.parent.name
    state = read_object(session / "state.json")
    agents = state.get("agents")
    agent = agents.get(stream) if isinstance(agents, dict) else None
    agent = agent if isinstance(agent, dict) else {}
    labels = agent.get("labels")
    parent = as_text(state.get("forkedFrom"))
    return Source(
        agent=KimiCode.name,
        session_id=session.name,
        stream=stream,
        parent_stream=as_text(agent.get("parentAgentId")),
        parent_session=parent,
        copied=parent is not None,
        cwd=as_text(state.get("cwd")) or as_text(state.get("workDir")),
        title=as_text(state.get("title")),
        name=as_text(labels.get("profileName")) if isinstance(labels, dict) else None,
        directory=str(path.parent),
    )


def _is_copy(at: int | None, source: Source) -> bool:
    try:
        until = _copied_until(source.directory)
    except FileNotFoundError:
        return True
    return until > 0 and (at is None or at < until)


@lru_cache(maxsize=1024)
def _copied_until(directory: str) -> float:
    """Up to when (microseconds) the records repeat a Kimi CLI session; later ones are its continuation."""
    agents = Path(directory).parent
    if agents.name != "agents":
        return 0
    session = agents.parent
    path = session / "state.json"
    if session.name.startswith(IMPORT_PREFIX) and not path.exists():
        raise FileNotFoundError(path)  # the import writes the log first: ask again
    custom = read_object(path).get("custom")
    if not isinstance(custom, dict) or custom.get("imported_from_kimi_cli") is not True:
        return 0
    try:
        return microseconds(datetime.fromisoformat(custom["imported_at"]))
    except (KeyError, TypeError, ValueError):
        return math.inf


# A line


def _event(record: _Record, raw: bytes, source: Source) -> Event | Unusable:
    time = record.time
    at = round(time * 1000) if type(time) in (int, float) and 0 < time < 1e14 else None
    if record.type == "metadata" and record.protocol_version is not None:
        return Unusable("header", harmless=True)
    if _is_copy(at, source):
        return Unusable("imported copy of a Kimi CLI session", harmless=True)
    loop = record.event
    if loop is None:
        key = f"{source.stream}:{at}:{zlib.crc32(raw):x}" if at is not None else None
        return Event(record.type, key, at, record)
    # Migrations rewrite what is in a result; its ids and its time stay.
    name = loop.uuid or loop.parent_uuid or loop.tool_call_id
    key = f"{source.stream}:{loop.type}:{name}:{time}" if isinstance(name, str) else None
    return Event(f"{record.type}/{loop.type}", key, at, record)


# What it means: turns


def _turn_name(value: object) -> str | None:
    """Loop events write the number of the turn as a text, other records as a number."""
    return str(value) if type(value) is int else as_text(value)


def _turn_prompt(record: _Record, scene: _Scene) -> Iterator[Act]:
    turn = _turn_name(record.turn_id)
    _open_turn(turn, scene.memory)
    text = text_of(value_of(record.input))
    yield TurnBegin(prompt=cut(text), origin=_origin(record, scene), turn=turn)


def _open_turn(turn: str | None, memory: dict[str, Any]) -> None:
    memory["turn"] = turn
    memory["open"] = True
    for stale in ("step", "calls", "waiting"):
        memory.pop(stale, None)


def _origin(record: _Record, scene: _Scene) -> str:
    origin = value_of(record.origin)
    kind = origin.get("kind") if isinstance(origin, dict) else None
    if isinstance(origin, dict) and kind == "system_trigger" and origin.get("name") == "subagent":
        return "subagent"
    found = ORIGINS.get(kind, "system") if isinstance(kind, str) else "user"
    return "subagent" if found == "user" and scene.source.stream != "main" else found


def _enter_turn(loop: _Loop, memory: dict[str, Any]) -> Iterator[Act]:
    """Goals and steering start turns without a prompt; before 2.1.0 a prompt does not name its turn."""
    turn = _turn_name(loop.turn_id)
    if memory.get("open") and (turn is None or memory.get("turn") in (None, turn)):
        memory["turn"] = memory.get("turn") or turn
        return
    _open_turn(turn, memory)
    yield TurnBegin(origin="system", turn=turn)


def _turn_ended(record: _Record, scene: _Scene) -> Iterator[Act]:
    turn = _turn_name(record.turn_id)
    error = value_of(record.error)
    text = text_of(error.get("message")) if isinstance(error, dict) else text_of(error)
    reason = as_text(record.reason)
    status = "ok" if reason == "completed" else "cancelled" if reason in CANCELLED else "error"
    if turn is None or scene.memory.get("turn") in (None, turn):
        scene.memory["open"] = False
        scene.memory.pop("waiting", None)
    yield TurnEnd(status=status, error=None if status == "ok" else cut(text) or reason, turn=turn)


def _turn_cancel(record: _Record, scene: _Scene) -> Iterator[Act]:
    if record.agent_id is None:
        yield from _close_turn("cancelled", scene)


def _close_turn(status: str, scene: _Scene) -> Iterator[Act]:
    """The end of a turn of the first engine: it writes no ``turn.ended`` (and is told by its lack of ``agentId``)."""
    if scene.memory.get("open"):
        scene.memory["open"] = False
        yield TurnEnd(status=status, turn=scene.memory.get("turn"))


# What it means: steps and tools


def _step_begin(loop: _Loop, record: _Record, scene: _Scene) -> Iterator[Act]:
    yield from _enter_turn(loop, scene.memory)
    step = as_text(loop.uuid)
    scene.memory["step"] = step
    n = loop.step if type(loop.step) is int else None
    yield StepBegin(step=step, n=n, model=scene.memory.get("model"))


def _step_end(loop: _Loop, record: _Record, scene: _Scene) -> Iterator[Act]:
    reason = as_text(loop.finish_reason)
    status = "error" if reason == "error" else "cancelled" if reason in CANCELLED else "ok"
    yield StepEnd(step=as_text(loop.uuid), status=status, finish_reason=reason)
    if reason == "end_turn" and record.agent_id is None:
        yield from _close_turn("ok", scene)


def _step_interrupted(record: _Record, scene: _Scene) -> Iterator[Act]:
    step = as_text(record.step_id) or scene.memory.get("step")
    if step is not None:
        status = "cancelled" if as_text(record.reason) in CANCELLED else "error"
        yield StepEnd(step=step, status=status, error=cut(text_of(value_of(record.message))))


def _step_retrying(record: _Record, scene: _Scene) -> Iterator[Act]:
    yield Note("retry", cut(f"{text_of(record.error_name)}: {text_of(record.error_message)}"))


def _tool_call(loop: _Loop, record: _Record, scene: _Scene) -> Iterator[Act]:
    uuid = as_text(loop.uuid)
    call = as_text(loop.tool_call_id) or uuid
    if call is None:
        return
    if uuid is not None:
        calls = scene.memory.setdefault("calls", {})
        calls[uuid] = call
        shorten(calls)
    name = as_text(loop.name) or "unknown"
    yield ToolBegin(call, name, step=as_text(loop.step_uuid), subagent=name in AGENT_TOOLS)


def _tool_result(loop: _Loop, record: _Record, scene: _Scene) -> Iterator[Act]:
    parent = as_text(loop.parent_uuid)
    known = scene.memory.get("calls", {}).pop(parent, None)
    call = as_text(loop.tool_call_id) or known or parent
    if call is None:
        return
    waiting = scene.memory.get("waiting", {})
    for request in [request for request, asker in waiting.items() if asker == call]:
        del waiting[request]
    result = read_as(_ToolResult, loop.result)
    spent = result.duration_ms
    yield ToolEnd(
        call,
        "error" if result.is_error else "ok",
        cut(text_of(value_of(result.output))) if result.is_error else None,
        round(spent * 1000) if type(spent) in (int, float) and 0 <= spent < 1e12 else None,
    )


def _subagent_spawned(record: _Record, scene: _Scene) -> Iterator[Act]:
    call, stream = as_text(record.parent_tool_call_id), as_text(record.subagent_id)
    if call and stream and record.parent_agent_id in (None, scene.source.stream):
        yield Spawned(call, stream, as_text(record.subagent_name))


# What it means: tokens and the rest


def _llm_request(record: _Record, scene: _Scene) -> Iterator[Act]:
    model = as_text(record.model)
    if model is None:
        return
    models = scene.memory.setdefault("models", {})
    models[as_text(record.model_alias) or model] = model
    shorten(models)
    if record.kind == "loop" and scene.memory.get("model") != model:
        scene.memory["model"] = model
        if scene.source.stream == "main":
            yield SessionInfo(model=model)


def _usage_record(record: _Record, scene: _Scene) -> Iterator[Act]:
    spent = value_of(record.usage)
    if not isinstance(spent, dict):
        return
    usage = Usage(
        input_tokens=count(spent.get("inputOther")),
        output_tokens=count(spent.get("output")),
        cache_read_tokens=count(spent.get("inputCacheRead")),
        cache_write_tokens=count(spent.get("inputCacheCreation")),
    )
    alias = as_text(record.model)
    act = ResponseUsage(
        _response(usage, scene),
        usage,
        model=scene.memory.get("models", {}).get(alias, alias),
        step=scene.memory.get("step") if record.usage_scope == "turn" else None,
        detached=record.usage_scope != "turn",
    )
    if act.detached and not scene.memory.get("open"):
        # Compaction between two turns: a turn of its own, over at once.
        yield from (TurnBegin(origin="system"), act, TurnEnd())
    else:
        yield act


def _response(usage: Usage, scene: _Scene) -> str:
    """A name that forks and migrated files share: neither keeps the bytes of the line for certain."""
    spent = f"{usage.input_tokens}:{usage.output_tokens}:{usage.cache_read_tokens}:{usage.cache_write_tokens}"
    at = scene.event.at
    if at is not None:
        return f"kimi-code:{scene.source.stream}:{at}:{spent}"
    scene.memory["untimed"] = scene.memory.get("untimed", 0) + 1
    return f"kimi-code:{scene.source.stream}:{scene.memory.get('step')}:{scene.memory['untimed']}:{spent}"


def _settings(record: _Record, scene: _Scene) -> Iterator[Act]:
    told = value_of(record.environment_disclosure)
    cwd = as_text(record.cwd) or (as_text(told.get("cwd")) if isinstance(told, dict) else None)
    if cwd is not None and scene.source.stream == "main":
        yield SessionInfo(cwd=cwd)


def _interaction_request(record: _Record, scene: _Scene) -> Iterator[Act]:
    if record.kind == "user_tool":
        return  # a program answers, not a person
    waiting = scene.memory.setdefault("waiting", {})
    waiting[as_text(record.id) or ""] = as_text(record.tool_call_id)
    shorten(waiting)
    yield Waiting()


def _interaction_resolved(record: _Record, scene: _Scene) -> Iterator[Act]:
    waiting = scene.memory.get("waiting", {})
    if (as_text(record.id) or "") in waiting:
        del waiting[as_text(record.id) or ""]
        yield Note("answer")


def _approval(record: _Record, scene: _Scene) -> Iterator[Act]:
    result = value_of(record.result)
    yield Note("approval", as_text(result.get("decision")) if isinstance(result, dict) else None)


def _steer(record: _Record, scene: _Scene) -> Iterator[Act]:
    yield Note("steer", cut(text_of(value_of(record.input))))


def _note(kind: str) -> _Author:
    def author(record: _Record, scene: _Scene) -> Iterator[Act]:
        yield Note(kind)

    return author


_ACTS: dict[str, _Author] = {
    "turn.prompt": _turn_prompt,
    "turn.steer": _steer,
    "turn.cancel": _turn_cancel,
    "turn.ended": _turn_ended,
    "turn.step.interrupted": _step_interrupted,
    "turn.step.retrying": _step_retrying,
    "subagent.spawned": _subagent_spawned,
    "llm.request": _llm_request,
    "usage.record": _usage_record,
    "config.update": _settings,
    "profile.bind": _settings,
    "interaction.request": _interaction_request,
    "interaction.resolved": _interaction_resolved,
    "permission.record_approval_result": _approval,
    "context.apply_compaction": _note("compaction"),
    "micro_compaction.apply": _note("micro compaction"),
    "full_compaction.cancel": _note("compaction cancelled"),
    "context.clear": _note("clear"),
    "context.undo": _note("undo"),
}
_LOOP_ACTS: dict[str, _LoopAuthor] = {
    "step.begin": _step_begin,
    "step.end": _step_end,
    "tool.call": _tool_call,
    "tool.result": _tool_result,
}


# What it says


def _prompt_content(record: _Record) -> Iterator[Content]:
    yield Content("prompt", text_of(value_of(record.input)))


def _message_content(record: _Record) -> Iterator[Content]:
    """Only what no other record says: reminders and hooks. Prompts and answers stand elsewhere."""
    message = value_of(record.message)
    origin = message.get("origin") if isinstance(message, dict) else None
    if isinstance(message, dict) and isinstance(origin, dict) and origin.get("kind") in _SAID_ONCE:
        yield Content("note", text_of(message.get("content")))


_SAID_ONCE = ("injection", "hook_result")


def _summary_content(record: _Record) -> Iterator[Content]:
    summary = value_of(record.summary)
    yield Content("note", text_of(summary.get("content") if isinstance(summary, dict) else summary))


def _error_content(record: _Record) -> Iterator[Content]:
    error = value_of(record.error)
    yield Content("error", text_of(error.get("message") if isinstance(error, dict) else error))
    yield Content("error", text_of(value_of(record.message)))
    yield Content("error", text_of(record.error_message))


def _request_content(record: _Record) -> Iterator[Content]:
    request = value_of(record.request)
    call = as_text(record.tool_call_id)
    if not isinstance(request, dict):
        return
    yield Content("note", text_of(request.get("description")) or text_of(request.get("action")), call)
    questions = request.get("questions")
    for question in questions if isinstance(questions, list) else []:
        if isinstance(question, dict):
            yield Content("note", text_of(question.get("question")), call)


def _part_content(loop: _Loop) -> Iterator[Content]:
    part = value_of(loop.part)
    if isinstance(part, dict):
        yield Content("thinking", text_of(part.get("think")))
        yield Content("text", text_of(part.get("text")))


def _tool_call_content(loop: _Loop) -> Iterator[Content]:
    arguments = value_of(loop.args)
    text = arguments if isinstance(arguments, str) else bytes(loop.args).decode("utf-8", "replace")
    yield Content("arguments", text, as_text(loop.tool_call_id) or as_text(loop.uuid))


def _tool_result_content(loop: _Loop) -> Iterator[Content]:
    result = read_as(_ToolResult, loop.result)
    call = as_text(loop.tool_call_id) or as_text(loop.parent_uuid)
    yield Content("error" if result.is_error else "result", text_of(value_of(result.output)), call)


_CONTENT: dict[str, Callable[[_Record], Iterator[Content]]] = {
    "turn.prompt": _prompt_content,
    "turn.steer": _prompt_content,
    "turn.ended": _error_content,
    "turn.step.interrupted": _error_content,
    "turn.step.retrying": _error_content,
    "context.append_message": _message_content,
    "context.apply_compaction": _summary_content,
    "interaction.request": _request_content,
}
_LOOP_CONTENT: dict[str, Callable[[_Loop], Iterator[Content]]] = {
    "content.part": _part_content,
    "tool.call": _tool_call_content,
    "tool.result": _tool_result_content,
}
