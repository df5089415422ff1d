"""Results of the search."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.sessions import SessionRef


class Piece(Shape):
    """A part of a snippet."""

    text: str
    hit: bool


class SearchHit(Shape):
    """An event whose text matches."""

    event_no: int
    at: str | None
    session: SessionRef
    span_id: str | None
    span: str | None
    kind: str
    snippet: list[Piece]


class SearchList(Shape):
    """A page of hits, newest first."""

    items: list[SearchHit]
    next: str | None
    #: Events that are recorded but not indexed yet.
    backlog: int
