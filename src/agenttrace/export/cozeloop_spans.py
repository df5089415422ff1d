"""A span as CozeLoop shows it: the attributes that its OTLP endpoint turns into its own fields.

Which attribute becomes what is written at docs.coze.cn/cozeloop/opentelemetry_field_mapping and in coze-dev/coze-loop
(backend/modules/observability/lib/otel/otel_convert.go): ``cozeloop.input`` and ``cozeloop.output`` are what is shown,
of a model call as messages and choices; ``session.id`` is the thread; what has no field becomes a tag.
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
#: Older than ``gen_ai.provider.name``, and what is read.
SYSTEM = "gen_ai.system"
#: Tags that its own SDK has and that no attribute of the conventions becomes.
CACHED_TOKENS = "input_cached_tokens"
REASONING_TOKENS = "reasoning_tokens"
#: All attributes that begin with ``error`` become the error of a span, and a span with one has failed.
ERROR_MESSAGE = "error.message"

#: Longer tags are cut there, in the middle of a character at times.
_TAG_BYTES = 1_024
_TAG_NAME_BYTES = 100
_TAGS = 50
#: Those that are added here, and the sum of all tokens.
_OWN_TAGS = 6
_SPAN_TYPES = {"turn": "agent", "step": "model", "tool": "tool", "span": "custom"}
#: Of a megabyte that an input or an output may have: for what was said, thought and called, in this order.
_SHARES = (600_000, 200_000, 200_000)


def described(span: ExportSpan, user: str | None) -> GenAiSpan:
    """A span with what CozeLoop reads; what was said is in its own attributes only, as messages would be tags."""
    told = _tags(span, user) | _own(span)
    return with_attributes(span, told)._replace(events=())


def _tags(span: ExportSpan, user: str | None) -> Attributes:
    found = {**facts(span), **usage(span)}
    if span.kind == "turn":
        # It would be taken for the type of the span.
        found.pop(c.OPERATION_NAME, None)
    found.pop(c.ERROR_TYPE, None)
    if user:
        found[c.USER_ID] = user
    # Of more than it keeps, it keeps any: those that the span was given by somebody go last.
    foreign = {f"{c.OUR_PREFIX}{name}" for name in span.attributes}
    kept = sorted(found.items(), key=lambda tag: tag[0] in foreign)[: _TAGS - _OWN_TAGS]
    return {
        shortened(name, _TAG_NAME_BYTES): shortened(value, _TAG_BYTES) if isinstance(value, str) else value
        for name, value in kept
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
    """What was asked, as ``ModelInput`` of the SDK has it."""
    told = joined(span.texts, "prompt")
    messages: list[dict[str, Any]] = []
    if told:
        messages.append({"role": "user", "content": shortened_in_json(told, _SHARES[0])})
    results = [text for text in span.texts if text.kind == "result"]
    for text in results:
        content = shortened_in_json(text.text, _SHARES[1] // len(results))
        messages.append({"role": "tool", "content": content, "tool_call_id": shortened(text.call or "", _TAG_BYTES)})
    return json_bytes({"messages": messages}).decode() if messages else ""


def _model_output(span: ExportSpan) -> str:
    """What was answered, as ``ModelOutput`` of the SDK has it."""
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
