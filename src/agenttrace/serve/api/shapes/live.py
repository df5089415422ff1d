"""Messages of the live stream."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.serve.api.shapes.sessions import SessionRow
from agenttrace.serve.api.shapes.spans import TextPiece


class LiveHello(Shape):
    """The first message of a stream."""

    cursor: int
    version: str


class LiveSessions(Shape):
    """Sessions that have changed."""

    cursor: int
    rows: list[SessionRow]


class LiveTexts(Shape):
    """The texts of changed spans of the watched session, each cut after ``chars``."""

    cursor: int
    session: str
    chars: int
    spans: dict[str, list[TextPiece]]


class LiveReset(Shape):
    """Too much has changed: load everything again."""

    cursor: int
