"""What the records of a Kimi Code log mean.

A stream remembers ``turn``, the latest turn's name, and whether it is ``open``; ``step``, the latest step;
``calls``, the tool calls by the uuid of their event; ``waiting``, the pending requests;
``model``, and ``models`` by their alias; ``untimed``, how many counts of tokens had no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.base import remember, usage_of
from agenttrace.record.formats.contract import Memory, Source
from agenttrace.record.formats.kimi_acts import settle
from agenttrace.record.formats.kimi_code_lines import KimiRecord, Loop, ToolResult
from agenttrace.record.formats.kimi_lines import text_of
from agenttrace.record.formats.lenient import as_text, duration, lookup, number, read_as, text_at, value_of
from agenttrace.record.ingest import acts as a

#: Tools that hand the work to subagents.
AGENT_TOOLS = frozenset({"Agent", "AgentSwarm", "Task"})
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
_TOKENS = {
    "input_tokens": "inputOther",
    "output_tokens": "output",
    "cache_read_tokens": "inputCacheRead",
    "cache_write_tokens": "inputCacheCreation",
}


class _RecordScene(msgspec.Struct):
    """What a record is interpreted with."""

    event: Event
    source: Source
    memory: Memory


_Author = Callable[[KimiRecord, _RecordScene], Iterator[a.Act]]
_LoopAuthor = Callable[[Loop, KimiRecord, _RecordScene], Iterator[a.Act]]


def meaning(event: Event, source: Source, memory: Memory) -> list[a.Act]:
    """The acts of a record."""
    record: KimiRecord = event.body
    scene = _RecordScene(event, source, memory)
    acts: list[a.Act] = []
    if record.event is not None:
        loop_author = _LOOP_ACTS.get(record.event.type)
        if loop_author is not None:
            acts = list(loop_author(record.event, record, scene))
    else:
        author = _ACTS.get(record.type)
        if author is not None:
            acts = list(author(record, scene))
    if acts and memory.get("waiting") and not isinstance(acts[-1], a.Waiting):
        acts.append(a.Waiting())
    return acts


def _turn_name(value: object) -> str | None:
    """Loop events write the number of the turn as a text, other records as a number."""
    return str(value) if type(value) is int else as_text(value)


def _turn_prompt(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    turn = _turn_name(record.turn_id)
    _open_turn(turn, scene.memory)
    text = text_of(value_of(record.input))
    yield a.TurnBegin(prompt=text or None, origin=_origin(record, scene), turn=turn)


def _open_turn(turn: str | None, memory: Memory) -> None:
    memory["turn"] = turn
    memory["open"] = True
    for stale in ("step", "calls", "waiting"):
        memory.pop(stale, None)


def _origin(record: KimiRecord, scene: _RecordScene) -> str:
    origin = value_of(record.origin)
    kind = lookup(origin, "kind")
    if kind == "system_trigger" and lookup(origin, "name") == "subagent":
        return "subagent"
    found = ORIGINS.get(kind, "system") if isinstance(kind, str) else "user"
    return "subagent" if found == "user" and scene.source.stream != "main" else found


def _enter_turn(loop: Loop, memory: Memory) -> Iterator[a.Act]:
    """Goals and steering start turns without a prompt; before 2.1.0 a prompt does not name its turn."""
    turn = _turn_name(loop.turn_id)
    if memory.get("open") and (turn is None or memory.get("turn") in (None, turn)):
        memory["turn"] = memory.get("turn") or turn
        return
    _open_turn(turn, memory)
    yield a.TurnBegin(origin="system", turn=turn)


def _turn_ended(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    turn = _turn_name(record.turn_id)
    error = value_of(record.error)
    text = text_of(error.get("message")) if isinstance(error, dict) else text_of(error)
    reason = as_text(record.reason)
    status = "ok" if reason == "completed" else "cancelled" if reason in CANCELLED else "error"
    if turn is None or scene.memory.get("turn") in (None, turn):
        scene.memory["open"] = False
        scene.memory.pop("waiting", None)
    yield a.TurnEnd(status=status, error=None if status == "ok" else text or reason, turn=turn)


def _turn_cancel(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    if record.agent_id is None:
        yield from _close_turn("cancelled", scene)


def _close_turn(status: str, scene: _RecordScene) -> Iterator[a.Act]:
    """The end of a turn of the first engine: it writes no ``turn.ended`` (and its records have no ``agentId``)."""
    if scene.memory.get("open"):
        scene.memory["open"] = False
        yield a.TurnEnd(status=status, turn=scene.memory.get("turn"))


def _step_begin(loop: Loop, record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    yield from _enter_turn(loop, scene.memory)
    step = as_text(loop.uuid)
    scene.memory["step"] = step
    yield a.StepBegin(step=step, n=number(loop.step), model=scene.memory.get("model"))


def _step_end(loop: Loop, record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    reason = as_text(loop.finish_reason)
    status = "error" if reason == "error" else "cancelled" if reason in CANCELLED else "ok"
    yield a.StepEnd(step=as_text(loop.uuid), status=status, finish_reason=reason)
    if reason == "end_turn" and record.agent_id is None:
        yield from _close_turn("ok", scene)


def _step_interrupted(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    step = as_text(record.step_id) or scene.memory.get("step")
    if step is not None:
        status = "cancelled" if as_text(record.reason) in CANCELLED else "error"
        yield a.StepEnd(step=step, status=status, error=text_of(value_of(record.message)) or None)


def _tool_call(loop: Loop, record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    uuid = as_text(loop.uuid)
    call = as_text(loop.tool_call_id) or uuid
    if call is None:
        return
    if uuid is not None:
        remember(scene.memory.setdefault("calls", {}), uuid, call)
    name = as_text(loop.name) or "unknown"
    yield a.ToolBegin(call, name, step=as_text(loop.step_uuid), subagent=name in AGENT_TOOLS)


def _tool_result(loop: Loop, record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    parent = as_text(loop.parent_uuid)
    known = scene.memory.get("calls", {}).pop(parent, None)
    call = as_text(loop.tool_call_id) or known or parent
    if call is None:
        return
    settle(scene.memory.get("waiting", {}), call)
    result = read_as(ToolResult, loop.result)
    error = text_of(value_of(result.output)) or None if result.is_error else None
    yield a.ToolEnd(call, "error" if result.is_error else "ok", error, duration(result.duration_ms))


def _subagent_spawned(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    call, stream = as_text(record.parent_tool_call_id), as_text(record.subagent_id)
    if call and stream and record.parent_agent_id in (None, scene.source.stream):
        yield a.Spawned(call, stream, as_text(record.subagent_name))


def _llm_request(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    model = as_text(record.model)
    if model is None:
        return
    remember(scene.memory.setdefault("models", {}), as_text(record.model_alias) or model, model)
    if record.kind == "loop" and scene.memory.get("model") != model:
        scene.memory["model"] = model
        if scene.source.stream == "main":
            yield a.SessionInfo(model=model)


def _subagent_completed(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    """What the subagent used in this run: the sum of the records in its own file."""
    usage, stream = _usage_of(record), as_text(record.subagent_id)
    if usage is not None and stream:
        yield a.ReportedTotals(segment=f"{stream}:{scene.event.at}", usage={"": usage}, stream=stream)


def _usage_of(record: KimiRecord) -> Usage | None:
    spent = value_of(record.usage)
    return usage_of(spent, _TOKENS) if isinstance(spent, dict) else None


def _usage_record(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    usage = _usage_of(record)
    if usage is None:
        return
    alias = as_text(record.model)
    act = a.ResponseUsage(
        _response(usage, scene),
        usage,
        model=scene.memory.get("models", {}).get(alias, alias),
        step=scene.memory.get("step") if record.usage_scope == "turn" else None,
        detached=record.usage_scope != "turn",
    )
    if act.detached and not scene.memory.get("open"):
        # Compaction between two turns: a separate turn, over at once.
        yield from (a.TurnBegin(origin="system"), act, a.TurnEnd())
    else:
        yield act


def _response(usage: Usage, scene: _RecordScene) -> str:
    """A name that forks and migrated files share: neither keeps the bytes of the line for certain."""
    spent = f"{usage.input_tokens}:{usage.output_tokens}:{usage.cache_read_tokens}:{usage.cache_write_tokens}"
    at = scene.event.at
    if at is not None:
        return f"kimi-code:{scene.source.stream}:{at}:{spent}"
    scene.memory["untimed"] = scene.memory.get("untimed", 0) + 1
    return f"kimi-code:{scene.source.stream}:{scene.memory.get('step')}:{scene.memory['untimed']}:{spent}"


def _settings(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    cwd = as_text(record.cwd) or text_at(value_of(record.environment_disclosure), "cwd")
    if cwd is not None and scene.source.stream == "main":
        yield a.SessionInfo(cwd=cwd)


def _interaction_request(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    if record.kind == "user_tool":
        return  # a program answers, not a person
    remember(scene.memory.setdefault("waiting", {}), as_text(record.id) or "", as_text(record.tool_call_id))
    yield a.Waiting()


def _interaction_resolved(record: KimiRecord, scene: _RecordScene) -> Iterator[a.Act]:
    waiting = scene.memory.get("waiting", {})
    if (as_text(record.id) or "") in waiting:
        del waiting[as_text(record.id) or ""]
        yield a.Note("answer")


def _note(kind: str) -> _Author:
    return lambda record, scene: iter((a.Note(kind),))


_ACTS: dict[str, _Author] = {
    "turn.prompt": _turn_prompt,
    "turn.steer": _note("steer"),
    "turn.cancel": _turn_cancel,
    "turn.ended": _turn_ended,
    "turn.step.interrupted": _step_interrupted,
    "turn.step.retrying": _note("retry"),
    "subagent.spawned": _subagent_spawned,
    "subagent.completed": _subagent_completed,
    "llm.request": _llm_request,
    "usage.record": _usage_record,
    "config.update": _settings,
    "profile.bind": _settings,
    "interaction.request": _interaction_request,
    "interaction.resolved": _interaction_resolved,
    "permission.record_approval_result": _note("approval"),
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
