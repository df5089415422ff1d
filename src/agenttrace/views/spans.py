"""Spans as JSON: our fields, and beside ours the attribute names of the OpenTelemetry GenAI conventions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.prices.costing import TOKEN_FIELDS
from agenttrace.providers import provider_of_span
from agenttrace.record.formats import FACTS
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session, Usage
    from agenttrace.record.formats.contract import Content
    from agenttrace.store.questions import SpanView

#: Other spans have no operation.
OPERATIONS = {"turn": "invoke_agent", "step": "chat", "tool": "execute_tool"}
_ROLES = {"prompt": "user", "text": "assistant", "thinking": "assistant"}
_PARTS = {"thinking": "reasoning"}


def span_fields(session: Session, span: SpanView, contents: Sequence[Content], *, full: bool) -> dict[str, Any]:
    """One span for JSON; with ``full`` what was said in it, too."""
    return {
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_id": None if span.parent_id is None else span.parent_id.hex(),
        "kind": span.kind,
        "name": span.name,
        "start": iso(span.start),
        "end": iso(span.end),
        "status": span.status,
        "model": span.model,
        "usage": None if span.usage is None else usage_fields(span.usage),
        "attributes": {**span.attributes, **conventional(session, span, contents, full=full)},
        "stream": span.stream,
        "turn_index": span.turn_index,
        "step_n": span.step_n,
        "counted": span.counted,
        "estimated": span.estimated,
    }


def usage_fields(usage: Usage) -> dict[str, int]:
    """The token counts of one response."""
    return {name: getattr(usage, name) for name in TOKEN_FIELDS}


def conventional(session: Session, span: SpanView, contents: Sequence[Content], *, full: bool) -> dict[str, Any]:
    """The span's attributes under the names of the GenAI conventions."""
    found: dict[str, Any] = {
        "gen_ai.operation.name": OPERATIONS.get(span.kind),
        "gen_ai.conversation.id": session.session_id,
        "gen_ai.provider.name": provider_of_span(span, span.attributes, session, FACTS.get(session.agent)),
        "gen_ai.agent.name": span.attributes.get("agent") or session.agent,
        "gen_ai.agent.version": session.version,
    }
    if span.kind == "step":
        found |= _model_call(span)
    elif span.kind == "tool":
        found |= _tool_call(span, contents)
    if span.status == "error":
        found["error.type"] = "_OTHER"
    if full:
        found |= _messages(contents)
    return {name: value for name, value in found.items() if value is not None}


def _model_call(span: SpanView) -> dict[str, Any]:
    found: dict[str, Any] = {"gen_ai.request.model": span.model}
    if "finish_reason" in span.attributes:
        found["gen_ai.response.finish_reasons"] = [span.attributes["finish_reason"]]
    usage = span.usage
    if usage is not None:
        # The conventions count cached tokens into the input.
        all_input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        found |= {
            "gen_ai.usage.input_tokens": all_input,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
    return found


def _tool_call(span: SpanView, contents: Sequence[Content]) -> dict[str, Any]:
    return {
        "gen_ai.tool.name": span.attributes.get("tool"),
        "gen_ai.tool.call.id": span.attributes.get("call"),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": joined(contents, "arguments"),
        "gen_ai.tool.call.result": joined(contents, "result", "error"),
    }


def joined(contents: Sequence[Content], *kinds: str) -> str | None:
    """All texts of these kinds, one after the other; ``None`` if there are none."""
    texts = [content.text for content in contents if content.kind in kinds]
    return "\n".join(texts) if texts else None


def _messages(contents: Sequence[Content]) -> dict[str, str]:
    """Prompts and answers, in the shape the conventions give messages: a JSON text on the span."""
    said: dict[str, list[Mapping[str, Any]]] = {}
    for content in contents:
        role = _ROLES.get(content.kind)
        if role is not None:
            name = "gen_ai.input.messages" if role == "user" else "gen_ai.output.messages"
            part = {"type": _PARTS.get(content.kind, "text"), "content": content.text}
            said.setdefault(name, []).append({"role": role, "parts": [part]})
    return {name: msgspec.json.encode(messages).decode() for name, messages in said.items()}
