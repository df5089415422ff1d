"""What the lines of a Kimi CLI log mean.

Steps have no name and a cancelled turn leaves no line, so a stream remembers of the turn under way: ``depth``
(turns that a flow began inside it) with ``edge``, when the latest of them began or ended; ``step``, how far the
step is (``asked``, ``answered``, ``over``); ``failed``; ``calls`` without a result; ``waiting``, the requests that
nobody has answered yet. ``inline`` holds the same for each subagent that has no file of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Source
from agenttrace.record.formats.kimi_lines import Message, Payload, Relayed, ReturnValue, text_of
from agenttrace.record.formats.lenient import as_text, count, number, read_as, value_of
from agenttrace.record.ingest.acts import (
    Act,
    Note,
    ResponseUsage,
    Spawned,
    StepBegin,
    StepEnd,
    ToolArguments,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
    Waiting,
)

#: Tools that hand the work to a subagent (``Task`` until 1.24).
AGENT_TOOLS = frozenset({"Agent", "Task"})
#: A turn that begins this soon after another's edge, with no step between, was started by a flow.
NESTED_TURN_GAP = 1_000_000
#: Shorter message ids are counters (``scripted-1``, ``chatcmpl-123``) and repeat between sessions.
PROVIDER_ID_LENGTH = 16
#: How many subagents a stream's memory holds; a forgotten one is only announced again.
REMEMBERED = 64
#: How much of a prompt or an error message goes onto a span.
TEXT_LIMIT = 400


class _Scene(msgspec.Struct):
    """What an act's author may look at besides the payload."""

    event: Event
    source: Source
    stream: str
    #: What is known of the turn under way; emptied when it ends.
    turn: dict[str, Any]
    memory: dict[str, Any]


_Author = Callable[[msgspec.Raw, _Scene], Iterator[Act]]


def meaning(event: Event, source: Source, memory: dict[str, Any]) -> list[Act]:
    """The acts of a message; those of a relayed one are the subagent's stream's."""
    body = event.body
    if not isinstance(body, Relayed):
        turn = memory.setdefault("turn", {})
        return _message_acts(body, _Scene(event, source, source.stream, turn, memory))
    acts: list[Act] = []
    if body.call is not None:
        acts += _spawned(body.call, body.stream, body.name, memory)
    if body.mirrored:
        return acts
    inline = memory.setdefault("inline", {})
    turn = inline.setdefault(body.stream, {})
    acts += _message_acts(body.message, _Scene(event, source, body.stream, turn, memory))
    if not turn:
        del inline[body.stream]
    shorten(inline)
    return acts


def cut(text: str) -> str | None:
    """The beginning of a text, for spans: they carry no bodies."""
    return text[:TEXT_LIMIT] or None


def shorten(remembered: dict[str, Any]) -> None:
    """Forget the oldest, so that memory stays small."""
    while len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]


def settle(waiting: dict[str, str | None], call: str) -> None:
    """Forget the requests of a call that has its result."""
    for request in [request for request, asker in waiting.items() if asker == call]:
        del waiting[request]


def _message_acts(message: Message, scene: _Scene) -> list[Act]:
    author = _ACTS.get(message.type)
    if author is None:
        return []
    acts = list(author(message.payload, scene))
    if acts and scene.turn.get("waiting") and not isinstance(acts[-1], Waiting):
        # Usage and other results arrive while the question is still open: the wait goes on after them.
        acts.append(Waiting())
    return acts


def _turn_begin(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    turn = scene.turn
    at = scene.event.at
    edge = turn.get("edge")
    soon = at is not None and edge is not None and 0 <= at - edge <= NESTED_TURN_GAP
    if soon and turn.get("depth", 0) > 0:
        turn["depth"] += 1
        turn["edge"] = at
        return
    turn.clear()
    turn["depth"] = 1
    turn["edge"] = at
    text = text_of(read_as(Payload, raw).user_input)
    yield TurnBegin(prompt=cut(text), origin=_origin(text, scene))


def _origin(text: str, scene: _Scene) -> str:
    if text.startswith("<system-reminder>"):
        return "task" if "Background task" in text[:80] else "system"
    return "user" if scene.stream == "main" else "subagent"


def _turn_end(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    turn = scene.turn
    if turn.get("depth", 0) > 1:
        turn["depth"] -= 1
        turn["edge"] = scene.event.at
        return
    status = "ok"
    if turn.get("failed"):
        status = "error"
    elif turn.get("step") == "asked" or turn.get("calls"):
        # Only a cancelled turn ends before its model or its tools have answered.
        status = "cancelled"
    turn.clear()
    yield TurnEnd(status=status)


def _step_begin(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    for stale in ("edge", "failed", "calls", "waiting"):
        scene.turn.pop(stale, None)
    scene.turn["step"] = "asked"
    yield StepBegin(n=number(read_as(Payload, raw).n), model=scene.source.model)


def _step_interrupted(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    # Written for exceptions alone; a user's cancel leaves no line.
    if scene.turn.get("step") in ("asked", "answered"):
        yield StepEnd(status="error")
    scene.turn["step"] = "over"
    scene.turn["failed"] = True
    # Until 1.29 no TurnEnd follows.
    yield TurnEnd(status="error", error="the step was interrupted")


def _status_update(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    status = read_as(Payload, raw)
    message = as_text(status.message_id)
    if scene.turn.get("step") == "asked":
        scene.turn["step"] = "answered"
    spent = status.token_usage
    if isinstance(spent, dict):
        usage = Usage(
            input_tokens=count(spent.get("input_other")),
            output_tokens=count(spent.get("output")),
            cache_read_tokens=count(spent.get("input_cache_read")),
            cache_write_tokens=count(spent.get("input_cache_creation")),
        )
        yield ResponseUsage(_response(message, raw, scene), usage, model=scene.source.model)
    elif message is None:
        return  # a change of mode or of the context, not the end of a model call
    if scene.turn.get("step") == "answered":
        scene.turn["step"] = "over"
        yield StepEnd()


def _response(message: str | None, raw: msgspec.Raw, scene: _Scene) -> str:
    """A name that forks share; a subagent's two records share their payload, not their line."""
    if message is not None and len(message) >= PROVIDER_ID_LENGTH:
        return f"kimi:{message}"
    if scene.stream == "main" and scene.event.key is not None:
        return f"kimi:{scene.event.key}"
    return f"kimi:{scene.stream}:{hashlib.sha256(bytes(raw)).hexdigest()[:32]}"


def _tool_call(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(Payload, raw)
    call = as_text(payload.id)
    if call is None:
        return
    name = (as_text(payload.function.name) if payload.function else None) or "unknown"
    calls = scene.turn.setdefault("calls", {})
    calls[call] = name in AGENT_TOOLS
    shorten(calls)
    yield ToolBegin(call, name, subagent=name in AGENT_TOOLS)


def _tool_call_part(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    yield ToolArguments()


def _tool_result(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(Payload, raw)
    call = as_text(payload.tool_call_id)
    if call is None:
        return
    value = payload.return_value or ReturnValue()
    settle(scene.turn.get("waiting", {}), call)
    if scene.turn.get("calls", {}).pop(call, False):
        # A background subagent sends no events here: only the result of the call names it.
        named = re.search(r"^agent_id: (\S+)$", text_of(value_of(value.output))[:1000], re.MULTILINE)
        if named is not None:
            yield from _spawned(call, named[1], None, scene.memory)
    failed = bool(value.is_error)
    yield ToolEnd(call, "error" if failed else "ok", cut(text_of(value.message)) if failed else None)


def _spawned(call: str, stream: str, name: str | None, memory: dict[str, Any]) -> list[Act]:
    """Says once who carries out a call; a resumed subagent carries out another."""
    known: dict[str, str] = memory.setdefault("spawned", {})
    if known.get(stream) == call:
        return []
    known[stream] = call
    shorten(known)
    return [Spawned(call, stream, name)]


def _request(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(Payload, raw)
    waiting = scene.turn.setdefault("waiting", {})
    waiting[as_text(payload.id) or ""] = as_text(payload.tool_call_id)
    shorten(waiting)
    yield Waiting()


def _answer(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(Payload, raw)
    scene.turn.get("waiting", {}).pop(as_text(payload.request_id) or "", None)
    yield Note("approval", as_text(payload.response))


def _note(kind: str, *fields: str) -> _Author:
    def author(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
        payload = read_as(Payload, raw)
        values = (getattr(payload, field) for field in fields)
        yield Note(kind, cut(" ".join(str(v) if type(v) is int else text_of(v) for v in values).strip()))

    return author


_ACTS: dict[str, _Author] = {
    "TurnBegin": _turn_begin,
    "TurnEnd": _turn_end,
    "StepBegin": _step_begin,
    "StepInterrupted": _step_interrupted,
    "StatusUpdate": _status_update,
    "ToolCall": _tool_call,
    "ToolCallPart": _tool_call_part,
    "ToolResult": _tool_result,
    "ApprovalRequest": _request,
    "QuestionRequest": _request,
    "ApprovalResponse": _answer,
    "ApprovalRequestResolved": _answer,
    "SteerInput": _note("steer", "user_input"),
    "StepRetry": _note("retry", "error_type", "status_code"),
    "CompactionBegin": _note("compaction"),
    "Notification": _note("notification", "title"),
    "HookResolved": _note("hook", "event", "target", "action"),
    "BtwBegin": _note("btw", "question"),
    "PlanDisplay": _note("plan", "file_path"),
}
