"""What a line says of the context of model calls: the pieces that are sent, and requests that the log holds whole.

A format translates its lines into these facts; ``record/texts/model_calls.py`` adds them up. Sizes are characters of
text; tool definitions and arguments count as compact JSON. No fact holds a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from agenttrace.record.ingest import acts as a

if TYPE_CHECKING:
    from agenttrace.record.formats.contract import Content

#: ``context`` is what the agent adds by itself: reminders, environment, instruction files, summaries.
Part = Literal["system", "tools", "context", "files", "results", "user", "assistant", "arguments", "thinking"]
PARTS: tuple[Part, ...] = get_args(Part)


class ContextFact(msgspec.Struct, frozen=True):
    """The base of all facts."""


class Piece(ContextFact, frozen=True):
    """A text that later model calls of the stream get."""

    part: Part
    size: int
    #: Names the piece where it may be told again; the later size counts.
    key: str | None = None
    #: The tool call that it is a result of: decides between ``files`` and ``results``.
    call: str | None = None


class CallBegun(ContextFact, frozen=True):
    """A model call begins, or goes on; ``step`` is the agent's own id of it."""

    step: str | None = None


class ToolCalled(ContextFact, frozen=True):
    """The model asked for a tool: the name that its result is classified by."""

    call: str
    tool: str


class SystemPrompt(ContextFact, frozen=True):
    """The system prompt from here on."""

    size: int
    digest: str


class ToolSet(ContextFact, frozen=True):
    """The tools that the model is offered from here on: size and digest of each definition by name."""

    tools: Mapping[str, tuple[int, str]]


class Parameters(ContextFact, frozen=True):
    """The other settings of model calls from here on, all of them: a digest of each by name."""

    values: Mapping[str, str]


class Compacted(ContextFact, frozen=True):
    """The conversation so far is no longer sent; what is sent in its place follows."""


class NoConversation(ContextFact, frozen=True):
    """The lines of this log are no conversation: nothing can be computed from them."""


class RequestShape(ContextFact, frozen=True):
    """System prompt and tools of requests, under the name by which they refer to it."""

    name: str
    system: SystemPrompt
    tools: ToolSet


class RequestMessage(ContextFact, frozen=True):
    """A message of requests, under the name by which they refer to it."""

    name: str
    pieces: tuple[Piece, ...]


class Request(ContextFact, frozen=True, kw_only=True):
    """A request as it was sent: the first ``keep`` messages of the request ``base``, then those of ``tail``."""

    id: str
    shape: str
    model: str | None = None
    #: What it is for, in the agent's words; requests of one purpose have one prompt cache.
    purpose: str = ""
    base: str | None = None
    keep: int = 0
    tail: tuple[str, ...] = ()
    #: Digests of the other parameters by name.
    parameters: Mapping[str, str] = {}


class Answered(ContextFact, frozen=True):
    """The line is part of the answer to this request."""

    request: str


_OF_KIND: dict[str, Part] = {
    "prompt": "user",
    "text": "assistant",
    "thinking": "thinking",
    "arguments": "arguments",
    "arguments_part": "arguments",
    "result": "results",
}


def conversation(
    acts: Iterable[a.Act], contents: Sequence[Content], *, notes_sent: bool = False
) -> Iterator[ContextFact]:
    """What a line of the conversation adds, from its acts and texts; notes only where the format says they are sent."""
    compacted = False
    for act in acts:
        match act:
            case a.StepBegin(step=step):
                yield CallBegun(step)
            case a.ResponseUsage(step=str(step)):
                yield CallBegun(step)
            case a.ToolBegin(call=call, name=name):
                yield ToolCalled(call, name)
            case a.Note(kind="compaction"):
                compacted = True
    if compacted:
        yield Compacted()
    for content in contents:
        piece = piece_of(content, notes_sent=notes_sent or compacted)
        if piece is not None:
            yield piece


def piece_of(content: Content, *, notes_sent: bool) -> Piece | None:
    """The piece that a text is; ``None`` for what is not sent: errors of the agent, notes for the user."""
    size = len(content.text)
    if content.kind == "note":
        return Piece("context", size) if notes_sent and content.call is None else None
    if content.kind in ("result", "error"):
        return None if content.call is None else Piece("results", size, f"result {content.call}", content.call)
    # Streamed arguments come in parts, which add up; whole ones may be told again with the next state of the call.
    whole = content.kind == "arguments" and content.call is not None
    return Piece(_OF_KIND[content.kind], size, f"arguments {content.call}" if whole else None)


# -- reading requests -----------------------------------------------------------------------------------------


def canonical(value: object) -> bytes:
    """A value as compact JSON with sorted keys; empty where it is no JSON (half a surrogate pair)."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return b""


def digest(value: object) -> str:
    """The SHA-256 of a value as compact JSON with sorted keys."""
    return hashlib.sha256(canonical(value)).hexdigest()


def system_prompt(text: object) -> SystemPrompt:
    """A system prompt: a text, or a list of text blocks."""
    blocks = text if isinstance(text, list) else [text]
    texts = [each.get("text") if isinstance(each, dict) else each for each in blocks]
    return SystemPrompt(sum(len(each) for each in texts if isinstance(each, str)), digest(text))


def tool_set(definitions: object) -> ToolSet:
    """The tools of a list of definitions."""
    tools = definitions if isinstance(definitions, list) else []
    found = ((tool.get("name"), canonical(tool)) for tool in tools if isinstance(tool, dict))
    return ToolSet(
        {name: (len(text.decode()), hashlib.sha256(text).hexdigest()) for name, text in found if isinstance(name, str)}
    )
