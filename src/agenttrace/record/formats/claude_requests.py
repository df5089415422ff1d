"""What Claude Code was sending: its records of requests, from version 2.1.325 on, and the conversation before that.

Messages are named by the SHA-256 of their JSON with sorted keys. The log has most of them as ``api-request-blob``; the
model's answers are only in the lines of the conversation, whose blocks together have the same digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agenttrace.record.formats.claude_lines import NOISE, NOT_SAID, ClaudeLine, flat
from agenttrace.record.formats.context import (
    Answered,
    ContextFact,
    Part,
    Piece,
    Request,
    RequestMessage,
    RequestShape,
    canonical,
    conversation,
    digest,
    system_prompt,
    tool_set,
)
from agenttrace.record.formats.contract import Content, Memory
from agenttrace.record.formats.lenient import json_object, lookup, text_at
from agenttrace.record.ingest import acts as a

#: How a file begins that the user mentioned.
_FILE = "<system-reminder>\nResult of calling the Read tool"
_SUMMARY = "This session is being continued from a previous conversation"
_INJECTED = (*NOISE, "<task-notification>", _SUMMARY)
#: Lines whose notes are sent to the model.
_SENT = ("user", "attachment")


def context_of(
    line: ClaudeLine, raw: bytes, acts: Iterable[a.Act], contents: list[Content], memory: Memory
) -> Iterator[ContextFact]:
    """What a line says of the context of model calls."""
    if line.type in NOT_SAID:
        yield from _request_record(line.type or "", raw, memory)
        return
    if line.type in ("assistant", "user") and line.message is not None:
        yield from _said(line, json_object(raw), memory)
    compacted = line.subtype == "compact_boundary"
    shown = [] if compacted else contents
    yield from conversation(acts, shown, notes_sent=line.type in _SENT)


def _request_record(kind: str, raw: bytes, memory: Memory) -> Iterator[ContextFact]:
    record = json_object(raw)
    match kind:
        case "api-request-shape":
            name, shape = text_at(record, "shapeHash"), record.get("shape")
            if name is not None and isinstance(shape, dict):
                yield RequestShape(name, system_prompt(shape.get("system")), tool_set(shape.get("tools")))
        case "api-request-blob":
            name = text_at(record, "hash")
            if name is not None:
                yield RequestMessage(name, tuple(_pieces(record.get("message"))))
        case "api-request":
            yield from _answer_so_far(memory)
            yield from _request(record)


def _request(record: dict[str, Any]) -> Iterator[Request]:
    name, shape, keep = text_at(record, "id"), text_at(record, "shapeHash"), record.get("keep")
    tail, parameters = record.get("tail"), record.get("params")
    if name is None or not isinstance(tail, list):
        return
    given = parameters if isinstance(parameters, dict) else {}
    yield Request(
        id=name,
        shape=shape or "",
        model=text_at(given, "model"),
        purpose=text_at(record, "querySource") or "",
        base=text_at(record, "base"),
        keep=keep if isinstance(keep, int) else 0,
        tail=tuple(each for each in tail if isinstance(each, str)),
        parameters={key: digest(value) for key, value in given.items() if key != "model"},
    )


# -- messages of the conversation -----------------------------------------------------------------------------


def _said(line: ClaudeLine, record: dict[str, Any], memory: Memory) -> Iterator[ContextFact]:
    """An answer fills several lines, one for each block; all blocks together are the message."""
    message = record.get("message")
    if line.type == "user":
        sent = {"role": "user", "content": lookup(message, "content")}
        yield RequestMessage(digest(sent), tuple(_pieces(sent)))
        return
    request, name, blocks = text_at(record, "requestRef"), text_at(message, "id"), lookup(message, "content")
    if request is not None:
        yield Answered(request)
    if memory.get("answer") != name:
        yield from _answer_so_far(memory)
        memory["answer"], memory["blocks"] = name, []
    memory["blocks"] += blocks if isinstance(blocks, list) else []


def _answer_so_far(memory: Memory) -> Iterator[RequestMessage]:
    if memory.get("blocks"):
        message = {"role": "assistant", "content": memory["blocks"]}
        yield RequestMessage(digest(message), tuple(_pieces(message)))


def _pieces(message: object) -> Iterator[Piece]:
    """The pieces of a message as it is sent."""
    content, role = lookup(message, "content"), text_at(message, "role")
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            yield Piece(_part_of_text(block, role), len(block))
        elif isinstance(block, dict):
            yield from _piece(block, role)


def _piece(block: dict[str, Any], role: str | None) -> Iterator[Piece]:
    kind, text = text_at(block, "type") or "", block.get("text")
    if kind.endswith("tool_result"):
        yield Piece("results", len(flat(block.get("content"))), call=text_at(block, "tool_use_id"))
    elif "input" in block:
        yield Piece("arguments", len(canonical(block["input"]).decode()))
    elif kind == "thinking":
        yield Piece("thinking", len(text_at(block, "thinking") or ""))
    elif isinstance(text, str):
        yield Piece(_part_of_text(text, role), len(text))


def _part_of_text(text: str, role: str | None) -> Part:
    if role == "assistant":
        return "assistant"
    if text.startswith(_FILE):
        return "files"
    return "context" if text.lstrip().startswith(_INJECTED) else "user"
