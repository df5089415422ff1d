"""A line of a Kimi CLI log: its fields as far as recording needs them, and the texts in it.

What Kimi Code's records have in common with it (the file's name, how texts stand in parts) is here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from agenttrace.record.formats.contract import Content, Unusable
from agenttrace.record.formats.lenient import as_text, value_of, whole_objects

LOG_NAME = "wire.jsonl"

_NULL = msgspec.Raw(b"null")
#: So many first lines tell what a file is; a damaged beginning is rarely longer.
_OPENING_LINES = 32
_OPENINGS = re.compile(r'\{"timestamp"')


class Message(msgspec.Struct, gc=False):
    """What was said over the wire."""

    type: str = "unknown"
    payload: msgspec.Raw = _NULL


class Line(msgspec.Struct, gc=False):
    """A line; the time is in seconds."""

    timestamp: float | None = None
    message: Message | None = None


class Wrapped(msgspec.Struct, gc=False):
    """The payload of a subagent's event in its parent's file."""

    parent_tool_call_id: Any = None
    task_tool_call_id: Any = None
    agent_id: Any = None
    subagent_type: Any = None
    event: Message | None = None


class Relayed(msgspec.Struct, gc=False):
    """A subagent's event, unwrapped."""

    stream: str
    call: str | None
    name: str | None
    message: Message
    #: True where the subagent's own file has it too.
    mirrored: bool


class Function(msgspec.Struct, gc=False):
    """The tool that is called."""

    name: Any = None


class ReturnValue(msgspec.Struct, gc=False):
    """What a tool call came to."""

    is_error: Any = None
    message: Any = None
    output: msgspec.Raw = _NULL


class Payload(msgspec.Struct):
    """The fields of all payloads that acts are made of; long texts are not among them."""

    user_input: Any = None
    n: Any = None
    token_usage: Any = None
    message_id: Any = None
    id: Any = None
    function: Function | None = None
    tool_call_id: Any = None
    return_value: ReturnValue | None = None
    request_id: Any = None
    response: Any = None
    title: Any = None
    error_type: Any = None
    status_code: Any = None
    event: Any = None
    target: Any = None
    action: Any = None
    question: Any = None
    file_path: Any = None


_Speaker = Callable[[dict[str, Any]], Iterator[Content]]

#: The one strict pass; raises one of ``DECODING_ERRORS``.
decode_line = msgspec.json.Decoder(Line).decode


def read_odd_line(raw: bytes) -> Line | Unusable:
    """A header, or an object of another shape than expected, taken as far as it goes."""
    value = value_of(msgspec.Raw(raw))
    if not isinstance(value, dict):
        salvaged = whole_objects(raw, _OPENINGS, is_wire_message)
        return Unusable("not a JSON object", harmless=not raw.strip(), salvaged=salvaged)
    if value.get("type") == "metadata" and "message" not in value:
        return Unusable("header", harmless=True)
    message = value.get("message")
    inner = message if isinstance(message, dict) else value
    kind = as_text(inner.get("type")) or "unknown"
    stamp = value.get("timestamp")
    seconds = stamp if isinstance(stamp, int | float) else None
    return Line(seconds, Message(kind, msgspec.Raw(msgspec.json.encode(inner.get("payload")))))


def is_wire_message(value: dict[str, Any]) -> bool:
    """Whether an object is a line by itself."""
    message = value.get("message")
    return (
        isinstance(value.get("timestamp"), int | float)
        and isinstance(message, dict)
        and isinstance(message.get("type"), str)
        and "payload" in message
    )


def opening_objects(head: bytes) -> Iterator[dict[str, Any]]:
    """The objects on the first lines of a file; a torn line is passed over."""
    for raw in head.split(b"\n", _OPENING_LINES)[:_OPENING_LINES]:
        value = value_of(msgspec.Raw(raw))
        if isinstance(value, dict):
            yield value


def text_of(value: object) -> str:
    """The text of a string or of a list of content parts; pictures have none."""
    if isinstance(value, list):
        texts = (part.get("text") if isinstance(part, dict) else part for part in value)
        return "\n".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""


def said_in(part: dict[str, Any]) -> Iterator[Content]:
    """What the model thought or said in a content part."""
    yield Content("thinking", text_of(part.get("think")))
    yield Content("text", text_of(part.get("text")))


def questions_in(request: dict[str, Any], call: str | None) -> Iterator[Content]:
    """The questions that a tool call puts to the user."""
    questions = request.get("questions")
    for question in questions if isinstance(questions, list) else []:
        if isinstance(question, dict):
            yield Content("note", text_of(question.get("question")), call)


def texts_of(said: Message | Relayed) -> list[Content]:
    """Every text in the message, whole; none of a relayed one that the subagent's own file has."""
    if isinstance(said, Relayed):
        if said.mirrored:
            return []
        said = said.message
    speaker = _CONTENT.get(said.type)
    payload = value_of(said.payload) if speaker is not None else None
    if speaker is None or not isinstance(payload, dict):
        return []
    # Arguments may be empty as yet: the parts that follow belong to this call all the same.
    return [content for content in speaker(payload) if content.text or content.kind == "arguments"]


def _tool_call_content(payload: dict[str, Any]) -> Iterator[Content]:
    function = payload.get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    yield Content("arguments", text_of(arguments), as_text(payload.get("id")))


def _tool_result_content(payload: dict[str, Any]) -> Iterator[Content]:
    call = as_text(payload.get("tool_call_id"))
    value = payload.get("return_value")
    if not isinstance(value, dict):
        return
    output = text_of(value.get("output"))
    yield Content("result", output, call)
    if value.get("is_error"):
        yield Content("error", text_of(value.get("message")), call)
    elif not output:
        yield Content("note", text_of(value.get("message")), call)


def _question_content(payload: dict[str, Any]) -> Iterator[Content]:
    return questions_in(payload, as_text(payload.get("tool_call_id")))


def _says(kind: Literal["prompt", "arguments_part", "note"], *fields: str) -> _Speaker:
    def speaker(payload: dict[str, Any]) -> Iterator[Content]:
        for field in fields:
            yield Content(kind, text_of(payload.get(field)), as_text(payload.get("tool_call_id")))

    return speaker


_CONTENT: dict[str, _Speaker] = {
    "TurnBegin": _says("prompt", "user_input"),
    "SteerInput": _says("prompt", "user_input"),
    "ContentPart": said_in,
    "ToolCall": _tool_call_content,
    "ToolCallPart": _says("arguments_part", "arguments_part"),
    "ToolResult": _tool_result_content,
    "ApprovalRequest": _says("note", "description"),
    "ApprovalResponse": _says("note", "feedback"),
    "QuestionRequest": _question_content,
    "Notification": _says("note", "title", "body"),
    "HookResolved": _says("note", "reason"),
    "BtwBegin": _says("note", "question"),
    "BtwEnd": _says("note", "response", "error"),
    "PlanDisplay": _says("note", "content"),
}
