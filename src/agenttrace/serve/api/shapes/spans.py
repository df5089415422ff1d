"""Spans, texts, requests and events."""

from __future__ import annotations

from typing import Any, Literal

from agenttrace.record.formats.media import Problem
from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.sessions import SessionRef
from agenttrace.views.requests import SessionRequests

#: ``span`` is other work of a program that sends all its spans.
Kind = Literal["turn", "step", "tool", "span"]
SpanStatus = Literal["open", "ok", "error", "cancelled", "unclosed"]


class Timeline(Shape):
    """All spans of a session, or those that changed since a cursor, by column, which keeps 30,000 rows small."""

    session: str
    cursor: int
    #: True where these are all spans; false where they are changes to be merged by ``span_id``.
    complete: bool
    #: The next page, for sessions with more spans than one answer has.
    next: str | None
    #: The names of the streams, by the numbers of ``stream``: empty for the main one, the others are subagents.
    streams: list[str]
    span_id: list[str]
    parent_id: list[str | None]
    kind: list[Kind]
    name: list[str]
    #: Microseconds since the epoch.
    start: list[int]
    end: list[int | None]
    status: list[SpanStatus]
    model: list[str | None]
    stream: list[int]
    turn: list[int]
    step: list[int]
    #: All input tokens, cached ones included; null where the span is no model call.
    input: list[int | None]
    cached: list[int | None]
    output: list[int | None]
    #: In ``currency``; null where it is unknown or the span is no model call.
    cost: list[float | None]
    currency: list[str | None]
    #: False where another session has this response, so that its tokens count there.
    counted: list[bool]
    estimated: list[bool]


#: ``media`` describes a picture, a video or a sound, in words.
TextKind = Literal["prompt", "text", "thinking", "arguments", "result", "error", "note", "media"]


class MediaInfo(Shape):
    """A picture, a video or a sound in a recorded line."""

    #: From the bytes, where they are known; else as the line says. Empty where it is not known.
    media_type: str
    #: Null where the line only names it.
    bytes: int | None
    #: The address or path that the line names.
    place: str | None
    #: Why it is not shown; null where ``url`` has it.
    problem: Problem | None
    #: Of the picture, below this server.
    url: str | None


class TextPiece(Shape):
    """A text of a span, cut where it is long."""

    kind: TextKind
    text: str
    #: How long the whole text is, in characters.
    chars: int
    #: Its place among the texts of the span, for ``…/texts/{index}``.
    index: int
    call: str | None
    media: MediaInfo | None = None


class Texts(Shape):
    """The texts of some spans by span."""

    spans: dict[str, list[TextPiece]]


class TextPart(Shape):
    """Some characters of a long text."""

    text: str
    start: int
    chars: int


class LineRef(Shape):
    """A recorded line, its file and its offset."""

    event_no: int
    type: str
    at: str | None
    file: str
    offset: int
    length: int


class PriceInfo(Shape):
    """The price of a million tokens of a model, as applied to this call, and its source."""

    model: str
    currency: str
    input: float
    output: float
    cache_read: float | None
    cache_write: float | None
    cache_write_1h: float | None
    #: A thousand searches that the provider ran.
    web_search: float | None
    #: The first day of this price; empty: always.
    since: str
    #: What made it differ from the usual price: ``fast``, ``peak``, a place such as ``us``.
    terms: list[str]
    #: The prompt was longer than this many tokens, which has another price.
    above: int | None
    source: str
    #: The day on which the source was checked.
    checked: str


class SpanDetail(Shape):
    """One span with everything but its long texts."""

    session: SessionRef
    trace_id: str
    span_id: str
    parent_id: str | None
    kind: Kind
    name: str
    start: str
    end: str | None
    status: SpanStatus
    model: str | None
    stream: str
    turn_index: int
    step_n: int
    #: input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens.
    usage: dict[str, int] | None
    counted: bool
    estimated: bool
    cost: float | None
    currency: str | None
    price: PriceInfo | None
    attributes: dict[str, Any]
    texts: list[TextPiece]
    lines: list[LineRef]


class SpanList(Shape):
    """A page of spans, each as ``agenttrace show --json`` prints it."""

    items: list[dict[str, Any]]
    next: str | None


class RequestList(SessionRequests, frozen=True, kw_only=True):
    """A page of the model calls of a session, with figures and tools of all of them."""

    next: str | None


class SessionLine(Shape):
    """A recorded line of a session, cut where it is long."""

    #: Its place among the lines of the session, from 1.
    number: int
    event_no: int
    type: str
    at: str | None
    span_id: str | None
    file: str
    offset: int
    #: Bytes of the whole line.
    length: int
    raw: str
    cut: bool


class SessionLines(Shape):
    """Some lines of a session, in the order of recording."""

    total: int
    items: list[SessionLine]
    next: str | None


class EventDetail(Shape):
    """A recorded line whole, up to a limit."""

    event_no: int
    at: str | None
    session: SessionRef
    type: str
    turn_index: int
    step_n: int
    span_id: str | None
    span: str | None
    file: str
    offset: int
    length: int
    #: The line itself; cut at a megabyte, ``/events/{event_no}/raw`` has all of it.
    raw: str
    cut: bool
