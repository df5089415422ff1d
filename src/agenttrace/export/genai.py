"""A span after the GenAI conventions: its name, kind, attributes, status and events.

Only model calls have tokens: backends sum up all spans of a trace, and a turn with the sum of its steps would double
everything. Input tokens include cache reads and cache writes, as the conventions ask.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from agenttrace.export import conventions as c
from agenttrace.export.span import ExportSpan, Text
from agenttrace.export.wire_text import LIMIT, REPLACEMENT, encoded, json_bytes, shortened, shortened_in_json
from agenttrace.providers import UNKNOWN

Value = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, Value]

#: More than the bytes of a message part beside its text.
_PART_BYTES = 100
_DESCRIPTION_BYTES = 2_000

Status = Literal["unset", "ok", "error"]
#: A cancelled span has not failed; the status of an unclosed one is not known.
_STATUSES: dict[str, Status] = {"ok": "ok", "error": "error", "cancelled": "unset", "unclosed": "unset"}


class GenAiEvent(NamedTuple):
    """An event of a span."""

    name: str
    #: Microseconds since the epoch.
    at: int
    attributes: Attributes


class GenAiSpan(NamedTuple):
    """A span of OpenTelemetry; ids, times and parents are those of the ``ExportSpan``."""

    name: str
    #: True for a model call, which is a client span; all others are internal.
    client: bool
    attributes: Attributes
    status: Status
    description: str
    events: tuple[GenAiEvent, ...]


def described(span: ExportSpan) -> GenAiSpan:
    """A span with all attributes of the conventions."""
    return with_attributes(span, {**facts(span), **usage(span), **content(span)})


def with_attributes(span: ExportSpan, attributes: Attributes) -> GenAiSpan:
    """A span of the conventions with these attributes."""
    return GenAiSpan(
        name=name(span),
        client=span.kind == "step",
        attributes=attributes,
        status=_STATUSES.get(span.status, "unset"),
        description=shortened(failure(span), _DESCRIPTION_BYTES),
        events=events(span),
    )


def name(span: ExportSpan) -> str:
    """``invoke_agent {agent}``, ``chat {model}``, ``execute_tool {tool}``, or the name of a received span."""
    if span.kind == "turn":
        return _named(c.INVOKE_AGENT, _agent_name(span))
    if span.kind == "step":
        return _named(c.CHAT, span.model)
    if span.kind == "tool":
        return _named(c.EXECUTE_TOOL, span.tool)
    return shortened(span.name, _DESCRIPTION_BYTES) or "span"


def _named(operation: str, what: str | None) -> str:
    return shortened(f"{operation} {what}" if what else operation, _DESCRIPTION_BYTES)


def _agent_name(span: ExportSpan) -> str:
    return span.agent_name or span.session.agent or UNKNOWN


# -- facts ------------------------------------------------------------------------------------------------------


def facts(span: ExportSpan) -> Attributes:
    """All attributes of a span but its tokens and texts."""
    found = {
        shortened(f"{c.OUR_PREFIX}{key}", _DESCRIPTION_BYTES): _plain(value) for key, value in span.attributes.items()
    }
    found |= _everywhere(span)
    if span.kind == "turn":
        found |= _of_turn(span)
    elif span.kind == "step":
        found |= _of_step(span)
    elif span.kind == "tool":
        found |= _of_tool(span)
    if span.status == "error":
        found[c.ERROR_TYPE] = c.ERROR_TOOL if span.kind == "tool" else c.ERROR_OTHER
    return {key: _short(value) for key, value in found.items() if value is not None and value not in ("", ())}


def _everywhere(span: ExportSpan) -> dict[str, Any]:
    session = span.session
    return {
        c.CONVERSATION_ID: session.session_id,
        c.SESSION_ID: session.session_id,
        c.OUR_AGENT: session.agent,
        c.OUR_PROJECT: session.project,
        c.OUR_BRANCH: session.branch,
        c.OUR_STATUS: span.status,
        c.OUR_TURN: span.turn_index,
        c.OUR_STEP: span.step_n if span.kind in ("step", "tool") else None,
        c.OUR_IN_SUBAGENT: span.subagent or None,
    }


def _of_turn(span: ExportSpan) -> dict[str, Any]:
    agent = _agent_name(span)
    return {
        c.OPERATION_NAME: c.INVOKE_AGENT,
        c.PROVIDER_NAME: span.provider or UNKNOWN,
        c.AGENT_NAME: agent,
        c.AGENT_ID: f"{span.session.agent}/{agent}" if span.subagent else span.session.agent,
        c.AGENT_VERSION: span.session.agent_version,
        c.OUR_TITLE: span.session.title if span.is_root else None,
    }


def _of_step(span: ExportSpan) -> dict[str, Any]:
    return {
        c.OPERATION_NAME: c.CHAT,
        c.PROVIDER_NAME: span.provider or UNKNOWN,
        c.REQUEST_MODEL: span.model,
        c.RESPONSE_MODEL: span.model,
        c.RESPONSE_ID: span.response_id,
        c.FINISH_REASONS: (span.finish_reason,) if span.finish_reason else None,
        c.OUR_ESTIMATED: span.estimated or None,
        c.OUR_COPIED: span.copied or None,
    }


def _of_tool(span: ExportSpan) -> dict[str, Any]:
    return {
        c.OPERATION_NAME: c.EXECUTE_TOOL,
        c.PROVIDER_NAME: span.provider or UNKNOWN,
        c.TOOL_NAME: span.tool or UNKNOWN,
        c.TOOL_TYPE: "function",
        c.TOOL_CALL_ID: span.call,
    }


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    return encoded(value, REPLACEMENT).decode()


def _short(value: Any) -> Value:  # noqa: ANN401 - any value of an attribute, and one comes back
    if isinstance(value, str):
        return shortened(value)
    return tuple(shortened(each) for each in value) if isinstance(value, tuple) else value


# -- usage and cost ---------------------------------------------------------------------------------------------


def usage(span: ExportSpan) -> Attributes:
    """Tokens and cost of a model call that is counted in this session; nothing for any other span."""
    used = span.usage
    if span.kind != "step" or used is None:
        return {}
    found: Attributes = {
        c.INPUT_TOKENS: used.input_tokens + used.cache_read_tokens + used.cache_write_tokens,
        c.OUTPUT_TOKENS: used.output_tokens,
    }
    parts = {
        c.CACHE_READ_TOKENS: used.cache_read_tokens,
        c.CACHE_CREATION_TOKENS: used.cache_write_tokens,
        c.CACHE_WRITE_TOKENS: used.cache_write_tokens,
        c.REASONING_TOKENS: used.reasoning_tokens,
    }
    found |= {key: tokens for key, tokens in parts.items() if tokens}
    return found | _cost(span)


def _cost(span: ExportSpan) -> Attributes:
    if span.cost is None or span.currency is None:
        return {}
    found: Attributes = {c.OUR_COST: float(span.cost), c.OUR_CURRENCY: span.currency}
    if span.currency == "USD":
        # Backends read it as dollars: 7 yuan must not become 7 dollars.
        found[c.USAGE_COST] = float(span.cost)
    return found


# -- texts ------------------------------------------------------------------------------------------------------


def content(span: ExportSpan) -> Attributes:
    """The texts of a span as messages; arguments and result of a tool have their own attributes."""
    texts = span.texts
    found: Attributes = {}
    if span.kind == "tool":
        found[c.TOOL_ARGUMENTS] = joined(texts, "arguments")
        found[c.TOOL_RESULT] = joined(texts, "result")
        texts = tuple(text for text in texts if text.kind not in ("arguments", "result"))
    found[c.INPUT_MESSAGES] = _input_messages(texts)
    found[c.OUTPUT_MESSAGES] = _output_messages(texts, span.finish_reason)
    found[c.OUR_NOTE] = joined(texts, "note")
    return {key: value for key, value in found.items() if value}


def joined(texts: tuple[Text, ...], *kinds: str, limit: int = LIMIT) -> str:
    """All texts of these kinds, joined."""
    return shortened("\n".join(text.text for text in texts if text.kind in kinds and text.text), limit)


def _input_messages(texts: tuple[Text, ...]) -> str:
    room = _Room()
    messages: list[object] = []
    for text in texts:
        if text.kind == "prompt":
            messages += _message("user", room.part({"type": "text"}, "content", text.text))
        elif text.kind == "result":
            messages += _message("tool", room.part(_call("tool_call_response", text), "response", text.text))
    messages += _message("user", room.rest())
    return json_bytes(messages).decode() if messages else ""


def _message(role: str, parts: list[object]) -> list[object]:
    return [{"role": role, "parts": parts}] if parts else []


def _output_messages(texts: tuple[Text, ...], finish_reason: str | None) -> str:
    room = _Room()
    parts: list[object] = []
    for text in texts:
        if text.kind == "text":
            parts += room.part({"type": "text"}, "content", text.text)
        elif text.kind == "thinking":
            parts += room.part({"type": "reasoning"}, "content", text.text)
        elif text.kind == "arguments":
            # The span of the call is missing, or it would have the arguments; so is the name of its tool.
            parts += room.part({**_call("tool_call", text), "name": ""}, "arguments", text.text)
    parts += room.rest()
    if not parts:
        return ""
    # The schema requires a reason in every message.
    reason = shortened(finish_reason or "", _DESCRIPTION_BYTES)
    return json_bytes([{"role": "assistant", "parts": parts, "finish_reason": reason}]).decode()


def _call(kind: str, text: Text) -> dict[str, str]:
    return {"type": kind, "id": shortened(text.call, _DESCRIPTION_BYTES)} if text.call else {"type": kind}


class _Room:
    """The bytes that are left in one value; parts that do not fit are left out and counted."""

    def __init__(self) -> None:
        # The reason and the count of omitted parts have to fit, too.
        self._left = LIMIT - 2 * _DESCRIPTION_BYTES
        self._left_out = 0

    def part(self, part: dict[str, str], key: str, text: str) -> list[object]:
        if not text:
            return []
        room = self._left - len(json_bytes(part)) - _PART_BYTES
        if room < _PART_BYTES:
            self._left_out += 1
            return []
        taken = {**part, key: shortened_in_json(text, room)}
        self._left -= len(json_bytes(taken)) + _PART_BYTES
        return [taken]

    def rest(self) -> list[object]:
        return [{"type": "text", "content": f"[{self._left_out} more texts left out]"}] if self._left_out else []


# -- errors -----------------------------------------------------------------------------------------------------


def failure(span: ExportSpan) -> str:
    """A short error message of a failed span; empty where a switch excludes it."""
    if span.status != "error":
        return ""
    return shortened(span.error or joined(span.texts, "error"))


def events(span: ExportSpan) -> tuple[GenAiEvent, ...]:
    """The error as an exception event, with its whole text."""
    message = joined(span.texts, "error") or failure(span)
    if not message:
        return ()
    kind = c.ERROR_TOOL if span.kind == "tool" else c.ERROR_OTHER
    return (GenAiEvent(c.EXCEPTION, span.end, {c.EXCEPTION_TYPE: kind, c.EXCEPTION_MESSAGE: message}),)
