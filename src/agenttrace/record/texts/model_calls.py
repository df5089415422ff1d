"""The model calls of a session: what each was sent, by part, and what changed since the call before.

One pass over the session's lines adds up sizes; no text is kept. Where the log has the request itself, the parts are
exactly those that were sent. Otherwise they are computed from the conversation up to the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from agenttrace import ids
from agenttrace.model import Session, Usage
from agenttrace.record.formats.base import remember
from agenttrace.record.formats.context import (
    PARTS,
    Answered,
    CallBegun,
    Compacted,
    ContextFact,
    NoConversation,
    Parameters,
    Part,
    Piece,
    Request,
    RequestMessage,
    RequestShape,
    SystemPrompt,
    ToolCalled,
    ToolSet,
)
from agenttrace.record.formats.contract import Memory
from agenttrace.record.texts.call_changes import (
    NOTHING,
    Change,
    Lane,
    ModelCall,
    ModelCalls,
    Sent,
    Sizes,
    ToolPresence,
    by_part,
    find_cache_breaks,
    message_changes,
    minus,
    model_change,
    parameter_changes,
    plus,
    settings_changes,
)
from agenttrace.record.texts.contents import DecodedLine, Interpreter
from agenttrace.store.questions import EventLine, SpanRow

if TYPE_CHECKING:
    from agenttrace.store.store import Store

#: Tools whose result is the content of a file.
_FILE_TOOLS = frozenset(
    {
        "notebookread",
        "open_file",
        "read",
        "read_file",
        "read_files",
        "read_many_files",
        "readfile",
        "readmediafile",
        "view",
        "view_file",
    }
)
#: How many keys of pieces, names of tool calls and earlier requests a stream remembers.
_KEYS, _REQUESTS = 4096, 8

_INDEX: dict[Part, int] = {part: index for index, part in enumerate(PARTS)}
_SYSTEM, _TOOLS = _INDEX["system"], _INDEX["tools"]


def model_calls(store: Store, session: Session) -> ModelCalls:
    """The model calls of a session."""
    return _Reader(store, session).read(store.lines(session=session.id))


class _Step(msgspec.Struct):
    """What the store knows of a model call."""

    stream: str
    start: int
    model: str | None
    usage: Usage | None


class _Stream:
    """The context of an agent or subagent as its lines tell it."""

    def __init__(self) -> None:
        self.memory: Memory = {}
        self.sizes = list(NOTHING)
        self.keys: dict[str, tuple[int, int]] = {}
        self.tool_names: dict[str, str] = {}
        self.system: SystemPrompt | None = None
        self.tools: ToolSet | None = None
        self.parameters: Mapping[str, str] | None = None
        self.sent: dict[str, Sent] = {}
        #: What was compacted since the last call.
        self.dropped: dict[Part, int] | None = None
        #: Whether the model thought: providers may keep the text of it to themselves.
        self.thought = False
        #: The call that began and has no answer yet: system prompt and tools may still be told.
        self.begun: ModelCall | None = None

    def index_of(self, piece: Piece) -> int:
        """The part of a piece: what a tool read from a file is one of its own."""
        tool = self.tool_names.get(piece.call or "", "")
        return _INDEX["files" if piece.part == "results" and tool.lower() in _FILE_TOOLS else piece.part]

    def add(self, piece: Piece) -> None:
        """Add a piece, or replace what was told of it before."""
        index = self.index_of(piece)
        if piece.key is not None:
            before, size = self.keys.get(piece.key, (index, 0))
            # A call that failed may be told with an empty result first.
            if not piece.size:
                return
            self.sizes[before] -= size
            remember(self.keys, piece.key, (index, piece.size), _KEYS)
        self.sizes[index] += piece.size

    def known_parts(self, not_in_log: frozenset[Part]) -> dict[Part, int]:
        """Sizes by part; a part of which the log has nothing although it may have been sent is left out."""
        hidden = not_in_log | {"thinking"} if self.thought else not_in_log
        sizes = by_part(self.sizes, all_but=(_SYSTEM, _TOOLS))
        return {part: size for part, size in sizes.items() if size or part not in hidden}

    def compact(self) -> None:
        """Forget the conversation."""
        self.dropped = by_part(self.sizes)
        self.sizes, self.keys = list(NOTHING), {}


class _Reader:
    def __init__(self, store: Store, session: Session) -> None:
        self._interpreter = Interpreter(store)
        self._steps: dict[bytes, _Step] = {}
        self._parents: dict[bytes, bytes] = {}
        #: The calls of each turn that did not begin yet, the first one last.
        self._waiting: dict[tuple[str, int], list[bytes]] = {}
        self._session_id = session.session_id
        for row in store.span_rows(session):
            self._note_span(row)
        for steps in self._waiting.values():
            steps.reverse()
        self._begun: set[bytes] = set()
        self._streams: dict[str, _Stream] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._shapes: dict[str, RequestShape] = {}
        self._messages: dict[str, Sizes] = {}
        self._requests: dict[str, ModelCall] = {}
        self._calls: list[ModelCall] = []
        self._tools: list[ToolPresence] = []

    def _note_span(self, row: SpanRow) -> None:
        if row.kind == "step":
            self._steps[row.span_id] = _Step(row.stream, row.start, row.model, row.usage)
            self._waiting.setdefault((row.stream, row.turn_index), []).append(row.span_id)
        elif row.kind == "tool" and row.parent_id is not None:
            self._parents[row.span_id] = row.parent_id

    def read(self, lines: Iterable[EventLine]) -> ModelCalls:
        for line in lines:
            read = self._interpreter.read(line, self._facts)
            if read is not None:
                self._line(*read)
        for name, stream in self._streams.items():
            self._settle(name, stream)
        self._add_unseen()
        for call in self._calls:
            step = self._steps.get(call.span_id or b"")
            call.usage = None if step is None else step.usage
        return self._in_order()

    def _in_order(self) -> ModelCalls:
        """Subagents are in files of their own: by time all calls are in the order in which they were made."""
        order = sorted(range(len(self._calls)), key=lambda index: self._calls[index].at or 0)
        places = {index: place for place, index in enumerate(order)}
        for tool in self._tools:
            tool.came = places[tool.came]
            tool.went = None if tool.went is None else places[tool.went]
        calls = [self._calls[index] for index in order]
        find_cache_breaks(calls)
        return ModelCalls(calls=calls, tools=self._tools)

    def _facts(self, said: DecodedLine) -> list[ContextFact]:
        memory = self._stream(_stream_of(said)).memory
        return list(said.agent.context(said.event, said.source, memory, said.line.raw))

    def _line(self, said: DecodedLine, facts: list[ContextFact]) -> None:
        name = _stream_of(said)
        stream = self._stream(name)
        self._begin(said, name, stream, facts)
        for fact in facts:
            self._apply(fact, said, name, stream)

    def _stream(self, name: str) -> _Stream:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream()
        return stream

    def _begin(self, said: DecodedLine, name: str, stream: _Stream, facts: Sequence[ContextFact]) -> None:
        """Begin a model call where this is its first line."""
        if any(isinstance(fact, Request | RequestShape) for fact in facts):
            return
        step = next((each for each in self._named(said, name, facts) if each in self._steps), None)
        if step is None or step in self._begun or any(isinstance(fact, NoConversation) for fact in facts):
            return
        self._begun.add(step)
        requests = (self._requests.get(fact.request) for fact in facts if isinstance(fact, Answered))
        call = next((each for each in requests if each is not None), None)
        if call is not None and call.span_id is None:
            call.span_id = step
        elif call is None:
            self._from_conversation(name, stream, step, said.agent.parts_not_in_log)

    def _named(self, said: DecodedLine, stream: str, facts: Sequence[ContextFact]) -> Iterator[bytes]:
        """The model call that a line is part of: that of its span, the one that it names, or the next of its turn.

        A line that also ends its turn has the turn's span.
        """
        own = said.line.span_id
        if own is not None:
            yield self._parents.get(own, own)
        steps = [fact.step for fact in facts if isinstance(fact, CallBegun)]
        for step in steps:
            if step is not None:
                yield ids.span_id(self._session_id, stream, "step", step)
        if steps:
            waiting = self._waiting.get((stream, said.line.turn_index), [])
            while waiting and waiting[-1] in self._begun:
                waiting.pop()
            yield from waiting[-1:]

    def _apply(self, fact: ContextFact, said: DecodedLine, name: str, stream: _Stream) -> None:
        match fact:
            case Piece():
                self._settle(name, stream)
                stream.add(fact)
            case ToolCalled():
                remember(stream.tool_names, fact.call, fact.tool, _KEYS)
            case SystemPrompt():
                stream.system = fact
            case ToolSet():
                stream.tools = fact
            case Parameters():
                stream.parameters = fact.values
            case Compacted():
                stream.compact()
            case RequestShape():
                self._shapes[fact.name] = fact
            case RequestMessage():
                self._messages[fact.name] = _sizes_of(stream, fact.pieces)
            case Request():
                self._from_request(name, stream, fact, said.event.at)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _from_conversation(self, name: str, stream: _Stream, span_id: bytes, not_in_log: frozenset[Part]) -> None:
        step = self._steps[span_id]
        parts = stream.known_parts(not_in_log)
        stream.thought = stream.thought or (step.usage is not None and step.usage.reasoning_tokens > 0)
        call = ModelCall(
            stream=name, known_from="conversation", at=step.start, span_id=span_id, model=step.model, parts=parts
        )
        if stream.dropped is not None:
            dropped, stream.dropped = stream.dropped, None
            call.changes = [Change(kind="compaction", known_from="conversation", characters=dropped)]
        self._settle(name, stream)
        stream.begun = call

    def _settle(self, name: str, stream: _Stream) -> None:
        """The answer to the call that began is next: what was told of it by now is all."""
        call, stream.begun = stream.begun, None
        if call is None:
            return
        lane, system, tools = self._lane(name, ""), stream.system, stream.tools
        changes = [*model_change(lane, call), *settings_changes(lane, system, tools, call)]
        call.changes = [*changes, *parameter_changes(lane, stream.parameters, call), *call.changes]
        lane.parameters = stream.parameters or lane.parameters
        self._finish(lane, call, system, tools)

    def _from_request(self, name: str, stream: _Stream, request: Request, at: int | None) -> None:
        sent = self._sent(stream, request)
        if sent is None:
            # Its base is not in the log: the answer's first line begins a call that is computed.
            return
        shape = self._shapes.get(request.shape)
        call = ModelCall(
            stream=name,
            known_from="request",
            at=at,
            model=request.model,
            purpose=request.purpose,
            parts=by_part(sent.sizes, all_but=(_SYSTEM, _TOOLS)),
            messages=len(sent.messages),
            unread=sent.unread,
        )
        lane = self._lane(name, request.purpose)
        system, tools = (None, None) if shape is None else (shape.system, shape.tools)
        call.changes = [*model_change(lane, call), *settings_changes(lane, system, tools, call)]
        call.changes += parameter_changes(lane, request.parameters, call)
        call.changes += message_changes(lane, request, sent, compacted=stream.dropped is not None)
        stream.dropped = None
        self._requests[request.id] = call
        remember(stream.sent, request.id, sent, _REQUESTS)
        lane.request, lane.sent, lane.parameters = request.id, sent, request.parameters
        self._finish(lane, call, system, tools)

    def _sent(self, stream: _Stream, request: Request) -> Sent | None:
        base = stream.sent.get(request.base) if request.base else Sent([], NOTHING, 0)
        if base is None:
            return None
        keep = min(max(request.keep, 0), len(base.messages))
        gone = base.messages[keep:]
        added = [(name, self._messages.get(name)) for name in request.tail]
        sizes = minus(base.sizes, (each for _, each in gone if each is not None))
        return Sent(
            [*base.messages[:keep], *added],
            plus(sizes, (each for _, each in added if each is not None)),
            base.unread - sum(each is None for _, each in gone) + sum(each is None for _, each in added),
        )

    def _finish(self, lane: Lane, call: ModelCall, system: SystemPrompt | None, tools: ToolSet | None) -> None:
        if system is not None:
            call.parts["system"] = system.size
        if tools is not None:
            call.parts["tools"] = sum(size for size, _ in tools.tools.values())
            self._note_tools(lane, call, tools)
        lane.call, lane.system, lane.tools = call, system, tools
        self._calls.append(call)

    def _note_tools(self, lane: Lane, call: ModelCall, tools: ToolSet) -> None:
        if tools is lane.tools:
            return
        position = len(self._calls)
        for name in [*lane.presences]:
            if name not in tools.tools:
                lane.presences.pop(name).went = position
        for name, (size, _) in tools.tools.items():
            if name not in lane.presences:
                lane.presences[name] = ToolPresence(
                    name=name, stream=call.stream, size=size, came=position, initial=lane.tools is None
                )
                self._tools.append(lane.presences[name])

    def _add_unseen(self) -> None:
        """Calls that no line of the conversation has: only their tokens are known."""
        unseen = [(span_id, step) for span_id, step in self._steps.items() if span_id not in self._begun and step.usage]
        self._calls += [
            ModelCall(stream=step.stream, known_from="usage", at=step.start, span_id=span_id, model=step.model)
            for span_id, step in unseen
        ]

    def _lane(self, stream: str, purpose: str) -> Lane:
        lane = self._lanes.get((stream, purpose))
        if lane is None:
            lane = self._lanes[stream, purpose] = Lane()
        return lane


def _stream_of(said: DecodedLine) -> str:
    return said.event.stream or said.source.stream


def _sizes_of(stream: _Stream, pieces: Iterable[Piece]) -> Sizes:
    sizes = list(NOTHING)
    for piece in pieces:
        sizes[stream.index_of(piece)] += piece.size
    return tuple(sizes)
