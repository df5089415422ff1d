"""Results of the search."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.sessions import SessionRef


class Piece(Shape):
    """A part of a snippet."""

    text: str
    hit: bool


class SearchHit(Shape):
    """An annotation or an event whose text matches."""

    #: A negative number for an annotation.
    event_no: int
    annotation_id: str | None
    at: str | None
    session: SessionRef
    span_id: str | None
    span: str | None
    kind: str
    snippet: list[Piece]


class SearchList(Shape):
    """A page of hits: annotations, the latest first, and then events, the latest recorded first."""

    items: list[SearchHit]
    next: str | None
    #: Events that are recorded but not indexed yet.
    backlog: int
