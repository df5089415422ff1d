"""What the lines of a Kimi CLI log mean.

Steps have no name and a cancelled turn leaves no line, so a stream remembers of the turn under way: ``depth``
(turns that a flow began inside it) with ``edge``, when the latest of them began or ended; ``step``, how far the
step is (``asked``, ``answered``, ``over``); ``failed``; ``calls`` without a result; ``waiting``, the pending
requests. ``inline`` has the same for each subagent without a separate file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator

import msgspec

from agenttrace.model import Event
from agenttrace.record.formats.base import remember, usage_of
from agenttrace.record.formats.contract import Memory, Source
from agenttrace.record.formats.kimi_lines import Relayed, ReturnValue, WireMessage, WirePayload, text_of
from agenttrace.record.formats.lenient import as_text, number, read_as, value_of
from agenttrace.record.ingest import acts as a

#: Tools that hand the work to a subagent (``Task`` until 1.24).
AGENT_TOOLS = frozenset({"Agent", "Task"})
#: A turn that begins this soon after another's edge, with no step between, was started by a flow.
NESTED_TURN_GAP = 1_000_000
#: Shorter message ids are counters (``scripted-1``, ``chatcmpl-123``) and repeat between sessions.
PROVIDER_ID_LENGTH = 16
_TOKENS = {
    "input_tokens": "input_other",
    "output_tokens": "output",
    "cache_read_tokens": "input_cache_read",
    "cache_write_tokens": "input_cache_creation",
}


class _WireScene(msgspec.Struct):
    """What a message is interpreted with, besides its payload."""

    event: Event
    source: Source
    stream: str
    #: What is known of the turn under way; emptied when it ends.
    turn: Memory
    memory: Memory


_Author = Callable[[msgspec.Raw, _WireScene], Iterator[a.Act]]


def meaning(event: Event, source: Source, memory: Memory) -> list[a.Act]:
    """The acts of a message; those of a relayed one are the subagent's stream's."""
    body = event.body
    if not isinstance(body, Relayed):
        turn = memory.setdefault("turn", {})
        return _message_acts(body, _WireScene(event, source, source.stream, turn, memory))
    acts: list[a.Act] = []
    if body.call is not None:
        acts += _spawned(body.call, body.stream, body.name, memory)
    if body.mirrored:
        return acts
    inline = memory.setdefault("inline", {})
    turn = inline.get(body.stream, {})
    acts += _message_acts(body.message, _WireScene(event, source, body.stream, turn, memory))
    if turn:
        remember(inline, body.stream, turn)
    else:
        inline.pop(body.stream, None)
    return acts


def settle(waiting: dict[str, str | None], call: str) -> None:
    """Forget the requests of a call that has its result."""
    for request in [request for request, asker in waiting.items() if asker == call]:
        del waiting[request]


def _message_acts(message: WireMessage, scene: _WireScene) -> list[a.Act]:
    author = _ACTS.get(message.type)
    if author is None:
        return []
    acts = list(author(message.payload, scene))
    if acts and scene.turn.get("waiting") and not isinstance(acts[-1], a.Waiting):
        # Usage and other results arrive while the question is still open: the wait goes on after them.
        acts.append(a.Waiting())
    return acts


def _turn_begin(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
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
    text = text_of(read_as(WirePayload, raw).user_input)
    yield a.TurnBegin(prompt=text or None, origin=_origin(text, scene))


def _origin(text: str, scene: _WireScene) -> str:
    if text.startswith("<system-reminder>"):
        return "task" if "Background task" in text[:80] else "system"
    return "user" if scene.stream == "main" else "subagent"


def _turn_end(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
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
    yield a.TurnEnd(status=status)


def _step_begin(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
    for stale in ("edge", "failed", "calls", "waiting"):
        scene.turn.pop(stale, None)
    scene.turn["step"] = "asked"
    yield a.StepBegin(n=number(read_as(WirePayload, raw).n), model=scene.source.model)


def _step_interrupted(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
    # Written for exceptions alone; a user's cancel leaves no line.
    if scene.turn.get("step") in ("asked", "answered"):
        yield a.StepEnd(status="error")
    scene.turn["step"] = "over"
    scene.turn["failed"] = True
    # Until 1.29 no a.TurnEnd follows.
    yield a.TurnEnd(status="error", error="the step was interrupted")


def _status_update(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
    status = read_as(WirePayload, raw)
    message = as_text(status.message_id)
    if scene.turn.get("step") == "asked":
        scene.turn["step"] = "answered"
    spent = status.token_usage
    if isinstance(spent, dict):
        yield a.ResponseUsage(_response(message, raw, scene), usage_of(spent, _TOKENS), model=scene.source.model)
    elif message is None:
        return  # a change of mode or of the context, not the end of a model call
    if scene.turn.get("step") == "answered":
        scene.turn["step"] = "over"
        yield a.StepEnd()


def _response(message: str | None, raw: msgspec.Raw, scene: _WireScene) -> str:
    """A name that forks share; a subagent's two records share their payload, not their line."""
    if message is not None and len(message) >= PROVIDER_ID_LENGTH:
        return f"kimi:{message}"
    if scene.stream == "main" and scene.event.key is not None:
        return f"kimi:{scene.event.key}"
    return f"kimi:{scene.stream}:{hashlib.sha256(bytes(raw)).hexdigest()[:32]}"


def _tool_call(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
    payload = read_as(WirePayload, raw)
    call = as_text(payload.id)
    if call is None:
        return
    name = (as_text(payload.function.name) if payload.function else None) or "unknown"
    remember(scene.turn.setdefault("calls", {}), call, name in AGENT_TOOLS)
    yield a.ToolBegin(call, name, subagent=name in AGENT_TOOLS)


def _tool_result(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
    payload = read_as(WirePayload, raw)
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
    yield a.ToolEnd(call, "error" if failed else "ok", text_of(value.message) or None if failed else None)


def _spawned(call: str, stream: str, name: str | None, memory: Memory) -> list[a.Act]:
    """Reports once which subagent a call runs; a resumed subagent runs for another call."""
    known: dict[str, str] = memory.setdefault("spawned", {})
    if known.get(stream) == call:
        return []
    remember(known, stream, call)
    return [a.Spawned(call, stream, name)]


def _request(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
    payload = read_as(WirePayload, raw)
    remember(scene.turn.setdefault("waiting", {}), as_text(payload.id) or "", as_text(payload.tool_call_id))
    yield a.Waiting()


def _answer(raw: msgspec.Raw, scene: _WireScene) -> Iterator[a.Act]:
    payload = read_as(WirePayload, raw)
    scene.turn.get("waiting", {}).pop(as_text(payload.request_id) or "", None)
    yield a.Note("approval")


def _says(act: a.Act) -> _Author:
    """For messages that always mean the same."""
    return lambda raw, scene: iter((act,))


_ACTS: dict[str, _Author] = {
    "TurnBegin": _turn_begin,
    "TurnEnd": _turn_end,
    "StepBegin": _step_begin,
    "StepInterrupted": _step_interrupted,
    "StatusUpdate": _status_update,
    "ToolCall": _tool_call,
    "ToolCallPart": _says(a.ToolArguments()),
    "ToolResult": _tool_result,
    "ApprovalRequest": _request,
    "QuestionRequest": _request,
    "ApprovalResponse": _answer,
    "ApprovalRequestResolved": _answer,
    "SteerInput": _says(a.Note("steer")),
    "StepRetry": _says(a.Note("retry")),
    "CompactionBegin": _says(a.Note("compaction")),
    "Notification": _says(a.Note("notification")),
    "HookResolved": _says(a.Note("hook")),
    "BtwBegin": _says(a.Note("btw")),
    "PlanDisplay": _says(a.Note("plan")),
}
