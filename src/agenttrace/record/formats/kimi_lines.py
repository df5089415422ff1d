"""A line of a Kimi CLI log: its fields as far as recording needs them, and the texts in it.

What Kimi Code's records have in common with it (the file's name, texts in parts) is here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from agenttrace.record.formats.base import L, LineDecoder, LogFormat, first_lines
from agenttrace.record.formats.contract import Content, ResumeCommand
from agenttrace.record.formats.lenient import FieldByField, lookup, text_at, value_of

LOG_NAME = "wire.jsonl"

_NULL = msgspec.Raw(b"null")
#: So many first lines are read to recognise a file; a damaged beginning is rarely longer.
_OPENING_LINES = 32


class WireMessage(msgspec.Struct, gc=False):
    """A message of the wire protocol."""

    type: str = "unknown"
    payload: msgspec.Raw = _NULL


class WireLine(msgspec.Struct, gc=False):
    """A line; the time is in seconds. A header has a type instead of a message, and so has a line that was damaged."""

    timestamp: float | None = None
    message: WireMessage | None = None
    type: str | None = None
    payload: msgspec.Raw = _NULL


class Wrapped(msgspec.Struct, gc=False):
    """The payload of a subagent's event in its parent's file."""

    parent_tool_call_id: Any = None
    task_tool_call_id: Any = None
    agent_id: Any = None
    subagent_type: Any = None
    event: WireMessage | None = None


class Relayed(msgspec.Struct, gc=False):
    """A subagent's event, unwrapped."""

    stream: str
    call: str | None
    name: str | None
    message: WireMessage
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


class WirePayload(msgspec.Struct):
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


_Speaker = Callable[[dict[str, Any]], Iterator[Content]]


class WireFormat(LogFormat[L]):
    """A format whose logs all have one name: the directory names the session."""

    def is_log(self, path: Path) -> bool:
        """``wire.jsonl`` of a session or of one of its agents."""
        return path.name == LOG_NAME

    def session_name(self, path: Path) -> str:
        """The name of the directory; of a file that was renamed, its own."""
        return path.parent.name if path.name == LOG_NAME else path.stem

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``kimi --session <session>``."""
        return ResumeCommand(("kimi", "--session", session_id))


def is_wire_message(value: dict[str, Any]) -> bool:
    """Whether an object is a line by itself."""
    message = value.get("message")
    return (
        isinstance(value.get("timestamp"), int | float)
        and isinstance(message, dict)
        and isinstance(message.get("type"), str)
        and "payload" in message
    )


LINES = LineDecoder(
    WireLine, {"message": FieldByField(WireMessage)}, openings=r'\{"timestamp"', is_line=is_wire_message
)


def opening_objects(head: bytes) -> Iterator[dict[str, Any]]:
    """The objects on the first lines of a file; a torn line is skipped."""
    for raw in first_lines(head, _OPENING_LINES):
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


def texts_of(said: WireMessage | Relayed) -> list[Content]:
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
    arguments = lookup(payload, "function", "arguments")
    yield Content("arguments", text_of(arguments), text_at(payload, "id"))


def _tool_result_content(payload: dict[str, Any]) -> Iterator[Content]:
    call = text_at(payload, "tool_call_id")
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
    return questions_in(payload, text_at(payload, "tool_call_id"))


def _says(kind: Literal["prompt", "arguments_part", "note"], *fields: str) -> _Speaker:
    def speaker(payload: dict[str, Any]) -> Iterator[Content]:
        for field in fields:
            yield Content(kind, text_of(payload.get(field)), text_at(payload, "tool_call_id"))

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
