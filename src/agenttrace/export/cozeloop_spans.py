"""A span as CozeLoop shows it: the attributes that its OTLP endpoint converts to its own fields.

The mapping is documented at docs.coze.cn/cozeloop/opentelemetry_field_mapping and in coze-dev/coze-loop
(backend/modules/observability/lib/otel/otel_convert.go): ``cozeloop.input`` and ``cozeloop.output`` are shown, for a
model call as messages and choices; ``session.id`` is the thread; an attribute without a field becomes a tag.
"""

from __future__ import annotations

from typing import Any

from agenttrace.export import conventions as c
from agenttrace.export.genai import Attributes, GenAiSpan, facts, failure, joined, usage, with_attributes
from agenttrace.export.span import ExportSpan
from agenttrace.export.wire_text import json_bytes, shortened, shortened_in_json

SPAN_TYPE = "cozeloop.span_type"
INPUT = "cozeloop.input"
OUTPUT = "cozeloop.output"
#: The older name of ``gen_ai.provider.name``, which CozeLoop reads.
SYSTEM = "gen_ai.system"
#: Tags of its own SDK that the conventions have no attribute for.
CACHED_TOKENS = "input_cached_tokens"
REASONING_TOKENS = "reasoning_tokens"
#: Every attribute that begins with ``error`` becomes the error of a span, and marks it as failed.
ERROR_MESSAGE = "error.message"

#: CozeLoop cuts longer tags, also in the middle of a character.
_TAG_BYTES = 1_024
_TAG_NAME_BYTES = 100
_TAGS = 50
#: Tags that are added here, and the sum of all tokens.
_OWN_TAGS = 6
_SPAN_TYPES = {"turn": "agent", "step": "model", "tool": "tool", "span": "custom"}
#: Shares of the megabyte of an input or output: for texts, thinking and calls.
_SHARES = (600_000, 200_000, 200_000)


def described(span: ExportSpan, user: str | None) -> GenAiSpan:
    """A span with the attributes that CozeLoop reads; texts are in its own attributes only."""
    return with_attributes(span, _tags(span, user) | _own(span))._replace(events=())


def _tags(span: ExportSpan, user: str | None) -> Attributes:
    found = {**facts(span), **usage(span)}
    if span.kind == "turn":
        # CozeLoop would use it as the type of the span.
        found.pop(c.OPERATION_NAME, None)
    found.pop(c.ERROR_TYPE, None)
    if user:
        found[c.USER_ID] = user
    # Of too many tags it stores any: those of a received span go last.
    foreign = {f"{c.OUR_PREFIX}{name}" for name in span.attributes}
    first = sorted(found.items(), key=lambda tag: tag[0] in foreign)[: _TAGS - _OWN_TAGS]
    return {
        shortened(name, _TAG_NAME_BYTES): shortened(value, _TAG_BYTES) if isinstance(value, str) else value
        for name, value in first
    }


def _own(span: ExportSpan) -> Attributes:
    found: dict[str, Any] = {
        SPAN_TYPE: _SPAN_TYPES[span.kind],
        INPUT: _model_input(span) if span.kind == "step" else joined(span.texts, "prompt", "arguments"),
        OUTPUT: _model_output(span) if span.kind == "step" else joined(span.texts, "text", "result", "error"),
    }
    if span.status == "error":
        found[ERROR_MESSAGE] = shortened(failure(span) or "error", _TAG_BYTES)
    if span.kind == "step":
        found[SYSTEM] = span.provider
    if span.kind == "step" and span.usage is not None:
        found[CACHED_TOKENS] = span.usage.cache_read_tokens
        found[REASONING_TOKENS] = span.usage.reasoning_tokens
    return {name: value for name, value in found.items() if value not in (None, "")}


def _model_input(span: ExportSpan) -> str:
    """The prompt and results, as ``ModelInput`` of the SDK."""
    prompt = joined(span.texts, "prompt")
    messages: list[dict[str, Any]] = []
    if prompt:
        messages.append({"role": "user", "content": shortened_in_json(prompt, _SHARES[0])})
    results = [text for text in span.texts if text.kind == "result"]
    for text in results:
        content = shortened_in_json(text.text, _SHARES[1] // len(results))
        messages.append({"role": "tool", "content": content, "tool_call_id": shortened(text.call or "", _TAG_BYTES)})
    return json_bytes({"messages": messages}).decode() if messages else ""


def _model_output(span: ExportSpan) -> str:
    """The answer, as ``ModelOutput`` of the SDK."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": shortened_in_json(joined(span.texts, "text"), _SHARES[0]),
        "reasoning_content": shortened_in_json(joined(span.texts, "thinking"), _SHARES[1]),
        "tool_calls": _calls(span),
    }
    message = {name: value for name, value in message.items() if value}
    if len(message) == 1:
        return ""
    choice = {"finish_reason": shortened(span.finish_reason or "", _TAG_BYTES), "index": 0, "message": message}
    return json_bytes({"choices": [choice]}).decode()


def _calls(span: ExportSpan) -> list[dict[str, Any]]:
    called = [text for text in span.texts if text.kind == "arguments"]
    return [
        {
            "id": shortened(text.call or "", _TAG_BYTES),
            "type": "function",
            "function": {"name": "", "arguments": shortened_in_json(text.text, _SHARES[2] // len(called))},
        }
        for text in called
    ]
