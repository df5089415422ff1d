"""The texts of some spans of a session, without reading the rest of it.

A line may have texts of several spans of one model call: the answer, and the arguments of the tools it calls. So the
lines of the whole model call are read, and each text goes to its span as in ``contents.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agenttrace.model import Session
from agenttrace.record.formats.contract import Content
from agenttrace.record.texts.contents import Calls, InterpretedLine, Interpreter, contents_by_span
from agenttrace.record.texts.line_index import LineIndex
from agenttrace.store.line_cache import LineCache
from agenttrace.store.questions import SpanPlace

if TYPE_CHECKING:
    from agenttrace.store.store import Store

#: A cache of lines, because a user scrolls back.
_BLOCK_BYTES = 64 << 20


class Gathered(NamedTuple):
    """What belongs to some spans."""

    contents: dict[bytes, list[Content]]
    #: The lines of these spans and of their texts.
    lines: list[InterpretedLine]
    calls: Calls


class SessionTexts:
    """Reads texts from the raw lines, with a cache of the latest blocks."""

    def __init__(self, index: LineIndex | None = None, block_bytes: int = _BLOCK_BYTES) -> None:
        self.index = index or LineIndex()
        self.blocks = LineCache(block_bytes)

    def contents(self, store: Store, session: Session, wanted: Sequence[bytes]) -> dict[bytes, list[Content]]:
        """The texts of these spans, in order; spans that the session does not have are left out."""
        places = store.span_places(session.id, wanted)
        found = self.gathered(store, session, places.values()).contents
        return {span_id: found.get(span_id, []) for span_id in wanted if span_id in places}

    def around(self, store: Store, session: Session, span_id: bytes) -> Gathered:
        """The lines of a span and of its model call, and what they say."""
        return self.gathered(store, session, store.span_places(session.id, [span_id]).values())

    def gathered(self, store: Store, session: Session, wanted: Iterable[SpanPlace]) -> Gathered:
        """What the lines of these spans' model calls say."""
        wanted = list(wanted)
        index = self.index.of(store, session.id)
        near = set().union(*(index.around(place.span_id, place.turn_index, place.step_n) for place in wanted))
        places = store.span_places(session.id, list(near)) | {place.span_id: place for place in wanted}
        roots = {place.root for place in wanted}
        family = [place for place in places.values() if place.root in roots]
        numbers = {number for place in family for number in index.lines_of(place.span_id)}
        said = list(self.said(store, list(numbers)))
        is_tool = _is_tool_in(store, session.id, places.values())
        calls = Calls(session, {place.span_id: place.root for place in family}, is_tool)
        return Gathered(contents_by_span(said, calls), said, calls)

    def said(self, store: Store, numbers: Sequence[int]) -> Iterator[InterpretedLine]:
        """What the lines of these events say."""
        return Interpreter(store, media=True).lines(store.lines_by_number(numbers, self.blocks))


def _is_tool_in(store: Store, session: int, places: Iterable[SpanPlace]) -> Callable[[bytes], bool]:
    """Whether a span is a tool call of the session."""
    known = {place.span_id: place.kind == "tool" for place in places}

    def is_tool(span_id: bytes) -> bool:
        if span_id not in known:
            place = store.span_places(session, [span_id]).get(span_id)
            known[span_id] = place is not None and place.kind == "tool"
        return known[span_id]

    return is_tool
