"""A record of a Qwen Code log: its fields as far as recording needs them, and the texts in it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from agenttrace.record.formats.base import LineDecoder
from agenttrace.record.formats.contract import Content
from agenttrace.record.formats.lenient import (
    FieldByField,
    duration,
    list_of,
    lookup,
    moment,
    raw_text,
    text_at,
    value_of,
)

ABSENT = msgspec.Raw()

#: What begins a turn, by the subtype of the user's record.
ORIGINS = {None: "user", "realtime_message": "user", "cron": "system", "goal_runtime": "system"}

#: Where the payloads of system records keep text that people would look for.
_TEXT_KEYS = ("displayText", "customTitle", "rawCommand", "message", "userText", "content", "resultText")


class GeminiCounts(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Usage of a response in the words of the Gemini API."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None
    cached_content_token_count: int | None = None


class QwenCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call or the answer to one."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT


class QwenPart(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One part of a message."""

    text: msgspec.Raw = ABSENT
    thought: bool | None = None
    function_call: QwenCall | None = None
    function_response: QwenCall | None = None


class QwenMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to the model or from it."""

    parts: list[QwenPart] | None = None


class QwenResult(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """How a tool call went."""

    call_id: str | None = None
    status: str | None = None
    duration_ms: float | None = None
    result_display: msgspec.Raw = ABSENT


class CopiedFrom(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Where a copied record came from."""

    session_id: str | None = None
    message_uuid: str | None = None


class QwenRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A line."""

    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    type: str | None = None
    subtype: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    prompt_id: str | None = None
    model: str | None = None
    message: QwenMessage | None = None
    usage_metadata: GeminiCounts | None = None
    tool_call_result: QwenResult | None = None
    system_payload: msgspec.Raw = ABSENT
    agent_id: str | None = None
    agent_run_id: str | None = None
    agent_round: int | None = None
    is_sidechain: bool | None = None
    delivered_turn: bool | None = None
    forked_from: CopiedFrom | None = None


class ApiCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A model call, or an attempt at one, in telemetry."""

    name: str | None = msgspec.field(name="event.name", default=None)
    model: str | None = None
    prompt_id: str | None = None
    duration_ms: float | None = None
    input_token_count: int | None = None
    output_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None
    subagent_name: str | None = None
    subagent_id: str | None = None
    error_message: str | None = None
    error: str | None = None

    @property
    def counts(self) -> GeminiCounts:
        """Its usage in the words of a message."""
        return GeminiCounts(
            prompt_token_count=self.input_token_count,
            candidates_token_count=self.output_token_count,
            thoughts_token_count=self.thoughts_token_count,
            total_token_count=self.total_token_count,
            cached_content_token_count=self.cached_content_token_count,
        )

    @property
    def duration(self) -> int:
        """How long it took, in microseconds."""
        return duration(self.duration_ms) or 0


class _Telemetry(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    ui_event: ApiCall | None = None


_telemetry = FieldByField(_Telemetry, {"ui_event": FieldByField(ApiCall)})
_call = FieldByField(QwenCall)
_part = FieldByField(QwenPart, {"function_call": _call, "function_response": _call})

LINES = LineDecoder(
    QwenRecord,
    {
        "message": FieldByField(QwenMessage, {"parts": list_of(_part)}),
        "usage_metadata": FieldByField(GeminiCounts),
        "tool_call_result": FieldByField(QwenResult),
        "forked_from": FieldByField(CopiedFrom),
        "timestamp": moment,
    },
    openings=r'\{"(?:uuid|parentUuid|sessionId|type)"',
    is_line=lambda value: isinstance(value.get("uuid"), str) and isinstance(value.get("sessionId"), str),
)


def read_call(payload: msgspec.Raw) -> ApiCall:
    """The call that a line of telemetry is about."""
    found = _telemetry(payload)
    return (found.ui_event if found is not None else None) or ApiCall()


def texts_of(record: QwenRecord) -> list[Content]:
    """Every text in the record, whole."""
    found = [_part_content(record, part) for part in parts_of(record)]
    if record.type == "system":
        payload = value_of(record.system_payload)
        found += [Content("note", text) for key in _TEXT_KEYS if (text := text_at(payload, key))]
        event = lookup(payload, "uiEvent")
        if text_at(event, "event.name") == "qwen-code.api_error":
            found.append(Content("error", text_at(event, "error_message") or text_at(event, "error") or ""))
    return [piece for piece in found if piece is not None and piece.text]


def parts_of(record: QwenRecord) -> list[QwenPart]:
    """The parts of the record's message."""
    return (record.message.parts if record.message is not None else None) or []


def _plain(raw: msgspec.Raw) -> str:
    value = value_of(raw)
    return value if isinstance(value, str) else ""


def said(record: QwenRecord) -> str:
    """The text of the record's message."""
    return "\n".join(_plain(part.text) for part in parts_of(record) if part.text)


def _part_content(record: QwenRecord, part: QwenPart) -> Content | None:
    if part.function_call is not None:
        return Content("arguments", raw_text(part.function_call.args), part.function_call.id)
    if part.function_response is not None:
        return _response_content(part.function_response)
    if not part.text:
        return None
    if record.type == "user":
        return Content("prompt" if record.subtype in ORIGINS else "note", _plain(part.text))
    return Content("thinking" if part.thought else "text", _plain(part.text))


def _response_content(answer: QwenCall) -> Content:
    value = value_of(answer.response)
    error, output = text_at(value, "error"), text_at(value, "output")
    return Content("error" if error else "result", error or output or raw_text(answer.response), answer.id)
