"""The full texts of a session, read from its raw lines on demand.

Spans have no texts; storing every argument and result a second time would double the database. One pass over the
session's compressed lines brings them back, each to the span it belongs to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agenttrace import ids
from agenttrace.model import Event, Session
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Agent, Content, MediaPlace, Source, stored_source
from agenttrace.record.formats.media import described, facts_of
from agenttrace.record.ingest.bad_lines import is_a_lines_fault
from agenttrace.store.questions import EventLine, SpanView

if TYPE_CHECKING:
    from agenttrace.store.store import Store

T = TypeVar("T")

logger = logging.getLogger(__name__)


class InterpretedLine(NamedTuple):
    """A recorded line with what it says."""

    line: EventLine
    event: Event
    source: Source
    path: str
    contents: list[Content]


class DecodedLine(NamedTuple):
    """A recorded line as an event of its format."""

    line: EventLine
    event: Event
    source: Source
    path: str
    agent: Agent


class Interpreter:
    """Turns raw lines back into events and texts."""

    def __init__(self, store: Store, *, media: bool = False) -> None:
        """With ``media``, pictures are among the texts, in words."""
        self._question = _with_media if media else _texts
        self._agents: Mapping[str, Agent] = {agent.name: agent for agent in AGENTS}
        self._store = store
        self._sources: dict[int, tuple[str, Source | None]] = {}

    def said(self, line: EventLine) -> InterpretedLine | None:
        """What a line says; ``None`` where its file's kind is unknown by now."""
        read = self.read(line, self._question)
        if read is None:
            return None
        decoded, contents = read
        return InterpretedLine(line, decoded.event, decoded.source, decoded.path, contents)

    def read(self, line: EventLine, question: Callable[[DecodedLine], T]) -> tuple[DecodedLine, T] | None:
        """Ask a line's format about it; ``None`` where the line cannot be read any more."""
        path, source = self._source(line.file_id)
        if source is None or source.agent not in self._agents:
            return None
        agent = self._agents[source.agent]
        try:
            event = agent.decode(line.raw, source)
            if not isinstance(event, Event):
                return None
            decoded = DecodedLine(line, event, source, path, agent)
            return decoded, question(decoded)
        except Exception as error:
            if not is_a_lines_fault(error):
                raise
            logger.warning("cannot read line %d of %s: %s", line.event_no, path, error)
            return None

    def lines(self, lines: Iterable[EventLine]) -> Iterator[InterpretedLine]:
        """What these lines say, in their order."""
        return (said for line in lines if (said := self.said(line)) is not None)

    def _source(self, file_id: int) -> tuple[str, Source | None]:
        if file_id not in self._sources:
            path, source = self._store.file_source(file_id)
            self._sources[file_id] = (path, stored_source(source))
        return self._sources[file_id]


def _texts(decoded: DecodedLine) -> list[Content]:
    return decoded.agent.content(decoded.event, decoded.source)


def _with_media(decoded: DecodedLine) -> list[Content]:
    """The texts of a line, and its pictures in words."""
    texts = list(_texts(decoded))
    for number, media in enumerate(decoded.agent.media(decoded.event, decoded.line.raw)):
        facts = facts_of(media)
        place = MediaPlace(facts=facts, event_no=decoded.line.event_no, number=number)
        texts.append(Content("media", described(facts), media.call, place))
    return texts


def attributes_of(store: Store, session: Session, said: InterpretedLine) -> dict[str, Any]:
    """What a line says of its span beside texts, for agents whose lines are spans."""

    def find(trace: str, event_type: str, key: str) -> bytes | None:
        return store.line_of_event(session.id, ids.trace_event_id(trace, event_type, key))

    agent = next((each for each in AGENTS if each.name == said.source.agent), None)
    return {} if agent is None else agent.attributes(said.line.raw, find)


def session_lines(store: Store, session: Session, *, media: bool = False) -> Iterator[InterpretedLine]:
    """Everything a session's lines say, in the order of recording."""
    return Interpreter(store, media=media).lines(store.lines(session=session.id))


class Calls:
    """Which span a text belongs to: that of its line, or the tool call that the text names.

    A call is looked for in the model call of its line only. Some agents use the same names in every turn.
    """

    def __init__(self, session: Session, steps: Mapping[bytes, bytes | None], is_tool: Callable[[bytes], bool]) -> None:
        self._session_id = session.session_id
        #: The model calls that tools belong to, by the tool's span.
        self._steps = steps
        self._is_tool = is_tool

    def target(self, said: InterpretedLine, content: Content) -> bytes | None:
        """The span of one text of a line."""
        own = said.line.span_id
        if content.call is None or own is None:
            return own
        step = self._steps.get(own) or own
        stream = said.event.stream or said.source.stream
        tool = ids.tool_span_id(self._session_id, stream, step, content.call)
        return tool if self._is_tool(tool) else own


def span_contents(store: Store, session: Session, spans: Sequence[SpanView]) -> dict[bytes, list[Content]]:
    """The texts of each span, in order; streamed arguments are joined."""
    steps = {span.span_id: span.parent_id for span in spans if span.kind == "tool"}
    return contents_by_span(session_lines(store, session, media=True), Calls(session, steps, steps.__contains__))


def contents_by_span(lines: Iterable[InterpretedLine], calls: Calls) -> dict[bytes, list[Content]]:
    """What these lines say, by span."""
    found: dict[bytes, list[Content]] = {}
    for said in lines:
        for content in said.contents:
            target = calls.target(said, content)
            if target is not None:
                _add(found.setdefault(target, []), content)
    return found


def _add(contents: list[Content], content: Content) -> None:
    if content.kind == "arguments_part":
        for index in range(len(contents) - 1, -1, -1):
            if contents[index].kind == "arguments":
                joined = contents[index].text + content.text
                contents[index] = Content("arguments", joined, contents[index].call)
                return
        content = Content("arguments", content.text, content.call)
    if content.call is not None and content in contents:
        return  # told again with the next state of the call
    if content.media is not None and any(_is_same(content.media, each.media) for each in contents):
        return
    contents.append(content)


def _is_same(media: MediaPlace, other: MediaPlace | None) -> bool:
    """Whether it is a picture of another line: one line has each once."""
    return other is not None and other.event_no != media.event_no and other.facts.digest == media.facts.digest
