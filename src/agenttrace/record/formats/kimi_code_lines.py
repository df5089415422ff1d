"""A record of a Kimi Code log: its fields as far as recording needs them, and the texts in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from agenttrace.record.formats.base import LineDecoder
from agenttrace.record.formats.contract import Content
from agenttrace.record.formats.kimi_lines import questions_in, said_in, text_of
from agenttrace.record.formats.lenient import FieldByField, as_text, lookup, raw_text, read_as, value_of

ABSENT = msgspec.Raw()

#: How record types begin; how they go on is too much and too new to list.
_FAMILIES = re.compile(
    r"(?:agent|config|context|cron|full_compaction|goal|interaction|llm|mcp|micro_compaction|permission|plan_mode"
    r"|plugin|profile|prompt|runtime|subagent|swarm_mode|task|token_counting|tools|turn|usage)\."
)
#: Whose messages no other record says.
_SAID_ONCE = ("injection", "hook_result")


class Loop(msgspec.Struct, gc=False, rename="camel"):
    """An event of the agent's loop inside its record."""

    type: str = "unknown"
    uuid: Any = None
    turn_id: Any = None
    step: Any = None
    step_uuid: Any = None
    parent_uuid: Any = None
    tool_call_id: Any = None
    name: Any = None
    finish_reason: Any = None
    args: msgspec.Raw = ABSENT
    part: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT


class KimiRecord(msgspec.Struct, gc=False, rename="camel"):
    """The fields of all records that acts and texts are made of, over all types."""

    type: str = "unknown"
    time: Any = None
    agent_id: Any = None
    event: Loop | None = None
    protocol_version: Any = msgspec.field(default=None, name="protocol_version")
    turn_id: Any = None
    step_id: Any = None
    reason: Any = None
    error: msgspec.Raw = ABSENT
    error_name: Any = None
    error_message: Any = None
    input: msgspec.Raw = ABSENT
    origin: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    summary: msgspec.Raw = ABSENT
    kind: Any = None
    id: Any = None
    tool_call_id: Any = None
    request: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT
    model: Any = None
    model_alias: Any = None
    usage: msgspec.Raw = ABSENT
    usage_scope: Any = None
    subagent_id: Any = None
    subagent_name: Any = None
    parent_agent_id: Any = None
    parent_tool_call_id: Any = None
    cwd: Any = None
    environment_disclosure: msgspec.Raw = ABSENT


class ToolResult(msgspec.Struct, gc=False, rename="camel"):
    """What a tool call came to."""

    output: msgspec.Raw = ABSENT
    is_error: Any = None
    duration_ms: Any = None


def is_record(value: dict[str, Any]) -> bool:
    """Whether an object is a record of one of the known families."""
    kind = value.get("type")
    return isinstance(kind, str) and "v" not in value and _FAMILIES.match(kind) is not None


LINES = LineDecoder(
    KimiRecord, {"event": FieldByField(Loop)}, openings=r'\{"(?:type|message|turnId)":', is_line=is_record
)


def texts_of(record: KimiRecord) -> list[Content]:
    """Every text in the record, whole, unless it only repeats those of another."""
    if record.event is not None:
        loop_speaker = _LOOP_CONTENT.get(record.event.type)
        found = loop_speaker(record.event) if loop_speaker is not None else iter(())
    else:
        speaker = _CONTENT.get(record.type)
        found = speaker(record) if speaker is not None else iter(())
    return [content for content in found if content.text]


def _prompt_content(record: KimiRecord) -> Iterator[Content]:
    yield Content("prompt", text_of(value_of(record.input)))


def _message_content(record: KimiRecord) -> Iterator[Content]:
    """Only what no other record has: reminders and hooks. Prompts and answers are in other records."""
    message = value_of(record.message)
    if lookup(message, "origin", "kind") in _SAID_ONCE:
        yield Content("note", text_of(lookup(message, "content")))


def _summary_content(record: KimiRecord) -> Iterator[Content]:
    summary = value_of(record.summary)
    yield Content("note", text_of(summary.get("content") if isinstance(summary, dict) else summary))


def _error_content(record: KimiRecord) -> Iterator[Content]:
    error = value_of(record.error)
    yield Content("error", text_of(error.get("message") if isinstance(error, dict) else error))
    yield Content("error", text_of(value_of(record.message)))
    yield Content("error", text_of(record.error_message))


def _request_content(record: KimiRecord) -> Iterator[Content]:
    request = value_of(record.request)
    call = as_text(record.tool_call_id)
    if not isinstance(request, dict):
        return
    yield Content("note", text_of(request.get("description")) or text_of(request.get("action")), call)
    yield from questions_in(request, call)


def _part_content(loop: Loop) -> Iterator[Content]:
    part = value_of(loop.part)
    if isinstance(part, dict):
        yield from said_in(part)


def _tool_call_content(loop: Loop) -> Iterator[Content]:
    arguments = value_of(loop.args)
    text = arguments if isinstance(arguments, str) else raw_text(loop.args)
    yield Content("arguments", text, as_text(loop.tool_call_id) or as_text(loop.uuid))


def _tool_result_content(loop: Loop) -> Iterator[Content]:
    result = read_as(ToolResult, loop.result)
    call = as_text(loop.tool_call_id) or as_text(loop.parent_uuid)
    yield Content("error" if result.is_error else "result", text_of(value_of(result.output)), call)


_CONTENT: dict[str, Callable[[KimiRecord], Iterator[Content]]] = {
    "turn.prompt": _prompt_content,
    "turn.steer": _prompt_content,
    "turn.ended": _error_content,
    "turn.step.interrupted": _error_content,
    "turn.step.retrying": _error_content,
    "context.append_message": _message_content,
    "context.apply_compaction": _summary_content,
    "interaction.request": _request_content,
}
_LOOP_CONTENT: dict[str, Callable[[Loop], Iterator[Content]]] = {
    "content.part": _part_content,
    "tool.call": _tool_call_content,
    "tool.result": _tool_result_content,
}
